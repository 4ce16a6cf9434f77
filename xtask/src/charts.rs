//! `cargo xtask charts`: the README and the schema of each chart, made of the comments of its `values.yaml`.
//!
//! A comment that begins with `# --` describes the value below it. Its type is that of the default, unless the comment begins with one in brackets:
//! `(list)`, `(object)`, `(map of strings)`, `(int or string or null)`, `(one of: A, B)`. A map without such a comment is a section: what it holds is
//! described one by one, and nothing else is allowed in it.

use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args as ClapArgs;
use serde_json::{Map, Value, json};

/// The charts that have values.
const CHARTS: [&str; 2] = ["joiner", "joiner-crd"];

/// Options of the chore.
#[derive(ClapArgs)]
pub struct Args {
    /// Compare with what is there, and write nothing
    #[arg(long)]
    check: bool,
}

/// A value as its comment describes it.
#[derive(Debug, PartialEq)]
struct Row {
    path: Vec<String>,
    types: Option<String>,
    text: String,
}

/// Writes or compares.
pub fn run(args: &Args, root: &Path) -> Result<()> {
    let mut stale = Vec::new();
    for chart in CHARTS {
        let folder = root.join("charts").join(chart);
        let text = std::fs::read_to_string(folder.join("values.yaml"))
            .with_context(|| format!("cannot read the values of `{chart}`"))?;
        let values: Value = serde_saphyr::from_str(&text).with_context(|| format!("{chart}/values.yaml"))?;
        let rows = rows(&text);
        let intro = std::fs::read_to_string(folder.join("README.md.in"))
            .with_context(|| format!("cannot read the introduction of `{chart}`"))?;
        let schema = schema(&rows, &values).with_context(|| format!("{chart}/values.yaml"))?;
        let made = [
            ("README.md", format!("{}\n{}", intro.trim_end(), table(&rows, &values))),
            ("values.schema.json", format!("{}\n", serde_json::to_string_pretty(&schema)?)),
        ];
        for (name, text) in made {
            let path = folder.join(name);
            match args.check {
                false => std::fs::write(&path, text)?,
                true if std::fs::read_to_string(&path).unwrap_or_default() == text => {}
                true => stale.push(format!("charts/{chart}/{name}")),
            }
        }
    }
    match stale.is_empty() {
        true => Ok(()),
        false => bail!(
            "{} not made of the values that are there; `cargo xtask charts` makes them",
            stale.join(", ")
        ),
    }
}

/// The described values, in order.
fn rows(text: &str) -> Vec<Row> {
    let mut found = Vec::new();
    let mut sections: Vec<(usize, String)> = Vec::new();
    let mut comment: Option<String> = None;
    for line in text.lines() {
        let body = line.trim_start();
        let indent = line.len() - body.len();
        if let Some(words) = body.strip_prefix("# -- ") {
            comment = Some(words.to_owned());
        } else if let Some(words) = body.strip_prefix('#') {
            if let Some(comment) = &mut comment {
                comment.push_str(words);
            }
        } else if let Some((name, _)) = body.split_once(':').filter(|(name, _)| !name.starts_with('-')) {
            sections.retain(|(depth, _)| *depth < indent);
            let mut path: Vec<String> = sections.iter().map(|(_, name)| name.clone()).collect();
            path.push(name.to_owned());
            if let Some(words) = comment.take() {
                let (types, text) = match words.strip_prefix('(').and_then(|rest| rest.split_once(") ")) {
                    Some((types, text)) => (Some(types.to_owned()), text.to_owned()),
                    None => (None, words),
                };
                found.push(Row { path, types, text });
            }
            sections.push((indent, name.to_owned()));
        }
    }
    // What stands within a described value belongs to it.
    let described: Vec<Vec<String>> = found.iter().map(|row| row.path.clone()).collect();
    found.retain(|row| {
        !described.iter().any(|path| path.len() < row.path.len() && row.path.starts_with(path))
    });
    found
}

fn at<'v>(values: &'v Value, path: &[String]) -> &'v Value {
    path.iter().fold(values, |value, name| &value[name.as_str()])
}

fn schema(rows: &[Row], values: &Value) -> Result<Value> {
    let section = || json!({"type": "object", "additionalProperties": false, "properties": {}});
    let mut whole = section();
    for row in rows {
        let mut place = &mut whole;
        let (last, sections) = row.path.split_last().context("a value without a name")?;
        for name in sections {
            let fields = place["properties"].as_object_mut().context("not a section")?;
            place = fields.entry(name.clone()).or_insert_with(section);
        }
        let mut described = of_type(row, at(values, &row.path))?;
        described.insert("description".to_owned(), json!(row.text));
        place["properties"][last.as_str()] = Value::Object(described);
    }
    check_sections(values, &whole, "")?;
    // Charts that this one is a part of hand it down to all.
    whole["properties"]["global"] = json!({"type": "object"});
    whole["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    Ok(whole)
}

/// Every default is described, and is what its description says.
fn check_sections(value: &Value, schema: &Value, path: &str) -> Result<()> {
    let (Some(fields), Some(known)) = (value.as_object(), schema["properties"].as_object()) else {
        return Ok(());
    };
    for (name, value) in fields {
        let path = format!("{path}{name}");
        match known.get(name) {
            None => bail!("`{path}` has no comment that begins with `# --`"),
            Some(schema) => check_sections(value, schema, &format!("{path}."))?,
        }
    }
    Ok(())
}

fn of_type(row: &Row, default: &Value) -> Result<Map<String, Value>> {
    let kind = match default {
        Value::Bool(_) => "bool",
        Value::Number(_) => "int",
        Value::String(_) => "string",
        _ => "",
    };
    let words = row.types.as_deref().unwrap_or(kind);
    let schema = match words.strip_prefix("one of: ") {
        Some(names) => json!({"type": "string", "enum": names.split(", ").collect::<Vec<_>>()}),
        None => {
            let types: Result<Vec<&str>> = words
                .split(" or ")
                .map(|word| {
                    Ok(match word {
                        "string" => "string",
                        "int" => "integer",
                        "number" => "number",
                        "bool" => "boolean",
                        "null" => "null",
                        "list" => "array",
                        "object" | "map of strings" => "object",
                        _ => bail!("`{}` has no type: say one in brackets", row.path.join(".")),
                    })
                })
                .collect();
            match types?.as_slice() {
                [one] => json!({"type": one}),
                several => json!({"type": several}),
            }
        }
    };
    Ok(schema.as_object().cloned().unwrap_or_default())
}

fn table(rows: &[Row], values: &Value) -> String {
    let mut out = String::from("\n| value | default | what |\n|---|---|---|\n");
    for row in rows {
        let default = at(values, &row.path);
        let default = match default {
            Value::Null => String::new(),
            Value::Object(fields) if !fields.is_empty() => "see values.yaml".to_owned(),
            Value::Array(items) if items.iter().any(|item| item.is_object()) => "see values.yaml".to_owned(),
            other => format!("`{other}`"),
        };
        let allowed = match row.types.as_deref().and_then(|types| types.strip_prefix("one of: ")) {
            Some(names) => format!(" One of {names}."),
            None => String::new(),
        };
        out.push_str(&format!("| `{}` | {default} | {}{allowed} |\n", row.path.join("."), row.text));
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    const VALUES: &str = "\
# Not about a value.

# -- How many.
replicas: 2
controller:
  image:
    # -- (string or null) Its tag,
    # if it has one.
    tag:
# -- (object) Anything.
strategy:
  rollingUpdate:
    # -- Not a value of its own.
    maxUnavailable: 1
# -- (one of: A, B) Which.
policy: A
";

    #[test]
    fn comments_become_rows_and_a_schema() {
        let rows = rows(VALUES);
        let paths: Vec<String> = rows.iter().map(|row| row.path.join(".")).collect();
        assert_eq!(paths, ["replicas", "controller.image.tag", "strategy", "policy"]);
        assert_eq!(rows[1].text, "Its tag, if it has one.");
        let values = serde_saphyr::from_str(VALUES).unwrap();
        let schema = schema(&rows, &values).unwrap();
        let of = &schema["properties"];
        assert_eq!(of["replicas"]["type"], "integer");
        assert_eq!(of["controller"]["additionalProperties"], false);
        assert_eq!(
            of["controller"]["properties"]["image"]["properties"]["tag"]["type"],
            json!(["string", "null"])
        );
        assert_eq!(of["strategy"], json!({"type": "object", "description": "Anything."}));
        assert_eq!(of["policy"]["enum"], json!(["A", "B"]));
    }

    #[test]
    fn a_value_without_a_comment_is_found() {
        let text = "a:\n  # -- One.\n  b: 1\n  c: 2\n";
        let values = serde_saphyr::from_str(text).unwrap();
        let error = schema(&rows(text), &values).unwrap_err().to_string();
        assert!(error.contains("`a.c` has no comment"), "{error}");
        let text = "# -- What.\na: []\n";
        let values = serde_saphyr::from_str(text).unwrap();
        assert!(schema(&rows(text), &values).unwrap_err().to_string().contains("`a` has no type"));
    }
}
