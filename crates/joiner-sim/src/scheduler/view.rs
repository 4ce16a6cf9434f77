//! One class of pods against the nodes: what never changes while nodes stay as they are, counts that follow, and the verdict of a node.
//!
//! The questions themselves are the core's ([`joiner_core::filter`], [`Toleration::tolerates`](joiner_core::model::Toleration::tolerates));
//! here they get their numbers. A planner's node narrows as pods come and never widens within a run; here nodes and pods come and go in any order,
//! so counts are kept up to date instead of refusals being remembered.

use joiner_core::filter;
use joiner_core::model::names::PODS;
use joiner_core::model::resources::{fits, lane_of};
use joiner_core::model::{Effect, Names, ResVec, Taint};
use smallvec::SmallVec;

use super::class::{Class, Spread};
use super::nodes::{MISSING, NodeId, NodeRow, Nodes, PodId};
use super::pod_counts::{Bearing, Counted, Least, PodCounts, Tally};
use super::pods::Pods;
use super::queue::Rule;
use super::reasons::{Reason, Refusal};
use super::terms::{MoreNamespaces, PodSelector};
use super::volumes::{PodVolumes, Site, Volumes};

/// What holds between a class and a node until the node's labels or taints change.
#[derive(Debug, Clone, Default)]
pub(crate) struct Static {
    version: u32,
    refusal: Option<Reason>,
    pub affinity_ok: bool,
    pub taints_ok: bool,
    /// PreferNoSchedule taints that are not tolerated.
    pub disliked: i64,
    /// Weights of preferred node affinity that match.
    pub preferred: i64,
}

/// A constraint with its counts.
#[derive(Debug)]
pub(crate) struct SpreadState {
    pub tally: Tally,
    pub by_host: bool,
    pub max_skew: i64,
    pub min_domains: i64,
    pub counts_itself: bool,
    pub least: Least,
    honor_affinity: bool,
    honor_taints: bool,
}

/// All that is kept of a class between attempts.
#[derive(Debug, Default)]
pub(crate) struct ClassState {
    pub statics: Vec<Static>,
    statics_epoch: u64,
    pub hard: Vec<SpreadState>,
    pub soft: Vec<SpreadState>,
    /// Nodes without all keys of soft constraints are left out.
    pub soft_needs_all: bool,
    pub affinity: Vec<Tally>,
    /// The pod matches its own affinity terms.
    pub own_kind: bool,
    pub anti: Vec<Tally>,
    pub inverse: Vec<Tally>,
    /// What draws the pod near, or keeps it off.
    pub pulls: Vec<(i64, Tally)>,
    carried_seen: usize,
    namespaces_epoch: u64,
    pub workloads_epoch: u64,
    pub used: u64,
}

impl ClassState {
    /// Everything but default spread, which [`ClassState::set_soft`] adds.
    pub(crate) fn new(names: &Names, counts: &mut PodCounts, nodes: &mut Nodes, class: &Class) -> Self {
        let mut state = Self { own_kind: !class.affinity.is_empty(), ..Self::default() };
        for term in &class.affinity {
            state.own_kind &= counts.selects(names, &term.pods, class.identity);
        }
        let all: Vec<PodSelector> = class.affinity.iter().map(|term| term.pods.clone()).collect();
        for term in &class.affinity {
            let counter = counts.counter(names, Counted { all: all.clone(), live_only: false });
            state.affinity.push(Tally::new(Some(counter), nodes.column(term.key)));
        }
        for term in &class.anti_affinity {
            let counter = counts.counter(names, Counted { all: vec![term.pods.clone()], live_only: false });
            state.anti.push(Tally::new(Some(counter), nodes.column(term.key)));
        }
        for (_, term) in &class.weighted {
            counts.counter(names, Counted { all: vec![term.pods.clone()], live_only: false });
        }
        for spread in class.spread.iter().filter(|spread| spread.hard) {
            state.hard.push(SpreadState::new(names, counts, nodes, class, spread));
        }
        let soft: Vec<Spread> = class.spread.iter().filter(|spread| !spread.hard).cloned().collect();
        state.set_soft(names, counts, nodes, class, &soft, true);
        state
    }

    /// Sets the soft constraints.
    pub(crate) fn set_soft(
        &mut self,
        names: &Names,
        counts: &mut PodCounts,
        nodes: &mut Nodes,
        class: &Class,
        soft: &[Spread],
        needs_all: bool,
    ) {
        self.soft = soft.iter().map(|spread| SpreadState::new(names, counts, nodes, class, spread)).collect();
        self.soft_needs_all = needs_all;
    }

    /// Brings everything up to date.
    pub(crate) fn catch_up(&mut self, names: &Names, counts: &PodCounts, nodes: &mut Nodes, class: &Class) {
        if self.statics_epoch != nodes.epoch {
            self.statics.resize(nodes.rows.len(), Static::default());
            for (row, known) in nodes.rows.iter().zip(&mut self.statics) {
                if row.present && known.version != row.version {
                    *known = Static::new(names, class, row);
                }
            }
            self.statics_epoch = nodes.epoch;
        }
        self.find_carried(names, counts, nodes, class);
        catch_up_spread(&mut self.hard, &self.statics, true, counts, nodes);
        catch_up_spread(&mut self.soft, &self.statics, self.soft_needs_all, counts, nodes);
        for spread in &mut self.hard {
            spread.least = spread.tally.least();
        }
        let tallies = self.affinity.iter_mut().chain(&mut self.anti).chain(&mut self.inverse);
        for tally in tallies.chain(self.pulls.iter_mut().map(|(_, tally)| tally)) {
            tally.catch_up(&counts.counters, &nodes.columns, nodes.epoch, |_| true);
        }
    }

    /// Finds terms that pods on nodes carry and that select pods of the class.
    fn find_carried(&mut self, names: &Names, counts: &PodCounts, nodes: &mut Nodes, class: &Class) {
        if self.namespaces_epoch != counts.namespaces_epoch {
            self.namespaces_epoch = counts.namespaces_epoch;
            self.carried_seen = 0;
            self.inverse.clear();
            self.pulls.clear();
            for (weight, term) in &class.weighted {
                let counted = Counted { all: vec![term.pods.clone()], live_only: false };
                // Made when the class was first met.
                if let Some(counter) = counts.known_counter(&counted) {
                    self.pulls.push((*weight, Tally::new(Some(counter), nodes.column(term.key))));
                }
            }
        }
        for carried in &counts.carried[self.carried_seen..] {
            if !counts.selects(names, &carried.term.pods, class.identity) {
                continue;
            }
            let tally = Tally::new(Some(carried.counter), nodes.column(carried.term.key));
            match carried.bearing {
                Bearing::RequiredAnti => self.inverse.push(tally),
                Bearing::Weight(weight) => self.pulls.push((weight, tally)),
            }
        }
        self.carried_seen = counts.carried.len();
    }
}

fn catch_up_spread(
    list: &mut [SpreadState],
    statics: &[Static],
    needs_all: bool,
    counts: &PodCounts,
    nodes: &Nodes,
) {
    let keys: SmallVec<[usize; 4]> = list.iter().map(|spread| spread.tally.column).collect();
    for spread in list {
        let (affinity, taints) = (spread.honor_affinity, spread.honor_taints);
        spread.tally.catch_up(&counts.counters, &nodes.columns, nodes.epoch, |node| {
            let known = &statics[node as usize];
            (!affinity || known.affinity_ok)
                && (!taints || known.taints_ok)
                && (!needs_all
                    || keys.iter().all(|column| nodes.columns[*column].values[node as usize] != MISSING))
        });
    }
}

impl SpreadState {
    fn new(names: &Names, counts: &mut PodCounts, nodes: &mut Nodes, class: &Class, spread: &Spread) -> Self {
        let pods = PodSelector {
            namespaces: vec![class.namespace],
            more: MoreNamespaces::None,
            labels: spread.selector.clone(),
        };
        let counts_itself = counts.selects(names, &pods, class.identity);
        // An empty selector selects everything and counts nothing.
        let selects_some = spread.selector.as_ref().is_some_and(|selector| !selector.0.is_empty());
        let counter =
            selects_some.then(|| counts.counter(names, Counted { all: vec![pods], live_only: true }));
        Self {
            tally: Tally::new(counter, nodes.column(spread.key)),
            by_host: spread.by_host,
            max_skew: spread.max_skew,
            min_domains: spread.min_domains,
            counts_itself,
            least: Least { value: MISSING, count: 0, other: 0, domains: 0 },
            honor_affinity: spread.honor_affinity,
            honor_taints: spread.honor_taints,
        }
    }
}

impl Static {
    fn new(names: &Names, class: &Class, row: &NodeRow) -> Self {
        let tolerated =
            |taint: &Taint| class.tolerations.iter().any(|toleration| toleration.tolerates(taint));
        let taints_ok =
            joiner_core::model::taint::untolerated(&row.taints, &class.tolerations, true).is_none();
        let affinity_ok = class.node_selector.matches(names, &row.labels)
            && class
                .required
                .as_ref()
                .is_none_or(|terms| terms.iter().any(|term| term.matches(names, &row.name, &row.labels)));
        let cordon = Taint {
            key: "node.kubernetes.io/unschedulable".into(),
            value: "".into(),
            effect: Effect::NoSchedule,
        };
        let refusal = if row.unschedulable && !tolerated(&cordon) {
            Some(Reason::Unschedulable)
        } else if !taints_ok {
            Some(Reason::Taints)
        } else if !affinity_ok {
            Some(Reason::NodeAffinity)
        } else {
            None
        };
        let disliked = row.taints.iter().filter(|taint| taint.effect == Effect::PreferNoSchedule);
        let preferred = class.preferred.iter().flatten();
        Self {
            version: row.version,
            refusal,
            affinity_ok,
            taints_ok,
            disliked: disliked.filter(|taint| !tolerated(taint)).count() as i64,
            preferred: preferred
                .filter(|(_, term)| term.matches(names, &row.name, &row.labels))
                .map(|(weight, _)| weight)
                .sum(),
        }
    }
}

/// What an attempt looks at.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub names: &'a Names,
    pub nodes: &'a Nodes,
    pub pods: &'a Pods,
    pub counts: &'a PodCounts,
    pub volumes: &'a Volumes,
    pub class: &'a Class,
    pub state: &'a ClassState,
    pub pod: PodId,
    pub pod_volumes: Option<&'a PodVolumes>,
}

/// A node as it would be without some of its pods, and with some more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overlay {
    room: ResVec,
    gone: Vec<PodId>,
    extra: Vec<PodId>,
    hard: Vec<i64>,
    affinity: i64,
    anti: Vec<i64>,
    inverse: Vec<i64>,
    taken: i64,
}

impl Overlay {
    /// The node as it is.
    pub(crate) fn new(view: &View) -> Self {
        Self {
            hard: vec![0; view.state.hard.len()],
            anti: vec![0; view.state.anti.len()],
            inverse: vec![0; view.state.inverse.len()],
            ..Self::default()
        }
    }

    /// Takes a pod of the node away.
    pub(crate) fn remove(&mut self, view: &View, node: NodeId, pod: PodId) {
        self.gone.push(pod);
        self.shift(view, node, pod, -1);
    }

    /// Gives a pod back that was taken away.
    pub(crate) fn give_back(&mut self, view: &View, node: NodeId, pod: PodId) {
        self.gone.retain(|other| *other != pod);
        self.shift(view, node, pod, 1);
    }

    /// Adds a pod that is not there.
    pub(crate) fn add(&mut self, view: &View, node: NodeId, pod: PodId) {
        self.extra.push(pod);
        self.shift(view, node, pod, 1);
    }

    fn shift(&mut self, view: &View, node: NodeId, pod: PodId, by: i64) {
        let class = view.pods.class_of(pod);
        if self.room.len() < class.requests.len() {
            self.room.resize(class.requests.len(), 0);
        }
        for (room, request) in self.room.iter_mut().zip(&class.requests) {
            *room -= by * request;
        }
        let times = |tally: &Tally| {
            tally.counter.map_or(0, |counter| view.counts.times(counter, class.identity, &class.carried))
        };
        for (at, spread) in view.state.hard.iter().enumerate() {
            if spread.tally.includes(node) {
                self.hard[at] += by * times(&spread.tally);
            }
        }
        self.affinity += by * view.state.affinity.first().map_or(0, times);
        for (at, tally) in view.state.anti.iter().enumerate() {
            self.anti[at] += by * times(tally);
        }
        for (at, tally) in view.state.inverse.iter().enumerate() {
            self.inverse[at] += by * times(tally);
        }
        if let Some(volumes) = view.pod_volumes {
            let shared = view.pods.row(pod).claims.iter().filter(|claim| volumes.taken.contains(claim));
            self.taken += by * shared.count() as i64;
        }
    }
}

impl View<'_> {
    /// Why a node refuses the pod, with pods nominated to it counted as if they were there and as if not.
    pub(crate) fn verdict(&self, node: NodeId) -> Option<Refusal> {
        let nominated = &self.nodes.rows[node as usize].nominated;
        if nominated.is_empty() {
            return self.refusal(node, None);
        }
        self.with_nominated(node, &Overlay::new(self))
    }

    /// The same on top of other changes.
    pub(crate) fn with_nominated(&self, node: NodeId, overlay: &Overlay) -> Option<Refusal> {
        let row = &self.nodes.rows[node as usize];
        let mut with = overlay.clone();
        let mut any = false;
        for pod in &row.nominated {
            if *pod != self.pod && self.pods.class_of(*pod).priority >= self.class.priority {
                with.add(self, node, *pod);
                any = true;
            }
        }
        if any && let Some(refusal) = self.refusal(node, Some(&with)) {
            return Some(refusal);
        }
        self.refusal(node, Some(overlay))
    }

    fn refusal(&self, node: NodeId, overlay: Option<&Overlay>) -> Option<Refusal> {
        let row = &self.nodes.rows[node as usize];
        match self.state.statics[node as usize].refusal {
            None => {}
            Some(Reason::Unschedulable) => {
                return Some(Refusal::lasting(Rule::Unschedulable, Reason::Unschedulable));
            }
            Some(Reason::Taints) => return Some(Refusal::lasting(Rule::Taints, Reason::Taints)),
            Some(reason) => return Some(Refusal::lasting(Rule::NodeAffinity, reason)),
        }
        if !self.class.ports.is_empty() && !self.ports_free(row, overlay) {
            return Some(Refusal::passing(Rule::Ports, Reason::Ports));
        }
        if let Some(refusal) = self.room_refusal(row, overlay) {
            return Some(refusal);
        }
        if let Some(volumes) = self.pod_volumes
            && let Some(refusal) = self.volume_refusal(row, volumes, overlay)
        {
            return Some(refusal);
        }
        self.spread_refusal(node, overlay).or_else(|| self.affinity_refusal(node, overlay))
    }

    fn ports_free(&self, row: &NodeRow, overlay: Option<&Overlay>) -> bool {
        match overlay {
            None => filter::ports_free(&self.class.ports, row.ports.iter()),
            Some(overlay) => {
                let there = row.pods.iter().filter(|pod| !overlay.gone.contains(pod)).chain(&overlay.extra);
                filter::ports_free(&self.class.ports, there.flat_map(|pod| &self.pods.class_of(*pod).ports))
            }
        }
    }

    fn room_refusal(&self, row: &NodeRow, overlay: Option<&Overlay>) -> Option<Refusal> {
        let requests = &self.class.requests;
        let changed;
        let room: &[i64] = match overlay {
            None => &row.room,
            Some(overlay) => {
                changed = joiner_core::model::resources::sum(&row.room, &overlay.room);
                &changed
            }
        };
        if fits(requests, room) {
            return None;
        }
        let mut refusal = Refusal { rule: Rule::Fit, reasons: SmallVec::new(), resolvable: true };
        for lane in filter::short_lanes(requests, room) {
            refusal.reasons.push(Reason::Insufficient(lane as u16));
            refusal.resolvable &= lane == PODS || requests[lane] <= lane_of(&row.allocatable, lane);
        }
        Some(refusal)
    }

    fn volume_refusal(
        &self,
        row: &NodeRow,
        volumes: &PodVolumes,
        overlay: Option<&Overlay>,
    ) -> Option<Refusal> {
        if volumes.taken.len() as i64 + overlay.map_or(0, |overlay| overlay.taken) > 0 {
            return Some(Refusal::passing(Rule::VolumeRestrictions, Reason::ClaimTaken));
        }
        let (gone, extra) = overlay.map_or((&[][..], &[][..]), |overlay| (&overlay.gone, &overlay.extra));
        let there = row.pods.iter().filter(|pod| !gone.contains(pod)).chain(extra);
        let claims = there.flat_map(|pod| &self.pods.row(*pod).claims);
        if !self.volumes.attaches(volumes, &row.name, claims) {
            return Some(Refusal::passing(Rule::VolumeLimits, Reason::VolumeCount));
        }
        let site = Site { name: &row.name, labels: &row.labels };
        let (why, _) = self.volumes.reach(self.names, volumes, site);
        if !why.none() {
            let mut refusal =
                Refusal { rule: Rule::VolumeBinding, reasons: SmallVec::new(), resolvable: false };
            let found = [
                (why.node_conflict, Reason::VolumeNode),
                (why.bind_conflict, Reason::VolumeBind),
                (why.volume_missing, Reason::VolumeMissing),
            ];
            refusal.reasons.extend(found.iter().filter(|(is, _)| *is).map(|(_, reason)| *reason));
            return Some(refusal);
        }
        (!self.volumes.in_zone(self.names, volumes, site))
            .then(|| Refusal::lasting(Rule::VolumeZone, Reason::VolumeZone))
    }

    fn spread_refusal(&self, node: NodeId, overlay: Option<&Overlay>) -> Option<Refusal> {
        for (at, spread) in self.state.hard.iter().enumerate() {
            let value = self.nodes.columns[spread.tally.column].values[node as usize];
            if value == MISSING {
                return Some(Refusal::lasting(Rule::Spread, Reason::SpreadLabel));
            }
            let shift = overlay.map_or(0, |overlay| overlay.hard[at]);
            let count = spread.tally.at(value) + shift;
            let least = if shift == 0 { spread.least.plain() } else { spread.least.with(value, count) };
            let floor = filter::spread_floor(least, spread.least.domains, spread.min_domains);
            if !filter::spread_ok(count, spread.counts_itself, floor, spread.max_skew) {
                return Some(Refusal::passing(Rule::Spread, Reason::Spread));
            }
        }
        None
    }

    fn affinity_refusal(&self, node: NodeId, overlay: Option<&Overlay>) -> Option<Refusal> {
        let value = |tally: &Tally| self.nodes.columns[tally.column].values[node as usize];
        let state = self.state;
        if !state.affinity.is_empty() {
            let shift = overlay.map_or(0, |overlay| overlay.affinity);
            let here = |tally: &Tally| if value(tally) == MISSING { 0 } else { shift };
            let labelled = state.affinity.iter().all(|tally| value(tally) != MISSING);
            let first =
                || state.own_kind && state.affinity.iter().all(|tally| tally.total + here(tally) <= 0);
            let near = state
                .affinity
                .iter()
                .all(|tally| filter::affinity_ok(tally.at(value(tally)) + here(tally), first));
            if !labelled || !near {
                return Some(Refusal::lasting(Rule::PodAffinity, Reason::Affinity));
            }
        }
        let clear = |tallies: &[Tally], shifts: Option<&[i64]>| {
            tallies.iter().enumerate().all(|(at, tally)| {
                let value = value(tally);
                let shift = shifts.map_or(0, |shifts| shifts[at]);
                value == MISSING || filter::anti_affinity_ok(tally.at(value) + shift)
            })
        };
        if !clear(&state.anti, overlay.map(|overlay| &overlay.anti[..])) {
            return Some(Refusal::passing(Rule::PodAffinity, Reason::AntiAffinity));
        }
        if !clear(&state.inverse, overlay.map(|overlay| &overlay.inverse[..])) {
            return Some(Refusal::passing(Rule::PodAffinity, Reason::ExistingAntiAffinity));
        }
        None
    }
}
