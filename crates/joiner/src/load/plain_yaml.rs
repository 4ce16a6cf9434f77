//! The plain part of YAML, read quickly: block maps and lists of short scalars, as `kubectl get -o yaml` and people write them.
//!
//! A general reader spends most of its time on what manifests hardly ever use: anchors, tags, flow style, text over several lines,
//! aliases. This one knows none of that. It either returns exactly the value the general reader would, or nothing at all, and then the
//! general reader has its turn. So it never complains: whatever looks unusual, let alone wrong, is not its business.

use serde_json::{Map, Value};

/// Levels of maps and lists; well inside what the general reader allows.
const DEPTH_MAX: usize = 32;
/// Keys and values; well inside what the general reader allows.
const PARTS_MAX: usize = 1_000_000;
/// Lines of comment at the top.
const COMMENTS_MAX: usize = 32;
/// Bytes of a key; YAML allows 1,024 characters.
const KEY_BYTES_MAX: usize = 512;

/// Words that mean something else than themselves, in any case of letters.
const SPECIAL: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

/// The value of a document, if all of it is plain.
pub(super) fn read(text: &str) -> Option<Value> {
    let mut lines = Lines { rest: text, line: None, parts: 0 };
    for _ in 0..COMMENTS_MAX {
        if !lines.rest.starts_with('#') {
            break;
        }
        lines.rest = lines.rest.split_once('\n')?.1;
    }
    lines.advance()?;
    let value = lines.map(0, 0)?;
    // What is left belongs to no map: the general reader will say what is wrong with it.
    lines.line.is_none().then_some(value)
}

/// A line without its indentation; never empty.
#[derive(Clone, Copy)]
struct Line<'t> {
    indent: usize,
    text: &'t str,
}

impl<'t> Line<'t> {
    /// What follows the dash of an item, and its column.
    fn item(self) -> Option<Line<'t>> {
        let rest = self.text.strip_prefix("- ")?;
        let text = after_spaces(rest);
        Some(Line { indent: self.indent + 2 + (rest.len() - text.len()), text })
    }

    /// Key and value; the value is empty if the line ends with the colon.
    fn field(self) -> Option<(&'t str, &'t str)> {
        let is_key = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._/".contains(byte);
        let end = self.text.bytes().position(|byte| !is_key(&byte))?;
        let (key, rest) = self.text.split_at(end);
        let rest = rest.strip_prefix(':')?;
        if !rest.is_empty() && !rest.starts_with(' ') {
            return None;
        }
        Some((key, after_spaces(rest)))
    }
}

/// The lines still to be read. Every step returns `None` for what is not plain, and the whole reading ends.
struct Lines<'t> {
    rest: &'t str,
    line: Option<Line<'t>>,
    parts: usize,
}

impl<'t> Lines<'t> {
    /// Goes to the next line that is not empty.
    fn advance(&mut self) -> Option<()> {
        self.line = None;
        while !self.rest.is_empty() {
            let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
            self.rest = rest;
            let text = after_spaces(line);
            if !text.is_empty() {
                self.line = Some(Line { indent: line.len() - text.len(), text });
                return Some(());
            }
            if !line.is_empty() {
                return None;
            }
        }
        Some(())
    }

    /// The next line, if it has this indentation. A deeper one belongs to no map or list, so it is not plain.
    fn at(&self, indent: usize) -> Option<Option<Line<'t>>> {
        match self.line {
            Some(line) if line.indent > indent => None,
            line => Some(line.filter(|line| line.indent == indent)),
        }
    }

    fn count(&mut self) -> Option<()> {
        self.parts += 1;
        (self.parts <= PARTS_MAX).then_some(())
    }

    fn map(&mut self, indent: usize, depth: usize) -> Option<Value> {
        let mut map = Map::new();
        while let Some(line) = self.at(indent)? {
            if line.item().is_some() {
                break;
            }
            let (key, text) = line.field()?;
            if !key.starts_with(|first: char| first.is_ascii_alphabetic())
                || key.len() > KEY_BYTES_MAX
                || is_special(key)
            {
                return None;
            }
            self.count()?;
            let value = if text.is_empty() { self.below(indent, depth)? } else { self.scalar(text, indent)? };
            if map.insert(key.to_owned(), value).is_some() {
                return None;
            }
        }
        (!map.is_empty()).then_some(Value::Object(map))
    }

    /// What stands below a key: a list may begin at the column of the key.
    fn below(&mut self, indent: usize, depth: usize) -> Option<Value> {
        self.count()?;
        self.advance()?;
        if depth == DEPTH_MAX {
            return None;
        }
        match self.line {
            Some(line) if line.indent >= indent && line.item().is_some() => self.list(line.indent, depth + 1),
            Some(line) if line.indent > indent => self.map(line.indent, depth + 1),
            _ => Some(Value::Null),
        }
    }

    fn list(&mut self, indent: usize, depth: usize) -> Option<Value> {
        let mut list = Vec::new();
        while let Some(line) = self.at(indent)? {
            let Some(item) = line.item() else { break };
            self.count()?;
            list.push(if item.field().is_some() {
                if depth == DEPTH_MAX {
                    return None;
                }
                self.line = Some(item);
                self.map(item.indent, depth + 1)?
            } else {
                self.scalar(item.text, indent)?
            });
        }
        Some(Value::Array(list))
    }

    /// A scalar that is the rest of its line, in a map or list with this indentation.
    fn scalar(&mut self, text: &str, indent: usize) -> Option<Value> {
        self.count()?;
        self.advance()?;
        // Deeper lines would go on with the text.
        self.at(indent)?;
        if !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return None;
        }
        match text.as_bytes() {
            b"{}" => Some(Value::Object(Map::new())),
            b"[]" => Some(Value::Array(Vec::new())),
            [quote @ (b'"' | b'\''), inner @ .., end] if end == quote => {
                let is_plain = !inner.iter().any(|byte| byte == quote || *byte == b'\\');
                is_plain.then(|| Value::String(text[1..text.len() - 1].to_owned()))
            }
            [b'0'..=b'9', ..] => number_or_text(text),
            [b'a'..=b'z' | b'A'..=b'Z' | b'/', ..] => word(text),
            _ => None,
        }
    }
}

fn after_spaces(text: &str) -> &str {
    let spaces = text.bytes().take_while(|byte| *byte == b' ').count();
    &text[spaces..]
}

fn is_special(word: &str) -> bool {
    word.len() <= 5 && SPECIAL.iter().any(|special| special.eq_ignore_ascii_case(word))
}

/// Text that begins with a letter or a slash.
fn word(text: &str) -> Option<Value> {
    match text {
        "true" => return Some(Value::Bool(true)),
        "false" => return Some(Value::Bool(false)),
        "null" => return Some(Value::Null),
        _ => {}
    }
    let ends_early = text.ends_with([' ', ':'])
        || text.as_bytes().windows(2).any(|pair| matches!(pair, [b':', b' '] | [b' ', b'#']));
    (!ends_early && !is_special(text)).then(|| Value::String(text.to_owned()))
}

/// A whole number, or something that begins like one but cannot be any kind of number: `100m`, `16Gi`, an address, a UID.
fn number_or_text(text: &str) -> Option<Value> {
    let bytes = text.as_bytes();
    if bytes.iter().all(u8::is_ascii_digit) {
        let is_plain = bytes.len() <= 18 && (bytes[0] != b'0' || bytes.len() == 1);
        return if is_plain { text.parse::<u64>().ok().map(Value::from) } else { None };
    }
    if !bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-./".contains(byte)) {
        return None;
    }
    // Letters in numbers: hexadecimal digits, `0x`, `0o`, `0b` and exponents; a sign only after an exponent; one point.
    let is_foreign =
        |byte: &u8| matches!(byte.to_ascii_lowercase(), b'g'..=b'z' | b'/') && !b"xXoO".contains(byte);
    let has_dash = bytes.windows(2).any(|pair| pair[1] == b'-' && !b"eE".contains(&pair[0]));
    let points = bytes.iter().filter(|byte| **byte == b'.').count();
    let is_text = bytes.iter().any(is_foreign) || has_dash || points > 1;
    is_text.then(|| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    use serde_json::json;

    use super::super::yaml_value::parse_any_yaml;
    use super::*;

    #[test]
    fn manifests_are_plain() {
        let text = "# Source: a chart\napiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  uid: 7d37d5d3-558d-4759-ad93-9108df05e137\n\
            \x20 labels: {}\nspec:\n  priority: 0\n  hostNetwork: false\n  nodeName:\n  containers:\n  - name: main\n    image: \"k8s.gcr.io/pause:3.2\"\n\
            \x20   args: [] \n"
            .replace("[] ", "[]")
            + "    command:\n      - /bin/sh\n      - it's fine\n      -   key: 100m\n          other: 10.0.0.1\n  - name: two\n";
        let value = read(&text).expect("plain");
        assert_eq!(value, parse_any_yaml(&text).expect("well-formed"));
        assert_eq!(value["spec"]["containers"][0]["command"][2], json!({"key": "100m", "other": "10.0.0.1"}));
        assert_eq!(value["spec"]["nodeName"], Value::Null);
    }

    #[test]
    fn what_is_not_plain_is_left_alone() {
        for text in [
            "",
            "a",
            "a: 1\na: 2",
            "a: b\n  c",
            "a:\n  b: 1\n c: 2",
            "a: b: c",
            "a: b #c",
            "a: |\n  b",
            "a: &x b",
            "a: *x",
            "a: !!str b",
            "a: yes",
            "a: 0644",
            "a: 1.5",
            "a: 1e3",
            "a: 0x1f",
            "a: 1_000",
            "a: -1",
            "a: ~",
            "a: {b: c}",
            "a: \"b\\n\"",
            "a: 'b''c'",
            "a: \"b\" c",
            "a: b\t",
            "a:\tb",
            "a: b\r\n",
            "a: é",
            "a: 'b\n  c'",
            "on: 1",
            "1: a",
            "- a",
            " a: 1",
            "a: b\n- c",
            "a:\n- b\n  c: d",
            "a:\n- b\n c: d",
            "a:\n-\n  b: c",
            "a:\n- - b",
            "a: b\n...",
            "? a\n: b",
            "<<: a",
            "a: >-\n  b",
            "a:\n  b",
            "a: b ",
            "a: b\n \nc: d",
            "a: 1\n# c\nb: 2",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
        let deep: String = (0..40).map(|at| format!("{}a:\n", " ".repeat(at))).collect();
        assert_eq!(read(&deep), None);
    }

    /// Lines out of pieces that mean something to YAML, most of them where they may stand: many texts are plain, many nearly so.
    fn texts() -> impl Strategy<Value = String> {
        let odd_keys = vec!["on", "y", "Null", "a b", "1", "'a'", "\"a\"", "<<", "?", "&a b", "a ", "a"];
        let key = prop_oneof![
            30 => "[a-z]{3}",
            5 => "[a-zA-Z][a-zA-Z0-9./_-]{0,6}",
            1 => prop::sample::select(odd_keys).prop_map(str::to_owned),
        ];
        let odd_scalars = vec![
            "No",
            "nan",
            "inf",
            "Infinity",
            "1:30",
            "0o17",
            "017",
            "18446744073709551616",
            "1e400",
            "2026-01-31",
            "2026-01-31T12:00:00Z",
            "|",
            ">",
            "*a",
            "&a b",
            "!!str 1",
            "{a: b}",
            "[a, b]",
            "a: b",
            "a #b",
            "a:",
            "#",
            "~",
            "-",
            "- a",
            "é",
            "a\tb",
            "",
            "1.5",
            "-1",
            "0x1f",
            "1_0",
            "a\\",
            "a'b",
            "a\"b",
            "a, b]",
            "a}",
        ];
        let scalar = prop_oneof![
            12 => "[a-z]{1,3}",
            6 => "[0-9]{1,3}[mGKki]{0,2}",
            4 => prop::sample::select(vec!["{}", "[]", "true", "null", "/a", "a: b", "0"]).prop_map(str::to_owned),
            2 => "[0-9]{1,3}[a-zA-Z0-9._-]{0,5}",
            2 => "[0-9a-fxobeE+._:-]{1,6}",
            2 => "[a-z][ -~]{0,8}[a-z]",
            1 => "[ -~]{0,8}",
            1 => "\"[ -~]{0,5}\"",
            1 => "'[ -~]{0,5}'",
            1 => prop::sample::select(odd_scalars).prop_map(str::to_owned),
        ];
        let line = (any::<usize>(), 0usize..4, key, 0usize..20, scalar);
        prop::collection::vec(line, 1..9).prop_map(|lines| {
            let (mut text, mut columns, mut opened) = (String::new(), vec![0], false);
            for (at, (pick, form, key, odd, scalar)) in lines.into_iter().enumerate() {
                let is_item = form >= 2 && at > 0;
                let depth = if opened { columns.len() - 1 } else { pick % columns.len() };
                columns.truncate(depth + 1);
                let mut column = columns[depth];
                if opened && (!is_item || pick % 2 == 0) {
                    column += 2;
                    columns.push(column);
                }
                column += usize::from(odd == 0);
                let space = if odd == 1 { "  " } else { " " };
                let content = match (is_item, form % 2) {
                    (false, 0) => format!("{key}:"),
                    (false, _) => format!("{key}:{space}{scalar}"),
                    (true, 0) => format!("-{space}{scalar}"),
                    (true, _) => format!("-{space}{key}:{space}{scalar}"),
                };
                opened = !is_item && form == 0;
                if is_item && form == 3 {
                    columns.push(column + 1 + space.len());
                }
                text.push_str(&format!("{}{content}\n", " ".repeat(column)));
                text.push_str(["\n", "# c\n", " \n"].get(odd.wrapping_sub(17)).unwrap_or(&""));
            }
            text
        })
    }

    #[test]
    fn the_texts_below_are_plain_often_enough() {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let plain =
            (0..1_000).filter(|_| read(&texts().new_tree(&mut runner).expect("a text").current()).is_some());
        let plain = plain.count();
        assert!((50..950).contains(&plain), "{plain} of 1,000");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(1_000)))]
        #[test]
        fn a_plain_reading_is_the_general_reading(text in texts()) {
            if let Some(value) = read(&text) {
                prop_assert_eq!(Some(value), parse_any_yaml(&text).ok());
            }
        }

        #[test]
        fn nearly_plain_texts_too(text in texts(), at in any::<prop::sample::Index>(), byte in b' '..=b'~') {
            // One character of a text changed.
            let mut chars: Vec<char> = text.chars().collect();
            let at = at.index(chars.len());
            chars[at] = char::from(byte);
            let text: String = chars.into_iter().collect();
            if let Some(value) = read(&text) {
                prop_assert_eq!(Some(value), parse_any_yaml(&text).ok());
            }
        }
    }
}
