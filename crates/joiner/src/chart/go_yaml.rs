//! YAML as Go's library writes it: what helm's `toYaml` prints.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::functions::quoted;

/// A line that is longer than this is folded at the next blank.
const WIDTH: usize = 80;

/// A value as YAML.
pub fn write(value: &Value) -> String {
    let mut out = String::new();
    node(&mut out, value, 0, Place::Top);
    out
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Top,
    /// After `key:`.
    Value,
    /// After `-`.
    Item,
}

fn node(out: &mut String, value: &Value, indent: usize, place: Place) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            if place == Place::Value {
                out.push('\n');
            }
            map(out, fields, indent, place == Place::Item);
        }
        Value::Array(items) if !items.is_empty() => {
            if place == Place::Value {
                out.push('\n');
            }
            // Items stand under the key they belong to, not right of it.
            let indent = if place == Place::Value { indent.saturating_sub(2) } else { indent };
            for (number, item) in items.iter().enumerate() {
                if number > 0 || place != Place::Item {
                    out.push_str(&" ".repeat(indent));
                } else {
                    out.push(' ');
                }
                out.push('-');
                node(out, item, indent + 2, Place::Item);
            }
        }
        flat => {
            if place != Place::Top {
                out.push(' ');
            }
            match flat {
                Value::String(text) => scalar(out, text, if place == Place::Top { 0 } else { indent }),
                Value::Object(_) => out.push_str("{}"),
                Value::Array(_) => out.push_str("[]"),
                other => out.push_str(&other.to_string()),
            }
            out.push('\n');
        }
    }
}

fn map(out: &mut String, fields: &Map<String, Value>, indent: usize, after_dash: bool) {
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_by(|(a, _), (b, _)| natural(a, b));
    for (number, (name, value)) in fields.into_iter().enumerate() {
        match number == 0 && after_dash {
            true => out.push(' '),
            false => out.push_str(&" ".repeat(indent)),
        }
        out.push_str(&key(name));
        out.push(':');
        node(out, value, indent + 2, Place::Value);
    }
}

fn key(name: &str) -> String {
    match style(name) {
        Style::Plain => name.to_owned(),
        Style::Single => format!("'{}'", name.replace('\'', "''")),
        Style::Double | Style::Literal => quoted(name),
    }
}

/// Letters before nothing, digits by number: `a2` comes before `a10`.
fn natural(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    for at in 0..a.len().min(b.len()) {
        let (x, y) = (a[at], b[at]);
        if x == y {
            continue;
        }
        match (x.is_alphabetic(), y.is_alphabetic()) {
            (true, true) => return x.cmp(&y),
            (true, false) => return Ordering::Greater,
            (false, true) => return Ordering::Less,
            (false, false) => {}
        }
        let digits = |of: &[char]| of[at..].iter().take_while(|letter| letter.is_ascii_digit()).count();
        let number = |of: &[char], count: usize| {
            // Behind other digits a nought counts as much as they do.
            let begins = (x == '0' || y == '0')
                && of[..at]
                    .iter()
                    .rev()
                    .take_while(|letter| letter.is_ascii_digit())
                    .any(|letter| *letter != '0');
            of[at..at + count]
                .iter()
                .filter_map(|letter| letter.to_digit(10))
                .fold(u64::from(begins), |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit)))
        };
        let (of_x, of_y) = (digits(&a), digits(&b));
        return number(&a, of_x).cmp(&number(&b, of_y)).then(of_x.cmp(&of_y)).then(x.cmp(&y));
    }
    a.len().cmp(&b.len())
}

enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

fn style(text: &str) -> Style {
    let letters: Vec<char> = text.chars().collect();
    let special = letters.iter().any(|letter| letter.is_control() && *letter != '\n');
    if text.contains('\n') {
        // Blanks at the end of a line cannot be seen.
        let hidden = special || text.contains(" \n") || text.ends_with(' ');
        return if hidden { Style::Double } else { Style::Literal };
    }
    if special || is_another_kind(text) {
        return Style::Double;
    }
    let first = letters.first().copied().unwrap_or(' ');
    let blank_follows = letters.get(1).is_none_or(|letter| *letter == ' ');
    let is_sign = "#,[]{}&*!|>'\"%@`".contains(first) || "?:-".contains(first) && blank_follows;
    let has_sign = text.contains(": ") || text.ends_with(':') || text.contains(" #");
    let at_edge = first == ' ' || text.ends_with(' ') || text.starts_with("---") || text.starts_with("...");
    if is_sign || has_sign || at_edge { Style::Single } else { Style::Plain }
}

/// Whether a reader would take the text for something else.
fn is_another_kind(text: &str) -> bool {
    const WORDS: [&str; 39] = [
        "", "~", "null", "Null", "NULL", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no",
        "No", "NO", "off", "Off", "OFF", "true", "True", "TRUE", "false", "False", "FALSE", ".nan", ".NaN",
        ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF",
    ];
    if WORDS.contains(&text) || text == "<<" {
        return true;
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text).replace('_', "");
    let based = |prefix: &str, base: u32| {
        unsigned.strip_prefix(prefix).is_some_and(|digits| u64::from_str_radix(digits, base).is_ok())
    };
    let is_number = unsigned.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.')
        && unsigned.chars().any(|letter| letter.is_ascii_digit())
        && unsigned.chars().all(|letter| letter.is_ascii_digit() || ".eE+-".contains(letter))
        && unsigned.parse::<f64>().is_ok();
    is_number
        || based("0x", 16)
        || based("0X", 16)
        || based("0b", 2)
        || based("0o", 8)
        || is_sixty(text)
        || is_date(text)
}

/// `1:30` was a number once.
fn is_sixty(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = text.split(':');
    let first = parts.next().unwrap_or_default();
    let whole = first.starts_with(|letter: char| letter.is_ascii_digit())
        && first.chars().all(|letter| letter.is_ascii_digit() || letter == '_');
    let rest: Vec<&str> = parts.collect();
    whole
        && !rest.is_empty()
        && rest.iter().all(|part| {
            let part = part.split('.').next().unwrap_or_default();
            matches!(part.len(), 1 | 2) && part.parse::<u8>().is_ok_and(|number| number < 60)
        })
}

/// `2001-01-01`, with or without a time.
fn is_date(text: &str) -> bool {
    let day: String = text.chars().take(10).collect();
    let shape: String =
        day.chars().map(|letter| if letter.is_ascii_digit() { '9' } else { letter }).collect();
    shape == "9999-99-99" && (text.len() == 10 || text[10..].starts_with(['T', 't', ' ']))
}

fn scalar(out: &mut String, text: &str, indent: usize) {
    match style(text) {
        Style::Plain => folded(out, text, indent),
        Style::Single => {
            out.push('\'');
            folded(out, &text.replace('\'', "''"), indent);
            out.push('\'');
        }
        Style::Double => out.push_str(&quoted(text)),
        Style::Literal => {
            out.push('|');
            if text.starts_with([' ', '\n']) {
                out.push('2');
            }
            if !text.ends_with('\n') {
                out.push('-');
            } else if text.ends_with("\n\n") {
                out.push('+');
            }
            for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
                out.push('\n');
                if !line.is_empty() {
                    out.push_str(&" ".repeat(indent.max(2)));
                    out.push_str(line);
                }
            }
        }
    }
}

/// Words, with the line broken at the first single blank after its width.
fn folded(out: &mut String, text: &str, indent: usize) {
    let begin = out.rfind('\n').map_or(0, |at| at + 1);
    let mut column = out[begin..].chars().count();
    let mut letters = text.chars().peekable();
    let mut after_blank = false;
    while let Some(letter) = letters.next() {
        let is_last = letters.peek().is_none_or(|next| *next == ' ');
        if letter == ' ' && !after_blank && column > WIDTH && !is_last {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else {
            out.push(letter);
            column += 1;
        }
        after_blank = letter == ' ';
    }
}
