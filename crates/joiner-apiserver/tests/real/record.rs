//! Writes an answer down, with placeholders for what differs from run to run.

use regex::Regex;
use serde_json::Value;

use crate::cases::replay::Seen;

const TIME: &str = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z";
const UID: &str = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";

/// Puts the answers into the case.
pub(crate) fn keep(case: &mut Value, seen: Seen) {
    // Times and uids that the case itself sent stay.
    let sent = case.to_string();
    let Seen { answers, captured } = seen;
    let mut answers = answers.into_iter().map(|mut answer| {
        place("", &mut answer, &sent, &captured.values());
        answer
    });
    case["expect"] = answers.next().unwrap();
    let after = case.get_mut("after").and_then(Value::as_array_mut);
    for (pair, answer) in after.into_iter().flatten().zip(answers) {
        pair["expect"] = answer;
    }
}

fn place(key: &str, value: &mut Value, sent: &str, captured: &[(String, String)]) {
    match value {
        Value::String(text) => {
            let placed = placed(key, text, sent, captured);
            *text = placed;
        }
        Value::Array(items) => items.iter_mut().for_each(|item| place(key, item, sent, captured)),
        Value::Object(fields) => {
            // A generated name says so beside it.
            for (generator, name) in [("generateName", "name"), ("metadata.generateName", "metadata.name")] {
                let prefix = fields.get(generator).and_then(Value::as_str).map(str::to_owned);
                if let (Some(prefix), Some(name)) = (prefix, fields.get_mut(name)) {
                    *name = format!("{prefix}<generated>").into();
                }
            }
            if fields.contains_key("columnDefinitions") && fields.contains_key("rows") {
                place_ages(fields);
            }
            for (key, field) in fields.iter_mut() {
                // A picked path stands for its last name.
                let last = key.rsplit('.').next().unwrap_or(key);
                place(last, field, sent, captured);
            }
            // Picked columns and cells of a table.
            if let Some(columns) = fields.get("columnDefinitions").cloned() {
                for (key, field) in fields.iter_mut().filter(|(key, _)| key.ends_with(".cells")) {
                    let _ = key;
                    place_age_cells(&columns, field);
                }
            }
        }
        _ => {}
    }
}

fn place_ages(table: &mut serde_json::Map<String, Value>) {
    let columns = table["columnDefinitions"].clone();
    for row in table["rows"].as_array_mut().into_iter().flatten() {
        place_age_cells(&columns, &mut row["cells"]);
    }
}

fn place_age_cells(columns: &Value, cells: &mut Value) {
    let age = Regex::new("^([0-9]+[smhdy])+$").unwrap();
    let columns = columns.as_array().into_iter().flatten();
    for (_, cell) in columns.zip(cells.as_array_mut().into_iter().flatten()) {
        if cell.as_str().is_some_and(|cell| age.is_match(cell)) {
            *cell = "<age>".into();
        }
    }
}

fn placed(key: &str, text: &str, sent: &str, captured: &[(String, String)]) -> String {
    let uid = Regex::new(UID).unwrap();
    let time = Regex::new(TIME).unwrap();
    let known = |prefix: &str| {
        captured.iter().find(|(name, value)| value == text && name.starts_with(prefix)).map(|(name, _)| name)
    };
    match key {
        "resourceVersion" if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            return known("RV").map_or("<rv>".to_owned(), |name| format!("${{{name}}}"));
        }
        // Addresses that the cluster chose.
        "clusterIP" | "clusterIPs" if text.parse::<std::net::Ipv4Addr>().is_ok() && !sent.contains(text) => {
            return "<ip>".to_owned();
        }
        "continue" if !text.is_empty() => return "<continue>".to_owned(),
        "storageVersionHash" => return "<hash>".to_owned(),
        "description" => return "<text>".to_owned(),
        _ => {}
    }
    let mut text = text.to_owned();
    for (pattern, placeholder) in [(&time, "<time>"), (&uid, "<uid>")] {
        // Captured uids come first: they have names.
        if placeholder == "<uid>" {
            text = named(&text, captured);
        }
        let found: Vec<String> = pattern.find_iter(&text).map(|found| found.as_str().to_owned()).collect();
        for found in found.iter().filter(|found| !sent.contains(found.as_str())) {
            text = text.replace(found, placeholder);
        }
    }
    let access = Regex::new("kube-api-access-[a-z0-9]{5}").unwrap();
    let text = access.replace_all(&text, "kube-api-access-<generated>");
    // Versions inside messages; a number that the case itself sent stays.
    let versions =
        [r"(resource version: )(\d+)", r"(, current: )(\d+)", r#"(resourceVersion\\?":\\?")(\d+)"#]
            .into_iter()
            .chain([r"(in the precondition \()(\d+)", r"(in record \()(\d+)"]);
    versions.fold(text.into_owned(), |text, pattern| {
        let pattern = Regex::new(pattern).unwrap();
        let replaced = pattern.replace_all(&text, |found: &regex::Captures<'_>| {
            if sent.contains(&found[2]) { found[0].to_owned() } else { format!("{}<rv>", &found[1]) }
        });
        replaced.into_owned()
    })
}

/// The text with names for captured values and the namespace.
fn named(text: &str, captured: &[(String, String)]) -> String {
    let mut text = text.to_owned();
    for (name, value) in captured {
        if name == "NS" {
            // As a whole word: names of namespaces are short.
            let word = Regex::new(&format!(r"\b{value}\b")).unwrap();
            text = word.replace_all(&text, "$${NS}").into_owned();
        } else if value.len() > 20 {
            text = text.replace(value, &format!("${{{name}}}"));
        }
    }
    text
}
