//! What the README and the pages of documentation show is what the program prints: every console block of a `joiner plan` or `what-if` on an
//! example is run again.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use joiner::{BAD_INPUT, FINDINGS, FINE, Streams};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Exit code, and both streams as they would show on a terminal, notes first.
fn run(line: &str) -> (u8, String) {
    run_at(line, 200)
}

fn run_at(line: &str, width: usize) -> (u8, String) {
    let words = line.split(' ').map(|word| match word.strip_prefix("examples/") {
        Some(file) => root().join("examples").join(file).into_os_string(),
        None => OsString::from(word),
    });
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = joiner::run(words, &mut Streams { out: &mut out, err: &mut err, width, unicode: true });
    // Colours are for terminals.
    let (mut plain, mut text) = (String::new(), String::from_utf8(err).expect("text"));
    text.push_str(&String::from_utf8(out).expect("text"));
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    plain.push_str(rest);
    (code, plain)
}

/// Without times and blanks at line ends.
fn settled(text: &str) -> Vec<String> {
    let lines = text.trim_end().lines();
    lines.map(|line| line.split("solved in").next().unwrap_or_default().trim_end().to_owned()).collect()
}

/// The README and all pages of documentation.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of documentation") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// Whether what is shown is what is printed, as far as it is shown: a line `…` stands for any number of lines.
fn agrees(printed: &[String], shown: &[String]) -> bool {
    let mut rest = printed;
    for (at, part) in shown.split(|line| line == "…").enumerate() {
        let found = if at == 0 {
            rest.starts_with(part).then_some(0)
        } else {
            (0..=rest.len().saturating_sub(part.len())).find(|from| rest[*from..].starts_with(part))
        };
        let Some(from) = found else { return false };
        rest = &rest[from + part.len()..];
    }
    rest.is_empty() || shown.last().is_some_and(|last| last == "…")
}

/// `UPDATE_DOCS=1` writes what is printed now into the pages, where nothing is left out.
#[test]
fn console_blocks_are_what_is_printed() {
    let mut checked = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("the page is there");
        let mut now = text.clone();
        for block in text.split("```console\n").skip(1) {
            let block = block.split("\n```").next().expect("a block ends");
            let (command, shown) = block.split_once('\n').unwrap_or((block, ""));
            let line = command.trim_start_matches("$ ").replace("cargo run --release -- ", "joiner ");
            let of_example = ["plan", "what-if"].map(|command| format!("joiner {command} -f examples/"));
            if !of_example.iter().any(|start| line.starts_with(start.as_str())) {
                continue;
            }
            checked += 1;
            let (code, printed) = run(&line);
            assert!(code == FINE || code == FINDINGS, "{}: {printed}", page.display());
            if agrees(&settled(&printed), &settled(shown)) {
                continue;
            }
            let whole = !shown.lines().any(|line| line == "…");
            assert!(
                whole && std::env::var_os("UPDATE_DOCS").is_some(),
                "{}: `{command}` prints something else (UPDATE_DOCS=1 rewrites whole blocks):\n{printed}",
                page.display()
            );
            now = now.replace(block, &format!("{command}\n{}", printed.trim_end()));
        }
        if now != text {
            std::fs::write(&page, now).expect("writable");
        }
    }
    assert!(checked >= 6, "only {checked} blocks");
}

#[test]
fn a_cost_model_holds_costs_only() {
    let (code, text) = run("joiner plan -f examples/inflate.yaml --cost-model examples/buffers.yaml");
    assert_eq!(code, BAD_INPUT);
    assert!(
        text.contains("Namespace shop: `kind` is `Namespace`: a cost model holds NodeOverlay and CostModel objects only; give other objects with `-f`"),
        "{text}"
    );
}

#[test]
fn a_cost_model_may_hold_overlays() {
    let (code, text) = run("joiner plan -f examples/inflate.yaml --cost-model examples/overlays.yaml");
    assert_eq!(code, BAD_INPUT, "the example also holds a pool: {text}");
    let folder = std::env::temp_dir().join(format!("joiner-costs-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let file = folder.join("overlay.yaml");
    let overlay = "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: free}\nspec: {requirements: [], price: '0'}\n";
    std::fs::write(&file, overlay).expect("writable");
    let (code, text) = run(&format!("joiner plan -f examples/inflate.yaml --cost-model {}", file.display()));
    let _ = std::fs::remove_dir_all(folder);
    assert_eq!(code, FINE, "{text}");
    assert!(text.contains("$0/h"), "{text}");
}

#[test]
fn a_virtual_pod_can_be_explained() {
    let (code, text) = run("joiner plan -f examples/buffers.yaml --explain ci/buffer:builds-0");
    assert_eq!(code, FINE);
    assert!(text.contains("Pod ci/buffer:builds-0 goes onto the new node buffered-1"), "{text}");
    assert!(text.contains("queue          1 of 6"), "{text}");
}

/// The fields that a section of the page on JSON lists as always there.
fn fields_listed(section: &str) -> BTreeSet<String> {
    let page =
        std::fs::read_to_string(root().join("docs/reference/plan-json.md")).expect("the page is there");
    let (_, rest) = page.split_once(&format!("\n### `{section}`\n")).expect("the section is there");
    let table = rest.split("\n#").next().unwrap_or_default();
    let always = table.lines().filter(|line| !line.contains("Left out where"));
    let cells = always.filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    let names = cells.flat_map(|cell| cell.split('`')).filter(|name| name.starts_with(char::is_alphabetic));
    names.filter(|name| !name.contains("[]")).map(str::to_owned).collect()
}

#[test]
fn fields_are_always_there_and_documented() {
    for flags in ["", " --packing upstream", " --no-lower-bound"] {
        let (_, text) = run(&format!("joiner plan -f examples/existing-nodes.yaml -o json{flags}"));
        let plan: serde_json::Value = serde_json::from_str(&text).expect("JSON only");
        for (section, part) in [
            ("standing", &plan["standing"]),
            ("standing.packedAfresh", &plan["standing"]["packedAfresh"]),
            ("nodes[]", &plan["nodes"][0]),
            ("totals", &plan["totals"]),
            ("timing", &plan["timing"]),
        ] {
            let there: BTreeSet<String> = part.as_object().expect("an object").keys().cloned().collect();
            assert_eq!(there, fields_listed(section), "{section}{flags}");
        }
    }
    // The one field that is left out where it says nothing.
    let (_, text) = run("joiner plan -f examples/gpu.yaml -o json --no-lower-bound");
    // Notes come before it.
    let (_, json) = text.split_once("\n{").expect("a note and JSON");
    let plan: serde_json::Value = serde_json::from_str(&format!("{{{json}")).expect("JSON");
    let there: BTreeSet<String> = plan["nodes"][0].as_object().expect("an object").keys().cloned().collect();
    let documented: BTreeSet<String> =
        fields_listed("nodes[]").into_iter().chain(["priceSource".to_owned()]).collect();
    assert_eq!(there, documented);
}

/// Runs a command on manifests in a file of its own, `{}` in the line.
fn run_on(name: &str, manifests: &str, line: &str) -> (u8, String) {
    let file = std::env::temp_dir().join(format!("joiner-{}-{name}.yaml", std::process::id()));
    std::fs::write(&file, manifests).expect("writable");
    let result = run(&line.replace("{}", &file.display().to_string()));
    let _ = std::fs::remove_file(file);
    result
}

#[test]
fn preferences_that_cost_all_there_is_to_pay_have_no_percentage() {
    let manifests = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      requirements: [{key: kubernetes.io/os, operator: In, values: [linux]}]
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
---
apiVersion: v1
kind: Node
metadata: {name: here, labels: {topology.kubernetes.io/zone: test-zone-a, kubernetes.io/hostname: here}}
status: {capacity: {cpu: '8', memory: 16Gi, pods: '110'}, allocatable: {cpu: '8', memory: 16Gi, pods: '110'}, conditions: [{type: Ready, status: 'True'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: choosy}
spec:
  containers: [{name: c, resources: {requests: {cpu: '1'}}}]
  affinity:
    nodeAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 1
        preference: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [test-zone-b]}]}
";
    let (code, text) = run_on("choosy", manifests, "joiner plan -f {}");
    assert_eq!(code, FINE, "{text}");
    // Without them nothing is paid, so there is nothing to take a share of.
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("keeping all "), "the saving when all are kept stands beside: {text}");
    let told = "preferences of 1 pod given up";
    assert!(text.contains(told) && !text.contains("inf"), "{text}");
    let (_, text) = run_on("choosy-json", manifests, "joiner plan -f {} -o json");
    let plan: serde_json::Value = serde_json::from_str(&text).expect("JSON only");
    assert_eq!(plan["totals"]["preferencesGivenUp"], 1);
    assert!(plan["totals"]["preferencesWouldCostPercent"].is_null());
}

#[test]
fn a_story_can_be_data() {
    let line = "joiner plan -f examples/existing-nodes.yaml --explain api-4 -o";
    let (code, text) = run(&format!("{line} json"));
    assert_eq!(code, FINE, "{text}");
    let story: serde_json::Value = serde_json::from_str(&text).expect("JSON only");
    assert_eq!((&story["kind"], &story["pod"]), (&"PodStory".into(), &"default/api-4".into()));
    assert_eq!(story["place"]["node"], "default-1");
    assert_eq!(story["place"]["otherPods"], 2);
    assert_eq!(story["queue"], 5);
    assert!(run(&format!("{line} yaml")).1.contains("kind: PodStory"));
}

#[test]
fn a_capacity_type_that_is_out_is_named() {
    let (code, text) = run("joiner what-if -f examples/inflate.yaml --no-spot");
    assert_eq!(code, FINDINGS, "{text}");
    assert!(
        text.contains("the pool asks for `karpenter.sh/capacity-type In [spot]`, of which nothing can be had now; capacity types that can: on-demand"),
        "{text}"
    );
}

#[test]
fn a_zone_may_be_named_by_its_end() {
    let (_, text) = run("joiner what-if -f examples/inflate.yaml --zone-out a");
    assert!(text.contains("zone test-zone-a out"), "{text}");
}

#[test]
fn a_plan_fits_a_narrow_terminal() {
    for width in [100, 80, 60] {
        let (_, text) = run_at("joiner plan -f examples/shop.yaml", width);
        for line in text.lines().filter(|line| !line.starts_with("note:")) {
            assert!(line.chars().count() <= width, "{width}: {line}\n{text}");
        }
        assert!(text.contains("$/H"), "{text}");
    }
    let (_, welcome) = run_at("joiner", 80);
    assert!(welcome.lines().all(|line| line.chars().count() <= 100), "{welcome}");
}

#[test]
fn labels_that_the_types_do_not_tell_are_noted() {
    let pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: default}\nspec: {template: {spec: {\
                requirements: [{key: topology.k8s.aws/zone-id, operator: In, values: [use1-az1]}, \
                {key: karpenter.k8s.aws/instance-cpu-manufacturer, operator: In, values: [intel]}], \
                nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}}}\n";
    let (_, text) = run_on("unknown-label", pool, "joiner plan -f {}");
    let note = "note: NodePool `default`: the instance types say nothing about `topology.k8s.aws/zone-id`";
    assert!(text.contains(note) && !text.contains("instance-cpu-manufacturer"), "{text}");
}
