//! Whole runs of `joiner what-if`, one snapshot per kind of change, and what is refused.

use std::ffi::OsString;

use joiner::{BAD_INPUT, FINDINGS, FINE, Streams};
use serde_json::Value;

const SHOP: &str = "tests/what_if/shop.yaml";
const POOL: &str = "tests/what_if/pool.yaml";

struct Run {
    line: String,
    code: u8,
    out: String,
    err: String,
}

/// Runs a command line on the shop; arguments are separated by blanks.
fn what_if(line: &str) -> Run {
    run(&format!("-f {SHOP} {line}"), line)
}

fn run(line: &str, shown: &str) -> Run {
    let arguments = ["joiner", "what-if"].into_iter().chain(line.split_whitespace()).map(OsString::from);
    let mut out = anstream::StripStream::new(Vec::new());
    let mut err = anstream::StripStream::new(Vec::new());
    let code =
        joiner::run(arguments, &mut Streams { out: &mut out, err: &mut err, width: 100, unicode: true });
    let text = |stream: anstream::StripStream<Vec<u8>>| {
        String::from_utf8(stream.into_inner()).expect("output is text")
    };
    Run { line: shown.to_owned(), code, out: text(out), err: text(err) }
}

impl Run {
    fn shown(&self) -> String {
        let mut text = format!("$ joiner what-if -f shop.yaml {}\nexit code {}\n", self.line, self.code);
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

macro_rules! snapshots {
    ($($(#[$doc:meta])* $name:ident: $line:expr;)*) => {
        $($(#[$doc])* #[test] fn $name() { insta::assert_snapshot!(what_if($line).shown()); })*
    };
}

snapshots! {
    scale_up: "--scale shop/deploy/web=20";
    /// The limit of the pool is reached: pods that came with the change are refused, so the exit code is 3.
    scale_beyond_the_limit: "--scale deployment/web=60";
    scale_down: "--scale deploy/web=0";
    scale_a_job_and_a_set: "-n shop --scale sts/orders=3 --scale default/job/report=4";
    replaced_pool: "--change tests/what_if/pool.yaml";
    removed_node: "--remove node/node-1";
    /// Nothing can be launched: the pod of the node has no other place.
    removed_node_in_need: "--remove node/node-1 --edit nodepool/default:spec.limits.cpu=1";
    removed_workload: "--remove shop/statefulset/orders";
    edited_limit: "--scale deploy/web=60 --edit nodepool/default:spec.limits.cpu=2000";
    edited_requirement: "--edit nodepool/default:spec.template.spec.requirements[key=topology.kubernetes.io/zone].values[2]=test-zone-c";
    no_spot: "--no-spot";
    zone_out: "--zone-out test-zone-b";
    dearer_spot: "--price spot=3";
    nothing_changes: "--price c-*=1 --scale sts/orders=2";
    as_json: "--zone-out test-zone-b -o json";
    as_yaml: "--scale deploy/web=8 -o yaml";
}

/// A later `-f` that gives an object again is a change, too.
#[test]
fn a_later_file_replaces() {
    let by_change = what_if(&format!("--change {POOL}"));
    let by_file = what_if(&format!("-f {POOL}"));
    assert_eq!((by_change.code, by_change.out), (by_file.code, by_file.out));
    // The other way round the pool of the shop is the change.
    let swapped = run(&format!("-f {POOL} -f {SHOP}"), "");
    let document = run(&format!("-f {POOL} -f {SHOP} -o json"), "").json();
    assert_eq!(swapped.err, "");
    assert_eq!(document["changes"], serde_json::json!(["NodePool default: replaced"]));
}

/// The sides of a comparison are plans: the same numbers as `plan` gives.
#[test]
fn both_sides_are_plans() {
    let plan = |files: &str| -> Value {
        let arguments = format!("joiner plan {files} --no-lower-bound -o json");
        let mut out = Vec::new();
        let mut streams = Streams { out: &mut out, err: &mut Vec::new(), width: 100, unicode: true };
        joiner::run(arguments.split_whitespace().map(OsString::from), &mut streams);
        serde_json::from_slice(&out).expect("a plan")
    };
    let compared = what_if(&format!("--change {POOL} -o json")).json();
    for (side, files) in [("before", format!("-f {SHOP}")), ("after", format!("-f {SHOP} -f {POOL}"))] {
        let plan = plan(&files);
        for field in ["newNodes", "pods", "unschedulable"] {
            assert_eq!(compared[side][field], plan["totals"][field], "{side} {field}");
        }
    }
}

/// Without a namespace a name means the one in `default`, else the only one there is.
#[test]
fn names_in_several_namespaces() {
    let deployment = |namespace: &str| {
        format!(
            "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, namespace: {namespace}}}\nspec:\n  selector: {{}}\n  template: {{spec: {{containers: [{{name: a, resources: {{requests: {{cpu: 1}}}}}}]}}}}\n"
        )
    };
    let file = std::env::temp_dir().join(format!("joiner-what-if-{}.yaml", std::process::id()));
    std::fs::write(&file, deployment("one") + &deployment("two")).expect("writable");
    let base = format!("-f {} --validate ignore", file.display());
    let ambiguous = run(&format!("{base} --scale deploy/web=2"), "");
    assert_eq!(ambiguous.code, BAD_INPUT);
    assert!(ambiguous.err.contains("several, in the namespaces one, two"), "{}", ambiguous.err);
    for line in ["--scale two/deploy/web=5", "-n two --scale deploy/web=5"] {
        let document = run(&format!("{base} {line} -o json"), "").json();
        assert_eq!(document["changes"], serde_json::json!(["Deployment two/web: replicas 1 -> 5"]));
        assert_eq!(document["after"]["pods"], 6);
    }
    let _ = std::fs::remove_file(file);
}

#[test]
fn equal_runs_are_equal() {
    for line in ["--scale deploy/web=60 -o json", "--no-spot --remove node/node-1 -o json"] {
        assert_eq!(what_if(line).out, what_if(&format!("{line} --threads 2")).out);
    }
}

#[test]
fn a_change_that_costs_a_place_is_a_finding() {
    let run = what_if("--no-spot -o json");
    assert_eq!(run.code, FINDINGS);
    let refused = run.json()["newlyRefused"].clone();
    assert_eq!(refused[0]["pod"], "default/report-0");
    assert_eq!(refused[0]["wasPlaced"], true);
    assert_eq!(what_if("--scale deploy/web=7").code, FINE);
}

#[test]
fn kinds_may_carry_their_group() {
    for kind in ["deployments.apps", "deployment.apps", "deployments.v1.apps", "Deployments"] {
        let run = what_if(&format!("--scale {kind}/web=20"));
        assert_eq!(run.out, what_if("--scale deploy/web=20").out, "{}", run.shown());
    }
}

#[test]
fn what_cannot_be_done_is_named() {
    let lines = [
        "",
        "--scale web=3",
        "--scale deploy/web",
        "--scale deploy/web=many",
        "--scale deploy/web=-1",
        "--scale deploy/wbe=3",
        "--scale deplox/web=3",
        "--scale pod/night=3",
        "--scale default/deploy/web=3",
        "--remove node/node-9",
        "--remove crontab/a",
        "--edit nodepool/default",
        "--edit nodepool/default:spec.limits.cpu",
        "--edit nodepool/defualt:spec.limits.cpu=1",
        "--edit nodepool/default:spec.limits.cpu=lots",
        "--edit nodepool/default:spec.limit.cpu=1",
        "--edit nodepool/default:spec.template.spec.requirements[9].key=a",
        "--edit nodepool/default:spec.weight=1000",
        "--edit deploy/web:spec.replicas=-1",
        "--zone-out test-zone-x",
        "--price cheap",
        "--price -1",
        "--scale deployments.batch/web=3",
        "--no-spot --seed -1",
        "--no-spot --effort -1",
        "--no-spot --node-charge -1",
        "--price c-16x-amd64-linx=2",
        "--price =2",
        "--change no-such.yaml",
        "--scale deploy/web=3 --edit pod/night:spec=1",
        "--explain night --no-spot",
    ];
    let runs: Vec<Run> = lines.iter().map(|line| what_if(line)).collect();
    for run in &runs {
        assert_eq!((run.code, run.out.as_str()), (BAD_INPUT, ""), "{}", run.shown());
    }
    let shown: Vec<String> =
        runs.iter().map(|run| format!("{}\n    {}", run.line, run.err.trim_end())).collect();
    insta::assert_snapshot!(shown.join("\n"));
}
