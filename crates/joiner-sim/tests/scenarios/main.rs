//! The controllers beside those of a real cluster.
//!
//! Each `*.yaml` in this folder is a script: things that a user does, and what to look at after each. `observed/` holds what a real
//! control plane with KWOK showed. One test plays the scripts on the simulated cluster, in virtual time, and compares; another plays them on a real
//! one, so that a recording that has gone stale is found out.
//!
//! `JOINER_SCENARIO=text` plays only scripts whose name contains the text; `JOINER_RECORD=1` writes what the real cluster shows into
//! `observed/`. The words of a script are in `README.md` beside this file.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod observe;
mod script;
mod target;

use std::path::PathBuf;

use joiner_testbed::plane::Parts;
use serde_json::Value;

use script::Script;
use target::{Real, Simulated};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

fn scripts() -> Vec<Script> {
    let wanted = std::env::var("JOINER_SCENARIO").unwrap_or_default();
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    let scripts = files.iter().map(|path| Script::read(path));
    scripts.filter(|script| script.name.contains(&wanted)).collect()
}

fn observed(script: &Script) -> PathBuf {
    folder().join("observed").join(format!("{}.json", script.name))
}

/// What differs between two lists of observations, by step.
fn differences(script: &Script, expected: &[Value], found: &[Value]) -> Vec<String> {
    let mut differences = Vec::new();
    for (number, found) in found.iter().enumerate() {
        let expected = expected.get(number).unwrap_or(&Value::Null);
        if expected != found {
            differences.push(format!(
                "{}, after step {} ({}):\n{}",
                script.name,
                number + 1,
                script.steps[number],
                lines_that_differ(expected, found)
            ));
        }
    }
    differences
}

fn lines_that_differ(expected: &Value, found: &Value) -> String {
    let text = |value: &Value| serde_json::to_string_pretty(value).unwrap();
    let (expected, found) = (text(expected), text(found));
    let difference = similar_lines(&expected, &found);
    difference.join("\n")
}

/// A plain difference by lines: what only the one has, what only the other has.
fn similar_lines(expected: &str, found: &str) -> Vec<String> {
    let (one, other): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), found.lines().collect());
    let (rows, columns) = (one.len(), other.len());
    let mut longest = vec![vec![0_usize; columns + 1]; rows + 1];
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            longest[row][column] = match one[row] == other[column] {
                true => longest[row + 1][column + 1] + 1,
                false => longest[row + 1][column].max(longest[row][column + 1]),
            };
        }
    }
    let (mut row, mut column) = (0, 0);
    let mut lines = Vec::new();
    while row < rows || column < columns {
        if row < rows && column < columns && one[row] == other[column] {
            lines.push(format!("      {}", one[row]));
            (row, column) = (row + 1, column + 1);
        } else if column >= columns || (row < rows && longest[row + 1][column] >= longest[row][column + 1]) {
            lines.push(format!("  real {}", one[row]));
            row += 1;
        } else {
            lines.push(format!("  ours {}", other[column]));
            column += 1;
        }
    }
    // Lines far from any difference do not help.
    let near: Vec<bool> = (0..lines.len())
        .map(|at| {
            (at.saturating_sub(2)..(at + 3).min(lines.len())).any(|near| !lines[near].starts_with("      "))
        })
        .collect();
    lines.into_iter().zip(near).filter(|(_, near)| *near).map(|(line, _)| line).collect()
}

#[tokio::test(start_paused = true)]
async fn the_simulated_cluster_does_what_a_real_one_did() {
    let mut problems = Vec::new();
    let scripts = scripts();
    for script in &scripts {
        let Ok(text) = std::fs::read_to_string(observed(script)) else {
            problems.push(format!("{}: nothing was recorded, run with JOINER_RECORD=1", script.name));
            continue;
        };
        let expected: Vec<Value> = serde_json::from_str(&text).unwrap();
        let found = Simulated::new(1).play(script).await;
        problems.extend(differences(script, &expected, &found));
        if expected.len() != found.len() {
            problems.push(format!("{}: {} steps were recorded", script.name, expected.len()));
        }
    }
    assert!(problems.is_empty(), "{} scripts\n{}", scripts.len(), problems.join("\n\n"));
}

#[tokio::test]
async fn a_real_cluster_still_does_it() {
    let parts = Parts { scheduler: false, ..Parts::ALL };
    let Some(bed) = joiner_testbed::plane_for("a_real_cluster_still_does_it", parts).await.unwrap() else {
        return;
    };
    let recording = std::env::var_os("JOINER_RECORD").is_some();
    let scripts = scripts();
    let mut differing = Vec::new();
    // Waiting takes most of the time, so several are played side by side.
    for together in scripts.chunks(12) {
        let played = together.iter().map(|script| async {
            let expected = std::fs::read_to_string(observed(script)).ok();
            let expected: Option<Vec<Value>> = expected.map(|text| serde_json::from_str(&text).unwrap());
            let real = Real::new(bed.client.another());
            real.play(script, if recording { None } else { expected.as_deref() }).await
        });
        let played = futures::future::join_all(played).await;
        for (script, found) in together.iter().zip(played) {
            if recording {
                let text = serde_json::to_string_pretty(&found).unwrap();
                std::fs::write(observed(script), format!("{text}\n")).unwrap();
            } else {
                let expected: Vec<Value> =
                    serde_json::from_str(&std::fs::read_to_string(observed(script)).unwrap()).unwrap();
                if !differences(script, &expected, &found).is_empty() {
                    differing.push((script, expected, found));
                }
            }
        }
    }
    // A dozen at once make a cluster slow, and what its controllers see of each other's work late. What differs is played again alone, and must not then.
    let mut problems = Vec::new();
    for (script, expected, found) in differing {
        println!("played again:\n{}", differences(script, &expected, &found).join("\n\n"));
        let real = Real::new(bed.client.another());
        real.is_gone(script).await;
        let found = real.play(script, Some(&expected)).await;
        problems.extend(differences(script, &expected, &found));
    }
    assert!(problems.is_empty(), "{} scripts\n{}", scripts.len(), problems.join("\n\n"));
}

/// The same script twice, and once more with a clock that runs sixty times as fast as the runtime's: the same events to the byte.
#[tokio::test(start_paused = true)]
async fn the_same_input_gives_the_same_events() {
    // Every fifth script: all of them would take a minute and tell little more.
    for script in scripts().into_iter().step_by(5) {
        let mut traces = Vec::new();
        for speed in [1, 1, 60] {
            let mut simulated = Simulated::new(speed);
            simulated.play(&script).await;
            traces.push(simulated.trace());
        }
        assert!(!traces[0].is_empty(), "{}: nothing happened", script.name);
        for other in &traces[1..] {
            let first = traces[0].iter().zip(other).position(|(one, other)| one != other);
            if let Some(first) = first {
                panic!("{}: event {first} differs\n{}\n{}", script.name, traces[0][first], other[first]);
            }
            assert_eq!(traces[0].len(), other.len(), "{}: one run has more events", script.name);
        }
    }
}
