//! The readers' own words are for programmers; these say the same to the owner of a manifest.

/// The field a reader misses, if that is its complaint.
pub fn missing_field(error: &str) -> Option<&str> {
    error.strip_prefix("missing field `")?.strip_suffix('`')
}

/// A reader's complaint without names of Rust types. The value is shown beside it, so it is left out here.
pub fn plainly(error: &str) -> String {
    if error.starts_with("invalid value: integer") && error.ends_with("expected i32") {
        return format!("expected a whole number from {} to {}", i32::MIN, i32::MAX);
    }
    let complaint = error.strip_prefix("invalid type: ").or_else(|| error.strip_prefix("invalid value: "));
    // The value comes first and may hold anything, so the last `expected` is the reader's.
    match complaint.and_then(|rest| rest.rsplit_once(", expected ")) {
        Some((_, expected)) => format!("expected {}", of_type(expected)),
        None if error.starts_with("failed to parse") => {
            "expected a time such as `2026-01-31T12:00:00Z`".to_owned()
        }
        None => error.to_owned(),
    }
}

/// What to do about a reader's complaint.
pub fn way_out(error: &str, given: &str) -> String {
    let wants_text = error.ends_with(", expected a string");
    if wants_text && error.starts_with("invalid type: boolean") {
        return format!(
            "put it in quotes, as in `\"{given}\"`: without them YAML reads true, yes, on, y and the like as no text"
        );
    }
    let number = ["invalid type: integer", "invalid type: floating point"];
    if wants_text && number.iter().any(|start| error.starts_with(start)) {
        return format!("put it in quotes, as in `\"{given}\"`");
    }
    "write a value of the type Kubernetes documents for this field".to_owned()
}

fn of_type(expected: &str) -> String {
    let known = match expected {
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, not negative",
        "f32" | "f64" => "a number",
        "a string" => "text",
        "a boolean" => "`true` or `false`",
        "a sequence" => "a list",
        "Quantity" => "a quantity such as `500m` or `2Gi`",
        "IntOrString" => "a whole number or text",
        // `ObjectMeta`, `struct NodePoolSpec`: what else has a name of its own is an object.
        other if other.starts_with("struct ") || other.starts_with(char::is_uppercase) => "a map of fields",
        other => other,
    };
    known.to_owned()
}

/// Text from a manifest that is to stand in one line: not too long, nothing that moves the cursor.
pub fn one_line(text: &str) -> String {
    let mut out: String = text.chars().take(200).collect();
    if out.len() < text.len() {
        out.push('…');
    }
    if out.contains(char::is_control) { out.escape_debug().to_string() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_types_are_not_shown() {
        for (error, told) in [
            ("invalid type: string \"two, expected half\", expected i32", "expected a whole number"),
            ("invalid type: map, expected a string", "expected text"),
            ("invalid type: null, expected struct NodePoolSpec", "expected a map of fields"),
            (
                "invalid value: integer `99999999999`, expected i32",
                "expected a whole number from -2147483648 to 2147483647",
            ),
            ("something else", "something else"),
        ] {
            assert_eq!(plainly(error), told);
        }
        assert!(way_out("invalid type: boolean `true`, expected a string", "true").contains("quotes"));
        assert_eq!(
            way_out("invalid type: integer `8`, expected a string", "8"),
            "put it in quotes, as in `\"8\"`"
        );
        assert!(!way_out("invalid type: map, expected a string", "{}").contains("quotes"));
        assert_eq!(missing_field("missing field `a`"), Some("a"));
        assert_eq!(missing_field("invalid type: string \"missing field `a`\""), None);
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(one_line("a\nb"), "a\\nb");
        assert_eq!(one_line(&"é".repeat(300)).chars().count(), 201);
    }
}
