//! Findings as SARIF 2.1.0, which code-scanning services read.

use serde_json::{Value, json};

use super::finding::{Finding, Severity};
use super::rules::RULES;
use crate::Streams;
use crate::cli::Format;
use crate::show;

/// Prints the findings.
pub fn write(findings: &[Finding], streams: &mut Streams) -> anyhow::Result<()> {
    let rules: Vec<Value> = RULES
        .iter()
        .map(|rule| {
            json!({
                "id": rule.id,
                "shortDescription": { "text": sentence(rule.summary) },
                "fullDescription": { "text": rule.why },
                "help": { "text": format!("{}\n\nMore: joiner lint --explain {}", rule.why, rule.id) },
                "defaultConfiguration": { "level": level(rule.severity) },
            })
        })
        .collect();
    let results: Vec<Value> = findings.iter().map(result).collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "joiner",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    streams.out.write_all(show::value(&log, Format::Json)?.as_bytes())?;
    Ok(())
}

fn result(finding: &Finding) -> Value {
    let rule_index = RULES.iter().position(|rule| rule.id == finding.rule);
    json!({
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": level(finding.severity),
        "message": { "text": format!("{}: {}; {}", finding.object, finding.message, finding.remedy) },
        "locations": [{
            "physicalLocation": {
                "artifactLocation": { "uri": uri(&finding.file) },
                // Services show nothing without a line; the first has to do where it is not known.
                "region": { "startLine": finding.line.unwrap_or(1) },
            },
            "logicalLocations": [{ "fullyQualifiedName": format!("{}/{}", finding.object, finding.path) }],
        }],
    })
}

fn level(severity: Severity) -> &'static str {
    severity.word()
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

/// A path as a relative reference, or as a `file` URI if it is absolute.
fn uri(path: &str) -> String {
    let mut out = if path.starts_with('/') { "file://".to_owned() } else { String::new() };
    let path = path.strip_prefix("./").unwrap_or(path);
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                out.push(char::from(byte))
            }
            b'\\' => out.push('/'),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_references() {
        for (path, expected) in [
            ("pools/a b.yaml", "pools/a%20b.yaml"),
            ("./x.yaml", "x.yaml"),
            ("/etc/pools.yaml", "file:///etc/pools.yaml"),
            ("standard input", "standard%20input"),
            ("a:b#c.yaml", "a%3Ab%23c.yaml"),
        ] {
            assert_eq!(uri(path), expected);
        }
    }
}
