//! Too many nodes that are not ready: whatever it is (a network, a control plane, a bad image), taking nodes away by one's own will makes it worse.
//! Machines for pods are bought all the same.
//!
//! A new process does not know how it was before. The conditions of nodes say since when they are ready: who became so a short while ago counts as
//! not ready at the first look.

use joiner_provider::Monotonic;

use crate::settings::BreakerSettings;

/// Nodes that neither start nor go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Nodes {
    /// All of them.
    pub all: usize,
    /// Those that are not ready.
    pub unready: usize,
}

impl Nodes {
    fn are_too_many(self, settings: &BreakerSettings) -> bool {
        let Self { all, unready } = self;
        settings.unready_percent > 0
            && unready > settings.unready_nodes
            && unready * 100 > all * settings.unready_percent
    }
}

/// What is remembered.
#[derive(Debug, Default)]
pub struct ClusterHealth {
    /// When too many were last found.
    last: Option<Monotonic>,
    tripped: bool,
    looked: bool,
}

/// What has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Too many are not ready.
    Worse,
    /// It has been better for long enough.
    Better,
}

impl ClusterHealth {
    /// Whether nothing may be taken away by one's own will.
    pub fn is_tripped(&self) -> bool {
        self.tripped
    }

    /// Takes in how nodes are. `lately_unready` tells how many became ready within the quiet time; it is asked once.
    pub fn observe(
        &mut self,
        nodes: Nodes,
        lately_unready: impl FnOnce() -> usize,
        now: Monotonic,
        settings: &BreakerSettings,
    ) -> Option<Turn> {
        let mut counted = nodes;
        if !std::mem::replace(&mut self.looked, true) {
            counted.unready += lately_unready();
        }
        if counted.are_too_many(settings) {
            self.last = Some(now);
        }
        let tripped = self.last.is_some_and(|last| now < last + settings.unready_quiet);
        let before = std::mem::replace(&mut self.tripped, tripped);
        match (before, tripped) {
            (false, true) => Some(Turn::Worse),
            (true, false) => Some(Turn::Better),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(second: u64) -> Monotonic {
        Monotonic::new(Duration::from_secs(second))
    }

    #[test]
    fn more_than_three_and_more_than_forty_five_percent_are_too_many() {
        let settings = BreakerSettings::default();
        for (all, unready, expected) in [
            (0, 0, false),
            (3, 3, false),
            (4, 4, true),
            (8, 4, true),
            (9, 4, false),
            (100, 45, false),
            (100, 46, true),
        ] {
            assert_eq!(Nodes { all, unready }.are_too_many(&settings), expected, "{unready} of {all}");
        }
        let never = BreakerSettings { unready_percent: 0, ..settings };
        assert!(!Nodes { all: 9, unready: 9 }.are_too_many(&never));
    }

    #[test]
    fn it_must_be_better_for_two_minutes() {
        let settings = BreakerSettings::default();
        let mut health = ClusterHealth::default();
        let mut see = |unready: usize, second: u64| {
            health.observe(Nodes { all: 10, unready }, || 0, at(second), &settings)
        };
        assert_eq!(see(4, 0), None);
        assert_eq!(see(5, 1), Some(Turn::Worse));
        assert_eq!(see(6, 2), None, "told once");
        assert_eq!(see(0, 121), None);
        assert_eq!(see(5, 121), None);
        assert_eq!(see(0, 240), None);
        assert_eq!(see(0, 241), Some(Turn::Better));
        assert_eq!(see(0, 999), None);
    }

    #[test]
    fn a_new_process_counts_those_that_became_ready_lately() {
        let settings = BreakerSettings::default();
        let mut health = ClusterHealth::default();
        let nodes = Nodes { all: 10, unready: 2 };
        assert_eq!(health.observe(nodes, || 3, at(500), &settings), Some(Turn::Worse));
        assert!(health.is_tripped());
        assert_eq!(health.observe(nodes, || 3, at(620), &settings), Some(Turn::Better), "only at first");
    }
}
