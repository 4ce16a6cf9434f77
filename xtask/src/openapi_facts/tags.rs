//! What the JSON tags of Kubernetes' Go types say about zero values.
//!
//! A field is one of four: `pointer` (absent and zero differ, zero is written), `null` (the same, and absent is written as null), `drop`
//! (a zero value is left out; `dropStruct` if that holds for structs too) or `always` (written even when zero). The reader understands the plain shape in which these types are written: one field per line, with its tag.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

/// Facts of one struct: JSON name → the word; and the structs whose fields it takes over.
#[derive(Default)]
pub struct Struct {
    fields: BTreeMap<String, &'static str>,
    inlined: Vec<String>,
    /// The number of a field in protobuf → its JSON name, empty for a struct whose fields are taken over.
    pub numbers: BTreeMap<u32, String>,
}

/// Structs by the name of their OpenAPI definition.
pub type Tags = BTreeMap<String, Struct>;

/// Reads `types*.go` below each (module, folder); the third part is the prefix of definition names.
pub fn read(modules: &[(PathBuf, &str, &str)]) -> anyhow::Result<Tags> {
    let mut tags = Tags::new();
    for (module, folder, prefix) in modules {
        visit(&module.join(folder), prefix, &mut tags)?;
    }
    Ok(tags)
}

fn visit(dir: &Path, prefix: &str, tags: &mut Tags) -> anyhow::Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read `{}`", dir.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            visit(&entry.path(), &format!("{prefix}.{name}"), tags)?;
        } else if name.starts_with("types") && name.ends_with(".go") {
            structs(&fs::read_to_string(entry.path())?, prefix, tags);
        }
    }
    Ok(())
}

fn structs(text: &str, prefix: &str, tags: &mut Tags) {
    let mut current: Option<String> = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("type ").and_then(|rest| rest.strip_suffix(" struct {")) {
            current = Some(format!("{prefix}.{name}"));
            continue;
        }
        if line == "}" {
            current = None;
        }
        let Some(name) = &current else { continue };
        if line.starts_with("//") {
            continue;
        }
        let Some((declaration, tag)) = line.split_once("`json:\"") else { continue };
        let mut options = tag.split('"').next().unwrap_or_default().split(',');
        let json = options.next().unwrap_or_default();
        let options: Vec<&str> = options.collect();
        let entry = tags.entry(name.clone()).or_default();
        if let Some((_, wire)) = line.split_once("protobuf:\"")
            && let Some(number) = wire.split(',').nth(1).and_then(|number| number.parse().ok())
        {
            entry.numbers.insert(number, json.to_owned());
        }
        if json.is_empty() && options.contains(&"inline") {
            let inlined = declaration.split_whitespace().last().unwrap_or_default();
            entry.inlined.push(match inlined.rsplit_once('.') {
                Some((_, name)) => format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"),
                None => format!("{prefix}.{inlined}"),
            });
            continue;
        }
        let type_name = declaration.split_whitespace().last().unwrap_or_default();
        let fact = if type_name.starts_with('*') {
            if options.is_empty() { "null" } else { "pointer" }
        } else if options.contains(&"omitempty") || options.contains(&"omitzero") {
            // Go leaves a struct out only with `omitzero`; the mark on the OpenAPI side decides which one it is.
            if options.contains(&"omitzero") { "dropStruct" } else { "drop" }
        } else {
            "always"
        };
        entry.fields.insert(json.to_owned(), fact);
    }
}

/// Adds `x-go` to each property with a fact; returns how many.
pub fn mark(definitions: &mut BTreeMap<String, Value>, tags: &Tags) -> usize {
    let mut marked = 0;
    for (name, definition) in definitions {
        let facts = flattened(name, tags);
        let Some(properties) = definition.get_mut("properties").and_then(Value::as_object_mut) else {
            continue;
        };
        for (property, schema) in properties {
            let (Some(fact), Some(schema)) = (facts.get(property), schema.as_object_mut()) else { continue };
            schema.insert("x-go".to_owned(), (*fact).into());
            marked += 1;
        }
    }
    marked
}

fn flattened(name: &str, tags: &Tags) -> BTreeMap<String, &'static str> {
    let mut all = BTreeMap::new();
    let Some(own) = tags.get(name) else { return all };
    for inlined in &own.inlined {
        all.extend(flattened(inlined, tags));
    }
    all.extend(own.fields.iter().map(|(name, fact)| (name.clone(), *fact)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_say_what_happens_to_zero() {
        let text = "type A struct {\n\tmetav1.TypeMeta `json:\",inline\"`\n\t// Old int `json:\"old\"`\n\tN *int32 `json:\"n,omitempty\"`\n\tQ *int32 `json:\"q\"`\n\
            \tS string `json:\"s,omitempty\"`\n\tP int32 `json:\"p\"`\n\tT Time `json:\"t,omitempty,omitzero\"`\n}\n\
            type TypeMeta struct {\n\tKind string `json:\"kind,omitempty\"`\n}\n";
        let mut tags = Tags::new();
        structs(text, "io.k8s.apimachinery.pkg.apis.meta.v1", &mut tags);
        let flat = flattened("io.k8s.apimachinery.pkg.apis.meta.v1.A", &tags);
        let expected = [
            ("kind", "drop"),
            ("n", "pointer"),
            ("p", "always"),
            ("q", "null"),
            ("s", "drop"),
            ("t", "dropStruct"),
        ];
        assert_eq!(
            flat.into_iter().collect::<Vec<_>>(),
            expected.map(|(name, fact)| (name.to_owned(), fact))
        );
    }
}
