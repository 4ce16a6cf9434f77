//! Trying one pod: existing nodes, open machines, a new machine; rung by rung.

mod fresh;
mod machines;
mod nodes;
mod settle;
mod wants;

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::model::ids::*;
use crate::model::{FixedState, PodClass, Relaxed, ResVec, Snapshot, fixed_state};
use crate::offer_set::OfferSet;
use crate::pack::groups::Selected;
use crate::pack::scratch::{Growth, Scratch, Spot};
use crate::pack::suitors::Suitor;

/// What is remembered per class between attempts.
#[derive(Debug)]
pub(crate) struct Wants {
    by_class: Vec<Vec<Option<std::rc::Rc<Want>>>>,
    /// The version of the state at which all rungs of a class failed.
    failed_at: Vec<Option<u64>>,
    fresh: HashMap<(PoolIdx, ReqId, u32), Option<Fresh>, FixedState>,
    /// What machines opened for one kind of pod and pinned hold of their pool's limits.
    pinned: HashMap<(PoolIdx, ReqId, u32), Fresh, FixedState>,
    any_limits_or_reservations: bool,
}

/// The offerings of a machine opened for one kind of pod.
#[derive(Debug, Clone)]
struct Fresh {
    offers: OfferSet,
    largest: ResVec,
}

/// What a class wants on one rung, prepared for asking.
#[derive(Debug)]
pub(crate) struct Want {
    pub(crate) class: ClassIdx,
    pub(crate) rung: usize,
    finder: u32,
    own: Vec<Own>,
    selected: std::rc::Rc<Selected>,
    keys: Vec<WantKey>,
    /// Who of the run wants something of such pods.
    suitors: Vec<Suitor>,
    /// A machine opened for other pods accepts no pod that a machine of its own would not.
    steady: bool,
}

#[derive(Debug)]
struct WantKey {
    key: KeyId,
    /// A place without the key is refused.
    must_exist: bool,
    /// Values new machines could have, by name.
    values: std::rc::Rc<[ValueId]>,
    /// Every offering names its values of the key; otherwise only a look at a machine's offerings tells.
    always_named: bool,
}

#[derive(Debug)]
struct Own {
    group: GroupIdx,
    key: KeyId,
    by_host: bool,
    counts_itself: bool,
    /// For affinity: the groups of the same terms, one per key. Nobody is there only if nobody is in any of them.
    siblings: SmallVec<[GroupIdx; 1]>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Spread {
        max_skew: i64,
        min_domains: i64,
        domains: std::rc::Rc<[ValueId]>,
    },
    Affinity,
    /// Required of others, the pods it keeps away.
    AntiAffinity {
        targets: std::rc::Rc<[(std::rc::Rc<[ValueId]>, u32)]>,
    },
}

/// What holds for one attempt: the minimum of each own spread.
struct Query {
    minima: SmallVec<[i64; 4]>,
}

enum HostVerdict {
    Ok,
    NotNow,
    Never,
}

enum Verdict {
    Accepts(Growth),
    NotNow,
    Never,
}

/// What became of an attempt once requirements and room had been found to match.
enum Settled {
    Accepts(Growth),
    /// No valid value leaves an offering.
    NoOffering,
    /// An offering is left, but minValues or volume limits object.
    Refused,
    /// An offering is left, but the reservations are taken.
    Reserved,
}

/// What becomes of what a pod only prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preferences {
    /// It is given up only where nothing could keep it.
    Kept,
    /// Nobody asks.
    Ignored,
}

/// Why no rung helped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Nothing accepts the pod.
    Refused,
    /// It waits for reserved capacity; nothing weaker may be tried.
    Reserved,
}

impl Wants {
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        Self {
            by_class: snapshot.classes.iter().map(|class| vec![None; class.rungs.len()]).collect(),
            failed_at: vec![None; snapshot.classes.len()],
            fresh: HashMap::with_hasher(fixed_state()),
            pinned: HashMap::with_hasher(fixed_state()),
            any_limits_or_reservations: !snapshot.reservations.is_empty()
                || snapshot.pools.iter().any(|pool| !pool.limits.is_empty()),
        }
    }

    pub(crate) fn forget_failures(&mut self) {
        self.failed_at.fill(None);
    }
}

impl<'s> Scratch<'s> {
    /// Places a pod on the first place that accepts it, giving up preferences one by one.
    pub fn place(&mut self, pod: PodIdx) -> Result<(Spot, usize), Failure> {
        let class_idx = self.snapshot.pods[pod.at()].class;
        let class = &self.snapshot.classes[class_idx.at()];
        if class.refused.is_some() || self.wants.failed_at[class_idx.at()] == Some(self.version) {
            return Err(Failure::Refused);
        }
        if self.wants.failed_at[class_idx.at()] == Some(u64::MAX) {
            return Err(Failure::Refused);
        }
        let plain = self.given_up.get(class_idx.at()).copied().unwrap_or(false);
        let first = if plain { class.first_without_preferences() } else { 0 };
        for rung in first..class.rungs.len() {
            let want = self.want(class_idx, rung);
            let query = self.query(&want);
            if !self.snapshot.nodes.is_empty()
                && let Some(node) = self.find_node(&want, &query)
            {
                self.put_on_node(pod, node);
                return Ok((Spot::Node(node), rung));
            }
            if let Some((machine, growth)) = self.find_machine(&want, &query) {
                self.grow(pod, machine, growth);
                return Ok((Spot::Machine(machine), rung));
            }
            match self.open_machine(pod, &want, &query) {
                Ok(Some(machine)) => return Ok((Spot::Machine(machine), rung)),
                Ok(None) => {}
                Err(failure) => return Err(failure),
            }
        }
        let lasting = !self.wants.any_limits_or_reservations
            && class.volumes.is_empty()
            && (0..class.rungs.len()).all(|rung| !self.want(class_idx, rung).may_loosen());
        self.wants.failed_at[class_idx.at()] = Some(if lasting { u64::MAX } else { self.version });
        Err(Failure::Refused)
    }

    /// Places a pod on the first node that accepts it; no machine is opened. What it prefers is kept as long as a new machine could, or does not
    /// matter at all.
    pub(crate) fn place_on_node(
        &mut self,
        pod: PodIdx,
        preferences: Preferences,
    ) -> Option<(NodeIdx, usize)> {
        let class_idx = self.snapshot.pods[pod.at()].class;
        let class = &self.snapshot.classes[class_idx.at()];
        if class.refused.is_some() {
            return None;
        }
        let first = match preferences {
            Preferences::Kept => 0,
            Preferences::Ignored => class.first_without_preferences(),
        };
        for rung in first..class.rungs.len() {
            let want = self.want(class_idx, rung);
            let query = self.query(&want);
            if let Some(node) = self.find_node(&want, &query) {
                self.put_on_node(pod, node);
                return Some((node, rung));
            }
            let gives_up =
                class.rungs.get(rung + 1).is_some_and(|next| next.relaxed != Some(Relaxed::RequiredTerm));
            if gives_up && preferences == Preferences::Kept && self.could_open(&want, &query) {
                return None;
            }
        }
        None
    }

    /// Whether some pool would open a machine for such a pod.
    fn could_open(&mut self, want: &Want, query: &Query) -> bool {
        let new_host = self.machine_host(MachineIdx::new(self.machines.len()));
        matches!(self.host_verdict(want, new_host), HostVerdict::Ok)
            && (0..self.templates.len())
                .any(|at| matches!(self.try_pool(want, query, PoolIdx::new(at), true), Settled::Accepts(_)))
    }

    /// Lets go of what is remembered for a class whose pods are all done.
    pub fn finish_class(&mut self, class: ClassIdx) {
        for want in self.wants.by_class[class.at()].iter_mut().filter_map(Option::take) {
            self.finders.release(want.finder);
        }
    }

    pub(crate) fn want(&mut self, class_idx: ClassIdx, rung_at: usize) -> std::rc::Rc<Want> {
        if let Some(known) = &self.wants.by_class[class_idx.at()][rung_at] {
            return known.clone();
        }
        let want = std::rc::Rc::new(self.prepare(class_idx, rung_at));
        self.wants.by_class[class_idx.at()][rung_at] = Some(want.clone());
        want
    }
}

impl Want {
    /// Whether a refusal may turn into a yes without room growing: spread and affinity can, and what others open may help.
    fn may_loosen(&self) -> bool {
        !self.steady
            || self.own.iter().any(|own| match own.kind {
                Kind::Spread { .. } => !own.by_host,
                Kind::Affinity => true,
                Kind::AntiAffinity { .. } => false,
            })
    }
}

struct Attempt<'a> {
    want: &'a Want,
    query: &'a Query,
    pool: PoolIdx,
    machine: Option<MachineIdx>,
    /// Whether the pool's limits are asked.
    limits: bool,
}

/// The volume alternatives of a class, or one that asks nothing.
fn alternatives(class: &PodClass) -> impl Iterator<Item = Option<ReqId>> + '_ {
    let none = class.volume_alternatives.is_empty().then_some(None);
    none.into_iter().chain(class.volume_alternatives.iter().copied().map(Some))
}

/// A rule among the pods of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostRule {
    /// Where the pod is, so many pods of a group may be at most, the pod itself included if it is of the group.
    AtMost {
        /// The group.
        group: GroupIdx,
        /// So many.
        most: u32,
    },
    /// Where the pod is there must be a pod of a group.
    Company {
        /// The group.
        group: GroupIdx,
    },
}

/// A spread of a pod's own by a key that is not the host name.
#[derive(Debug, Clone)]
pub(crate) struct OwnSpread {
    /// Its group.
    pub(crate) group: GroupIdx,
    /// By how many pods a value may exceed the least.
    pub(crate) max_skew: i64,
    /// With fewer values than this the least counts as none.
    pub(crate) min_domains: i64,
    /// The values that count.
    pub(crate) domains: std::rc::Rc<[ValueId]>,
}

impl Want {
    /// The key, and the values new machines can have, where the pod's own spreads by that one key are all that binds it to a topology
    /// beyond its host.
    pub(crate) fn only_spread_by(&self) -> Option<(KeyId, std::rc::Rc<[ValueId]>)> {
        let [WantKey { key, values, always_named: true, .. }] = &self.keys[..] else { return None };
        let spreads = self.own.iter().filter(|own| !own.by_host);
        let only = self.selected.pin_keys.is_empty()
            && spreads.into_iter().all(|own| own.counts_itself && matches!(own.kind, Kind::Spread { .. }));
        only.then(|| (*key, values.clone()))
    }

    /// The pod's own spreads by other keys than the host name.
    pub(crate) fn own_spreads(&self) -> impl Iterator<Item = OwnSpread> + '_ {
        self.own.iter().filter(|own| !own.by_host).filter_map(|own| match &own.kind {
            Kind::Spread { max_skew, min_domains, domains } => Some(OwnSpread {
                group: own.group,
                max_skew: *max_skew,
                min_domains: *min_domains,
                domains: domains.clone(),
            }),
            Kind::Affinity | Kind::AntiAffinity { .. } => None,
        })
    }

    /// What the pod's own constraints say about others on its host.
    pub(crate) fn host_rules(&self) -> impl Iterator<Item = HostRule> + '_ {
        self.own.iter().filter(|own| own.by_host).map(|own| match &own.kind {
            Kind::Spread { max_skew, .. } => {
                HostRule::AtMost { group: own.group, most: (*max_skew).clamp(0, i64::from(u32::MAX)) as u32 }
            }
            Kind::AntiAffinity { .. } => {
                HostRule::AtMost { group: own.group, most: u32::from(own.counts_itself) }
            }
            Kind::Affinity => HostRule::Company { group: own.group },
        })
    }
}
