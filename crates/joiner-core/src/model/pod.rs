//! Pods, grouped into classes of those that are alike to a scheduler.

use std::sync::Arc;

use super::ResVec;
use super::ids::{ClassIdx, GroupIdx, IdentityIdx, KeyId, ReqId, TolerationsId, VolumeIdx};

/// What selectors see of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Its namespace.
    pub namespace: u32,
    /// Its labels as requirements of one value each; keys no selector names are left out.
    pub labels: ReqId,
}

/// A pending pod.
#[derive(Debug, Clone)]
pub struct Pod {
    /// Its class.
    pub class: ClassIdx,
    /// Seconds since the epoch; pods without a time come first.
    pub created: Option<i64>,
    /// UID, empty if unknown.
    pub uid: Arc<str>,
    /// `namespace/name`.
    pub name: Arc<str>,
}

/// All pods that are alike to a scheduler.
#[derive(Debug, Clone)]
pub struct PodClass {
    /// What selectors see.
    pub identity: IdentityIdx,
    /// What it asks for, `pods: 1` included.
    pub requests: ResVec,
    /// Larger first, when limits bind.
    pub priority: i32,
    /// What it tolerates.
    pub tolerations: TolerationsId,
    /// Host ports it takes.
    pub ports: Vec<Port>,
    /// Volumes it attaches, with their drivers.
    pub volumes: Vec<VolumeUse>,
    /// Where its volumes can be reached: any one of these; empty = anywhere.
    pub volume_alternatives: Vec<ReqId>,
    /// Required anti-affinity terms, which also bind every pod they select.
    pub anti_affinity: Vec<GroupIdx>,
    /// The steps of relaxation, strictest first; never empty.
    pub rungs: Vec<Rung>,
    /// Set if the pod may not be looked at, with the reason.
    pub refused: Option<Box<str>>,
    /// Virtual pods of a buffer: placed after all others, so they never take room from a real pod.
    pub filler: bool,
}

impl PodClass {
    /// The first rung on which nothing is left that the pod only prefers; those after it have other required terms.
    pub fn first_without_preferences(&self) -> usize {
        self.rungs.iter().rposition(|rung| rung.relaxed != Some(Relaxed::RequiredTerm)).unwrap_or(0)
    }

    /// What a pod has given up on a rung. Required terms come back with every preference that goes: only those given up since count.
    pub fn given_up_on(&self, rung: usize) -> Vec<Relaxed> {
        let steps = &self.rungs[..=rung];
        let is_term = |relaxed: &Option<Relaxed>| *relaxed == Some(Relaxed::RequiredTerm);
        let level = steps.iter().rposition(|step| !is_term(&step.relaxed)).unwrap_or(0);
        let kept = steps.iter().enumerate().filter(|(at, step)| *at > level || !is_term(&step.relaxed));
        kept.filter_map(|(_, step)| step.relaxed).collect()
    }
}

/// One step of a pod's relaxation ladder.
#[derive(Debug, Clone)]
pub struct Rung {
    /// Selector, first required term, heaviest preferred term.
    pub ask: ReqId,
    /// The same without the preferred term.
    pub strict: ReqId,
    /// PreferNoSchedule taints do not count any more.
    pub spare_preferred: bool,
    /// Spread, affinity and anti-affinity groups in force.
    pub groups: Vec<GroupIdx>,
    /// What was given up to get here from the rung before.
    pub relaxed: Option<Relaxed>,
}

/// What a step of relaxation gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relaxed {
    /// A required node-affinity term of several, for the next one.
    RequiredTerm,
    /// A preferred pod-affinity term.
    PodAffinity,
    /// A preferred pod anti-affinity term.
    PodAntiAffinity,
    /// A preferred node-affinity term.
    NodeAffinity,
    /// A ScheduleAnyway spread constraint.
    Spread,
    /// PreferNoSchedule taints.
    PreferNoSchedule,
}

/// A host port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    /// Empty for any address.
    pub host_ip: Box<str>,
    /// The number.
    pub port: u16,
    /// TCP, UDP or SCTP.
    pub protocol: Box<str>,
}

impl Port {
    /// Whether two pods can't have both on one machine.
    pub fn clashes(&self, other: &Port) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.host_ip.is_empty() || other.host_ip.is_empty() || self.host_ip == other.host_ip)
    }
}

/// A volume a pod attaches through a driver whose number per node may be limited.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VolumeUse {
    /// The claim.
    pub volume: VolumeIdx,
    /// Its CSI driver.
    pub driver: Box<str>,
}

/// Which pods a topology group counts: those that match every term.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Matcher {
    /// All must match; no term at all matches nothing.
    pub terms: Vec<MatcherTerm>,
}

/// Namespaces and a label selector.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MatcherTerm {
    /// Sorted; `None` = every namespace.
    pub namespaces: Option<Vec<u32>>,
    /// `None` matches nothing, an empty set everything.
    pub selector: Option<ReqId>,
}

/// Which nodes a spread constraint looks at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeFilter {
    /// Any of these (selector with each required term); `None` = every node.
    pub asks: Option<Vec<ReqId>>,
    /// Nodes whose hard taints these do not tolerate are left out; `None` = taints do not matter.
    pub tolerations: Option<TolerationsId>,
}

/// A topology group: equal constraints of different pods share one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum GroupSpec {
    /// Even distribution over the values of a key.
    Spread {
        /// The topology key.
        key: KeyId,
        /// The pods counted.
        matcher: Matcher,
        /// The largest difference allowed.
        max_skew: i32,
        /// Fewer domains than this make the minimum zero.
        min_domains: Option<i32>,
        /// The nodes counted.
        filter: NodeFilter,
    },
    /// Only where such pods are.
    Affinity {
        /// The topology key.
        key: KeyId,
        /// The pods looked for.
        matcher: Matcher,
    },
    /// Only where such pods are not.
    AntiAffinity {
        /// The topology key.
        key: KeyId,
        /// The pods kept away from.
        matcher: Matcher,
    },
}

impl GroupSpec {
    /// The topology key.
    pub fn key(&self) -> KeyId {
        match self {
            Self::Spread { key, .. } | Self::Affinity { key, .. } | Self::AntiAffinity { key, .. } => *key,
        }
    }

    /// The pods it counts.
    pub fn matcher(&self) -> &Matcher {
        match self {
            Self::Spread { matcher, .. }
            | Self::Affinity { matcher, .. }
            | Self::AntiAffinity { matcher, .. } => matcher,
        }
    }
}
