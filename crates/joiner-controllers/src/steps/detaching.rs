//! Volumes of a node that goes: which of them still have to leave before its machine may end.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::PersistentVolume;

use crate::pods::{self, CachedPod};
use crate::record::{Level, Note};
use crate::steps::lifecycle::signed;
use crate::steps::termination::NodeFacts;

/// A volume attached to a node.
#[derive(Debug, Clone, Copy)]
pub struct Attached<'a> {
    /// Its name, as the attachment says it.
    pub name: &'a str,
    /// The volume, if there is one.
    pub volume: Option<&'a PersistentVolume>,
    /// The claim for storage that it is bound to exists.
    pub has_claim: bool,
}

/// Volumes that are waited for, and those that nobody will detach any more.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Attachments<'a> {
    /// Somebody will detach them.
    pub awaited: Vec<&'a str>,
    /// Without a volume, or without a claim for it, for longer than detaching takes.
    pub leaked: Vec<&'a str>,
}

/// What is attached to a node and has to leave. `began` is when the wait for it began; nothing counts as leaked before.
pub fn attachments<'a>(facts: &NodeFacts<'a>, began: Option<Timestamp>) -> Attachments<'a> {
    let kept = kept(facts);
    let waited = began.map_or(SignedDuration::ZERO, |began| facts.now().duration_since(began));
    let is_long = waited >= signed(facts.settings.leaked_after);
    let mut found = Attachments::default();
    for attached in &facts.attached {
        let spec = attached.volume.and_then(|volume| volume.spec.as_ref());
        let claim = spec.and_then(|spec| spec.claim_ref.as_ref());
        let held = claim.is_some_and(|claim| {
            kept.iter().any(|(namespace, name)| {
                claim.namespace.as_ref() == Some(namespace) && claim.name.as_ref() == Some(name)
            })
        });
        if held {
            continue;
        }
        let is_orphan = attached.volume.is_none() || !attached.has_claim;
        match is_orphan && is_long {
            true => found.leaked.push(attached.name),
            false => found.awaited.push(attached.name),
        }
    }
    found
}

/// Told about volumes that are not waited for any longer.
pub fn leaked_told(facts: &NodeFacts, leaked: &[&str]) -> Option<Note> {
    let message = format!(
        "does not wait for {} any longer: still attached, and there is no volume or no claim for it",
        leaked.join(", ")
    );
    (!leaked.is_empty()).then(|| Note::new(facts.node, Level::Warning, "VolumeAttachmentLeaked", message))
}

/// Claims for storage, by namespace and name, of pods that stay on the node to its end.
fn kept(facts: &NodeFacts) -> Vec<(String, String)> {
    let stays = |pod: &&&CachedPod| !facts.is_waiting_eviction(pod) && !pods::is_terminal(pod);
    let mut kept = Vec::new();
    for pod in facts.pods.iter().filter(stays) {
        kept.extend(pod.volume_claims().map(|claim| (pod.common.namespace.clone(), claim)));
    }
    kept
}
