//! Kubernetes objects as text for other programs.

use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::Format;

/// Objects as kubectl prints and reads them: YAML documents with `---` between them, or JSON, several as a `List`.
pub fn documents(objects: &[Value], format: Format) -> anyhow::Result<String> {
    match (format, objects) {
        (Format::Json, [one]) => value(one, Format::Json),
        (Format::Json, several) => {
            value(&json!({ "apiVersion": "v1", "kind": "List", "items": several }), Format::Json)
        }
        (Format::Yaml, _) => {
            let texts: Result<Vec<_>, _> = objects.iter().map(|object| value(object, Format::Yaml)).collect();
            Ok(texts?.join("---\n"))
        }
    }
}

/// One value, with the end of its last line.
pub fn value(value: &impl Serialize, format: Format) -> anyhow::Result<String> {
    let mut text = match format {
        Format::Json => serde_json::to_string_pretty(value)?,
        Format::Yaml => serde_saphyr::to_string(value)?,
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_stands_alone_and_several_are_a_list() {
        let (a, b) = (json!({ "kind": "A" }), json!({ "kind": "B" }));
        let yaml = documents(&[a.clone(), b.clone()], Format::Yaml).expect("plain values");
        assert_eq!(yaml, "kind: A\n---\nkind: B\n");
        let read = |text: &str| serde_json::from_str::<Value>(text).expect("well-formed");
        assert_eq!(read(&documents(std::slice::from_ref(&a), Format::Json).expect("plain values")), a);
        let list = read(&documents(&[a, b], Format::Json).expect("plain values"));
        assert_eq!((&list["kind"], &list["items"][1]["kind"]), (&json!("List"), &json!("B")));
    }

    /// What other readers take for something else must be quoted, and long text must come back whole.
    #[test]
    fn yaml_reads_back_as_it_was() {
        let long = "a sentence that is long enough to be folded over several lines, with: colons, 'quotes', a # and more ".repeat(3);
        let odd = json!({
            "texts": ["yes", "off", "y", "1.14", "0x1f", "1e3", "08", "1:30", "2001-01-01", "null", "~", "", " x", "- a", "a: b", "#c", "*", "&a", "!t", "%d", "@x", "`x"],
            "lines": "first\n  second\n\nthird\n",
            "long": long,
            "tail": "blank at the end \n\n",
            "number": 1.5,
            "empty": { "list": [], "map": {} },
        });
        let text = value(&odd, Format::Yaml).expect("plain values");
        let back: Value = serde_saphyr::from_str(&text).expect("own output");
        assert_eq!(back, odd, "{text}");
    }
}
