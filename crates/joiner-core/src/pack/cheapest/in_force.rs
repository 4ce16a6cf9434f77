//! Which topology groups bind the pods of a finished run.
//!
//! A pod may have been placed on a lower rung of its ladder, or with all preferences given up. What nobody keeps to any more counts
//! nobody: pods that match it are as free as if it had never been written.

use crate::model::ids::GroupIdx;
use crate::pack::scratch::Scratch;
use crate::pack::upstream::Outcome;

/// What holds for the groups of a run.
#[derive(Debug)]
pub(super) struct InForce {
    /// Per group: some pod keeps to it where it was placed.
    pub binds: Vec<bool>,
    /// Per group: it counts pods of this run that do not keep to it themselves.
    pub strangers: Vec<bool>,
}

impl InForce {
    /// Looks at every pod that was placed.
    pub fn new(scratch: &mut Scratch, outcome: &Outcome) -> Self {
        let snapshot = scratch.snapshot;
        let mut binds = vec![false; snapshot.groups.len()];
        let mut strangers = vec![false; snapshot.groups.len()];
        let mut seen: Vec<Vec<usize>> = vec![Vec::new(); snapshot.classes.len()];
        for (at, placed) in outcome.placed.iter().enumerate() {
            let class = snapshot.pods[at].class;
            let Some((_, rung)) = *placed else { continue };
            if !seen[class.at()].contains(&rung) {
                seen[class.at()].push(rung);
                let class = &snapshot.classes[class.at()];
                let own: Vec<GroupIdx> =
                    class.rungs[rung].groups.iter().chain(&class.anti_affinity).copied().collect();
                own.iter().for_each(|group| binds[group.at()] = true);
                let selected = scratch.groups.selected(snapshot, &scratch.algebra, class.identity);
                for group in selected.counted.iter().filter(|group| !own.contains(group)) {
                    strangers[group.at()] = true;
                }
            }
        }
        for (group, _) in snapshot.bound_anti_affinity() {
            binds[group.at()] = true;
        }
        Self { binds, strangers }
    }
}
