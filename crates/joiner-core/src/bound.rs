//! A floor under the hourly price of any plan: no way to buy machines for these pods costs less.
//!
//! Pods are split fractionally over offerings and offerings are bought in fractions:
//!
//! ```text
//! minimise  Σ_o price_o · y_o
//! such that Σ_c x_co · request_cl ≤ allocatable_ol · y_o    for every offering o and lane l
//!           Σ_{c in g} x_co       ≤ y_o                     for every offering o and exclusive group g
//!           Σ_o x_co = count_c,   x, y ≥ 0                  over offerings that hold at least one such pod
//! ```
//!
//! What is solved is the dual, because there every point is already a bound: an offering divides its price over
//! its lanes, a pod is worth what it takes of each lane, at the offering where that is least, and the worth of all
//! pods together cannot exceed what any plan pays. The linear program only searches for the division that makes
//! the sum largest; what is returned is recomputed from that division by plain arithmetic, so neither round-off in
//! the solver nor stopping early can lift the result above the truth.
//!
//! Pods touch few of the thousands of offerings at the optimum. The program therefore starts with a handful of
//! offerings and a few rows per pod class, and grows by those the current answer violates until none is left.

mod interior;
mod reduce;

use std::collections::BTreeMap;

use interior::{Program, Row};
use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};
use reduce::{Class, Machine, Model, Work};

/// Identical pods that wait for a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// How many pods there are.
    pub count: u64,
    /// What one pod takes of each resource lane.
    pub requests: Vec<i64>,
    /// The offerings a pod may use, as indices into the list of offerings, ascending.
    pub offers: Vec<u32>,
    /// Groups of which a machine holds at most one pod (required anti-affinity by host name).
    pub exclusive: Vec<u32>,
}

/// A machine that can be bought any number of times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Price per hour in nano-dollars.
    pub price_nano_usd: i64,
    /// What pods can use of each resource lane: allocatable less what daemons take.
    pub allocatable: Vec<i64>,
}

/// The least any plan can cost, in dollars per hour, or `None` if finding out would take more than `work_budget`.
///
/// Pods that fit no offering they may use count nothing: a plan refuses them. The budget is measured in elementary
/// steps (about a nanosecond each), never in time, so equal inputs give equal answers. When it runs out half-way,
/// the best floor proved so far is returned.
pub fn lower_bound(demands: &[Demand], offers: &[Offer], work_budget: u64) -> Option<f64> {
    let mut work = Work { left: work_budget };
    let model = Model::build(demands, offers, &mut work)?;
    if model.classes.is_empty() {
        return Some(0.0);
    }
    let simple = model.single_lane_floor(&mut work)?;
    Search::new(&model, simple).run(&mut work).map(|dollars| dollars * (1.0 - SAFETY))
}

/// The result is lowered by this share, far above the round-off of adding up millions of terms.
const SAFETY: f64 = 1e-9;
/// A gap below this share of the value counts as closed.
const CLOSED: f64 = 1e-9;
/// Offerings added to the linear program in one round, the most violated first.
const OFFERS_PER_ROUND: usize = 24;
/// The gap to which a program is solved that may still lack rows or machines.
const ROUGH: f64 = 1e-4;
/// About how many classes the first program takes into account.
const SAMPLE: usize = 160;
/// A class is compared with the machines where it is worth at most this multiple of the least.
const NEAR: f64 = 1.2;
/// A machine of the first program stays if it takes at least this share of the average spending.
const SPENT: f64 = 1e-3;

/// The machine where a class is worth least, and that worth; the first of equals.
fn least(machines: &[usize], worth: impl Fn(usize) -> f64) -> (f64, usize) {
    let mut found = (f64::INFINITY, 0);
    for &machine in machines {
        let value = worth(machine);
        if value < found.0 {
            found = (value, machine);
        }
    }
    found
}

/// The growing linear program and the best floor found with it.
struct Search<'a> {
    model: &'a Model,
    /// Per class: the unit in which the program measures worth.
    unit: Vec<f64>,
    /// Per machine: the last division of its price.
    division: Vec<Vec<f64>>,
    /// Per class: the machines the program compares, ascending. Classes without any are left out of the program.
    rows: Vec<Vec<usize>>,
    /// Per machine: the exclusive groups to which a part of its price may go, ascending. To leave one out is allowed
    /// and saves a variable; few groups ever matter.
    grouped: Vec<Vec<usize>>,
    /// Per machine: whether the last program divided its price.
    divided: Vec<bool>,
    best: f64,
}

impl<'a> Search<'a> {
    /// Starts with a sample of the classes: what it says about prices is nearly right for all. `best` is a floor that
    /// is known already.
    fn new(model: &'a Model, best: f64) -> Self {
        let base = model.base_lanes;
        let even = |machine: &Machine| {
            let used = machine.rate[..base].iter().filter(|rate| **rate > 0.0).count().max(1) as f64;
            let part =
                |(lane, rate): (usize, &f64)| if lane < base && *rate > 0.0 { 1.0 / used } else { 0.0 };
            machine.rate.iter().enumerate().map(part).collect()
        };
        let division: Vec<Vec<f64>> = model.machines.iter().map(even).collect();
        let stride = model.classes.len().div_ceil(SAMPLE);
        let mut candidate = vec![false; model.machines.len()];
        let mut unit = Vec::with_capacity(model.classes.len());
        let mut grouped = vec![Vec::new(); model.machines.len()];
        for (class, Class { offers, lanes, .. }) in model.classes.iter().enumerate() {
            let (alone_worth, alone) = least(offers, |machine| model.most_worth(class, machine));
            let (_, shared) = least(offers, |machine| model.worth(class, machine, &division[machine]));
            if class % stride == 0 {
                candidate[alone] = true;
                candidate[shared] = true;
            }
            unit.push(alone_worth);
            // A pod that asks for nothing but to be alone has no other lane to be worth anything by.
            if lanes.iter().all(|(lane, _)| *lane >= base) {
                for &machine in offers {
                    grouped[machine].extend(lanes.iter().map(|(lane, _)| *lane));
                }
            }
        }
        for lanes in &mut grouped {
            lanes.sort_unstable();
            lanes.dedup();
        }
        let mut rows = vec![Vec::new(); model.classes.len()];
        for class in (0..model.classes.len()).step_by(stride) {
            rows[class] =
                model.classes[class].offers.iter().copied().filter(|&machine| candidate[machine]).collect();
        }
        let divided = vec![false; model.machines.len()];
        Search { model, unit, division, rows, grouped, divided, best }
    }

    /// Grows the program until its answer is proved, or the budget ends. A rough answer is enough to see what is
    /// missing; only a program that lacks nothing is solved to the end.
    fn run(mut self, work: &mut Work) -> Option<f64> {
        let mut tolerance = ROUGH;
        let mut solved = false;
        // Rows, machines and groups only come in, so this ends; the budget ends it sooner.
        while let Some(claim) = self.solve(!solved, tolerance, work) {
            solved = true;
            let Some(grown) = self.prove(work) else { break };
            // While a group lacks its lane, the claim is too low to compare with.
            let regrouped = self.divide_among(claim.overfull);
            let reached = |gap: f64| !regrouped && self.best >= claim.ceiling * (1.0 - gap);
            let complete = !grown && !regrouped;
            if tolerance == CLOSED && (complete || reached(2.0 * CLOSED)) {
                break;
            }
            if complete || reached(10.0 * ROUGH) {
                tolerance = CLOSED;
            }
        }
        solved.then_some(self.best)
    }

    /// Solves the program as it stands and takes over its divisions. `None`: the budget does not allow it.
    fn solve(&mut self, sampled: bool, tolerance: f64, work: &mut Work) -> Option<Claim> {
        let model = self.model;
        let counted: Vec<usize> =
            (0..model.classes.len()).filter(|&class| !self.rows[class].is_empty()).collect();
        let layout = Layout::new(self, &counted);
        let value = |class: usize| model.classes[class].count * self.unit[class];
        let total: f64 = counted.iter().map(|&class| value(class)).sum();
        let weights = counted.iter().map(|&class| value(class) / total).collect();
        let mut rows = Vec::new();
        let mut places = Vec::new();
        for (position, &class) in counted.iter().enumerate() {
            for &machine in &self.rows[class] {
                let mut terms = Vec::with_capacity(model.classes[class].lanes.len());
                for &(lane, request) in &model.classes[class].lanes {
                    if let Some(index) = layout.index(machine, lane) {
                        terms.push((index, model.machines[machine].rate[lane] * request / self.unit[class]));
                    }
                }
                rows.push(Row { class: position, terms });
                places.push((class, machine));
            }
        }
        let program = Program { weights, rows, starts: layout.starts.clone() };
        let cost = program.step_cost();
        // Less than a dozen steps would not be worth having.
        work.can_spend(cost.saturating_mul(12))?;
        let answer = program.solve(tolerance, || work.spend(cost).is_some())?;

        self.divided.fill(false);
        for (block, &machine) in layout.machines.iter().enumerate() {
            let mut amounts = vec![0.0; model.lanes];
            for (offset, &lane) in layout.lanes[block].iter().enumerate() {
                amounts[lane] = answer.u[layout.starts[block] + offset].max(0.0);
            }
            let sum: f64 = amounts.iter().sum();
            if sum > 0.0 {
                self.division[machine] = amounts.iter().map(|amount| amount / sum).collect();
                // What the sample does not buy has to prove itself again.
                self.divided[machine] =
                    !sampled || answer.y[block] * layout.machines.len() as f64 > SPENT * answer.ceiling;
            }
        }
        if sampled {
            let divided = &self.divided;
            self.rows.iter_mut().for_each(|rows| rows.retain(|&machine| divided[machine]));
        }

        // Groups of which a machine would hold more than one pod, for lack of a lane that says otherwise.
        let mut held: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for (&(class, machine), x) in places.iter().zip(&answer.x) {
            for &(lane, _) in model.classes[class].lanes.iter().filter(|(lane, _)| *lane >= model.base_lanes)
            {
                *held.entry((machine, lane)).or_default() +=
                    x * model.machines[machine].rate[lane] / self.unit[class];
            }
        }
        let bought = |machine: usize| answer.y[layout.block[machine]];
        let overfull = held.into_iter().filter(|&((machine, lane), held)| {
            held > bought(machine) * (1.0 + tolerance) + 1e-12 && layout.index(machine, lane).is_none()
        });
        Some(Claim { ceiling: answer.ceiling * total, overfull: overfull.map(|(place, _)| place).collect() })
    }

    /// Gives groups a part in the price of the machines they overfill. Says whether any is new.
    fn divide_among(&mut self, overfull: Vec<(usize, usize)>) -> bool {
        for &(machine, lane) in &overfull {
            let position = self.grouped[machine].partition_point(|known| *known < lane);
            self.grouped[machine].insert(position, lane);
        }
        !overfull.is_empty()
    }

    /// Computes the floor that the current divisions prove, and lets in the rows and machines that keep it below
    /// what the program claims. Says whether any came in.
    fn prove(&mut self, work: &mut Work) -> Option<bool> {
        let model = self.model;
        let mut grown = false;
        let mut worth = Vec::with_capacity(model.classes.len());
        for (class, Class { offers, lanes, .. }) in model.classes.iter().enumerate() {
            work.spend(2 * offers.len() * lanes.len().max(1))?;
            let mut known: Vec<usize> =
                offers.iter().copied().filter(|&machine| self.divided[machine]).collect();
            if known.is_empty() {
                // Nothing the sample bought suits this class: any guess will do, the check below corrects it.
                known.push(least(offers, |machine| model.worth(class, machine, &self.division[machine])).1);
            }
            let at = |machine: usize| model.worth(class, machine, &self.division[machine]);
            let (lowest, _) = least(&known, at);
            let assumed = self.rows[class].iter().map(|&machine| at(machine)).fold(f64::INFINITY, f64::min);
            if lowest < assumed {
                grown = true;
                self.rows[class]
                    .extend(known.iter().copied().filter(|&machine| at(machine) <= lowest * NEAR));
            }
            worth.push(lowest);
        }

        let mut excess: Vec<(f64, usize)> = Vec::new();
        let mut factor = vec![1.0f64; model.classes.len()];
        for machine in 0..model.machines.len() {
            if self.divided[machine] {
                continue;
            }
            let overdrawn = self.overdraft(machine, &worth, work)?;
            if overdrawn > 1.0 {
                for &class in &model.machines[machine].classes {
                    factor[class] = factor[class].max(overdrawn);
                }
                excess.push((overdrawn, machine));
            }
        }
        let proved =
            (0..model.classes.len()).map(|class| model.classes[class].count * worth[class] / factor[class]);
        self.best = self.best.max(proved.sum());
        excess.retain(|(overdrawn, _)| *overdrawn > 1.0 + CLOSED);
        excess.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for &(_, machine) in excess.iter().take(OFFERS_PER_ROUND) {
            for &class in &model.machines[machine].classes {
                if model.worth(class, machine, &self.division[machine]) <= worth[class] * NEAR {
                    self.rows[class].push(machine);
                }
            }
        }
        for rows in &mut self.rows {
            rows.sort_unstable();
            rows.dedup();
        }
        Some(grown || !excess.is_empty())
    }

    /// By how much the worths of all pods a machine could hold exceed its price: the least factor by which some
    /// division of `factor × price` covers every pod's worth. At most 1: the machine is no obstacle.
    fn overdraft(&mut self, machine: usize, worth: &[f64], work: &mut Work) -> Option<f64> {
        let model = self.model;
        let classes = &model.machines[machine].classes;
        let lanes_per_check =
            classes.iter().map(|&class| model.classes[class].lanes.len()).sum::<usize>() + 1;
        // The least multiple of a division that covers every worth, and the pod that needs it.
        let needed = |division: &[f64]| {
            let mut most = (0.0f64, usize::MAX);
            for &class in classes {
                let at = model.worth(class, machine, division);
                let ratio = if worth[class] <= 0.0 { 0.0 } else { worth[class] / at };
                if ratio > most.0 {
                    most = (ratio, class);
                }
            }
            most
        };
        work.spend(lanes_per_check)?;
        let (mut ratio, mut class) = needed(&self.division[machine]);
        if ratio <= 1.0 {
            return Some(ratio);
        }
        // The unit prices of an active machine are the best guess for one of the same kind.
        let mut best = (ratio, self.division[machine].clone());
        let mut binding = vec![class];
        for _ in 0..64 {
            work.spend(lanes_per_check + (binding.len() + 1) * model.lanes * 64)?;
            let Some((multiple, division)) = self.cover(machine, worth, &binding) else { break };
            (ratio, class) = needed(&division);
            if ratio < best.0 {
                best = (ratio, division);
            }
            if multiple > 1.0 + 1e-7
                || best.0 <= 1.0
                || ratio <= multiple * (1.0 + 1e-12)
                || binding.contains(&class)
            {
                break;
            }
            binding.push(class);
        }
        self.division[machine] = best.1;
        Some(best.0)
    }

    /// The cheapest division that covers the worths of some classes: its price as a multiple of the machine's, and
    /// the division scaled to sum to one.
    fn cover(&self, machine: usize, worth: &[f64], binding: &[usize]) -> Option<(f64, Vec<f64>)> {
        let model = self.model;
        let mut problem = Problem::new(OptimizationDirection::Minimize);
        let mut parts: Vec<Option<Variable>> = vec![None; model.lanes];
        for &class in binding {
            for &(lane, _) in &model.classes[class].lanes {
                parts[lane].get_or_insert_with(|| problem.add_var(1.0, (0.0, f64::INFINITY)));
            }
        }
        for &class in binding {
            let row: Vec<(Variable, f64)> = model.classes[class]
                .lanes
                .iter()
                .filter_map(|&(lane, request)| {
                    parts[lane]
                        .map(|part| (part, model.machines[machine].rate[lane] * request / worth[class]))
                })
                .collect();
            problem.add_constraint(row, ComparisonOp::Ge, 1.0);
        }
        let solution = problem.solve().ok()?.into_solution().ok()?;
        let amounts: Vec<f64> =
            parts.iter().map(|part| part.map_or(0.0, |part| solution.var_value(part).max(0.0))).collect();
        let sum: f64 = amounts.iter().sum();
        (sum > 0.0).then(|| (sum, amounts.iter().map(|amount| amount / sum).collect()))
    }
}

/// What a solved program says.
struct Claim {
    /// The sum it claims.
    ceiling: f64,
    /// Machines and groups where the program would put more than one pod of the group on a machine.
    overfull: Vec<(usize, usize)>,
}

/// Which variable of the program stands for which lane of which machine.
struct Layout {
    /// The machines of the program.
    machines: Vec<usize>,
    /// Per machine of the program: its lanes, ascending.
    lanes: Vec<Vec<usize>>,
    /// Per machine of the program, and one more: its first variable.
    starts: Vec<usize>,
    /// Per machine of the model: its position in the program.
    block: Vec<usize>,
}

impl Layout {
    fn new(search: &Search<'_>, counted: &[usize]) -> Layout {
        let model = search.model;
        let mut used: Vec<Vec<bool>> = vec![Vec::new(); model.machines.len()];
        for &class in counted {
            for &machine in &search.rows[class] {
                used[machine].resize(model.lanes, false);
                for &(lane, _) in &model.classes[class].lanes {
                    used[machine][lane] |=
                        lane < model.base_lanes || search.grouped[machine].binary_search(&lane).is_ok();
                }
            }
        }
        let mut layout = Layout {
            machines: Vec::new(),
            lanes: Vec::new(),
            starts: vec![0],
            block: vec![usize::MAX; model.machines.len()],
        };
        let mut next = 0;
        for (machine, used) in used.iter().enumerate().filter(|(_, used)| !used.is_empty()) {
            let lanes: Vec<usize> = (0..model.lanes).filter(|&lane| used[lane]).collect();
            next += lanes.len();
            layout.block[machine] = layout.machines.len();
            layout.machines.push(machine);
            layout.starts.push(next);
            layout.lanes.push(lanes);
        }
        layout
    }

    fn index(&self, machine: usize, lane: usize) -> Option<usize> {
        let block = self.block[machine];
        self.lanes[block].binary_search(&lane).ok().map(|offset| self.starts[block] + offset)
    }
}
