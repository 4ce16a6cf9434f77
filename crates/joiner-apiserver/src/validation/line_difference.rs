//! Two objects held against each other line by line, as messages of Kubernetes show what would change.

use serde_json::Value;

/// So many lines around a difference are shown too.
const AROUND: usize = 3;

/// A value as JSON with each part on a line of its own, as it stands within another.
#[derive(Clone)]
pub(super) struct Lines(String);

impl Default for Lines {
    fn default() -> Self {
        Self::of(&Value::Null, 0)
    }
}

impl Lines {
    /// A value at a depth: parts of it are indented by one more.
    pub(super) fn of(value: &Value, depth: usize) -> Self {
        let mut text = String::new();
        write(value, depth, &mut text);
        Self(text)
    }

    /// Fields in their order.
    pub(super) fn of_fields(fields: &[(&str, Value)], depth: usize) -> Self {
        let fields: Vec<(&str, Lines)> =
            fields.iter().map(|(name, value)| (*name, Self::of(value, depth + 1))).collect();
        Self(of_fields(&fields, depth))
    }
}

/// Fields in their order as JSON, each on a line of its own.
pub(super) fn of_fields(fields: &[(&str, Lines)], depth: usize) -> String {
    let indent = " ".repeat(depth);
    let lines: Vec<String> =
        fields.iter().map(|(name, Lines(text))| format!("{indent} \"{name}\": {text}")).collect();
    format!("{{\n{}\n{indent}}}", lines.join(",\n"))
}

/// As [`of_fields`], of an object that stands alone.
pub(super) fn pretty(fields: &[(&str, Value)]) -> String {
    Lines::of_fields(fields, 0).0
}

fn write(value: &Value, depth: usize, text: &mut String) {
    let (open, close, parts): (char, char, Vec<(String, &Value)>) = match value {
        Value::Object(map) if !map.is_empty() => (
            '{',
            '}',
            map.iter().map(|(name, value)| (format!("{}: ", Value::from(name.as_str())), value)).collect(),
        ),
        Value::Array(items) if !items.is_empty() => {
            ('[', ']', items.iter().map(|item| (String::new(), item)).collect())
        }
        other => return text.push_str(&other.to_string()),
    };
    text.push(open);
    for (index, (name, value)) in parts.into_iter().enumerate() {
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        text.push_str(&" ".repeat(depth + 1));
        text.push_str(&name);
        write(value, depth + 1, text);
    }
    text.push('\n');
    text.push_str(&" ".repeat(depth));
    text.push(close);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    /// In both, by its number in either.
    Kept(usize, usize),
    /// Only in the old text.
    Gone(usize),
    /// Only in the new text.
    New(usize),
}

/// The unified difference of two texts.
pub(super) fn unified(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let lines = aligned(&old, &new);
    let mut text = String::new();
    let changed: Vec<usize> = (0..lines.len()).filter(|at| !matches!(lines[*at], Line::Kept(..))).collect();
    let mut rest = changed.as_slice();
    while let Some(&first) = rest.first() {
        // Differences whose surroundings touch are shown together.
        let together = 1 + rest.windows(2).take_while(|pair| pair[1] - pair[0] <= 2 * AROUND + 1).count();
        let last = rest[together - 1];
        hunk(&old, &new, &lines, first.saturating_sub(AROUND)..lines.len().min(last + AROUND + 1), &mut text);
        rest = &rest[together..];
    }
    text
}

fn hunk(old: &[&str], new: &[&str], lines: &[Line], range: std::ops::Range<usize>, text: &mut String) {
    let before = |lines: &[Line]| lines.iter().filter(|line| !matches!(line, Line::New(_))).count();
    let after = |lines: &[Line]| lines.iter().filter(|line| !matches!(line, Line::Gone(_))).count();
    let side = |start: usize, count: usize| match count {
        1 => format!("{}", start + 1),
        0 => format!("{start},0"),
        count => format!("{},{count}", start + 1),
    };
    let shown = &lines[range.clone()];
    let heads = &lines[..range.start];
    text.push_str(&format!(
        "@@ -{} +{} @@\n",
        side(before(heads), before(shown)),
        side(after(heads), after(shown))
    ));
    for line in shown {
        let (mark, content) = match *line {
            Line::Kept(at, _) => (' ', old[at]),
            Line::Gone(at) => ('-', old[at]),
            Line::New(at) => ('+', new[at]),
        };
        text.push(mark);
        text.push_str(content);
        text.push('\n');
    }
}

/// Both texts as one list of lines, with as many in common as can be.
fn aligned(old: &[&str], new: &[&str]) -> Vec<Line> {
    // How many lines the rests of both have in common, from each pair of places on.
    let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for (at, line) in old.iter().enumerate().rev() {
        for (other, candidate) in new.iter().enumerate().rev() {
            common[at][other] = if line == candidate {
                common[at + 1][other + 1] + 1
            } else {
                common[at + 1][other].max(common[at][other + 1])
            };
        }
    }
    let (mut at, mut other, mut lines) = (0, 0, Vec::new());
    while at < old.len() || other < new.len() {
        if at < old.len() && other < new.len() && old[at] == new[other] {
            lines.push(Line::Kept(at, other));
            (at, other) = (at + 1, other + 1);
        } else if other == new.len() || (at < old.len() && common[at + 1][other] >= common[at][other + 1]) {
            lines.push(Line::Gone(at));
            at += 1;
        } else {
            lines.push(Line::New(other));
            other += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn differences_with_their_surroundings() {
        let old =
            pretty(&[("A", json!(["x"])), ("B", json!({})), ("C", json!({"k": 1})), ("D", json!(null))]);
        assert_eq!(
            old,
            "{\n \"A\": [\n  \"x\"\n ],\n \"B\": {},\n \"C\": {\n  \"k\": 1\n },\n \"D\": null\n}"
        );
        let new = old.replace("\"x\"", "\"y\"");
        assert_eq!(
            unified(&old, &new),
            "@@ -1,6 +1,6 @@\n {\n  \"A\": [\n-  \"x\"\n+  \"y\"\n  ],\n  \"B\": {},\n  \"C\": {\n"
        );
        assert_eq!(unified("a", "b"), "@@ -1 +1 @@\n-a\n+b\n");
        assert_eq!(unified("a\nb", "b"), "@@ -1,2 +1 @@\n-a\n b\n");
    }
}
