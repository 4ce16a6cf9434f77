//! Another number of replicas: for the one set there is, or in proportion while a rollout is under way.

use super::{MAXIMUM, Rollout};
use crate::object::Fields;

impl Rollout<'_> {
    /// Brings the sets to the wanted size.
    pub(super) fn scale(&mut self) {
        if let Some(only) = self.active_or_latest() {
            if self.sets[only].replicas != self.replicas {
                self.resize(only, self.replicas);
            } else if self.sets[only].replicas > 0 {
                // The numbers it was scaled for are those of the past.
                self.resize(only, self.replicas);
            }
            return;
        }
        if self.is_saturated() {
            for index in self.old().collect::<Vec<_>>() {
                if self.sets[index].replicas > 0 {
                    self.resize(index, 0);
                }
            }
            return;
        }
        if !self.recreate {
            self.scale_in_proportion();
        }
    }

    /// The one set with replicas; without any, the new one or else the latest.
    fn active_or_latest(&self) -> Option<usize> {
        let mut active = (0..self.sets.len()).filter(|index| self.sets[*index].replicas > 0);
        match (active.next(), active.next()) {
            (None, _) => self.new.or_else(|| self.sets.len().checked_sub(1)),
            (Some(only), None) => Some(only),
            (Some(_), Some(_)) => None,
        }
    }

    /// Whether the new set has all replicas, and they are available.
    fn is_saturated(&self) -> bool {
        self.new.is_some_and(|index| {
            let set = &self.sets[index];
            set.replicas == self.replicas
                && set.annotation_number(super::DESIRED) == Some(self.replicas)
                && set.available == self.replicas
        })
    }

    fn scale_in_proportion(&mut self) {
        let allowed = if self.replicas > 0 { self.replicas + self.surge } else { 0 };
        let to_add = allowed - self.total();
        let mut active: Vec<usize> =
            (0..self.sets.len()).filter(|index| self.sets[*index].replicas > 0).collect();
        // The larger first; among equals the newer when growing, the older when shrinking.
        active.sort_by(|a, b| {
            let (one, other) = (&self.sets[*a], &self.sets[*b]);
            let age = if to_add > 0 { b.cmp(a) } else { a.cmp(b) };
            other.replicas.cmp(&one.replicas).then(age)
        });
        let mut added = 0;
        let mut sizes = Vec::new();
        for index in &active {
            let proportion = if to_add == 0 { 0 } else { self.proportion(*index, to_add, added) };
            added += proportion;
            sizes.push(self.sets[*index].replicas + proportion);
        }
        if let Some(first) = sizes.first_mut() {
            *first = (*first + to_add - added).max(0);
        }
        for (index, size) in active.into_iter().zip(sizes) {
            self.resize(index, size);
        }
    }

    fn proportion(&self, index: usize, to_add: i64, added: i64) -> i64 {
        if to_add == added {
            return 0;
        }
        let fraction = self.fraction(index);
        let allowed = to_add - added;
        if to_add > 0 { fraction.min(allowed) } else { fraction.max(allowed) }
    }

    fn fraction(&self, index: usize) -> i64 {
        let set = &self.sets[index];
        if self.replicas == 0 {
            return -set.replicas;
        }
        let before = set
            .annotation_number(MAXIMUM)
            .filter(|before| *before > 0)
            .or_else(|| self.deployment.number(&["status", "replicas"]).filter(|before| *before > 0));
        let Some(before) = before else { return 0 };
        // Rounded to the nearest, halves up.
        let size = (2 * set.replicas * (self.replicas + self.surge) + before).div_euclid(2 * before);
        size - set.replicas
    }
}
