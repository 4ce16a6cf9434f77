//! kubectl against `joiner up`, with joiner in it: the commands of a working day do what they do on a real cluster.
//!
//! What is asserted are facts, not texts: exit codes, objects, and the words that people look for.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::up::{Up, example, within};

/// Ten times as fast as outside: joiner's batches and the start of nodes take tenths of a second.
const SPEED: [&str; 2] = ["--speed", "10x"];

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn time(value: &Value) -> Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

/// A cluster with ten running pods of `inflate`.
fn inflated(test: &str) -> Option<Up> {
    let up = Up::start(test, &SPEED)?;
    let said = up.kubectl(&format!("apply -f {}", example("inflate.yaml")));
    assert!(said.contains("nodepool.karpenter.sh/default created"), "{said}");
    assert!(said.contains("deployment.apps/inflate created"), "{said}");
    let said = up.kubectl("rollout status deployment inflate --timeout=60s");
    assert!(said.contains("successfully rolled out"), "{said}");
    Some(up)
}

/// The node with most pods.
fn fullest(up: &Up) -> String {
    let nodes = up.get("nodes").iter().map(name).collect::<Vec<_>>();
    nodes.into_iter().max_by_key(|node| up.pods_on(node).len()).unwrap()
}

#[test]
fn a_deployment_scales_rolls_and_goes_back() {
    let Some(up) = inflated("a_deployment_scales_rolls_and_goes_back") else { return };
    assert!(up.kubectl("scale deployment inflate --replicas 4").contains("scaled"));
    up.kubectl("rollout status deployment inflate --timeout=60s");
    up.kubectl("scale deployment inflate --replicas 10");
    let said = up.kubectl("rollout status deployment inflate --timeout=60s");
    assert!(said.contains("successfully rolled out"), "{said}");
    let running = || up.get("pods").iter().filter(|pod| pod["status"]["phase"] == "Running").count();
    assert!(within(20, || running() == 10));

    up.kubectl("rollout restart deployment inflate");
    up.kubectl("rollout status deployment inflate --timeout=60s");
    let restarted = |deployment: &Value| {
        deployment["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"]
            .is_string()
    };
    assert!(restarted(&up.get("deployment inflate")[0]));
    let history = up.kubectl("rollout history deployment inflate");
    let revisions = |history: &str| -> Vec<String> {
        let first = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
        history.lines().map(first).filter(|word| word.parse::<u32>().is_ok()).collect()
    };
    assert_eq!(revisions(&history), ["1", "2"], "{history}");
    assert!(up.kubectl("rollout undo deployment inflate").contains("rolled back"));
    up.kubectl("rollout status deployment inflate --timeout=60s");
    assert!(!restarted(&up.get("deployment inflate")[0]));
    let history = up.kubectl("rollout history deployment inflate");
    assert_eq!(revisions(&history), ["2", "3"], "{history}");
    assert!(within(20, || running() == 10));
}

#[test]
fn a_rollout_that_is_stuck_says_so_and_why() {
    let Some(up) = inflated("a_rollout_that_is_stuck_says_so_and_why") else { return };
    // No machine has that label, and no pool may give it.
    let patch =
        r#"{"spec":{"template":{"spec":{"nodeSelector":{"topology.kubernetes.io/zone":"nowhere"}}}}}"#;
    up.kubectl(&format!("patch deployment inflate -p {patch}"));
    let said = up.run("rollout status deployment inflate --timeout=3s", "").badly();
    assert!(said.contains("timed out waiting for the condition"), "{said}");
    assert!(said.contains("new replicas have been updated"), "{said}");
    let pods = up.get("pods");
    let pending = pods.iter().find(|pod| pod["status"]["phase"] == "Pending").expect("a pod waits");
    assert!(within(20, || up.kubectl(&format!("describe pod {}", name(pending))).contains("karpenter")));
    let said = up.kubectl(&format!("describe pod {}", name(pending)));
    let told = |by: &str| -> String {
        let line = said.lines().find(|line| line.contains("FailedScheduling") && line.contains(by));
        line.unwrap_or_else(|| panic!("nothing from {by}:\n{said}")).to_owned()
    };
    assert!(told("default-scheduler").contains("nodes are available"), "{said}");
    let joiner = told("karpenter");
    assert!(joiner.contains("no machine would help") && joiner.contains("nodepool/default"), "{joiner}");
    // The same is told to whoever reads along.
    assert!(within(10, || up.said().contains(&format!("no place for pod default/{}", name(pending)))));
    up.kubectl("rollout undo deployment inflate");
    let said = up.kubectl("rollout status deployment inflate --timeout=60s");
    assert!(said.contains("successfully rolled out"), "{said}");
}

#[test]
fn a_drain_waits_for_the_budget() {
    let Some(up) = inflated("a_drain_waits_for_the_budget") else { return };
    let node = fullest(&up);
    up.kubectl(&format!("cordon {node}"));
    assert!(up.kubectl(&format!("get node {node}")).contains("Ready,SchedulingDisabled"));
    assert_eq!(up.get(&format!("node {node}"))[0]["spec"]["unschedulable"], true);
    up.kubectl(&format!("uncordon {node}"));
    assert!(!up.kubectl(&format!("get node {node}")).contains("SchedulingDisabled"));

    up.kubectl("create pdb inflate --selector=app=inflate --min-available=10");
    assert!(within(10, || up.get("pdb inflate")[0]["status"]["currentHealthy"] == 10));
    let before: BTreeSet<String> = up.pods_on(&node).into_iter().collect();
    assert!(before.len() > 2);
    let said = up.run(&format!("drain {node} --ignore-daemonsets --timeout=7s"), "").badly();
    assert!(said.contains("violate the pod's disruption budget"), "{said}");
    assert!(said.contains("will retry after 5s"), "{said}");
    assert!(said.contains("timeout"), "{said}");
    assert_eq!(up.pods_on(&node).into_iter().collect::<BTreeSet<_>>(), before, "nobody has left");

    up.kubectl(r#"patch pdb inflate -p {"spec":{"minAvailable":6}}"#);
    assert!(within(10, || up.get("pdb inflate")[0]["status"]["disruptionsAllowed"] == 4));
    let said = up.kubectl(&format!("drain {node} --ignore-daemonsets --timeout=80s"));
    assert!(said.contains("evicted") && said.contains(&format!("node/{node} drained")), "{said}");
    assert!(up.pods_on(&node).is_empty());
    up.kubectl("rollout status deployment inflate --timeout=60s");
    assert!(within(20, || up.get("deployment inflate")[0]["status"]["readyReplicas"] == 10));
    // A node without pods is of no use any more.
    assert!(within(30, || !up.get("nodes").iter().any(|other| name(other) == node)), "{}", up.said());
}

#[test]
fn a_deleted_node_is_replaced() {
    let Some(up) = inflated("a_deleted_node_is_replaced") else { return };
    let node = fullest(&up);
    let before: BTreeSet<String> = up.get("nodes").iter().map(name).collect();
    let object = &up.get(&format!("node {node}"))[0];
    assert!(
        object["metadata"]["finalizers"]
            .as_array()
            .unwrap()
            .iter()
            .any(|of| of == "karpenter.sh/termination")
    );
    let pods: BTreeSet<String> = up.pods_on(&node).into_iter().collect();
    let said = up.kubectl(&format!("delete node {node} --timeout=60s"));
    assert!(said.contains(&format!("node \"{node}\" deleted")), "{said}");
    // kubectl has waited for the finalizer: whatever belonged to the node has gone before it.
    assert!(
        up.get("nodeclaims")
            .iter()
            .all(|claim| name(claim) != node || !claim["metadata"]["deletionTimestamp"].is_null())
    );
    assert!(within(10, || up.get("nodeclaims").iter().all(|claim| name(claim) != node)));
    assert!(up.pods_on(&node).is_empty());
    up.kubectl("rollout status deployment inflate --timeout=60s");
    assert!(within(20, || up.get("deployment inflate")[0]["status"]["readyReplicas"] == 10));
    let now: BTreeSet<String> = up.get("pods").iter().map(name).collect();
    assert!(now.is_disjoint(&pods), "pods of the node are gone for good");
    let after: BTreeSet<String> = up.get("nodes").iter().map(name).collect();
    assert!(!after.contains(&node) && after.difference(&before).count() >= 1, "{before:?} {after:?}");
}

#[test]
fn watches_events_and_tables_show_the_machine() {
    let Some(up) = Up::start("watches_events_and_tables_show_the_machine", &SPEED) else { return };
    let nodes = up.meanwhile("get nodes -w --no-headers");
    std::thread::sleep(Duration::from_millis(700));
    up.kubectl(&format!("apply -f {}", example("inflate.yaml")));
    up.kubectl("rollout status deployment inflate --timeout=60s");
    std::thread::sleep(Duration::from_millis(300));
    let watched = nodes.end();
    for node in up.get("nodes").iter().map(name) {
        let states: Vec<&str> = watched
            .lines()
            .filter(|line| line.split_whitespace().next() == Some(&node))
            .map(|line| line.split_whitespace().nth(1).unwrap())
            .collect();
        assert!(states.len() > 1 && states[0] != "Ready", "{node}: {watched}");
        assert_eq!(states.last(), Some(&"Ready"), "{node}: {watched}");
    }

    let events = up.get("events -A --sort-by=.lastTimestamp");
    let times: Vec<Timestamp> = events.iter().map(|event| time(&event["lastTimestamp"])).collect();
    assert!(times.is_sorted(), "{times:?}");
    let told = |by: &str, reason: &str| {
        events.iter().any(|event| event["reason"] == reason && event["source"]["component"] == by)
    };
    for (by, reason) in [
        ("default-scheduler", "FailedScheduling"),
        ("default-scheduler", "Scheduled"),
        ("karpenter", "Nominated"),
        ("replicaset-controller", "SuccessfulCreate"),
        ("deployment-controller", "ScalingReplicaSet"),
    ] {
        assert!(told(by, reason), "{by} {reason}");
    }
    let table = up.kubectl("get events --sort-by=.lastTimestamp");
    assert!(
        table.lines().count() > 10 && !table.contains("<invalid>") && !table.contains("<unknown>"),
        "{table}"
    );

    let table = up.kubectl("get nodeclaims,nodepools -o wide");
    let claims = up.get("nodeclaims");
    for claim in &claims {
        let row =
            table.lines().find(|line| line.contains(&format!("nodeclaim.karpenter.sh/{}", name(claim))));
        let row = row.unwrap_or_else(|| panic!("{table}"));
        for part in ["NodeClaim", "spot", "test-zone-", "-amd64-linux", "True", "kwok://"] {
            assert!(row.contains(part) || part == "NodeClaim", "{part}: {table}");
        }
    }
    let pool = table.lines().find(|line| line.starts_with("nodepool.karpenter.sh/default")).unwrap();
    assert!(pool.contains("True") && pool.contains(&claims.len().to_string()), "{table}");

    let node = fullest(&up);
    let said = up.kubectl(&format!("describe node {node}"));
    let count = up.pods_on(&node).len();
    assert!(said.contains(&format!("Non-terminated Pods:          ({count} in total)")), "{said}");
    assert!(said.contains("Allocated resources"), "{said}");
}

#[test]
fn usage_is_shown_and_what_does_not_run_is_refused() {
    let Some(up) =
        Up::start("usage_is_shown_and_what_does_not_run_is_refused", &["--speed", "10x", "--nodes", "1"])
    else {
        return;
    };
    up.apply(
        r#"
apiVersion: v1
kind: Pod
metadata:
  name: busy
  annotations: { kwok.x-k8s.io/usage-cpu: 1600m, kwok.x-k8s.io/usage-memory: 2Gi }
spec:
  containers: [{ name: main, image: example.com/app:1 }]
"#,
    );
    up.kubectl("wait pod busy --for=condition=Ready --timeout=30s");
    let row = |table: &str, of: &str| -> Vec<String> {
        let line = table.lines().find(|line| line.starts_with(of)).unwrap_or_else(|| panic!("{table}"));
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(row(&up.kubectl("top pods"), "busy"), ["busy", "1600m", "2048Mi"]);
    let node = row(&up.kubectl("top nodes"), "node-000000");
    assert_eq!(node, ["node-000000", "1600m", "10%", "2048Mi", "3%"]);

    for command in ["logs busy", "exec busy -- true", "port-forward busy 8080:80", "attach busy"] {
        let said = up.run(command, "").badly();
        // The last line: kubectl has something to say of its own before it attaches.
        let last = said.trim().lines().last().unwrap_or_default();
        assert!(last.to_lowercase().contains("simulated"), "{command}: {said}");
    }
}

#[test]
fn kubectl_lives_in_the_time_of_the_cluster() {
    let Some(up) = Up::start("kubectl_lives_in_the_time_of_the_cluster", &["--speed", "max", "--nodes", "2"])
    else {
        return;
    };
    let pod = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{ name: {name} }}\nspec:\n  containers: [{{ name: main, image: a }}]\n"
        )
    };
    up.apply(&pod("first"));
    up.kubectl("wait pod first --for=condition=Ready --timeout=30s");
    // Time has jumped ahead of that outside. Events are kept for an hour of that time, so pods are asked, too.
    std::thread::sleep(Duration::from_millis(500));
    up.apply(&pod("second"));
    up.kubectl("wait pod second --for=condition=Ready --timeout=30s");
    let events = up.get("events -A");
    let events = events.iter().map(|event| time(&event["lastTimestamp"]));
    let pods = up.get("pods");
    let conditions = pods.iter().flat_map(|pod| pod["status"]["conditions"].as_array().unwrap());
    let latest = events.chain(conditions.map(|of| time(&of["lastTransitionTime"]))).max().unwrap();
    assert!(latest > Timestamp::now() + Duration::from_secs(300), "{latest}");
    up.apply(&pod("third"));
    let third = &up.get("pod third")[0];
    let created = time(&third["metadata"]["creationTimestamp"]);
    assert!(created >= latest, "created {created} after an event of {latest}");
    up.kubectl("wait pod third --for=condition=Ready --timeout=30s");
    let third = &up.get("pod third")[0];
    let started = time(&third["status"]["startTime"]);
    assert!(started >= created, "created {created}, started {started}");
    let table = up.kubectl("get nodes,pods,events");
    assert!(!table.contains("<invalid>"), "{table}");
}
