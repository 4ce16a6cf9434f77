//! Whole runs of `joiner lint`: the rules on their own examples and on cases in files, the three outputs, the reference page.
//!
//! A case under `lint/cases` opens with `# expect: RULE:LINE, …` (or `# expect: nothing`); what is found must be that and no more.
//! `UPDATE_DOCS=1` rewrites the reference page.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use joiner::commands::lint::{RULES, reference_page};
use joiner::{BAD_INPUT, FINDINGS, FINE, Streams};
use serde_json::Value;

/// What a run gave.
struct Run {
    code: u8,
    out: String,
    err: String,
}

fn joiner(arguments: &[&str]) -> Run {
    joiner_at(arguments, 100)
}

fn joiner_at(arguments: &[&str], width: usize) -> Run {
    let arguments = ["joiner", "lint"].iter().chain(arguments).map(OsString::from);
    let mut out = anstream::StripStream::new(Vec::new());
    let mut err = anstream::StripStream::new(Vec::new());
    let code = joiner::run(arguments, &mut Streams { out: &mut out, err: &mut err, width, unicode: true });
    let text = |stream: anstream::StripStream<Vec<u8>>| {
        String::from_utf8(stream.into_inner()).expect("output is text")
    };
    Run { code, out: text(out), err: text(err) }
}

impl Run {
    fn shown(&self) -> String {
        let mut text = format!("exit code {}\n", self.code);
        for (name, stream) in [("standard error", &self.err), ("standard output", &self.out)] {
            if !stream.is_empty() {
                text.push_str(&format!("--- {name}\n{stream}"));
            }
        }
        text
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}\n{}", self.shown()))
    }
}

/// Findings of a file as `rule:line`.
fn found(file: &Path, extra: &[&str]) -> Vec<String> {
    let file = file.to_str().expect("a plain name");
    let arguments: Vec<&str> = ["-f", file, "-o", "json"].iter().chain(extra).copied().collect();
    let report = joiner(&arguments).json();
    let findings = report["findings"].as_array().expect("a list").clone();
    findings
        .iter()
        .map(|finding| format!("{}:{}", finding["rule"].as_str().expect("a rule"), finding["line"]))
        .collect()
}

/// A file with this text, in a folder of its own.
fn file_of(name: &str, text: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("joiner-lint-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for files");
    let file = folder.join(name);
    std::fs::write(&file, text).expect("writable");
    file
}

#[test]
fn ids_are_unique_and_in_kebab_case() {
    let mut seen = std::collections::BTreeSet::new();
    for rule in RULES {
        assert!(seen.insert(rule.id), "{} is there twice", rule.id);
        assert!(rule.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{}", rule.id);
        assert!(!rule.summary.ends_with('.') && rule.why.ends_with('.'), "{}", rule.id);
    }
}

#[test]
fn bad_examples_trigger_their_rule_and_good_ones_none() {
    let mut faults = Vec::new();
    for rule in RULES {
        let rules = |kind: &str, text: &str| -> Vec<String> {
            let found = found(&file_of(&format!("{}.{kind}.yaml", rule.id), text), &[]);
            found.iter().map(|finding| finding.split(':').next().unwrap_or_default().to_owned()).collect()
        };
        let (bad, good) = (rules("bad", rule.bad), rules("good", rule.good));
        if bad.is_empty() || bad.iter().any(|found| found != rule.id) {
            faults.push(format!("the bad example of {} gives {bad:?}", rule.id));
        }
        if !good.is_empty() {
            faults.push(format!("the good example of {} gives {good:?}", rule.id));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn cases_give_what_they_expect() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lint/cases");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("cases are there")
        .map(|file| file.expect("readable").path())
        .collect();
    files.sort();
    assert!(files.len() >= 15, "cases are gone");
    let mut faults = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("readable");
        let line = |name: &str| {
            text.lines()
                .find_map(|line| line.trim_start_matches(['#', ' ']).strip_prefix(name).map(str::to_owned))
        };
        let expected = line("expect: ").expect("a case says what it expects");
        let mut expected: Vec<&str> = expected.split(", ").filter(|rule| *rule != "nothing").collect();
        expected.sort_unstable();
        let options = line("options: ").unwrap_or_default();
        let mut found = found(&file, &options.split_whitespace().collect::<Vec<_>>());
        found.sort();
        if found != expected {
            faults.push(format!("{}:\n  expected {expected:?}\n  found    {found:?}", file.display()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_examples_of_the_project_have_only_what_they_show() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut report = BTreeMap::new();
    for file in std::fs::read_dir(examples).expect("examples are there") {
        let path = file.expect("readable").path();
        if path.extension().is_some_and(|e| e == "yaml") {
            let name = path.file_name().expect("named").to_string_lossy().into_owned();
            let found = found(&path, &[]);
            let rules: Vec<String> =
                found.iter().map(|f| f.split(':').next().unwrap_or("").to_owned()).collect();
            if !rules.is_empty() {
                report.insert(name, rules.join(" "));
            }
        }
    }
    insta::assert_debug_snapshot!(report);
}

const SHOP: &str = "tests/lint/shop.yaml";
const TYPES: &str = "tests/lint/types.yaml";

#[test]
fn the_table() {
    insta::assert_snapshot!(joiner(&["-f", SHOP]).shown());
}

#[test]
fn the_table_fits_a_narrow_terminal() {
    let run = joiner_at(&["-f", SHOP], 60);
    // Only a path or a word longer than the line may stick out.
    for line in run.out.lines().filter(|line| line.chars().count() > 60) {
        assert!(line.trim().split(' ').count() <= 3, "{line}");
    }
    assert!(run.out.starts_with("2 errors, 3 warnings, 1 note in 1 file"), "{}", run.out);
}

#[test]
fn json() {
    insta::assert_snapshot!(joiner(&["-f", SHOP, "-o", "json"]).shown());
}

#[test]
fn own_instance_types() {
    insta::assert_snapshot!(joiner(&["-f", SHOP, "--instance-types", TYPES]).shown());
}

#[test]
fn sarif_has_what_services_need() {
    let run = joiner(&["-f", SHOP, "-o", "sarif"]);
    let log = run.json();
    assert_eq!(log["version"], "2.1.0");
    assert_eq!(log["$schema"], "https://json.schemastore.org/sarif-2.1.0.json");
    let driver = &log["runs"][0]["tool"]["driver"];
    assert_eq!(driver["name"], "joiner");
    let rules = driver["rules"].as_array().expect("rules");
    assert_eq!(rules.len(), RULES.len());
    for rule in rules {
        for text in ["shortDescription", "fullDescription", "help"] {
            assert!(rule[text]["text"].as_str().is_some_and(|text| !text.is_empty()), "{rule}");
        }
        let level = rule["defaultConfiguration"]["level"].as_str().expect("a level");
        assert!(["error", "warning", "note"].contains(&level));
    }
    let results = log["runs"][0]["results"].as_array().expect("results");
    assert_eq!(results.len(), 6);
    for result in results {
        let at = result["ruleIndex"].as_u64().expect("an index") as usize;
        assert_eq!(rules[at]["id"], result["ruleId"]);
        assert!(["error", "warning", "note"].contains(&result["level"].as_str().expect("a level")));
        assert!(result["message"]["text"].as_str().is_some_and(|text| !text.is_empty()));
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], SHOP);
        assert!(place["region"]["startLine"].as_u64().is_some_and(|line| line > 1), "{result}");
    }
    insta::assert_json_snapshot!(log["runs"][0]["results"][0]);
}

#[test]
fn the_exit_code_follows_fail_on() {
    let only_note = file_of("only-note.yaml", rule("pod-requests-nothing").bad);
    let only_warning = file_of("only-warning.yaml", rule("old-name").bad);
    let code = |file: &Path, fail_on: &str| {
        joiner(&["-f", file.to_str().expect("plain"), "--fail-on", fail_on]).code
    };
    for (fail_on, on_note, on_warning) in
        [("note", FINDINGS, FINDINGS), ("warning", FINE, FINDINGS), ("error", FINE, FINE)]
    {
        assert_eq!(
            (code(&only_note, fail_on), code(&only_warning, fail_on)),
            (on_note, on_warning),
            "{fail_on}"
        );
    }
    assert_eq!(joiner(&["-f", only_note.to_str().expect("plain")]).code, FINE);
}

fn rule(id: &str) -> &'static joiner::commands::lint::Rule {
    RULES.iter().find(|rule| rule.id == id).expect("the rule is there")
}

#[test]
fn rules_can_be_skipped() {
    let file = file_of("skipped.yaml", rule("old-name").bad);
    let run = joiner(&["-f", file.to_str().expect("plain"), "--skip", "old-name"]);
    assert_eq!((run.code, run.out.as_str()), (FINE, "no findings in 1 file (1 object)\n"));
}

#[test]
fn explanations() {
    let lines = [
        joiner(&["--explain", "budget-never-opens"]).shown(),
        joiner(&["--explain", "budget-never-open"]).shown(),
        joiner(&["-f", SHOP, "--skip", "everything"]).shown(),
        joiner(&["--list"]).shown(),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn what_plan_cannot_read_is_bad_input() {
    for (name, text, expected) in [
        ("broken.yaml", "a: [", "not valid YAML"),
        (
            "unknown-field.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containres: [{name: a}]}",
            "containres",
        ),
        (
            "quantity.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, resources: {requests: {cpu: lots}}}]}",
            "lots",
        ),
        ("empty.yaml", "# nothing\n", "nothing in it"),
    ] {
        let file = file_of(name, text);
        let file = file.to_str().expect("plain");
        let lint = joiner(&["-f", file]);
        assert_eq!((lint.code, lint.out.as_str()), (BAD_INPUT, ""), "{name}");
        assert!(lint.err.contains(expected), "{}", lint.err);
        // The same words as from `plan`.
        let mut err = Vec::new();
        let arguments = ["joiner", "plan", "-f", file].map(OsString::from);
        let code = joiner::run(
            arguments,
            &mut Streams { out: &mut Vec::new(), err: &mut err, width: 100, unicode: true },
        );
        assert_eq!((code, String::from_utf8_lossy(&err).into_owned()), (BAD_INPUT, lint.err), "{name}");
    }
    assert_eq!(joiner(&[]).code, BAD_INPUT);
    assert_eq!(joiner(&["-f", "no-such-file.yaml"]).code, BAD_INPUT);
}

#[test]
fn json_input_has_lines_too() {
    let text = "{\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": [\n{\"apiVersion\": \"karpenter.sh/v1\", \"kind\": \"NodePool\",\n\"metadata\": {\"name\": \"a\"},\n\"spec\": {\"template\": {\"spec\": {\"nodeClassRef\": {\"group\": \"karpenter.kwok.sh\", \"kind\": \"KWOKNodeClass\", \"name\": \"default\"},\n\"requirements\": [\n{\"key\": \"kubernetes.io/arch\", \"operator\": \"In\", \"values\": [\"amd46\"]}]}}}}\n]}";
    assert_eq!(found(&file_of("list.json", text), &[]), ["pool-matches-no-type:6"]);
    let yaml = format!(
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Namespace\n  metadata: {{name: x}}\n- {}\n",
        rule("expires-too-soon").bad.trim_end().replace('\n', "\n  ")
    );
    assert_eq!(found(&file_of("list.yaml", &yaml), &[]), ["expires-too-soon:16"]);
}

#[test]
fn findings_do_not_depend_on_the_run() {
    let run = || joiner(&["-f", "tests/lint/cases", "-f", SHOP, "-o", "json"]).out;
    assert_eq!(run(), run());
}

/// On generated clusters nothing that is found is contradicted by the planner: what is said to have no place has none, what is said to
/// launch nothing launches nothing.
#[test]
fn the_planner_agrees_with_what_is_found() {
    use joiner_oracle::generate::{Size, cluster};
    let (mut of_pods, mut of_pools) = (0, 0);
    for seed in 0..250 {
        let generated = cluster(seed, Size::Small);
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": generated.manifests});
        let manifests = file_of("generated.json", &list.to_string());
        let types = file_of("types.json", &Value::Array(generated.types).to_string());
        let (manifests, types) = (manifests.to_str().expect("plain"), types.to_str().expect("plain"));
        let report = joiner(&["-f", manifests, "--instance-types", types, "-o", "json"]).json();
        let plan = plan(&["-f", manifests, "--instance-types", types, "--no-lower-bound", "-o", "json"]);
        let nodes = plan["nodes"].as_array().expect("nodes");
        for finding in report["findings"].as_array().expect("findings") {
            let rule = finding["rule"].as_str().expect("a rule");
            let (kind, name) =
                finding["object"].as_str().and_then(|o| o.split_once(' ')).expect("kind and name");
            match (rule, kind) {
                ("pod-selects-no-pool" | "pod-tolerates-no-pool" | "pod-too-large", _) => {
                    of_pods += 1;
                    let full = if name.contains('/') { name.to_owned() } else { format!("default/{name}") };
                    let is_its = |pod: &str| match pod.strip_prefix(full.as_str()) {
                        Some(rest) if kind == "Pod" => rest.is_empty(),
                        Some(rest) => rest.strip_prefix('-').is_some_and(|n| n.parse::<usize>().is_ok()),
                        None => false,
                    };
                    let placed = nodes.iter().flat_map(|node| node["pods"].as_array().expect("pods"));
                    let placed = placed.filter_map(Value::as_str).find(|pod| is_its(pod));
                    assert_eq!(placed, None, "seed {seed}: {finding}");
                }
                (
                    "pool-matches-no-type"
                    | "pool-contradicts-itself"
                    | "limit-allows-no-node"
                    | "min-values-unreachable",
                    _,
                ) => {
                    of_pools += 1;
                    let launched = nodes.iter().find(|n| n["existing"] == false && n["nodePool"] == name);
                    assert_eq!(launched, None, "seed {seed}: {finding}");
                }
                _ => {}
            }
        }
    }
    assert!(of_pods > 50 && of_pools > 10, "too little was found to mean anything: {of_pods}, {of_pools}");
}

fn plan(arguments: &[&str]) -> Value {
    let arguments = ["joiner", "plan"].iter().chain(arguments).map(OsString::from);
    let mut out = Vec::new();
    let mut streams = Streams { out: &mut out, err: &mut Vec::new(), width: 100, unicode: true };
    joiner::run(arguments, &mut streams);
    serde_json::from_slice(&out).expect("a plan")
}

#[test]
fn the_reference_page_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/lint.md");
    let page = reference_page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &page).expect("the page can be written");
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        stored == page,
        "docs/reference/lint.md is out of date: UPDATE_DOCS=1 cargo test -p joiner --test lint"
    );
}
