//! Arbitrary input: reading and planning may refuse, never panic, and a refusal is one line that names the file.
//!
//! These run as ordinary tests for a few seconds each; `cargo bolero test` runs them for as long as one likes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use joiner::cli::Validate;
use joiner::load::documents::cut;
use joiner::load::locate::line_of;
use joiner::load::{Reading, read_object};
use joiner::{BAD_INPUT, FINDINGS, FINE, Streams};
use joiner_oracle::generate::{Size, cluster};
use serde_json::{Value, json};

// ---- reading ----

fn read_all(bytes: &[u8]) {
    for validate in [Validate::Strict, Validate::Warn] {
        let reading = Reading::new(validate);
        let outcome = cut(bytes, 0, "some.file", &mut |document| {
            read_object("some.file", &document, &reading).map(|read| {
                assert!(
                    read.notes.iter().all(|note| note.starts_with("some.file") && !note.contains('\n')),
                    "{read:?}"
                );
            })
        });
        if let Err(error) = outcome {
            let text = error.to_string();
            assert!(text.starts_with("some.file") && !text.contains('\n'), "{text}");
            assert!(text.len() < 1500, "{} bytes: {text:.300}…", text.len());
            // YAML also ends lines with a carriage return.
            let lines = bytes.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() + 1;
            assert!(error.line.is_none_or(|line| (1..=lines + 1).contains(&line)), "line of {lines}: {text}");
        }
    }
}

#[test]
fn arbitrary_bytes_are_read_or_refused() {
    bolero::check!().with_iterations(8_000).with_type::<Vec<u8>>().for_each(|bytes| {
        read_all(bytes);
        // The same as text, and as something that looks like an object at first.
        let text = String::from_utf8_lossy(bytes);
        read_all(text.as_bytes());
        read_all(format!("apiVersion: v1\nkind: {text}").as_bytes());
        read_all(format!("{{\"apiVersion\": \"v1\", \"kind\": \"Pod\", {text}").as_bytes());
    });
}

fn scenario_texts() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<PathBuf> = Vec::new();
    for topic in std::fs::read_dir(root).expect("the scenarios are there") {
        let topic = topic.expect("readable").path();
        if topic.is_dir() {
            files.extend(
                std::fs::read_dir(topic).expect("readable").map(|file| file.expect("readable").path()),
            );
        }
    }
    files.sort();
    files.iter().step_by(7).map(|file| std::fs::read(file).expect("readable")).collect()
}

/// Bytes that mean something to YAML or JSON.
const SIGNS: &[u8] = b" :-{}[]\n\t'\"&*#|>%!0,\\";

/// A good file with a few bytes changed, cut out or moved gets much further into the reader than noise does.
#[test]
fn damaged_files_are_read_or_refused() {
    let mut good = scenario_texts();
    for seed in 0..8 {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": cluster(seed, Size::Tiny).manifests});
        good.push(serde_json::to_vec_pretty(&list).expect("values can be written"));
    }
    bolero::check!().with_iterations(6000).with_type::<(u8, Vec<(u16, u8, u8)>)>().for_each(
        |(which, edits)| {
            let mut bytes = good[usize::from(*which) % good.len()].clone();
            for (at, action, with) in edits.iter().take(6) {
                let at = usize::from(*at) % bytes.len().max(1);
                let end = (at + usize::from(*with)).min(bytes.len());
                match action % 5 {
                    _ if bytes.is_empty() => {}
                    0 => bytes[at] = *with,
                    1 => bytes.insert(at, SIGNS[usize::from(*with) % SIGNS.len()]),
                    2 => drop(bytes.drain(at..end)),
                    3 => bytes.truncate(at),
                    _ => {
                        let piece = bytes[at..end].to_vec();
                        bytes.splice(at..at, piece);
                    }
                }
            }
            read_all(&bytes);
        },
    );
}

#[test]
fn a_line_can_be_asked_of_any_text_and_path() {
    bolero::check!().with_iterations(4_000).with_type::<(String, String)>().for_each(|(text, path)| {
        let lines = text.matches(['\n', '\r']).count() + 1;
        for text in [text.clone(), format!("a: {{b: [{text}]}}"), format!("a:\n- b: |\n    {text}\n")] {
            for path in
                [path.as_str(), "a.b[0]", "a[0].b", "..", "a..b", "[", "a[", "a[99999999999999999999]", ""]
            {
                assert!(
                    line_of(&text, path).is_none_or(|line| (1..=lines + 4).contains(&line)),
                    "{path:?} in {text:?}"
                );
            }
        }
    });
}

// ---- planning ----

/// Values that are wrong nearly everywhere.
fn nasty(at: usize) -> Value {
    let list = [
        Value::Null,
        json!(""),
        json!(-1),
        json!(0),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(1e308),
        json!(0.1),
        json!(true),
        json!([]),
        json!({}),
        json!([null]),
        json!({"": null}),
        json!("a\nb\u{1b}[31m"),
        json!("x".repeat(5000)),
        json!("9999999999999999999999Ei"),
        json!("-1"),
        json!("1n"),
        json!("0"),
        json!("2147483648"),
        json!("kubernetes.io/hostname"),
        json!("a/b/c"),
        json!("In"),
        json!("*"),
        json!(2_147_483_647),
        json!("2026-01-31T12:00:00Z"),
        json!([[[[[[[[[[1]]]]]]]]]]),
    ];
    list[at % list.len()].clone()
}

fn count(value: &Value) -> usize {
    match value {
        Value::Object(map) => map.values().map(|inner| 1 + count(inner)).sum(),
        Value::Array(items) => items.iter().map(|inner| 1 + count(inner)).sum(),
        _ => 0,
    }
}

/// The part with a number, and what to do with it.
fn edit(value: &mut Value, number: &mut usize, action: &mut dyn FnMut(Spot)) -> bool {
    match value {
        Value::Object(map) => {
            for key in map.keys().cloned().collect::<Vec<_>>() {
                if *number == 0 {
                    action(Spot::Field(map, key));
                    return true;
                }
                *number -= 1;
                if map.get_mut(&key).is_some_and(|inner| edit(inner, number, action)) {
                    return true;
                }
            }
        }
        Value::Array(items) => {
            for at in 0..items.len() {
                if *number == 0 {
                    action(Spot::Item(items, at));
                    return true;
                }
                *number -= 1;
                if edit(&mut items[at], number, action) {
                    return true;
                }
            }
        }
        _ => {}
    }
    false
}

enum Spot<'a> {
    Field(&'a mut serde_json::Map<String, Value>, String),
    Item(&'a mut Vec<Value>, usize),
}

fn part(value: &Value, number: usize) -> Value {
    let mut out = Value::Null;
    edit(&mut value.clone(), &mut number.clone(), &mut |spot| {
        out = match spot {
            Spot::Field(map, key) => map[&key].clone(),
            Spot::Item(items, at) => items[at].clone(),
        };
    });
    out
}

/// One mutation of a cluster: a part dropped, replaced, doubled or renamed.
fn mutate(manifests: &mut Value, at: u16, action: u8, with: u16) {
    let parts = count(manifests).max(1);
    let other = part(manifests, usize::from(with) % parts);
    edit(manifests, &mut (usize::from(at) % parts), &mut |spot| match (spot, action % 6) {
        (Spot::Field(map, key), 0) => drop(map.remove(&key)),
        (Spot::Field(map, key), 1 | 2) => drop(map.insert(key, nasty(with.into()))),
        (Spot::Field(map, key), 3) => drop(map.insert(key, other.clone())),
        (Spot::Field(map, key), 4) => drop(map.insert(format!("{key}x"), map[&key].clone())),
        (Spot::Field(map, key), _) => {
            // Text of another field of the same object: right type, wrong meaning.
            let texts: Vec<Value> = map.values().filter(|v| v.is_string()).cloned().collect();
            if let Some(text) = texts.get(usize::from(with) % texts.len().max(1)) {
                map.insert(key, text.clone());
            }
        }
        (Spot::Item(items, at), 0) => drop(items.remove(at)),
        (Spot::Item(items, at), 1 | 2) => items[at] = nasty(with.into()),
        (Spot::Item(items, at), 3) => items[at] = other.clone(),
        (Spot::Item(items, at), _) => items.insert(at, items[at].clone()),
    });
}

fn run(arguments: &[&str]) -> (u8, String, String) {
    let line = std::iter::once("joiner").chain(arguments.iter().copied()).map(OsString::from);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = joiner::run(line, &mut Streams { out: &mut out, err: &mut err, width: 80, unicode: false });
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is text");
    (code, text(out), text(err))
}

#[test]
fn mutated_clusters_are_planned_or_refused_in_one_line() {
    let folder = std::env::temp_dir().join(format!("joiner-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let clusters: Vec<(String, Value)> = (0..24)
        .map(|seed| {
            let generated = cluster(seed, Size::Tiny);
            let types = folder.join(format!("types-{seed}.json"));
            std::fs::write(&types, Value::from(generated.types).to_string()).expect("writable");
            (types.display().to_string(), Value::from(generated.manifests))
        })
        .collect();
    let seen = std::sync::Mutex::new([0usize; 4]);
    bolero::check!().with_iterations(600).with_type::<(u8, u8, u8, Vec<(u16, u8, u16)>)>().for_each(
        |(which, validate, output, edits)| {
            let (types, good) = &clusters[usize::from(*which) % clusters.len()];
            let mut manifests = good.clone();
            for (at, action, with) in edits.iter().take(5) {
                mutate(&mut manifests, *at, *action, *with);
            }
            let file = folder.join("manifests.json").display().to_string();
            let list = json!({"apiVersion": "v1", "kind": "List", "items": manifests});
            std::fs::write(&file, list.to_string()).expect("writable");
            let validate =
                ["--validate=ignore", "--validate=warn", "--validate=strict"][usize::from(*validate) % 3];
            let output = ["json", "table", "wide", "yaml"][usize::from(*output) % 4];
            let mut line = vec!["plan", "-f", &file, "--instance-types", types, "--threads", "1"];
            line.extend(["--max-pods", "300", validate, "-o", output]);
            let (code, out, err) = run(&line);
            assert!([FINE, BAD_INPUT, FINDINGS].contains(&code), "exit code {code}: {err}");
            let (notes, errors): (Vec<&str>, Vec<&str>) =
                err.lines().partition(|line| line.starts_with("note: "));
            if code == BAD_INPUT {
                assert_eq!(out, "", "nothing is printed about input that is refused");
                assert_eq!(errors.len(), 1, "{err}");
                assert!(errors[0].starts_with(&format!("error: {file}")), "{err}");
                assert!(errors[0].len() < 1500, "{} bytes", errors[0].len());
                assert!(!errors[0].contains('\u{1b}'), "{err:?}");
            } else {
                assert_eq!(errors, [""; 0], "{err}");
                assert!(!out.is_empty());
                assert!(notes.iter().all(|note| !note.contains('\u{1b}')), "{err:?}");
                if output == "json" {
                    let plan: Value = serde_json::from_str(&out).expect("a plan is JSON");
                    let refused = plan["unschedulable"].as_array().is_some_and(|list| !list.is_empty());
                    assert_eq!(code, if refused { FINDINGS } else { FINE });
                }
            }
            if let Ok(mut seen) = seen.lock() {
                seen[usize::from(code)] += 1;
            }
        },
    );
    let _ = std::fs::remove_dir_all(&folder);
    let [fine, _, refused, findings] = *seen.lock().expect("nobody panicked");
    // All three must come up, or the mutations are too tame or too wild to find anything.
    assert!(
        fine > 0 && refused > 0 && findings > 0,
        "{fine} fine, {refused} refused, {findings} with findings"
    );
}
