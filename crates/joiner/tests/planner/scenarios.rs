//! Hand-worked scenarios: each file states what must come out, and why.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use joiner::cli::Catalog;
use joiner_provider_kwok::Catalogue;
use serde_json::Value;

use crate::support;

fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut out = Vec::new();
    for topic in std::fs::read_dir(root).expect("the scenarios are there") {
        let topic = topic.expect("readable").path();
        if topic.is_dir() {
            for file in std::fs::read_dir(topic).expect("readable") {
                let path = file.expect("readable").path();
                if path.extension().is_some_and(|e| e == "yaml") {
                    out.push(path);
                }
            }
        }
    }
    out.sort();
    out
}

struct Scenario {
    head: Value,
    rest: String,
}

fn read(path: &Path) -> Scenario {
    let text = std::fs::read_to_string(path).expect("readable");
    let (head, rest) = text.split_once("\n---").expect("a scenario has a head and manifests");
    Scenario { head: serde_saphyr::from_str(head).expect("the head is YAML"), rest: format!("---{rest}") }
}

/// What the scenario gave: a plan, or the complaint about its input.
fn run(scenario: &Scenario, path: &Path) -> Result<Value, String> {
    let options = &scenario.head["options"];
    let mut extra = Vec::new();
    for (name, flag) in [
        ("preferencePolicy", "--preference-policy="),
        ("minValuesPolicy", "--min-values-policy="),
        ("reservedCapacity", "--reserved-capacity="),
        ("packing", "--packing="),
    ] {
        if let Some(value) = options[name].as_str() {
            extra.push(format!("{flag}{value}"));
        }
    }
    let config = options.get("schedulerConfig").map(|config| support::ConfigFile::new("scenario", config));
    extra.extend(config.as_ref().map(support::ConfigFile::flag));
    let extra: Vec<&str> = extra.iter().map(String::as_str).collect();
    let folder = std::env::temp_dir().join(format!("joiner-scenario-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for files");
    let manifest = folder.join(path.file_name().expect("named"));
    std::fs::write(&manifest, &scenario.rest).expect("writable");
    let mut arguments = support::arguments(&extra);
    arguments.filename = vec![manifest.clone()];
    let catalogue = if let Some(name) = options["instanceTypesFile"].as_str() {
        let text =
            std::fs::read_to_string(path.with_file_name(name)).expect("the types are beside the scenario");
        Some(Catalogue::from_text(name, &text).map_err(|error| error.to_string())?)
    } else if options["instanceTypes"].is_null() {
        match options["catalog"].as_str() {
            Some("aws") => {
                arguments.catalogue.catalog = Some(Catalog::Aws);
                arguments.catalogue.aws.region = options["region"].as_str().map(str::to_owned);
                None
            }
            Some("by-class") => None,
            Some("kwok") | None => Some(Catalogue::hypothetical()),
            Some(other) => panic!("no catalogue {other}"),
        }
    } else {
        let text = serde_json::to_string(&options["instanceTypes"]).expect("writable");
        Some(Catalogue::from_text("instance-types.json", &text).map_err(|error| error.to_string())?)
    };
    let result = support::plan_files(&arguments, catalogue)
        // The folder's name differs from run to run.
        .map_err(|error| error.replace(&format!("{}/", folder.display()), ""))
        .map_err(|error| {
            config.iter().fold(error, |error, config| error.replace(&config.name(), "scheduler.json"))
        });
    let _ = std::fs::remove_file(manifest);
    result
}

fn check(path: &Path) -> Result<String, String> {
    let scenario = read(path);
    let expect = &scenario.head["expect"];
    let outcome = run(&scenario, path);
    if let Some(text) = expect["inputError"].as_str() {
        return match outcome {
            Ok(_) => Err(format!("the input was taken, but should be refused with `{text}`")),
            Err(error) if error.contains(text) => Ok(format!("refused input: {error}\n")),
            Err(error) => Err(format!("refused, but without `{text}`: {error}")),
        };
    }
    let plan = outcome?;
    let mut faults = Vec::new();
    expectations(expect, &plan, &mut faults);
    if faults.is_empty() {
        Ok(render(&plan))
    } else {
        Err(format!("{}\n{}", faults.join("\n"), render(&plan)))
    }
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

fn expectations(expect: &Value, plan: &Value, faults: &mut Vec<String>) {
    const KNOWN: [&str; 10] = [
        "newNodes",
        "refused",
        "reasons",
        "nodes",
        "sameNode",
        "differentNodes",
        "zones",
        "pricePerHour",
        "buffers",
        "notes",
    ];
    let empty = serde_json::Map::new();
    for key in expect.as_object().unwrap_or(&empty).keys() {
        assert!(KNOWN.contains(&key.as_str()), "unknown expectation {key}");
    }
    let nodes: Vec<&Value> = plan["nodes"].as_array().into_iter().flatten().collect();
    if let Some(wanted) = expect["newNodes"].as_u64()
        && plan["totals"]["newNodes"] != wanted
    {
        faults.push(format!("newNodes is {}, expected {wanted}", plan["totals"]["newNodes"]));
    }
    let mut refused: Vec<String> = plan["unschedulable"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|u| u["pod"].as_str().map(str::to_owned))
        .collect();
    refused.sort();
    if expect["refused"].is_array() {
        let mut wanted = strings(&expect["refused"]);
        wanted.sort();
        if wanted != refused {
            faults.push(format!("refused are {refused:?}, expected {wanted:?}"));
        }
    }
    for (pod, words) in expect["reasons"].as_object().unwrap_or(&empty) {
        let entry = plan["unschedulable"].as_array().into_iter().flatten().find(|u| u["pod"] == pod.as_str());
        let reasons: Vec<&str> = entry.map_or(Vec::new(), |u| {
            u["reasons"].as_array().into_iter().flatten().filter_map(|r| r["message"].as_str()).collect()
        });
        let joined = reasons.join("; ");
        for word in strings(words) {
            if !joined.contains(&word) {
                faults.push(format!("reasons of {pod} lack `{word}`: {joined}"));
            }
        }
    }
    if let Some(wanted) = expect["pricePerHour"].as_f64() {
        let price = plan["totals"]["pricePerHour"].as_f64().unwrap_or(f64::NAN);
        if (price - wanted).abs() > 1e-6 {
            faults.push(format!("pricePerHour is {price}, expected {wanted}"));
        }
    }
    if let Some(wanted) = expect["buffers"].as_array() {
        let buffers: Vec<&Value> = plan["buffers"].as_array().into_iter().flatten().collect();
        let alike = |(wanted, got): (&Value, &&Value)| {
            wanted.as_object().unwrap_or(&empty).iter().all(|(field, value)| got[field] == *value)
        };
        if wanted.len() != buffers.len() || !wanted.iter().zip(&buffers).all(alike) {
            faults.push(format!("buffers are {buffers:?}, expected {wanted:?}"));
        }
    }
    let notes = strings(&plan["notes"]);
    for words in strings(&expect["notes"]) {
        if !notes.iter().any(|note| note.contains(&words)) {
            faults.push(format!("no note says `{words}`: {notes:?}"));
        }
    }
    places(expect, &nodes, faults);
}

fn places(expect: &Value, nodes: &[&Value], faults: &mut Vec<String>) {
    let mut node_of: BTreeMap<String, usize> = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate() {
        for pod in strings(&node["pods"]) {
            node_of.insert(pod, at);
        }
    }
    let mut taken = vec![false; nodes.len()];
    for wanted in expect["nodes"].as_array().into_iter().flatten() {
        let hit = nodes.iter().enumerate().position(|(at, node)| !taken[at] && node_matches(wanted, node));
        match hit {
            Some(at) => taken[at] = true,
            None => faults.push(format!("no node is like {wanted}")),
        }
    }
    for group in expect["sameNode"].as_array().into_iter().flatten() {
        let at: Vec<Option<&usize>> = strings(group).iter().map(|pod| node_of.get(pod)).collect();
        if at.iter().any(Option::is_none) || at.windows(2).any(|pair| pair[0] != pair[1]) {
            faults.push(format!("not on one node: {group}"));
        }
    }
    for group in expect["differentNodes"].as_array().into_iter().flatten() {
        let mut at: Vec<usize> = strings(group).iter().filter_map(|pod| node_of.get(pod).copied()).collect();
        let count = strings(group).len();
        at.sort_unstable();
        at.dedup();
        if at.len() != count {
            faults.push(format!("not all on different nodes: {group}"));
        }
    }
    let empty = serde_json::Map::new();
    for (prefix, wanted) in expect["zones"].as_object().unwrap_or(&empty) {
        let mut seen: BTreeMap<String, u64> = BTreeMap::new();
        for (pod, at) in &node_of {
            if pod.starts_with(prefix.as_str()) {
                *seen.entry(nodes[*at]["zone"].as_str().unwrap_or("-").to_owned()).or_insert(0) += 1;
            }
        }
        let wanted: BTreeMap<String, u64> = wanted
            .as_object()
            .unwrap_or(&empty)
            .iter()
            .map(|(zone, n)| (zone.clone(), n.as_u64().unwrap_or(0)))
            .filter(|(_, n)| *n > 0)
            .collect();
        if seen != wanted {
            faults.push(format!("zones of {prefix}: {seen:?}, expected {wanted:?}"));
        }
    }
}

fn node_matches(wanted: &Value, node: &Value) -> bool {
    let empty = serde_json::Map::new();
    wanted.as_object().unwrap_or(&empty).iter().all(|(key, value)| match key.as_str() {
        "pool" => node["nodePool"] == *value,
        "type" => node["instanceType"] == *value,
        "pods" | "bufferPods" => {
            let (mut a, mut b) = (strings(value), strings(&node[key.as_str()]));
            a.sort();
            b.sort();
            a == b
        }
        "name" | "zone" | "capacityType" | "existing" | "static" => node[key] == *value,
        other => panic!("unknown node expectation {other}"),
    })
}

/// A plan as a few readable lines.
fn render(plan: &Value) -> String {
    let mut out = String::new();
    for node in plan["nodes"].as_array().into_iter().flatten() {
        let text = |field: &str| node[field].as_str().unwrap_or("-").to_owned();
        let sign = if node["existing"] == true { "=" } else { "+" };
        let price = node["pricePerHour"].as_f64().map_or("-".to_owned(), |p| format!("{p:.6}"));
        let line = format!(
            "{sign} {} {} {} {} ${price} options {}: {}",
            text("name"),
            text("instanceType"),
            text("zone"),
            text("capacityType"),
            node["instanceTypeOptions"].as_array().map_or(0, Vec::len),
            strings(&node["pods"])
                .into_iter()
                .chain(strings(&node["bufferPods"]))
                .collect::<Vec<_>>()
                .join(" "),
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
    for buffer in plan["buffers"].as_array().into_iter().flatten() {
        let text = |field: &str| buffer[field].as_str().unwrap_or("-").to_owned();
        let _ = writeln!(
            out,
            "~ {} {} = {} + {} + {} {} {}",
            text("buffer"),
            buffer["replicas"],
            buffer["onExistingNodes"],
            buffer["onNewNodes"],
            buffer["unplaced"],
            text("ready"),
            text("provisioning"),
        );
        for reason in buffer["reasons"].as_array().into_iter().flatten() {
            let _ = writeln!(
                out,
                "    [{}] {}",
                reason["code"].as_str().unwrap_or("-"),
                reason["message"].as_str().unwrap_or("-")
            );
        }
    }
    for refused in plan["unschedulable"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "x {}", refused["pod"].as_str().unwrap_or("-"));
        for reason in refused["reasons"].as_array().into_iter().flatten() {
            let pool = reason["nodePool"].as_str().map_or(String::new(), |p| format!("{p}: "));
            let _ = writeln!(
                out,
                "    {pool}[{}] {}",
                reason["code"].as_str().unwrap_or("-"),
                reason["message"].as_str().unwrap_or("-")
            );
        }
    }
    out
}

#[test]
fn every_scenario_holds() {
    let files = files();
    assert!(files.len() >= 250, "only {} scenarios", files.len());
    let only = std::env::var("JOINER_SCENARIO").ok();
    let mut failures = Vec::new();
    let mut snapshots: BTreeMap<String, String> = BTreeMap::new();
    for path in &files {
        let topic =
            path.parent().and_then(Path::file_name).expect("in a topic").to_string_lossy().into_owned();
        let name = format!("{topic}/{}", path.file_stem().expect("named").to_string_lossy());
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        match check(path) {
            Ok(text) => {
                let entry = snapshots.entry(topic).or_default();
                let _ = write!(entry, "## {name}\n{text}\n");
            }
            Err(why) => failures.push(format!("## {name}\n{why}")),
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {} scenarios fail\n\n{}",
        failures.len(),
        files.len(),
        failures.join("\n")
    );
    if only.is_none() {
        for (topic, text) in snapshots {
            insta::with_settings!({snapshot_path => "../snapshots/scenarios", prepend_module_to_snapshot => false, omit_expression => true}, {
                insta::assert_snapshot!(topic, text);
            });
        }
    }
}
