//! The command: its verdict, its exit codes, and the way to see a failure again.

use std::ffi::OsString;
use std::path::PathBuf;

use joiner::{BAD_INPUT, FINDINGS, FINE, Streams};

fn run(arguments: &[&str]) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let line = ["joiner", "simulate"].iter().chain(arguments).map(OsString::from);
    let mut streams = Streams { out: &mut out, err: &mut err, width: 100, unicode: false };
    let code = joiner::run(line, &mut streams);
    let text = |bytes: Vec<u8>| anstream::adapter::strip_str(&String::from_utf8(bytes).unwrap()).to_string();
    (code, text(out), text(err))
}

/// A file of its own for each test.
fn file(name: &str, text: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("joiner-simulate-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("story.yaml");
    std::fs::write(&path, text).unwrap();
    path
}

const STORY: &str = "
about: a pod gets a node
rule: P01
steps:
  - pods: { name: web, cpu: '1' }
expect:
  - pods: { state: ready, count: 1 }
within: 1m
";

#[test]
fn what_holds_is_fine_and_what_does_not_is_a_finding() {
    let fine = file("fine", STORY);
    let (code, out, err) = run(&["--scenario", fine.to_str().unwrap(), "--crash-after", "3"]);
    assert_eq!(code, FINE, "{out}{err}");
    assert!(out.starts_with("fine: 1 run\nstory: P01: a pod gets a node (Crash(3) met "), "{out}");

    let wrong = file("wrong", &STORY.replace("count: 1", "count: 2"));
    let (code, out, err) = run(&["--scenario", wrong.to_str().unwrap()]);
    assert_eq!(code, FINDINGS, "{out}{err}");
    assert!(out.starts_with("1 of 1 run failed\n"), "{out}");
    assert!(out.contains("wanted 2"), "{out}");
    let replay = format!("replay: joiner simulate --scenario {}\n", wrong.display());
    assert!(out.contains(&replay), "{out}");
}

#[test]
fn a_seed_is_told_in_json() {
    let (code, out, err) = run(&["--seed", "2", "--hours", "0.75", "-o", "json"]);
    assert_eq!(code, FINE, "{out}{err}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["fine"], true);
    assert_eq!(report["runs"][0]["name"], "seed 2");
    assert!(report["runs"][0]["calls"].as_u64().unwrap() > 50, "{out}");
}

#[test]
fn bad_input_is_one_sentence() {
    let misspelt = file("misspelt", &STORY.replace("steps:", "stesp:"));
    let settings = file("settings", &format!("settings: {{ batch-idle: 1s }}{STORY}"));
    for (arguments, words) in [
        (vec!["--scenario", "/nowhere/story.yaml"], "cannot read the scenario `/nowhere/story.yaml`"),
        (vec!["--scenario", misspelt.to_str().unwrap()], "stesp"),
        (vec!["--scenario", settings.to_str().unwrap()], "--batch-idle"),
        (vec!["--hours", "0"], "from 0.75 to 8760"),
        (vec!["--crash-after", "3"], "--scenario"),
        (vec!["--seeds", "0"], "0 is not in 1..="),
    ] {
        let (code, out, err) = run(&arguments);
        assert_eq!((code, out.as_str()), (BAD_INPUT, ""), "{arguments:?}: {err}");
        assert!(err.contains(words), "{arguments:?}: {err}");
    }
}
