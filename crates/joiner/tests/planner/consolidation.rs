//! What is taken away on generated clusters: the checker, which shares no code with the search, accepts where the pods go.

use std::collections::BTreeSet;
use std::time::Duration;

use joiner::commands::plan::{Intake, PlanDocument};
use joiner_core::disrupt::{Consolidation, Fleet, Kind, Options, Place, consolidate};
use joiner_oracle::checker;
use joiner_oracle::generate::{Generated, Size, cluster};
use joiner_oracle::world::World;
use joiner_provider_kwok::Catalogue;
use serde_json::Value;

use crate::oracle::seeds;
use crate::support;

/// What makes pods that wait: left out, for they are not what is asked about.
const MAKERS: [&str; 7] =
    ["Deployment", "StatefulSet", "ReplicaSet", "Job", "CronJob", "CapacityBuffer", "ReplicationController"];

fn is_kind(object: &Value, kind: &str) -> bool {
    object["kind"] == kind
}

fn node_of(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())
}

fn follows_nodes(pod: &Value) -> bool {
    let owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.into_iter().any(|owner| matches!(owner["kind"].as_str(), Some("DaemonSet" | "Node")))
}

/// Nodes and what runs on them.
fn standing(generated: &Generated) -> Vec<Value> {
    let stands = |object: &&Value| {
        !MAKERS.iter().any(|kind| is_kind(object, kind))
            && (!is_kind(object, "Pod") || node_of(object).is_some())
    };
    generated.manifests.iter().filter(stands).cloned().collect()
}

/// The manifests once nodes have gone: their pods wait, and what goes with a node is gone.
fn without(manifests: &[Value], gone: &BTreeSet<&str>) -> Vec<Value> {
    let mut rest = Vec::new();
    for object in manifests {
        let mut object = object.clone();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        match object["kind"].as_str() {
            Some("Node" | "CSINode") if gone.contains(name) => continue,
            Some("NodeClaim")
                if object["status"]["nodeName"].as_str().is_some_and(|node| gone.contains(node)) =>
            {
                continue;
            }
            Some("Pod") if node_of(&object).is_some_and(|node| gone.contains(node)) => {
                let over = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
                if over || follows_nodes(&object) || !object["metadata"]["deletionTimestamp"].is_null() {
                    continue;
                }
                object["spec"].as_object_mut().expect("a pod has a spec").remove("nodeName");
                object.as_object_mut().expect("a pod is an object").remove("status");
            }
            _ => {}
        }
        rest.push(object);
    }
    rest
}

fn search(manifests: &[Value], types: &[Value]) -> Result<(Fleet, Consolidation), String> {
    let text = serde_json::to_string(types).expect("values can be written");
    let catalogue = Catalogue::from_text("types.json", &text).map_err(|error| error.to_string())?;
    let arguments = support::arguments(&[]);
    let mut intake = Intake::new(&arguments);
    intake.read_values("manifests", manifests.iter().cloned()).map_err(|error| error.to_string())?;
    intake.finish_notes();
    let (_, standing, _) = intake.lower_and_keep(catalogue);
    let fleet = standing.fleet(&Default::default());
    let options = Options { budgets: false, spot_to_spot: true, ..Options::default() };
    let result = consolidate(&fleet, &options, None);
    Ok((fleet, result))
}

#[test]
fn the_checker_accepts_where_pods_go() {
    let (mut commands, mut replaced, mut moved, mut failures) = (0, 0, 0, Vec::new());
    let small = seeds(0..300).map(|seed| (seed, Size::Small));
    for (seed, size) in small.chain(seeds(0..150).map(|seed| (seed, Size::Large))) {
        let generated = cluster(seed, size);
        // Machines that a pool of a fixed size lacks are for provisioning.
        let is_static = |object: &Value| is_kind(object, "NodePool") && !object["spec"]["replicas"].is_null();
        if generated.scheduler_config.is_some() || generated.manifests.iter().any(is_static) {
            continue;
        }
        let manifests = standing(&generated);
        // What is refused as input is the subject of other tests.
        let Ok((fleet, result)) = search(&manifests, &generated.types) else { continue };
        if result.commands.is_empty() {
            continue;
        }
        let all = result.commands.iter().flat_map(|command| &command.nodes);
        let gone: BTreeSet<&str> = all.map(|node| &*fleet.snapshot.nodes[node.at()].name).collect();
        let world = World::from_manifests(&without(&manifests, &gone), &generated.types);
        let world = world.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let document = PlanDocument::new(&fleet.snapshot, &result.plan, None, Duration::ZERO);
        let mut plan = serde_json::to_value(&document).expect("plans can be written");
        // The snapshot also has the pods that stay where they are.
        plan["totals"]["pods"] = result.plan.placed.into();
        let violations = checker::check(&world, &plan);
        if !violations.is_empty() {
            failures.push(format!("seed {seed}: {violations:?}"));
        }
        commands += result.commands.len();
        replaced += result.commands.iter().filter(|command| command.kind == Kind::Replace).count();
        let moves = result.commands.iter().flat_map(|command| &command.moves);
        moved += moves.filter(|movement| movement.to != Place::Nowhere).count();
        // A node without a price saves nothing but itself.
        if result.after.price_nano_usd > result.before.price_nano_usd {
            failures.push(format!(
                "seed {seed}, {size:?}: {:?} -> {:?} by {:?}",
                result.before, result.after, result.commands
            ));
        }
    }
    assert!(failures.is_empty(), "{} of them:\n{}", failures.len(), failures.join("\n"));
    assert!(
        commands > 40 && replaced >= 5 && moved > 40,
        "{commands} commands, {replaced} replace, {moved} moves"
    );
}
