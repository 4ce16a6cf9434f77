//! The search: what goes, in which order it is asked, and what is kept.

use super::commands::commands;
use super::cost::is_empty;
use super::facts::{Block, Fleet};
use super::replaces;
use super::trial::{Base, Bench, Refusal, Setting, Trial, cost_of};
use super::verdict::{Consolidation, Verdict, Why};
use crate::decide;
use crate::model::ids::*;
use crate::pack::cheapest;
use crate::pack::place::Preferences;
use crate::pack::prepared::Prepared;
use crate::pack::upstream::{self, Outcome};
use crate::plan::{self, Bill};

/// Clusters with so many candidates are tried set by set.
const EXACT: usize = 8;
/// How often sets of which parts lose money are cut down to the parts that do not.
const CUTS: usize = 4;
/// Of sets that save at least this share of what the best one saves, the one that moves the fewest pods is taken: the rest can follow.
const NEARLY: f64 = 0.98;
/// What the search over machines may cost in a trial, in its own steps; it grows with the pods.
const PACKING: decide::PackingWork = decide::PackingWork { base: 20_000, per_pod: 200 };
/// What the linear program behind the worth of pods may cost, in its own steps.
const WORTH_WORK: u64 = 100_000_000;

/// How to search.
#[derive(Debug, Clone)]
pub struct Options {
    /// How pods are placed, and what a node is charged with.
    pub decide: decide::Options,
    /// Placements that the deletes may try, and pods that replacements may move in trial.
    pub work: u64,
    /// Replacing saves at least this, nano-dollars per hour.
    pub least_saving_nano_usd: i64,
    /// Spot machines may be replaced by other spot machines.
    pub spot_to_spot: bool,
    /// Budgets of pools hold; otherwise it is as if all the time in the world were there.
    pub budgets: bool,
}

impl Default for Options {
    fn default() -> Self {
        let decide = decide::Options {
            packing: decide::Packing::Cheapest,
            packing_work: PACKING,
            ..Default::default()
        };
        Self { decide, work: 2_000_000, least_saving_nano_usd: 0, spot_to_spot: false, budgets: true }
    }
}

/// Where a search ended that had no work left: the next one asks the others first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The candidate for deletion, in their order.
    pub candidate: usize,
    /// The set to replace, in their order.
    pub set: usize,
}

/// Looks for nodes that can go, and for machines that are cheaper than those that stand.
pub fn consolidate(fleet: &Fleet, options: &Options, from: Option<Cursor>) -> Consolidation {
    let prepared = Prepared::new(&fleet.snapshot);
    let setting = Setting::new(fleet, &prepared, options);
    let mut search = Search::new(&setting);
    search.place_waiting();
    search.take_empty();
    let candidates = setting.candidates();
    let few = candidates.len() <= EXACT;
    let mut cursor = Cursor { candidate: 0, set: 0 };
    let mut stopped = false;
    let chosen = if few {
        search.best_of_all(&candidates)
    } else {
        let first = from.map_or(0, |from| from.candidate.min(candidates.len()));
        let mut order = candidates.clone();
        order.rotate_left(first);
        let deletes = search.bench.delete_all(&order, &mut search.left, options);
        search.base.move_on(&deletes.base);
        search.deleted.extend(&deletes.base.taken);
        for (node, why) in &deletes.refused {
            search.refuse(*node, Refusal { why: *why, price_nano_usd: None });
        }
        if let Some(at) = deletes.stopped_at {
            (cursor.candidate, stopped) = ((first + at) % candidates.len().max(1), true);
        }
        let (chosen, stopped_at) = search.best_sets(&candidates, from.map_or(0, |from| from.set));
        if let Some(at) = stopped_at {
            (cursor.set, stopped) = (at, true);
        }
        chosen
    };
    search.finish(&chosen, stopped.then_some(cursor))
}

/// Whether these nodes can go together now, whatever else could: what a command is held against before it is carried out. Returns how many
/// machines have to be launched and what is saved, in nano-dollars per hour.
pub fn holds(fleet: &Fleet, options: &Options, nodes: &[NodeIdx]) -> Result<(usize, i64), Why> {
    let prepared = Prepared::new(&fleet.snapshot);
    let setting = Setting::new(fleet, &prepared, options);
    let mut search = Search::new(&setting);
    search.place_waiting();
    if nodes.iter().any(|node| !fleet.nodes[node.at()].blocks.is_empty()) {
        return Err(Why::Blocked);
    }
    if !search.admits(nodes) {
        return Err(Why::Budget);
    }
    let trial = search.bench.attempt(nodes).map_err(|refusal| refusal.why)?;
    if trial.machines == 0
        && let Err(pod) = Bench::new(&setting, &search.base).hold_in_order(nodes)
    {
        return Err(Why::OnlyInBestOrder { pod });
    }
    Ok((trial.machines, trial.saving_nano_usd))
}

impl<'s> Setting<'s> {
    fn new(fleet: &'s Fleet, prepared: &'s Prepared, options: &'s Options) -> Self {
        let mut turn = vec![u32::MAX; fleet.snapshot.pods.len()];
        for (at, pod) in upstream::queue_order(&fleet.snapshot, false).iter().enumerate() {
            turn[pod.at()] = at as u32;
        }
        let charge = cheapest::charge_of(&fleet.snapshot, &options.decide);
        let mut setting = Self { fleet, prepared, options, turn, charge, ranks: Vec::new() };
        // What is to stay is filled first, and of the candidates the one that would go last.
        let candidates = setting.candidates();
        setting.ranks = vec![0; fleet.nodes.len()];
        for (at, node) in candidates.iter().enumerate() {
            setting.ranks[node.at()] = (candidates.len() - at) as u32;
        }
        setting
    }

    fn is_empty(&self, node: NodeIdx) -> bool {
        is_empty(cost_of(self.fleet, node))
    }

    /// Nodes with pods that may go, in the order in which the original asks them: the most dollars per disruption first.
    fn candidates(&self) -> Vec<NodeIdx> {
        let all = (0..self.fleet.nodes.len()).map(NodeIdx::new);
        let mut rated: Vec<(f64, NodeIdx)> = all
            .filter(|node| self.fleet.nodes[node.at()].blocks.is_empty() && !self.is_empty(*node))
            .map(|node| {
                let price = self.fleet.snapshot.nodes[node.at()].price_nano_usd.unwrap_or(0);
                (price as f64 / cost_of(self.fleet, node), node)
            })
            .collect();
        rated.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        rated.into_iter().map(|(_, node)| node).collect()
    }

    /// Nodes that nothing worth anything runs on and that may go, dearest first.
    fn empty(&self) -> Vec<NodeIdx> {
        let all = (0..self.fleet.nodes.len()).map(NodeIdx::new);
        let mut empty: Vec<NodeIdx> = all
            .filter(|node| {
                self.is_empty(*node) && !self.fleet.nodes[node.at()].blocks.iter().any(Block::holds_empty)
            })
            .collect();
        let price = |node: &NodeIdx| self.fleet.snapshot.nodes[node.at()].price_nano_usd.unwrap_or(0);
        empty.sort_by_key(|node| (std::cmp::Reverse(price(node)), *node));
        empty
    }
}

/// The search under way.
struct Search<'s> {
    setting: &'s Setting<'s>,
    bench: Bench<'s>,
    /// What was decided so far.
    base: Base,
    empty: Vec<NodeIdx>,
    deleted: Vec<NodeIdx>,
    /// By pool: how many underutilized nodes may still go.
    left: Vec<Option<u32>>,
    /// By node: why it stays.
    refusals: Vec<Option<Refusal>>,
    /// By node, nano-dollars per hour.
    worth: Vec<Option<f64>>,
    /// By node: some set with it was tried.
    tried: Vec<bool>,
}

impl<'s> Search<'s> {
    fn new(setting: &'s Setting<'s>) -> Self {
        let fleet = setting.fleet;
        let budget = |budgets: bool, allowed: Option<u32>| if budgets { allowed } else { None };
        let left = fleet.pools.iter().map(|pool| budget(setting.options.budgets, pool.underutilized_allowed));
        Self {
            left: left.collect(),
            bench: Bench::new(setting, &Base::default()),
            base: Base::default(),
            empty: Vec::new(),
            deleted: Vec::new(),
            refusals: vec![None; fleet.nodes.len()],
            worth: vec![None; fleet.nodes.len()],
            tried: vec![false; fleet.nodes.len()],
            setting,
        }
    }

    fn refuse(&mut self, node: NodeIdx, refusal: Refusal) {
        let known = &mut self.refusals[node.at()];
        // The price of what would replace it says more.
        if known.is_none() || refusal.price_nano_usd.is_some() {
            *known = Some(refusal);
        }
    }

    /// Pods that wait come first: room that one of them can use is not there for others.
    fn place_waiting(&mut self) {
        let fleet = self.setting.fleet;
        let mut waiting: Vec<PodIdx> = (0..fleet.waiting).map(PodIdx::new).collect();
        waiting.sort_unstable_by_key(|pod| self.setting.turn[pod.at()]);
        for pod in waiting {
            if let Some((node, _)) = self.bench.scratch.place_on_node(pod, Preferences::Kept) {
                self.base.put.push((pod, node));
            }
        }
    }

    /// Takes nodes that nothing worth anything runs on, without a question.
    fn take_empty(&mut self) {
        let fleet = self.setting.fleet;
        let mut left: Vec<Option<u32>> = fleet
            .pools
            .iter()
            .map(|pool| if self.setting.options.budgets { pool.empty_allowed } else { None })
            .collect();
        for node in self.setting.empty() {
            // Pods that wait may have found their room there.
            if !self.bench.scratch.on_node[node.at()].pods.is_empty() {
                let pod = self.bench.scratch.on_node[node.at()].pods[0];
                self.refuse(node, Why::NotCheaper { pod }.into());
                continue;
            }
            if let Some(pool) = fleet.snapshot.nodes[node.at()].pool
                && let Some(left) = &mut left[pool.at()]
            {
                if *left == 0 {
                    self.refuse(node, Why::Budget.into());
                    continue;
                }
                *left -= 1;
            }
            self.bench.scratch.take_node(node, &fleet.nodes[node.at()].counts);
            self.base.taken.push(node);
            self.empty.push(node);
        }
    }

    /// Every set of a few candidates; of those that are worth it the best.
    fn best_of_all(&mut self, candidates: &[NodeIdx]) -> Vec<NodeIdx> {
        self.rate(candidates);
        let sets: Vec<Vec<NodeIdx>> =
            replaces::all_subsets(candidates).into_iter().filter(|set| self.admits(set)).collect();
        let trials = replaces::attempt_all(self.setting, &self.base, &sets);
        self.note(&sets, &trials);
        let mut best = Vec::new();
        for (set, _) in best_first(&sets, &trials) {
            if self.holds_in_order(set) {
                best.clone_from(set);
                break;
            }
        }
        for node in candidates.iter().filter(|node| !best.contains(node)) {
            let with: Vec<NodeIdx> = best.iter().copied().chain([*node]).collect();
            if !self.admits(&with) {
                self.refuse(*node, Why::Budget.into());
            }
        }
        best
    }

    /// Whether budgets let a set go.
    fn admits(&self, set: &[NodeIdx]) -> bool {
        let mut left = self.left.clone();
        set.iter().all(|node| match self.setting.fleet.snapshot.nodes[node.at()].pool {
            Some(pool) => match &mut left[pool.at()] {
                Some(0) => false,
                Some(left) => {
                    *left -= 1;
                    true
                }
                None => true,
            },
            None => true,
        })
    }

    /// A set that needs no machine must hold as kube-scheduler places pods.
    fn holds_in_order(&mut self, set: &[NodeIdx]) -> bool {
        let mark = self.bench.scratch.mark();
        let needs_none = self.bench.apply(set).is_ok_and(|trial| trial.machines == 0);
        self.bench.scratch.rollback(mark);
        !needs_none || Bench::new(self.setting, &self.base).hold_in_order(set).is_ok()
    }

    /// The best set of those that are worth trying, and where to go on if the work did not suffice.
    fn best_sets(&mut self, candidates: &[NodeIdx], from: usize) -> (Vec<NodeIdx>, Option<usize>) {
        let stay: Vec<NodeIdx> =
            candidates.iter().copied().filter(|node| !self.bench.scratch.taken[node.at()]).collect();
        let order = self.rate(&stay);
        let mut left = self.left.clone();
        let snapshot = &self.setting.fleet.snapshot;
        let mut admitted = Vec::with_capacity(order.len());
        for node in order {
            if let Some(pool) = snapshot.nodes[node.at()].pool
                && let Some(left) = &mut left[pool.at()]
            {
                if *left == 0 {
                    self.refuse(node, Why::Budget.into());
                    continue;
                }
                *left -= 1;
            }
            admitted.push(node);
        }
        let mut sets = replaces::sets(&admitted);
        if sets.is_empty() {
            return (Vec::new(), None);
        }
        let first = from % sets.len();
        sets.rotate_left(first);
        let pods = |set: &Vec<NodeIdx>| -> u64 {
            set.iter().map(|node| self.setting.fleet.nodes[node.at()].residents.len() as u64).sum()
        };
        let mut work = 0;
        let enough = sets.iter().position(|set| {
            work += pods(set);
            work > self.setting.options.work
        });
        let all = sets.len();
        let stopped_at = enough.map(|at| (first + at) % all);
        sets.truncate(enough.unwrap_or(all));
        let mut trials = replaces::attempt_all(self.setting, &self.base, &sets);
        self.note(&sets, &trials);
        let together = replaces::brought_together(&sets, &trials, self.setting.fleet.nodes.len());
        if together.len() > 1 {
            trials.push(self.bench.attempt(&together));
            sets.push(together);
        }
        let most = best_first(&sets, &trials).next().map_or(0.0, |(_, trial)| trial.worth_it);
        let nearly = best_first(&sets, &trials).filter(|(_, trial)| trial.worth_it >= most * NEARLY);
        let best = nearly.min_by_key(|(_, trial)| trial.pods).map(|(set, _)| set.clone());
        (best.unwrap_or_default(), stopped_at)
    }

    /// Remembers why nodes that were tried alone stay.
    fn note(&mut self, sets: &[Vec<NodeIdx>], trials: &[Result<Trial, Refusal>]) {
        for (set, trial) in sets.iter().zip(trials) {
            set.iter().for_each(|node| self.tried[node.at()] = true);
            if let ([node], Err(refusal)) = (&set[..], trial) {
                self.refuse(*node, *refusal);
            }
        }
    }

    /// Works out what the pods of nodes are worth. Returns the nodes that cost more, by how much.
    fn rate(&mut self, nodes: &[NodeIdx]) -> Vec<NodeIdx> {
        let fleet = self.setting.fleet;
        let pods = nodes.iter().flat_map(|node| fleet.nodes[node.at()].residents.iter().map(|r| r.pod));
        let pods: Vec<PodIdx> = pods.collect();
        let charge = self.setting.charge;
        let worths = plan::worths(&mut self.bench.scratch, pods.iter().copied(), charge as i64, WORTH_WORK);
        let mut rated = Vec::with_capacity(nodes.len());
        for node in nodes {
            let price = fleet.snapshot.nodes[node.at()].price_nano_usd.unwrap_or(0) as f64 + charge;
            let worth = worths.as_ref().map(|worths| {
                let of_pod = |pod: PodIdx| worths[fleet.snapshot.pods[pod.at()].class.at()].unwrap_or(0.0);
                // What no machine takes is worth more than any price.
                fleet.nodes[node.at()]
                    .residents
                    .iter()
                    .map(|resident| of_pod(resident.pod) * 1e9)
                    .sum::<f64>()
            });
            self.worth[node.at()] = worth.filter(|worth| worth.is_finite());
            let overpay = price - worth.unwrap_or(0.0);
            rated.push((overpay, *node));
        }
        rated.retain(|(overpay, _)| *overpay > 0.0);
        rated.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        rated.into_iter().map(|(_, node)| node).collect()
    }

    /// Takes what was chosen for good, and says what comes of it all.
    fn finish(mut self, chosen: &[NodeIdx], cursor: Option<Cursor>) -> Consolidation {
        let setting = self.setting;
        let fleet = setting.fleet;
        let mut chosen = chosen.to_vec();
        let mut replaced = Vec::new();
        for cut in 0..=CUTS {
            if chosen.is_empty() {
                break;
            }
            let mark = self.bench.scratch.mark();
            if let Err(refusal) = self.bench.apply(&chosen) {
                self.bench.scratch.rollback(mark);
                chosen.iter().for_each(|node| self.refuse(*node, refusal));
                break;
            }
            let losing = self.losing(&chosen);
            if losing.is_empty() || cut == CUTS {
                self.bench.keep_cheaper(&chosen);
                self.bench.scratch.keep(mark);
                replaced = chosen;
                break;
            }
            self.bench.scratch.rollback(mark);
            chosen.retain(|node| !losing.contains(node));
        }
        let gone: Vec<NodeIdx> = self.deleted.iter().chain(&replaced).copied().collect();
        cheapest::shorten_lists(&mut self.bench.scratch);
        let work = self.bench.scratch.work;
        let outcome = Outcome { placed: Vec::new(), failed: Vec::new(), held_back: false };
        let mut plan = plan::assemble(&mut self.bench.scratch, outcome, Vec::new(), None);
        let on_nodes = plan.on_nodes.iter().chain(&plan.kept).map(|(_, pods)| pods.len());
        plan.placed = on_nodes.chain(plan.machines.iter().map(|machine| machine.pods.len())).sum();
        let commands = commands(fleet, &plan, &self.empty, &gone);
        let tried = std::mem::take(&mut self.tried);
        let mut verdicts: Vec<Verdict> = (0..fleet.nodes.len())
            .map(|at| match (&self.refusals[at], fleet.nodes[at].blocks.is_empty()) {
                (None, false) => Verdict::Blocked,
                (refusal, _) => {
                    let unasked = if tried[at] { Why::OthersGo } else { Why::NotReached };
                    let why = refusal.map_or(unasked, |refusal| refusal.why);
                    Verdict::Stays {
                        price_nano_usd: fleet.snapshot.nodes[at].price_nano_usd.unwrap_or(0),
                        worth_nano_usd: self.worth[at].map(|worth| worth as i64),
                        replacement_nano_usd: refusal.and_then(|refusal| refusal.price_nano_usd),
                        why,
                    }
                }
            })
            .collect();
        for (at, command) in commands.iter().enumerate() {
            command.nodes.iter().for_each(|node| verdicts[node.at()] = Verdict::Goes(at));
        }
        let standing = |gone: &dyn Fn(usize) -> bool| {
            let rows = fleet.snapshot.nodes.iter().enumerate().filter(|(at, _)| !gone(*at));
            let prices: Vec<i64> = rows.filter_map(|(_, node)| node.price_nano_usd).collect();
            Bill {
                price_nano_usd: prices.iter().copied().fold(0, i64::saturating_add),
                machines: prices.len(),
            }
        };
        let before = standing(&|_| false);
        let rest = standing(&|at| matches!(verdicts[at], Verdict::Goes(_)));
        let bought: i64 = commands
            .iter()
            .flat_map(|command| &command.machines)
            .map(|at| price_of(fleet, &plan.machines[*at]))
            .fold(0, i64::saturating_add);
        let after = Bill {
            price_nano_usd: rest.price_nano_usd.saturating_add(bought),
            machines: rest.machines + plan.machines.len(),
        };
        Consolidation { commands, verdicts, plan, before, after, cursor, work }
    }

    /// Of nodes that were taken together those whose part of the machines costs as much as they do.
    fn losing(&self, nodes: &[NodeIdx]) -> Vec<NodeIdx> {
        let fleet = self.setting.fleet;
        let scratch = &self.bench.scratch;
        let mut home = vec![None; fleet.snapshot.pods.len()];
        for node in nodes {
            fleet.nodes[node.at()]
                .residents
                .iter()
                .for_each(|resident| home[resident.pod.at()] = Some(*node));
        }
        // Nodes and machines that have pods in common, joined.
        let mut group: Vec<usize> = (0..scratch.machines.len()).collect();
        let mut of_node: Vec<Option<usize>> = vec![None; fleet.nodes.len()];
        let find = |group: &[usize], mut at: usize| {
            while group[at] != at {
                at = group[at];
            }
            at
        };
        for (at, machine) in scratch.machines.iter().enumerate() {
            for node in machine.pods.iter().filter_map(|pod| home[pod.at()]) {
                match of_node[node.at()] {
                    Some(other) => {
                        let (a, b) = (find(&group, other), find(&group, at));
                        group[a.max(b)] = a.min(b);
                    }
                    None => of_node[node.at()] = Some(at),
                }
            }
        }
        let mut saving = vec![0i64; scratch.machines.len()];
        for (at, machine) in scratch.machines.iter().enumerate() {
            let price = plan::machines_nano_usd(scratch, std::slice::from_ref(machine));
            saving[find(&group, at)] -= price;
        }
        for node in nodes {
            if let Some(at) = of_node[node.at()] {
                saving[find(&group, at)] += self.bench.price(&[*node]);
            }
        }
        let loses = |node: &NodeIdx| of_node[node.at()].is_some_and(|at| saving[find(&group, at)] <= 0);
        nodes.iter().copied().filter(loses).collect()
    }
}

/// The sets that are worth it, the best first; of equals the one that moves fewer pods.
fn best_first<'a>(
    sets: &'a [Vec<NodeIdx>],
    trials: &'a [Result<Trial, Refusal>],
) -> impl Iterator<Item = (&'a Vec<NodeIdx>, &'a Trial)> {
    let mut good: Vec<(&Vec<NodeIdx>, &Trial)> =
        sets.iter().zip(trials).filter_map(|(set, trial)| Some((set, trial.as_ref().ok()?))).collect();
    good.sort_by(|(_, a), (_, b)| b.worth_it.total_cmp(&a.worth_it).then(a.pods.cmp(&b.pods)));
    good.into_iter()
}

fn price_of(fleet: &Fleet, machine: &plan::PlannedMachine) -> i64 {
    let snapshot = &fleet.snapshot;
    let catalogue = &snapshot.catalogues[snapshot.pools[machine.pool.at()].catalogue.at()];
    catalogue.offerings[machine.offering.at()].price_nano_usd
}
