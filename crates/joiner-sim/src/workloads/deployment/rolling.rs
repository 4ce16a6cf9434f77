//! From the old sets to the new one: step by step, or all at once.

use super::Rollout;
use crate::cache::Cache;
use crate::object::{Fields, Kind};
use crate::workloads::is_finished;

impl Rollout<'_> {
    /// A rolling update.
    pub(super) fn roll(&mut self) {
        if self.ensure_new() && !self.grow_new() && !self.shrink_old() && self.is_complete() {
            self.clean_up();
        }
        self.sync_status();
    }

    /// The old pods end before the first new one begins.
    pub(super) fn roll_by_recreation(&mut self, cache: &Cache) {
        let mut shrunk = false;
        for index in self.old().collect::<Vec<_>>() {
            if self.sets[index].replicas > 0 {
                shrunk |= self.resize(index, 0);
            }
        }
        if !shrunk && !self.old_pods_remain(cache) {
            if self.ensure_new() {
                if let Some(index) = self.new {
                    self.resize(index, self.replicas);
                }
                if self.is_complete() {
                    self.clean_up();
                }
            }
        } else if self.new.is_some() {
            self.keep_revision();
        }
        self.sync_status();
    }

    fn old_pods_remain(&self, cache: &Cache) -> bool {
        let mut pods =
            self.old().flat_map(|index| cache.managed_by(self.sets[index].object.uid(), Kind::Pod));
        pods.any(|(_, pod)| !is_finished(pod))
    }

    fn grow_new(&mut self) -> bool {
        let Some(index) = self.new else { return false };
        let present = self.sets[index].replicas;
        if present == self.replicas {
            return false;
        }
        let size = if present > self.replicas { self.replicas } else { self.room_for_new() };
        self.resize(index, size)
    }

    /// As many old pods go as may be missing, the ones that do not work first.
    fn shrink_old(&mut self) -> bool {
        let old: Vec<usize> = self.old().filter(|index| self.sets[*index].replicas > 0).collect();
        if old.is_empty() {
            return false;
        }
        let least = self.replicas - self.unavailable;
        let new_unavailable =
            self.new.map_or(0, |index| self.sets[index].replicas - self.sets[index].available);
        let most = self.total() - least - new_unavailable;
        if most <= 0 {
            return false;
        }
        let mut cleaned = 0;
        let mut shrunk = false;
        for index in &old {
            let set = &self.sets[*index];
            if cleaned >= most || set.available == set.replicas {
                continue;
            }
            let count = (most - cleaned).min(set.replicas - set.available);
            let size = set.replicas - count;
            if count > 0 {
                cleaned += count;
                shrunk |= self.resize(*index, size);
            }
        }
        let available: i64 = self.sets.iter().map(|set| set.available).sum();
        let mut left = available - least;
        for index in &old {
            let present = self.sets[*index].replicas;
            if left <= 0 || present == 0 {
                continue;
            }
            let count = present.min(left);
            left -= count;
            shrunk |= self.resize(*index, present - count);
        }
        shrunk
    }

    /// Whether the last status says that everything wanted is there, and nothing else.
    fn is_complete(&self) -> bool {
        let number = |field: &str| self.deployment.number(&["status", field]).unwrap_or(0);
        number("updatedReplicas") == self.replicas
            && number("replicas") == self.replicas
            && number("availableReplicas") == self.replicas
            && number("observedGeneration") >= self.deployment.generation()
    }
}
