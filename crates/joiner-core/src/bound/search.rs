//! The search for the division of prices that proves the highest floor: the linear program grows by the rows and
//! machines its answer violates, until it violates none.

use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};

use super::Demand;
use super::program::Program;
use super::reduce::{Machine, Model, Work};

/// By what share the price of a machine may be overdrawn in an answer that counts as final.
const CONVERGED: f64 = 1e-7;
/// What is not worth another look, as a share: well inside what counts as final.
const CLOSE: f64 = 1e-8;
/// Machines added to the program in one round, the most overdrawn first.
const MACHINES_PER_ROUND: usize = 8;
/// Rows added for a class in one round, those where it is worth least.
const ROWS_PER_ROUND: usize = 5;
/// A class is compared with machines where it is worth at most this multiple of the least.
const NEAR: f64 = 2.0;
/// Elementary steps of solving the smallest program, and more per entry of a larger one.
const COVER_STEPS: usize = 8_000;
const COVER_ENTRY_STEPS: usize = 300;

/// The machine where a class is worth least, and that worth; the first of equals.
pub(super) fn least(machines: impl Iterator<Item = usize>, worth: impl Fn(usize) -> f64) -> (f64, usize) {
    let mut found = (f64::INFINITY, 0);
    for machine in machines {
        let value = worth(machine);
        if value < found.0 {
            found = (value, machine);
        }
    }
    found
}

/// The growing linear program.
pub(super) struct Search<'a> {
    model: &'a Model,
    /// Per class: the unit in which the program measures worth.
    unit: Vec<f64>,
    /// Per machine: the last division of its price.
    division: Vec<Vec<f64>>,
    /// Per machine: the classes that last decided its division outside the program.
    binding: Vec<Vec<usize>>,
    /// Per class: the machines the program compares.
    rows: Vec<Vec<usize>>,
    /// Per machine: whether the program divides its price.
    divided: Vec<bool>,
}

impl<'a> Search<'a> {
    /// Starts with the machines that are cheapest for some class, by its scarcest lane or by all of them alike.
    pub(super) fn new(model: &'a Model) -> Self {
        let even = |machine: &Machine| {
            let mut parts = vec![0.0; model.lanes];
            machine.lanes.iter().for_each(|&lane| parts[lane] = 1.0 / machine.lanes.len() as f64);
            parts
        };
        let division: Vec<Vec<f64>> = model.machines.iter().map(even).collect();
        let mut divided = vec![false; model.machines.len()];
        let mut unit = Vec::with_capacity(model.classes.len());
        for (class, of) in model.classes.iter().enumerate() {
            let (alone_worth, alone) = least(of.machines(), |machine| model.most_worth(class, machine));
            let (_, shared) = least(of.machines(), |machine| model.worth(class, machine, &division[machine]));
            divided[alone] = true;
            divided[shared] = true;
            unit.push(alone_worth);
        }
        let rows = vec![Vec::new(); model.classes.len()];
        let binding = vec![Vec::new(); model.machines.len()];
        Search { model, unit, division, binding, rows, divided }
    }

    /// Grows the program until its answer is proved. `None`: the budget ends before that.
    pub(super) fn run(&mut self, work: &mut Work) -> Option<f64> {
        self.compare(work)?;
        // Rows and machines only come in, so this ends; the budget may end it sooner.
        loop {
            let Search { model, unit, rows, divided, division, .. } = self;
            Program { model, unit, rows, divided }.solve(division, work)?;
            if self.compare(work)? {
                continue;
            }
            if let Some(proved) = self.prove(work)? {
                return Some(proved);
            }
        }
    }

    /// What one pod of a demand is worth by the divisions that were found: the least it costs at any machine that it may use.
    pub(super) fn worth_of(&self, demand: &Demand) -> f64 {
        let needs = self.model.needs(demand);
        let usable = self.model.machines.iter().zip(&self.division);
        let usable = usable.filter(|(machine, _)| demand.offers.contains(&(machine.offer as u32)));
        let worths = usable.map(|(machine, division)| {
            needs.iter().map(|&(lane, amount)| division[lane] * machine.rate[lane] * amount).sum()
        });
        worths.fold(f64::INFINITY, f64::min)
    }

    /// Lets in the rows that keep a class below what the program makes of it. Says whether any came in.
    fn compare(&mut self, work: &mut Work) -> Option<bool> {
        let model = self.model;
        let mut grown = false;
        for (class, of) in model.classes.iter().enumerate() {
            work.spend(2 * of.offers.len() * of.lanes.len())?;
            let rows = &mut self.rows[class];
            let worth = |machine: usize| model.worth(class, machine, &self.division[machine]);
            let assumed = rows.iter().map(|&machine| worth(machine)).fold(f64::INFINITY, f64::min);
            let new = of.machines().filter(|machine| self.divided[*machine] && !rows.contains(machine));
            let mut new: Vec<(f64, usize)> = new.map(|machine| (worth(machine), machine)).collect();
            let lowest = new.iter().map(|(worth, _)| *worth).fold(f64::INFINITY, f64::min);
            if lowest < assumed * (1.0 - CLOSE) {
                grown = true;
                new.retain(|(worth, _)| *worth <= lowest * NEAR);
                new.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                rows.extend(new.iter().take(ROWS_PER_ROUND).map(|(_, machine)| *machine));
            }
        }
        Some(grown)
    }

    /// The floor that the divisions prove, if every machine outside the program has one that agrees; otherwise lets
    /// in those that agree least.
    fn prove(&mut self, work: &mut Work) -> Option<Option<f64>> {
        let model = self.model;
        let mut worth = Vec::with_capacity(model.classes.len());
        for (class, of) in model.classes.iter().enumerate() {
            work.spend(of.offers.len() * of.lanes.len())?;
            let divided = of.machines().filter(|machine| self.divided[*machine]);
            let worths = divided.map(|machine| model.worth(class, machine, &self.division[machine]));
            worth.push(worths.fold(f64::INFINITY, f64::min));
        }
        let mut overdrawn: Vec<(f64, usize)> = Vec::new();
        let mut factor = vec![1.0f64; model.classes.len()];
        for machine in 0..model.machines.len() {
            if self.divided[machine] {
                continue;
            }
            let (overdraft, division) = self.overdraft(machine, &worth, work)?;
            self.division[machine] = division;
            for class in model.machines[machine].classes() {
                factor[class] = factor[class].max(overdraft);
            }
            if overdraft > 1.0 + CONVERGED {
                overdrawn.push((overdraft, machine));
            }
        }
        if overdrawn.is_empty() {
            let counts = model.classes.iter().map(|class| class.count);
            let proved =
                counts.zip(&worth).zip(&factor).map(|((count, worth), factor)| count * worth / factor);
            return Some(Some(proved.sum()));
        }
        overdrawn.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for &(_, machine) in overdrawn.iter().take(MACHINES_PER_ROUND) {
            self.divided[machine] = true;
            for class in model.machines[machine].classes() {
                if model.worth(class, machine, &self.division[machine]) <= worth[class] * NEAR {
                    self.rows[class].push(machine);
                }
            }
        }
        Some(None)
    }

    /// By how much the worths of all pods a machine could hold exceed its price: the least factor by which some
    /// division of `factor × price` covers every pod's worth, and that division. At most 1: the machine is no
    /// obstacle. Far above 1, the factor is only an upper limit.
    fn overdraft(&mut self, machine: usize, worth: &[f64], work: &mut Work) -> Option<(f64, Vec<f64>)> {
        let model = self.model;
        let classes = || model.machines[machine].classes();
        let check_steps = classes().map(|class| model.classes[class].lanes.len()).sum::<usize>() + 1;
        // The least multiple of a division that covers every worth, and the class that needs it.
        let needed = |division: &[f64]| {
            let mut most = (0.0f64, usize::MAX);
            for class in classes().filter(|class| worth[*class] > 0.0) {
                let ratio = worth[class] / model.worth(class, machine, division);
                if ratio > most.0 {
                    most = (ratio, class);
                }
            }
            most
        };
        work.spend(2 * check_steps)?;
        let (ratio, mut class) = needed(&self.division[machine]);
        let mut best = (ratio, self.division[machine].clone());
        // The classes that mattered before probably do again.
        let mut binding = std::mem::take(&mut self.binding[machine]);
        binding.retain(|class| worth[*class] > 0.0);
        while best.0 > 1.0 + CLOSE {
            if !binding.contains(&class) {
                binding.push(class);
            }
            let entries = binding.len() * model.machines[machine].lanes.len();
            work.spend(2 * check_steps + COVER_STEPS + COVER_ENTRY_STEPS * entries)?;
            let Some((multiple, division)) = self.cover(machine, worth, &binding) else { break };
            let (ratio, needs_more) = needed(&division);
            if ratio < best.0 {
                best = (ratio, division);
            }
            // A few classes are too much already, or the others need no more than they do.
            if multiple > 1.0 + CONVERGED
                || ratio <= multiple * (1.0 + CLOSE / 10.0)
                || binding.contains(&needs_more)
            {
                break;
            }
            class = needs_more;
        }
        self.binding[machine] = binding;
        Some(best)
    }

    /// The cheapest division that covers the worths of some classes: its price as a multiple of the machine's, and
    /// the division scaled to sum to one.
    fn cover(&self, machine: usize, worth: &[f64], binding: &[usize]) -> Option<(f64, Vec<f64>)> {
        let model = self.model;
        let Machine { rate, lanes, .. } = &model.machines[machine];
        let mut problem = Problem::new(OptimizationDirection::Minimize);
        let parts: Vec<Variable> = lanes.iter().map(|_| problem.add_var(1.0, (0.0, f64::INFINITY))).collect();
        for &class in binding {
            let mut row = Vec::with_capacity(lanes.len());
            for &(lane, request) in &model.classes[class].lanes {
                if let Ok(at) = lanes.binary_search(&lane) {
                    row.push((parts[at], rate[lane] * request / worth[class]));
                }
            }
            problem.add_constraint(row, ComparisonOp::Ge, 1.0);
        }
        let solution = problem.solve().ok()?.into_solution().ok()?;
        let mut division = vec![0.0; model.lanes];
        for (&lane, &part) in lanes.iter().zip(&parts) {
            division[lane] = solution.var_value(part).max(0.0);
        }
        let sum: f64 = division.iter().sum();
        division.iter_mut().for_each(|part| *part /= sum);
        (sum > 0.0).then_some((sum, division))
    }
}
