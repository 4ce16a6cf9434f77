//! What became of capacity buffers, as data.

use std::collections::BTreeMap;

use joiner_core::model::Snapshot;
use joiner_core::model::ids::PodIdx;
use joiner_core::plan::Plan;
use joiner_state::Buffer;
use serde::Serialize;

use super::document::{PlanDocument, ReasonDocument, reasons};

/// A buffer and where its virtual pods sit.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BufferDocument {
    /// `namespace/name`.
    pub buffer: String,
    /// Virtual pods.
    pub replicas: usize,
    /// Of these on nodes that are there.
    pub on_existing_nodes: usize,
    /// Of these on nodes to launch.
    pub on_new_nodes: usize,
    /// Of these without a place.
    pub unplaced: usize,
    /// The reason of its condition `ReadyForProvisioning`.
    pub ready: &'static str,
    /// The reason of its condition `Provisioning`.
    pub provisioning: &'static str,
    /// Why virtual pods have no place, or why there are none.
    pub reasons: Vec<ReasonDocument>,
}

impl PlanDocument {
    /// The document with what became of buffers.
    pub fn with_buffers(mut self, snapshot: &Snapshot, plan: &Plan, buffers: &[Buffer]) -> Self {
        if buffers.is_empty() {
            return self;
        }
        let mut on_existing: BTreeMap<PodIdx, bool> = BTreeMap::new();
        let bought =
            plan.machines.iter().map(|machine| &machine.pods).chain(plan.kept.iter().map(|(_, pods)| pods));
        on_existing.extend(bought.flatten().map(|pod| (*pod, false)));
        on_existing.extend(plan.on_nodes.iter().flat_map(|(_, pods)| pods).map(|pod| (*pod, true)));
        self.buffers = buffers.iter().map(|buffer| document(snapshot, plan, buffer, &on_existing)).collect();
        self
    }
}

fn document(
    snapshot: &Snapshot,
    plan: &Plan,
    buffer: &Buffer,
    on_existing: &BTreeMap<PodIdx, bool>,
) -> BufferDocument {
    let count = |wanted: bool| buffer.pods.iter().filter(|pod| on_existing.get(pod) == Some(&wanted)).count();
    let (old, new, replicas) = (count(true), count(false), buffer.pods.len());
    // Virtual pods of a buffer are alike, so they fail alike.
    let refused = plan.refused.iter().find(|refused| buffer.pods.binary_search(&refused.pod).is_ok());
    let mut why = refused.map_or(Vec::new(), |refused| reasons(snapshot, &refused.reasons));
    if let Some(not_ready) = &buffer.not_ready {
        why.push(ReasonDocument {
            node_pool: None,
            code: not_ready.reason,
            message: not_ready.message.clone(),
        });
    }
    BufferDocument {
        buffer: buffer.name.clone(),
        replicas,
        on_existing_nodes: old,
        on_new_nodes: new,
        unplaced: replicas - old - new,
        ready: buffer.not_ready.as_ref().map_or("Resolved", |not_ready| not_ready.reason),
        provisioning: match (&buffer.not_ready, replicas) {
            (Some(_), _) => "NotReadyForProvisioning",
            (None, 0) => "BufferEmpty",
            (None, all) if all == old => "FitsExistingCapacity",
            (None, _) => "RequiresNewCapacity",
        },
        reasons: why,
    }
}
