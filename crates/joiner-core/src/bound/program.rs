//! The linear program of the price floor: the best division of some machines' prices, as far as some rows tell.
//!
//! ```text
//! maximise  Σ_c count_c · worth_c
//! such that worth_c ≤ Σ_l part_ol · price_o / allocatable_ol · request_cl    for every row (c, o)
//!           Σ_l part_ol = 1,   part ≥ 0                                      for every machine o
//! ```
//!
//! Written like this, the simplex method would start where everything is zero and every row is tight, and first spend
//! a step per class to leave that corner. Therefore each machine starts with its whole price on the lane that had
//! most of it before, a class starts worth what it is at its cheapest machine then, and the variables are the other
//! parts and what the class loses against that one machine. The start is feasible, is a good one, and there is one
//! row less per class and per machine.

use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOptions, Variable};

use super::reduce::{Model, Work};

/// Elementary steps per pivot and row.
const PIVOT_ROW_STEPS: usize = 80;
/// The least number of pivots to expect is the number of rows divided by this.
const ROWS_PER_PIVOT: usize = 4;
/// How exactly the solver keeps rows. Worths are of the order of one.
const FEASIBILITY: f64 = 1e-9;

/// What the program knows about the search.
pub(super) struct Program<'a> {
    /// The reduced problem.
    pub(super) model: &'a Model,
    /// Per class: the unit in which its worth is measured.
    pub(super) unit: &'a [f64],
    /// Per class: the machines to compare, at least one.
    pub(super) rows: &'a [Vec<usize>],
    /// Per machine: whether its price is to be divided. True for every machine in `rows`.
    pub(super) divided: &'a [bool],
}

impl Program<'_> {
    /// Replaces the divisions of the machines by the best ones. `None`: the budget does not allow it.
    pub(super) fn solve(&self, divisions: &mut [Vec<f64>], work: &mut Work) -> Option<()> {
        let Program { model, rows, divided, .. } = self;
        let row_count = divided.iter().filter(|divided| **divided).count()
            + rows.iter().map(|rows| rows.len().saturating_sub(1)).sum::<usize>();
        let pivot_steps = row_count.saturating_mul(PIVOT_ROW_STEPS);
        work.can_spend(pivot_steps.saturating_mul(1 + row_count / ROWS_PER_PIVOT))?;

        let machines: Vec<usize> = (0..divided.len()).filter(|&machine| divided[machine]).collect();
        let mut first = vec![0; divided.len()];
        for &machine in &machines {
            first[machine] = largest_part(&model.machines[machine].lanes, &divisions[machine]);
        }
        let cheapest: Vec<usize> = (0..rows.len())
            .map(|class| {
                super::search::least(rows[class].iter().copied(), |at| self.amount(class, at, first[at])).1
            })
            .collect();
        let weights = self.weights();
        // What the sum gains when a machine moves its price from the first lane to another.
        let mut gain: Vec<Vec<f64>> = vec![vec![0.0; model.lanes]; divided.len()];
        for (class, &machine) in cheapest.iter().enumerate() {
            let before = self.amount(class, machine, first[machine]);
            for &lane in &model.machines[machine].lanes {
                gain[machine][lane] += weights[class] * (self.amount(class, machine, lane) - before);
            }
        }

        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let mut parts: Vec<Vec<(usize, Variable)>> = vec![Vec::new(); divided.len()];
        for &machine in &machines {
            let others = model.machines[machine].lanes.iter().filter(|lane| **lane != first[machine]);
            parts[machine] =
                others.map(|&lane| (lane, problem.add_var(gain[machine][lane], (0.0, 1.0)))).collect();
            if parts[machine].len() > 1 {
                let sum: Vec<(Variable, f64)> = parts[machine].iter().map(|&(_, part)| (part, 1.0)).collect();
                problem.add_constraint(sum, ComparisonOp::Le, 1.0);
            }
        }
        // How the worth of a class at a machine changes with the parts of its price.
        let slope = |class: usize, machine: usize, sign: f64| -> Vec<(Variable, f64)> {
            let before = self.amount(class, machine, first[machine]);
            let change = |lane: usize| sign * (self.amount(class, machine, lane) - before);
            let terms = parts[machine].iter().map(|&(lane, part)| (part, change(lane)));
            terms.filter(|(_, coefficient)| *coefficient != 0.0).collect()
        };
        for (class, machines) in rows.iter().enumerate().filter(|(_, machines)| machines.len() > 1) {
            let own = cheapest[class];
            let loss = problem.add_var(-weights[class], (0.0, f64::INFINITY));
            let start = self.amount(class, own, first[own]);
            for &machine in machines.iter().filter(|machine| **machine != own) {
                let mut row = slope(class, own, 1.0);
                row.extend(slope(class, machine, -1.0));
                row.push((loss, -1.0));
                let room = self.amount(class, machine, first[machine]) - start;
                problem.add_constraint(row, ComparisonOp::Le, room);
            }
        }

        let mut options = SolveOptions::default();
        options.tolerances.feasibility = FEASIBILITY;
        options.presolve = false;
        let solution = problem.solve_with(options).ok()?.into_solution().ok()?;
        let pivots = usize::try_from(solution.stats().lp_iterations).unwrap_or(usize::MAX);
        work.spend(pivot_steps.saturating_mul(pivots.saturating_add(1)))?;
        for &machine in &machines {
            let value = |part: Variable| solution.var_value(part).max(0.0);
            let sum: f64 = parts[machine].iter().map(|&(_, part)| value(part)).sum();
            for &(lane, part) in &parts[machine] {
                divisions[machine][lane] = value(part) / sum.max(1.0);
            }
            divisions[machine][first[machine]] = (1.0 - sum).max(0.0);
        }
        Some(())
    }

    /// How much one unit of each class's worth counts, of one in all.
    fn weights(&self) -> Vec<f64> {
        let values = self.model.classes.iter().zip(self.unit).map(|(class, unit)| class.count * unit);
        let total: f64 = values.clone().sum();
        values.map(|value| value / total).collect()
    }

    /// What a class is worth, in its unit, at a machine with its whole price on one lane.
    fn amount(&self, class: usize, machine: usize, lane: usize) -> f64 {
        let lanes = &self.model.classes[class].lanes;
        match lanes.binary_search_by_key(&lane, |(lane, _)| *lane) {
            Ok(at) => lanes[at].1 * self.model.machines[machine].rate[lane] / self.unit[class],
            Err(_) => 0.0,
        }
    }
}

/// The lane with the largest part of a price; the first of equals.
fn largest_part(lanes: &[usize], division: &[f64]) -> usize {
    let mut largest = (f64::NEG_INFINITY, 0);
    for &lane in lanes {
        if division[lane] > largest.0 {
            largest = (division[lane], lane);
        }
    }
    largest.1
}
