//! Why a node refuses a pod, and the sentence made of the reasons of all nodes.

use joiner_core::model::Names;
use joiner_core::model::names::PODS;
use smallvec::SmallVec;

use super::nodes::NodeId;
use super::queue::{Rule, Rules};

/// One reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    Unschedulable,
    Taints,
    NodeAffinity,
    Ports,
    /// Too little of a lane.
    Insufficient(u16),
    ClaimTaken,
    VolumeCount,
    VolumeNode,
    VolumeBind,
    VolumeMissing,
    VolumeZone,
    Spread,
    SpreadLabel,
    Affinity,
    AntiAffinity,
    ExistingAntiAffinity,
    /// Not one of the nodes that the pod names.
    NotNamed,
    NotHelpful,
    NoVictims,
}

impl Reason {
    fn text(self, names: &Names) -> String {
        match self {
            Self::Insufficient(lane) if usize::from(lane) == PODS => "Too many pods".to_owned(),
            Self::Insufficient(lane) => format!("Insufficient {}", names.lane_text(usize::from(lane))),
            other => other.fixed().to_owned(),
        }
    }

    fn fixed(self) -> &'static str {
        match self {
            Self::Unschedulable => "node(s) were unschedulable",
            Self::Taints => "node(s) had untolerated taint(s)",
            Self::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            Self::Ports => "node(s) didn't have free ports for the requested pod ports",
            Self::Insufficient(_) => "Insufficient",
            Self::ClaimTaken => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
            }
            Self::VolumeCount => "node(s) exceed max volume count",
            Self::VolumeNode => "node(s) didn't match PersistentVolume's node affinity",
            Self::VolumeBind => "node(s) didn't find available persistent volumes to bind",
            Self::VolumeMissing => {
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
            }
            Self::VolumeZone => "node(s) had no available volume zone",
            Self::Spread => "node(s) didn't match pod topology spread constraints",
            Self::SpreadLabel => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
            Self::Affinity => "node(s) didn't match pod affinity rules",
            Self::AntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Self::ExistingAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
            Self::NotNamed => "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            Self::NotHelpful => "Preemption is not helpful for scheduling",
            Self::NoVictims => "No preemption victims found for incoming pod",
        }
    }
}

/// A node's refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub rule: Rule,
    pub reasons: SmallVec<[Reason; 2]>,
    /// Fewer pods on the node might help.
    pub resolvable: bool,
}

impl Refusal {
    /// A refusal that no preemption changes.
    pub(crate) fn lasting(rule: Rule, reason: Reason) -> Self {
        Self { rule, reasons: SmallVec::from_slice(&[reason]), resolvable: false }
    }

    /// A refusal that preemption may change.
    pub(crate) fn passing(rule: Rule, reason: Reason) -> Self {
        Self { resolvable: true, ..Self::lasting(rule, reason) }
    }
}

/// The refusals of all nodes.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    pub list: Vec<(NodeId, Refusal)>,
    /// What holds for nodes that were not asked.
    pub others: Option<Reason>,
}

impl Refusals {
    /// The rules that refused.
    pub(crate) fn rules(&self) -> Rules {
        let mut out = Rules::default();
        for (_, refusal) in &self.list {
            out.add(refusal.rule);
        }
        if self.others.is_some() {
            out.add(Rule::NodeAffinity);
        }
        out
    }

    /// `0/3 nodes are available: …`, each reason with the number of nodes that gave it.
    pub(crate) fn sentence(&self, names: &Names, nodes: usize) -> String {
        // Few reasons, many nodes.
        let mut counts: Vec<(Reason, usize)> = Vec::new();
        let mut count =
            |reason: Reason, by: usize| match counts.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, count)) => *count += by,
                None => counts.push((reason, by)),
            };
        for (_, refusal) in &self.list {
            refusal.reasons.iter().for_each(|reason| count(*reason, 1));
        }
        if let Some(reason) = self.others
            && self.list.len() < nodes
        {
            count(reason, nodes - self.list.len());
        }
        let mut texts: Vec<String> =
            counts.into_iter().map(|(reason, count)| format!("{count} {}", reason.text(names))).collect();
        texts.sort();
        let start = format!("0/{nodes} nodes are available:");
        if texts.is_empty() { start } else { format!("{start} {}.", texts.join(", ")) }
    }
}
