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
fn a_price_that_falls_because_less_runs_says_so() {
    let run = what_if("--no-spot --edit nodepool/default:spec.limits.cpu=1");
    assert!(
        run.out.lines().next().is_some_and(|verdict| verdict.contains(" because less runs ")),
        "{}",
        run.shown()
    );
    // What gets dearer or cheaper for the same pods has no such excuse.
    assert!(!what_if("--price 2").out.contains("because"), "{}", what_if("--price 2").shown());
}

#[test]
fn the_letter_of_a_zone_is_enough_where_one_zone_has_it() {
    let pods = "tests/what_if/aws.yaml";
    for zone in ["a", "2a", "us-west-2a"] {
        let run = run(&format!("-f {pods} --zone-out {zone}"), zone);
        assert_eq!(run.code, FINE, "{}", run.shown());
        assert!(run.out.contains("zone us-west-2a out: "), "{}", run.shown());
    }
    let several = run(&format!("-f {pods} --zone-out e"), "e");
    assert_eq!(several.code, BAD_INPUT, "{}", several.shown());
}

#[test]
fn what_machines_really_cost_counts_on_both_sides() {
    let folder = std::env::temp_dir().join(format!("joiner-what-if-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("costs.yaml");
    let overlay = "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: half}\n\
                   spec: {requirements: [], priceAdjustment: \"-50%\"}\n";
    std::fs::write(&file, overlay).expect("writable");
    let plain = what_if("--scale deploy/web=20 -o json").json();
    let half = what_if(&format!("--scale deploy/web=20 -o json --cost-model {}", file.display())).json();
    for side in ["before", "after"] {
        let price = |report: &Value| report[side]["pricePerHour"].as_f64().expect("a price");
        assert!(price(&half) < price(&plain), "{side}: {half}");
    }
    std::fs::remove_dir_all(&folder).ok();
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

// ---- packing afresh ----

const CLUSTER: &str = "../../examples/plan/cluster.yaml";

/// Output of `joiner plan`, as JSON without its time.
fn plan_of(arguments: &str) -> Value {
    let line = format!("joiner plan {arguments} -o json");
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut streams = Streams { out: &mut out, err: &mut err, width: 100, unicode: true };
    joiner::run(line.split_whitespace().map(OsString::from), &mut streams);
    let mut plan: Value = serde_json::from_slice(&out)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&err)));
    plan["timing"].take();
    plan
}

/// A file of these objects, for as long as `then` runs.
fn with_file<T>(name: &str, text: &str, then: impl FnOnce(&str) -> T) -> T {
    let file = std::env::temp_dir().join(format!("joiner-{}-{name}", std::process::id()));
    std::fs::write(&file, text).expect("writable");
    let result = then(file.to_str().expect("a path"));
    let _ = std::fs::remove_file(file);
    result
}

fn cluster() -> Vec<Value> {
    serde_saphyr::from_multiple(&std::fs::read_to_string(CLUSTER).expect("the example")).expect("YAML")
}

fn list(objects: &[Value]) -> String {
    serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()
}

#[test]
fn repacked_as_json() {
    insta::assert_snapshot!(run(&format!("-f {CLUSTER} --repack -o json"), "--repack -o json").shown());
}

/// Five nodes of the pool and one of a group have prices of the catalogue.
#[test]
fn what_stands_is_summed_over_nodes_of_known_price() {
    let standing = plan_of(&format!("-f {CLUSTER}"))["standing"].clone();
    assert_eq!((&standing["nodes"], &standing["pods"]), (&6.into(), &16.into()));
    assert_eq!((&standing["nodesOfUnknownPrice"], &standing["podsOfUnknownPrice"]), (&1.into(), &1.into()));
    let number = |value: &Value| value.as_f64().expect("a number");
    let (price, waste) = (number(&standing["pricePerHour"]), number(&standing["wastePerHour"]));
    let afresh = &standing["packedAfresh"];
    assert!(number(&afresh["lowerBoundPerHour"]) <= number(&afresh["pricePerHour"]));
    assert!(number(&afresh["pricePerHour"]) < price && waste < price);
    // Of node-1, at $0.234 an hour, 5.1 of 7.9 CPUs and 10.125 of 31.99 Gi are requested: 35 % and 68 % are left.
    let first = run(&format!("-f {CLUSTER} --repack"), "").out;
    assert!(first.contains("5.1/7.9  10.1Gi/32Gi   $0.234   $0.122"), "{first}");
    assert_eq!(number(&standing["wastePercent"]), (waste / price * 1000.0).round() / 10.0);
    assert_eq!(afresh["pods"], 16);
    assert_eq!(plan_of(&format!("-f {CLUSTER} --no-afresh"))["standing"]["packedAfresh"], Value::Null);
    assert_eq!(plan_of("-f ../../examples/inflate.yaml")["standing"], Value::Null);
}

/// The pods of standing nodes cost packed afresh what they cost if nothing stood and they were planned for.
#[test]
fn packed_afresh_is_a_plan_for_the_same_pods() {
    let mut objects = cluster();
    objects.retain(|of| of["metadata"]["name"] != "cellar-1" && of["spec"]["nodeName"] != "cellar-1");
    let workloads = ["Deployment", "ReplicaSet", "StatefulSet"];
    objects.retain(|of| !workloads.iter().any(|kind| of["kind"] == *kind));
    let standing =
        with_file("standing.json", &list(&objects), |file| plan_of(&format!("-f {file}")))["standing"]
            .clone();
    objects.retain(|of| of["kind"] != "Node");
    objects.retain(|of| of["kind"] != "Pod" || of["metadata"]["labels"]["app"] != "agent");
    for object in &mut objects {
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("nodeName");
        }
    }
    let plan = with_file("waiting.json", &list(&objects), |file| plan_of(&format!("-f {file}")));
    assert_eq!(standing["packedAfresh"]["pricePerHour"], plan["totals"]["pricePerHour"]);
    assert_eq!(standing["packedAfresh"]["lowerBoundPerHour"], plan["totals"]["lowerBoundPerHour"]);
    assert_eq!(standing["packedAfresh"]["nodes"], plan["totals"]["newNodes"]);
}

/// A list of `kubectl get`, a snapshot and documents in any order say the same.
#[test]
fn the_form_and_order_of_the_input_do_not_matter() {
    let objects = cluster();
    let wanted = plan_of(&format!("-f {CLUSTER}"));
    let repacked = run(&format!("-f {CLUSTER} --repack -o json"), "").json();
    for turn in 0..10 {
        let mut shuffled = objects.clone();
        shuffled.rotate_left(turn * 7 % objects.len());
        if turn % 2 == 1 {
            shuffled.reverse();
        }
        with_file(&format!("turn-{turn}.json"), &list(&shuffled), |file| {
            assert_eq!(plan_of(&format!("-f {file}")), wanted, "turn {turn}");
            assert_eq!(plan_of(&format!("--from {file}")), wanted, "turn {turn}, as a snapshot");
            assert_eq!(run(&format!("--from {file} --repack -o json"), "").json(), repacked, "turn {turn}");
        });
    }
}

/// Costs are the same on both sides: what is paid for already is no saving.
#[test]
fn costs_apply_to_what_stands_and_to_what_is_packed() {
    let model = "apiVersion: joiner.sh/v1alpha1\nkind: CostModel\nmetadata: {name: m}\nspec:\n  perNodeFees: [{name: f, requirements: [], pricePerHour: 1}]\n";
    let plain = plan_of(&format!("-f {CLUSTER}"))["standing"].clone();
    let dear = with_file("fees.yaml", model, |file| plan_of(&format!("-f {CLUSTER} --cost-model {file}")))["standing"].clone();
    let more = dear["pricePerHour"].as_f64().unwrap_or_default()
        - plain["pricePerHour"].as_f64().unwrap_or_default();
    assert!((more - 6.0).abs() < 1e-6, "a dollar for each of six nodes: {more}");
    let nodes = |standing: &Value| standing["packedAfresh"]["nodes"].as_u64().unwrap_or_default();
    assert!(nodes(&dear) <= nodes(&plain), "with a fee per node fewer are cheaper");
    assert!(dear["packedAfresh"]["pricePerHour"].as_f64() >= Some(nodes(&dear) as f64));
}

#[test]
fn what_holds_a_node_is_named_and_freed_by_a_change() {
    let held = |line: &str| {
        let document = run(&format!("-f {CLUSTER} {line} --repack -o json"), line).json();
        let stays = document["repack"]["stays"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let told: Vec<String> = stays
            .iter()
            .map(|stay| format!("{} {} {}", text(&stay["node"]), text(&stay["code"]), text(&stay["pod"])))
            .collect();
        let given_up = document["repack"]["givenUp"].as_array().map_or(0, Vec::len);
        (told, given_up)
    };
    let all = ["cellar-1 UnknownPrice -", "node-3 DisruptionBudget shop/db-0", "node-5 BarePod shop/report"];
    assert_eq!(held(""), (all.map(str::to_owned).to_vec(), 4));
    let freed = held("--edit shop/poddisruptionbudget/db:spec.maxUnavailable=1");
    assert_eq!(freed, ([all[0], all[2]].map(str::to_owned).to_vec(), 5));
    let (told, given_up) =
        held("--edit nodepool/default:spec.disruption={'consolidateAfter':'0s','budgets':[{'nodes':'0'}]}");
    assert_eq!(
        (told.iter().filter(|line| line.ends_with("PoolBudget -")).count(), given_up),
        (5, 1),
        "{told:?}"
    );
    let (told, _) = held("--edit nodepool/default:spec.limits.cpu=0");
    assert!(told.contains(&"group-1 NoOtherPlace shop/api-1-0".to_owned()), "{told:?}");
    let none = run(&format!("-f {SHOP} --remove node/node-1 --repack"), "");
    assert_eq!(none.code, BAD_INPUT);
    assert!(none.err.contains("`--repack`: the input has no Node"), "{}", none.err);
}

/// What goes, what stays and why, and the sums of it all.
#[test]
fn a_consolidation_says_what_goes_and_why_the_rest_stays() {
    let document = run(&format!("-f {CLUSTER} --consolidate -o json"), "").json();
    let stays = document["stays"].as_array().expect("a list");
    let told = |code: &str| -> Vec<&str> {
        stays.iter().filter(|stay| stay["code"] == code).filter_map(|stay| stay["node"].as_str()).collect()
    };
    assert_eq!(told("DisruptionBudget"), ["node-3"]);
    assert_eq!(told("BarePod"), ["node-5"]);
    assert_eq!(told("NotManaged"), ["cellar-1", "group-1"]);
    let commands = document["commands"].as_array().expect("a list");
    let saved: f64 = commands.iter().filter_map(|command| command["savingPerHour"].as_f64()).sum();
    let price = |side: &str| document[side]["pricePerHour"].as_f64().expect("a price");
    assert!(saved > 0.0 && (price("before") - price("after") - saved).abs() < 1e-9, "{document}");
    let gone: Vec<&Value> =
        commands.iter().flat_map(|command| command["nodes"].as_array().unwrap()).collect();
    for movement in commands.iter().flat_map(|command| command["moves"].as_array().unwrap()) {
        assert!(gone.contains(&&movement["from"]) && !gone.contains(&&movement["to"]), "{movement}");
    }
    let table = run(&format!("-f {CLUSTER} --consolidate"), "");
    assert_eq!(table.code, FINE);
    assert!(table.out.starts_with("saves $"), "{}", table.out);
    assert!(
        table.out.contains("PodDisruptionBudget `db` allows no disruption of pod `shop/db-0`"),
        "{}",
        table.out
    );
    // A change of the input changes what can go.
    let freed = "--edit shop/poddisruptionbudget/db:spec.maxUnavailable=1";
    let freed = run(&format!("-f {CLUSTER} {freed} --consolidate -o json"), "").json();
    let after = freed["after"]["pricePerHour"].as_f64().expect("a price");
    assert!(after < price("after") || !freed.to_string().contains("DisruptionBudget"), "{freed}");
    let none = run(&format!("-f {SHOP} --remove node/node-1 --consolidate"), "");
    assert_eq!(none.code, BAD_INPUT);
    assert!(none.err.contains("`--consolidate`: the input has no Node"), "{}", none.err);
}
