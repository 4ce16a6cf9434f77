//! What changes when this process begins to lead, and when it leads no more.
//!
//! A process that stands by observes everything and does nothing: its cache and queue are warm, so it acts on the first turn after it was given the lead. Behind
//! a closed fence there are no turns, and what comes back from earlier ones is let go.

use kube::ResourceExt;

use crate::command::{Command, Step};
use crate::decision::Moment;
use crate::engine::Engine;
use crate::provision::Nominations;
use crate::queue::Key;

impl Engine {
    /// Whether what is decided now may be carried out.
    pub(crate) fn leads(&self) -> bool {
        self.executor.fence().admits(self.epoch)
    }

    /// Whether keys are reconciled: everything needed is known, and this process leads, or only wants to see what it would do.
    pub(crate) fn acts(&self) -> bool {
        self.started && !self.watches.blocks() && (self.settings.dry_run || self.leads())
    }

    /// Notices that this process leads since a moment ago, or leads no more.
    pub(crate) fn follow_fence(&mut self) {
        if !self.started {
            return;
        }
        if self.settings.dry_run {
            if !std::mem::replace(&mut self.looked_around, true) {
                self.reconsider();
            }
            return;
        }
        let epoch = self.executor.fence().epoch();
        if epoch == self.epoch {
            return;
        }
        self.epoch = epoch;
        match epoch.may_write() {
            true => self.take_over(),
            false => self.stand_by(),
        }
    }

    /// Everything is looked at once: whoever led before may have left anything half done.
    fn take_over(&mut self) {
        self.pauses.clear();
        self.held.clear();
        self.batch.decided.clear();
        self.nominations = Nominations::default();
        self.adopt_unregistered();
        self.enqueue(Key::Collect);
        self.reconsider();
    }

    fn reconsider(&mut self) {
        let claims = self.cache.claims.values().map(|claim| Key::Claim(claim.name_any()));
        let nodes = self.cache.nodes.values().map(|node| Key::Node(node.name_any()));
        let pools = self.cache.pools.values().map(|pool| Key::Pool(pool.name_any()));
        let all: Vec<Key> = claims.chain(nodes).chain(pools).collect();
        all.into_iter().for_each(|key| self.enqueue(key));
        if !self.registry.node_groups().is_empty() {
            self.enqueue(Key::NodeGroups);
        }
        self.enqueue(Key::Disruption);
        self.enqueue(Key::Provision);
    }

    /// What was begun is let go: the next leader finds it in the objects.
    fn stand_by(&mut self) {
        self.registry.providers().iter().for_each(|provider| provider.stand_down());
        self.to_adopt.clear();
        self.empty_since.clear();
        self.leaving.clear();
        self.unneeded_since.clear();
    }

    /// A step that nobody carries out. Who only wants to see what would be done is told.
    pub(crate) fn imagine(&mut self, key: Key, step: Step, moment: Moment) {
        if !self.settings.dry_run {
            return;
        }
        let commands: Vec<&Command> = step.each.iter().chain(&step.commands).collect();
        for decided in step.decisions {
            self.journal.record(decided, &key, &commands, moment);
        }
        if let Some(again) = step.requeue_at {
            let wait = std::time::Duration::try_from(again.duration_since(moment.now)).unwrap_or_default();
            self.requeue_after(&key, wait);
        }
    }
}
