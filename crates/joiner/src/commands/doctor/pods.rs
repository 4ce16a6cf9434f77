//! Pods that wait and that no pool can serve: planned for as joiner would, with everything the plan depends on read page by page.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use joiner_core::decide::{self, Options};
use joiner_record::plan::PlanDocument;
use kube::Client;
use kube::api::ListParams;
use serde_json::Value;

use super::report::Finding;
use super::seen::{self, Answer, Seen};
use crate::cli::Validate;
use crate::commands::catalogues::{self, AwsArgs, CatalogueArgs};
use crate::commands::plan::Intake;
use crate::snapshot::kinds::KINDS;
use crate::snapshot::scrub::Scrubber;

/// Kinds that a plan of a cluster that runs depends on: pods are there themselves, not the workloads they are of.
const PLANNED: [&str; 13] = [
    "namespaces",
    "priorityclasses",
    "storageclasses",
    "kwoknodeclasses",
    "ec2nodeclasses",
    "nodepools",
    "nodeoverlays",
    "nodeclaims",
    "nodes",
    "csinodes",
    "persistentvolumes",
    "persistentvolumeclaims",
    "daemonsets",
];

/// Pods that the scheduler has found no place for, as `namespace/name`.
pub fn waiting(seen: &Seen) -> Result<BTreeSet<String>, String> {
    let pods = match seen.lists.get("pods") {
        Some(Answer::Forbidden(why)) => return Err(why.replace('\n', " ")),
        Some(answer) => answer.items(),
        None => &[],
    };
    let waits = |pod: &&Value| {
        pod["metadata"]["deletionTimestamp"].is_null()
            && pod["status"]["conditions"].as_array().into_iter().flatten().any(|condition| {
                condition["type"] == "PodScheduled"
                    && condition["status"] == "False"
                    && condition["reason"] == "Unschedulable"
            })
    };
    let name = |pod: &Value, field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
    Ok(pods
        .iter()
        .filter(waits)
        .map(|pod| format!("{}/{}", name(pod, "namespace"), name(pod, "name")))
        .collect())
}

/// Plans for those that wait.
///
/// # Errors
/// The cluster cannot be reached, or fails.
pub async fn served(
    client: &Client,
    waiting: &BTreeSet<String>,
    mut progress: impl FnMut(&str),
) -> anyhow::Result<Result<Vec<Finding>, String>> {
    if waiting.is_empty() {
        return Ok(Ok(Vec::new()));
    }
    let options = joiner_state::Options { note_duplicates: false, ..joiner_state::Options::default() };
    let mut intake = Intake::with(options, Validate::Ignore, 1);
    let scrubber = Scrubber::new("");
    let pools = RefCell::new(0_usize);
    let unread = RefCell::new(Vec::new());
    let wanted = |plural: &str| PLANNED.contains(&plural) || plural == "pods";
    for kind in KINDS.iter().filter(|kind| wanted(kind.plural)) {
        progress(&format!("reading {} to plan for pods that wait", kind.plural));
        let version = kind.versions.first().copied().unwrap_or("v1");
        let pending = RefCell::new(&mut intake);
        // Taken in as it comes: a page is all that is held.
        let take = |object: &mut Value| {
            let Some(object) = scrubber.object(kind, version, object.take()) else { return };
            if kind.kind == "NodePool" {
                *pools.borrow_mut() += 1;
            }
            if let Err(error) = pending.borrow_mut().read_values(kind.plural, [object]) {
                unread.borrow_mut().push(error.to_string());
            }
        };
        let path = kind.path(version, None);
        if let Answer::Forbidden(why) = seen::list(client, &path, &ListParams::default(), take).await? {
            return Ok(Err(why.replace('\n', " ")));
        }
    }
    if let Some(first) = unread.into_inner().first() {
        return Ok(Err(format!("an object makes no sense: {first}")));
    }
    if pools.into_inner() == 0 {
        let message = format!(
            "{} without a place, and there is no NodePool",
            crate::show::plural(waiting.len(), "pod")
        );
        return Ok(Ok(vec![Finding {
            check: "Pods",
            object: waiting.iter().next().map_or(String::new(), |pod| format!("pod/{pod}")),
            message,
            remedy: "kubectl apply -f examples/inflate.yaml".to_owned(),
        }]));
    }
    progress("planning for pods that wait");
    intake.finish_notes();
    let machines = CatalogueArgs { instance_types: None, catalog: None, aws: AwsArgs::default() };
    let catalogues = match catalogues::choose(&machines, intake.survey()) {
        Ok(catalogues) => catalogues,
        Err(error) => return Ok(Err(format!("no machines to plan with: {error:#}"))),
    };
    let (lowered, time) = intake.lower(catalogues);
    let options = Options { bound_work: 0, ..Options::default() };
    let plan = decide::decide(&lowered.snapshot, &options);
    let document = PlanDocument::new(&lowered.snapshot, &plan, None, time);
    // Pods of one workload are refused for one reason: that is one finding.
    let mut alike: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for refused in document.unschedulable.iter().filter(|of| waiting.contains(&of.pod)) {
        let reasons: Vec<&str> = refused.reasons.iter().map(|reason| reason.message.as_str()).collect();
        alike.entry(reasons.join("; ")).or_default().push(&refused.pod);
    }
    let found = alike.into_iter().map(|(reasons, pods)| {
        let first = pods.first().copied().unwrap_or_default();
        let others = match pods.len() {
            1 => String::new(),
            many => format!(", nor {} like it", crate::show::plural(many - 1, "pod")),
        };
        Finding {
            check: "Pods",
            object: format!("pod/{first}"),
            message: format!("no pool can serve it{others}: {reasons}"),
            remedy: format!("joiner snapshot -o - | joiner plan --from - --explain {first}"),
        }
    });
    Ok(Ok(found.collect()))
}
