//! Notes on what the input holds and nobody would see in the plan, counted.

use std::collections::BTreeSet;

use joiner_api::names;

use crate::cluster::{Cluster, PodRecord, Standing};

impl Cluster {
    /// What is left out for now and would be missed in the counts.
    pub(crate) fn note_idle(&mut self) {
        let (gated, suspended) = (std::mem::take(&mut self.gated), std::mem::take(&mut self.suspended));
        if let Some(example) = gated.first() {
            self.notes.push(match gated.len() {
                1 => format!("pod `{example}` waits for its scheduling gates and is not planned for"),
                n => format!(
                    "{n} pods wait for their scheduling gates and are not planned for, e.g. `{example}`"
                ),
            });
        }
        if let Some(example) = suspended.first() {
            self.notes.push(match suspended.len() {
                1 => format!("Job `{example}` is suspended and brings no pods"),
                n => format!("{n} Jobs are suspended and bring no pods, e.g. `{example}`"),
            });
        }
    }

    /// Pods that choose nodes by labels no node carries.
    pub(crate) fn note_paper_keys(&mut self) {
        for (at, (paper, real)) in names::PAPER_ALIASES.iter().enumerate() {
            let specs: BTreeSet<u32> = (0u32..)
                .zip(&self.specs)
                .filter(|(_, digest)| digest.paper_keys.contains(&at))
                .map(|(id, _)| id)
                .collect();
            let daemons: Vec<&String> = self
                .daemons
                .iter()
                .filter(|(_, daemon)| daemon.pod.paper_keys.contains(&at))
                .map(|(name, _)| name)
                .collect();
            let mut notes = Vec::new();
            if !specs.is_empty() {
                let asks = |pod: &PodRecord| pod.standing == Standing::Pending && specs.contains(&pod.spec);
                let mut pods = self.pods.iter().map(|(_, pod)| pod).filter(|pod| asks(pod));
                if let Some(first) = pods.next() {
                    let example = &first.name;
                    notes.push(match pods.count() {
                        0 => format!("pod `{example}` chooses nodes"),
                        others => format!("{} pods, e.g. `{example}`, choose nodes", others + 1),
                    });
                }
            }
            notes.extend(daemons.iter().map(|name| format!("DaemonSet `{name}` chooses nodes")));
            self.notes.extend(
                notes
                    .into_iter()
                    .map(|who| format!("{who} by `{paper}`: no node carries it, read as `{real}`")),
            );
        }
    }
}
