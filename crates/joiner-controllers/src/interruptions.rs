//! What clouds say of machines by themselves: it is heard while this process leads, recorded, and told on the claim and its node.
//!
//! Nothing is done about it yet. Whoever does will find it here, once for all clouds.

use std::sync::Arc;

use futures::StreamExt;
use jiff::Timestamp;
use joiner_provider::{Interruption, InterruptionKind, Provider, Registry};
use joiner_record::{Interruption as Told, Subject, Verdict};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::command::Step;
use crate::decision::{Decided, subject_of};
use crate::engine::Engine;
use crate::executor::Fence;
use crate::queue::Key;
use crate::record::Note;
use crate::reports::Report;

/// Listens to all providers until the tasks end.
pub(crate) fn listen(
    registry: &Registry,
    fence: &Fence,
    reports: &mpsc::Sender<Report>,
    tasks: &mut JoinSet<()>,
) {
    for provider in registry.providers() {
        tasks.spawn(listen_to(provider.clone(), fence.clone(), reports.clone()));
    }
}

async fn listen_to(provider: Arc<dyn Provider>, fence: Fence, reports: mpsc::Sender<Report>) {
    let mut moves = fence.moves();
    let mut said = provider.interruptions();
    loop {
        // Who does not lead does not listen: a queue is read by one process, and what it says must not be lost.
        while !fence.epoch().may_write() {
            if moves.changed().await.is_err() {
                return;
            }
        }
        let Some(interruption) = said.next().await else { return };
        if reports.send(Report::Interrupted(interruption)).await.is_err() {
            return;
        }
    }
}

impl Engine {
    /// A cloud has said something of a machine.
    pub(crate) fn interrupted(&mut self, interruption: Interruption, now: Timestamp) {
        let Interruption { provider_id, kind, at, message, .. } = interruption;
        let claim = self.cache.claim_with_id(&provider_id).cloned();
        let nodes: Vec<_> = self.cache.nodes_with_id(&provider_id).cloned().collect();
        let verdict = Verdict::Interrupted { interruption: told(kind), at, message };
        let mut subjects: Vec<Subject> = claim.iter().map(|claim| subject_of(&**claim)).collect();
        subjects.extend(nodes.iter().map(|node| subject_of(&**node)));
        if subjects.is_empty() {
            subjects.push(Subject::new("Machine", &provider_id, None));
        }
        let mut notes: Vec<Note> =
            claim.iter().filter_map(|claim| Note::of(&**claim, &verdict, None)).collect();
        notes.extend(nodes.iter().filter_map(|node| Note::of(&**node, &verdict, None)));
        let step = Step { notes, decisions: vec![Decided::new(verdict, subjects)], ..Step::default() };
        self.carry_out(Key::Machine(provider_id), step, now);
    }
}

fn told(kind: InterruptionKind) -> Told {
    match kind {
        InterruptionKind::Reclaimed => Told::Reclaimed,
        InterruptionKind::RebalanceRecommended => Told::RebalanceRecommended,
        InterruptionKind::Maintenance => Told::Maintenance,
        InterruptionKind::Impaired => Told::Impaired,
        InterruptionKind::Stopping => Told::Stopping,
        InterruptionKind::Terminated => Told::Terminated,
    }
}
