//! Generated clusters on a real control plane: what the real scheduler does with a pod, ours must have said.
//!
//! Ours sees the objects of the real server and nothing else. For each pod it is asked first what it would do; then the real
//! answer is awaited and both are compared: the same node (or one of equal score), or the same message, nomination and victims.
//! Where the real one chose among equals, ours goes on from its choice. A case that differs is tried again, since the real scheduler may
//! have looked before it had seen everything; it counts as different if it differs twice.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use joiner_sim::object::{Fields, Key, Kind};
use joiner_sim::scheduler::Verdict;
use joiner_testbed::plane::Parts;
use serde_json::{Value, json};

use crate::bed::{Bed, Server, collection, path};
use crate::generate::{Case, PRIORITIES, case};

const CASES: u64 = 110;
/// What changes while pods are scheduled.
const CHANGING: [Kind; 3] = [Kind::Pod, Kind::PersistentVolume, Kind::PersistentVolumeClaim];

#[tokio::test(flavor = "current_thread")]
async fn generated_clusters_agree() -> Result<()> {
    let parts = Parts { scheduler: true, ..Parts::BARE };
    let Some(plane) = joiner_testbed::plane_for("generated_clusters_agree", parts).await? else {
        return Ok(());
    };
    let seeds = match std::env::var("JOINER_SEEDS").ok().and_then(|text| range(&text)) {
        Some(range) => range,
        None => 0..CASES,
    };
    let server = Server::Real(plane.client.another());
    for (name, value, policy) in PRIORITIES {
        let body = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value, "preemptionPolicy": policy});
        server.must("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", Some(&body)).await?;
    }
    let (mut tally, mut wrong, mut again) = (Tally::default(), Vec::new(), 0);
    let start = Instant::now();
    let all = seeds.end - seeds.start;
    for seed in seeds {
        let mut trial = 0;
        loop {
            let namespace = format!("s{seed}-{trial}");
            let mut bed = Bed::new(Server::Real(plane.client.another()));
            let generated = case(seed, &namespace);
            let found = run(&mut bed, &generated, &mut tally).await.with_context(|| format!("seed {seed}"));
            clean_up(&bed, &generated).await.with_context(|| format!("seed {seed}"))?;
            match found? {
                None => break,
                Some(_) if trial == 0 => again += 1,
                Some(difference) => {
                    tell(&format!("seed {seed}: {difference}"));
                    wrong.push(format!("seed {seed}: {difference}"));
                    break;
                }
            }
            trial += 1;
        }
    }
    let (time, differ) = (start.elapsed(), wrong.len());
    tell(&format!("{all} generated clusters in {time:.0?}: {tally:?}; {again} tried again, {differ} differ"));
    assert!(wrong.is_empty(), "{} of {all} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(tally.bound > 0 && tally.refused > 0 && tally.preempted > 0 || all < 50, "{tally:?}");
    Ok(())
}

/// Says something past the test runner, which keeps what passing tests print.
fn tell(line: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{line}\n").as_bytes());
}

/// `3` or `3..9`.
fn range(text: &str) -> Option<std::ops::Range<u64>> {
    match text.split_once("..") {
        Some((low, high)) => Some(low.parse().ok()?..high.parse().ok()?),
        None => {
            let seed = text.parse().ok()?;
            Some(seed..seed + 1)
        }
    }
}

/// What was seen.
#[derive(Debug, Default)]
struct Tally {
    bound: usize,
    among_equals: usize,
    not_the_first: usize,
    refused: usize,
    preempted: usize,
}

/// Runs a case on the real server; the first difference, if there is one.
async fn run(bed: &mut Bed, case: &Case, tally: &mut Tally) -> Result<Option<String>> {
    let namespace = &case.namespace;
    for (name, labels) in
        [(namespace.clone(), json!({})), (format!("{namespace}-other"), json!({"team": "blue"}))]
    {
        let body =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        bed.server.must("POST", "/api/v1/namespaces", Some(&body)).await?;
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        bed.server
            .must("POST", &format!("/api/v1/namespaces/{name}/serviceaccounts"), Some(&account))
            .await?;
    }
    for node in &case.nodes {
        bed.server.must("POST", "/api/v1/nodes", Some(node)).await?;
        let taints = json!({"spec": {"taints": node.at(&["spec", "taints"])}});
        bed.server.must("PATCH", &path(&Key::of(Kind::Node, node)), Some(&taints)).await?;
    }
    for (place, body) in &case.objects {
        let made = bed.server.must("POST", place, Some(body)).await?;
        if !body["status"].is_null() {
            let status = json!({"status": body["status"]});
            bed.server.must("PATCH", &format!("{place}/{}/status", made.name()), Some(&status)).await?;
        }
    }
    // Among pods of one priority the youngest goes first, and among those of one age anyone: so all ages differ where it matters.
    let ranked =
        case.bound.iter().chain(&case.pods).any(|pod| !pod.at(&["spec", "priorityClassName"]).is_null());
    for pod in &case.bound {
        bed.server.must("POST", &collection(Kind::Pod, pod.namespace()), Some(pod)).await?;
        if ranked {
            let status = json!({"status": {"phase": "Running", "startTime": pod.annotation("start")}});
            let place = format!("{}/status", path(&Key::of(Kind::Pod, pod)));
            bed.server.must("PATCH", &place, Some(&status)).await?;
        }
    }
    bed.sync().await?;
    tokio::time::sleep(Duration::from_millis(40)).await;
    for pod in &case.pods {
        if let Some(difference) = compare(bed, pod, tally).await? {
            return Ok(Some(format!("`{}`: {difference}\n  {}", pod.name(), json!(pod["spec"]))));
        }
    }
    Ok(None)
}

async fn compare(bed: &mut Bed, pod: &Value, tally: &mut Tally) -> Result<Option<String>> {
    let key = Key::of(Kind::Pod, pod);
    bed.sync_only(&CHANGING).await?;
    let made = bed.server.must("POST", &collection(Kind::Pod, pod.namespace()), Some(pod)).await?;
    let ours = bed.ask(&key, made).with_context(|| format!("{key} is not looked at"))?;
    let theirs = await_answer(bed, &key).await?;
    let difference = match &ours {
        Verdict::Bound { equals, .. } => {
            tally.bound += 1;
            tally.among_equals += usize::from(equals.len() > 1);
            let node = theirs.text(&["spec", "nodeName"]);
            tally.not_the_first += usize::from(equals.first().is_some_and(|first| first != node));
            (!equals.iter().any(|other| other == node)).then(|| {
                format!("ours goes to one of {equals:?}, theirs is {}", crate::golden::outcome(&theirs))
            })
        }
        Verdict::Refused { reason, message, nominations } => {
            tally.refused += 1;
            tally.preempted += usize::from(!nominations.is_empty());
            refusal(bed, &theirs, reason, message, nominations).await?
        }
    };
    let mut text = None;
    if let Some(difference) = difference {
        let mut more = difference;
        let _ = write!(more, "\n  ours: {ours:?}");
        text = Some(more);
    }
    let waits = theirs.text(&["spec", "nodeName"]).is_empty();
    if !waits && !theirs.at(&["spec", "priorityClassName"]).is_null() {
        let status = json!({"status": {"startTime": format!("2023-11-15T00:0{}:00Z", tally.bound % 10)}});
        bed.server.must("PATCH", &format!("{}/status", path(&key)), Some(&status)).await?;
    }
    if waits && theirs.text(&["status", "nominatedNodeName"]).is_empty() {
        // Whoever was refused goes, so that nobody is looked at again while others are compared.
        let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
        bed.server.must("DELETE", &path(&key), Some(&now)).await?;
    }
    Ok(text)
}

async fn refusal(
    bed: &mut Bed,
    theirs: &Value,
    reason: &str,
    message: &str,
    nominations: &[(String, Vec<Key>)],
) -> Result<Option<String>> {
    let said = crate::golden::outcome(theirs);
    if said["reason"] != reason || said["message"] != message {
        return Ok(Some(format!("ours says `{message}`, theirs is {said}")));
    }
    let node = theirs.text(&["status", "nominatedNodeName"]);
    let Some((_, victims)) = nominations.iter().find(|(other, _)| other == node) else {
        let fine = node.is_empty() && nominations.is_empty();
        return Ok((!fine).then(|| format!("ours makes room on one of {nominations:?}, theirs on `{node}`")));
    };
    // Victims go one after another, in the background.
    let expected: BTreeSet<&Key> = victims.iter().collect();
    let start = Instant::now();
    loop {
        bed.sync_only(&CHANGING[..1]).await?;
        let before = |key: &&Key| bed.object(key).is_some_and(|pod| pod.is_deleting());
        let leaving: BTreeSet<&Key> = bed.objects(Kind::Pod).map(|(key, _)| key).filter(before).collect();
        if expected.is_subset(&leaving) {
            let on_node = leaving
                .iter()
                .filter(|key| bed.object(key).is_some_and(|pod| pod.text(&["spec", "nodeName"]) == node));
            let unexpected: Vec<_> = on_node.filter(|key| !expected.contains(**key)).collect();
            return Ok((!unexpected.is_empty()).then(|| format!("theirs takes more: {unexpected:?}")));
        }
        if start.elapsed() > Duration::from_secs(2) {
            return Ok(Some(format!("ours takes {expected:?}, theirs {leaving:?}")));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The pod once the real scheduler has bound or refused it. Volumes are bound for it meanwhile, as a controller would.
async fn await_answer(bed: &Bed, key: &Key) -> Result<Value> {
    let start = Instant::now();
    let claims = |pod: &Value| !pod.items(&["spec", "volumes"]).is_empty();
    loop {
        let pod = bed.server.must("GET", &path(key), None).await?;
        let refused = pod.condition("PodScheduled").is_some_and(|condition| condition["status"] == "False");
        if !pod.text(&["spec", "nodeName"]).is_empty() || refused {
            return Ok(pod);
        }
        if claims(&pod) {
            bind_volumes(bed, &key.namespace).await?;
        }
        if start.elapsed() > Duration::from_secs(20) {
            bail!("{key} is neither bound nor refused");
        }
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
}

async fn bind_volumes(bed: &Bed, namespace: &str) -> Result<()> {
    let claims = bed.server.must("GET", &collection(Kind::PersistentVolumeClaim, namespace), None).await?;
    let volumes = bed.server.must("GET", "/api/v1/persistentvolumes", None).await?;
    for claim in claims.items(&["items"]) {
        if !claim.text(&["spec", "volumeName"]).is_empty() {
            continue;
        }
        let own = volumes
            .items(&["items"])
            .iter()
            .find(|volume| volume.text(&["spec", "claimRef", "uid"]) == claim.uid());
        let volume = match own {
            Some(volume) => volume.name().to_owned(),
            None if claim.annotation("volume.kubernetes.io/selected-node").is_some() => {
                let name = format!("pv-{}", claim.uid());
                let body = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
                    "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": claim.at(&["spec", "storageClassName"]),
                        "persistentVolumeReclaimPolicy": "Retain", "csi": {"driver": "csi.example.com", "volumeHandle": name},
                        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim.name(), "uid": claim.uid()}}});
                bed.server.must("POST", "/api/v1/persistentvolumes", Some(&body)).await?;
                name
            }
            None => continue,
        };
        let status = json!({"status": {"phase": "Bound"}});
        bed.server
            .must("PATCH", &format!("/api/v1/persistentvolumes/{volume}/status"), Some(&status))
            .await?;
        let bound = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": volume}});
        let key = Key::of(Kind::PersistentVolumeClaim, claim);
        bed.server.must("PATCH", &path(&key), Some(&bound)).await?;
        let status = json!({"status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}});
        bed.server.must("PATCH", &format!("{}/status", path(&key)), Some(&status)).await?;
    }
    Ok(())
}

/// Takes everything away that bears on other cases.
async fn clean_up(bed: &Bed, case: &Case) -> Result<()> {
    let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
    for namespace in [case.namespace.clone(), format!("{}-other", case.namespace)] {
        bed.server.must("DELETE", &collection(Kind::Pod, &namespace), Some(&now)).await?;
        bed.server.must("DELETE", &collection(Kind::PersistentVolumeClaim, &namespace), Some(&now)).await?;
        bed.server.must("DELETE", &collection(Kind::PodDisruptionBudget, &namespace), Some(&now)).await?;
    }
    for kind in [Kind::Node, Kind::PersistentVolume, Kind::CSINode, Kind::StorageClass] {
        bed.server.must("DELETE", &collection(kind, ""), Some(&now)).await?;
    }
    for kind in [Kind::PersistentVolume, Kind::PersistentVolumeClaim] {
        // Nobody is there to take the protection off.
        let left = bed.server.must("GET", &collection(kind, ""), None).await?;
        for object in left.items(&["items"]) {
            let bare = json!({"metadata": {"finalizers": null}});
            let (_, _) = bed
                .server
                .call("PATCH", &path(&Key::of(kind, object)), "application/merge-patch+json", Some(&bare))
                .await?;
        }
    }
    tokio::time::sleep(Duration::from_millis(30)).await;
    Ok(())
}
