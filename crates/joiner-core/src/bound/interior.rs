//! The solver behind the price floor: a primal-dual interior-point method for one family of linear programs.
//!
//! ```text
//! maximise  Σ_c weight_c · v_c
//! such that v_c ≤ Σ_k coefficient_k · u_k    for every row of class c
//!           Σ_{k of block b} u_k ≤ 1         for every block b
//!           u ≥ 0
//! ```
//!
//! Each `v_c` occurs in its own rows only, so it drops out of the Newton system, and what is left to factorise has
//! one line per `u`, however many classes there are. A general simplex code needs a basis of one line per row and
//! thousands of degenerate pivots for the same answer. The number of steps is bounded and does not depend on
//! luck, which makes the work predictable. Start and every later point are strictly feasible on both sides, so the
//! gap between the two sums is known exactly at any time.

/// One line of the program: `v_class ≤ Σ coefficient · u`.
pub(super) struct Row {
    /// The class whose worth the row limits.
    pub class: usize,
    /// Variables with a positive coefficient.
    pub terms: Vec<(usize, f64)>,
}

/// A program to solve. Weights are positive, every class has a row and every row a term.
pub(super) struct Program {
    /// How much one unit of each class's worth counts.
    pub weights: Vec<f64>,
    /// Rows ordered by class.
    pub rows: Vec<Row>,
    /// Ranges of variables that share one unit: block `b` is `starts[b]..starts[b + 1]`.
    pub starts: Vec<usize>,
}

/// A nearly optimal point.
pub(super) struct Answer {
    /// Value of each variable.
    pub u: Vec<f64>,
    /// Multiplier of each row: how much of the class goes to the row's machine.
    pub x: Vec<f64>,
    /// Multiplier of each block: how much of the machine is bought.
    pub y: Vec<f64>,
    /// A sum that no feasible point exceeds.
    pub ceiling: f64,
}

/// Steps after which the search ends wherever it is; two dozen are usual.
const MAX_STEPS: usize = 80;

impl Program {
    /// Elementary operations of one step, for the work budget.
    pub(super) fn step_cost(&self) -> usize {
        let size = *self.starts.last().unwrap_or(&0);
        let mut per_class = vec![0usize; self.weights.len()];
        for row in &self.rows {
            per_class[row.class] += row.terms.len();
        }
        size * size * size / 6
            + per_class.iter().map(|terms| terms * terms).sum::<usize>()
            + 40 * self.rows.len()
    }

    /// Searches until the gap is below `tolerance`. `afford` is asked before every step.
    pub(super) fn solve(&self, tolerance: f64, mut afford: impl FnMut() -> bool) -> Option<Answer> {
        let mut point = Point::start(self);
        let mut best: Option<Answer> = None;
        for _ in 0..MAX_STEPS {
            let (floor, ceiling) = point.values(self);
            if !(floor.is_finite() && ceiling.is_finite()) {
                break;
            }
            let ceiling = best.as_ref().map_or(ceiling, |best| best.ceiling.min(ceiling));
            best = Some(Answer { u: point.u.clone(), x: point.x.clone(), y: point.y.clone(), ceiling });
            if ceiling - floor <= tolerance * ceiling || !afford() || !point.step(self) {
                break;
            }
        }
        best
    }
}

/// Both sides of the program: worths `v`, divisions `u` with slacks `s` and `t`, and their multipliers.
struct Point {
    v: Vec<f64>,
    u: Vec<f64>,
    s: Vec<f64>,
    t: Vec<f64>,
    /// Multiplier of a row: how much of the class is put on the machine.
    x: Vec<f64>,
    /// Multiplier of a block: how much of the machine is bought.
    y: Vec<f64>,
    /// Multiplier of `u ≥ 0`: how much of the lane stays unused.
    z: Vec<f64>,
}

/// A direction to move in.
struct Move {
    v: Vec<f64>,
    u: Vec<f64>,
    s: Vec<f64>,
    t: Vec<f64>,
    x: Vec<f64>,
    y: Vec<f64>,
    z: Vec<f64>,
}

impl Point {
    fn start(program: &Program) -> Point {
        let size = *program.starts.last().unwrap_or(&0);
        let blocks = program.starts.len().saturating_sub(1);
        let mut u = vec![0.0; size];
        for range in program.starts.windows(2) {
            u[range[0]..range[1]].fill(1.0 / (range[1] - range[0] + 1) as f64);
        }
        let mut rows_of = vec![0usize; program.weights.len()];
        let mut v = vec![f64::INFINITY; program.weights.len()];
        for row in &program.rows {
            rows_of[row.class] += 1;
            v[row.class] = v[row.class].min(0.5 * dot(&row.terms, &u));
        }
        let x: Vec<f64> =
            program.rows.iter().map(|row| program.weights[row.class] / rows_of[row.class] as f64).collect();
        let mut point = Point { v, u, s: Vec::new(), t: Vec::new(), x, y: vec![0.0; blocks], z: Vec::new() };
        let load = point.load(program);
        let mean = load.iter().sum::<f64>() / size.max(1) as f64;
        for (block, range) in program.starts.windows(2).enumerate() {
            let most = load[range[0]..range[1]].iter().copied().fold(0.0, f64::max);
            point.y[block] = 1.5 * most + mean;
        }
        point.restore(program);
        point
    }

    /// How much of each lane the placed pods take.
    fn load(&self, program: &Program) -> Vec<f64> {
        let mut load = vec![0.0; self.u.len()];
        for (row, x) in program.rows.iter().zip(&self.x) {
            row.terms.iter().for_each(|&(index, coefficient)| load[index] += coefficient * x);
        }
        load
    }

    /// Recomputes the slacks from what they are slacks of, so that round-off never adds up.
    fn restore(&mut self, program: &Program) {
        self.s = program.rows.iter().map(|row| dot(&row.terms, &self.u) - self.v[row.class]).collect();
        self.t = program
            .starts
            .windows(2)
            .map(|range| 1.0 - self.u[range[0]..range[1]].iter().sum::<f64>())
            .collect();
        let load = self.load(program);
        self.z = load.iter().map(|load| -load).collect();
        for (block, range) in program.starts.windows(2).enumerate() {
            self.z[range[0]..range[1]].iter_mut().for_each(|slack| *slack += self.y[block]);
        }
    }

    /// The sum reached and the sum that cannot be exceeded.
    fn values(&self, program: &Program) -> (f64, f64) {
        let floor = program.weights.iter().zip(&self.v).map(|(weight, v)| weight * v).sum();
        (floor, self.y.iter().sum())
    }

    /// Moves on. `false`: round-off leaves no way forward.
    fn step(&mut self, program: &Program) -> bool {
        let Some(system) = System::factorise(program, self) else { return false };
        let pairs = self.s.len() + self.t.len() + self.u.len();
        let complementarity = |x: &[f64], s: &[f64]| x.iter().zip(s).map(|(x, s)| x * s).sum::<f64>();
        let mean = (complementarity(&self.x, &self.s)
            + complementarity(&self.y, &self.t)
            + complementarity(&self.z, &self.u))
            / pairs as f64;

        // Predict with no centring, see how far that goes, then centre and correct accordingly.
        let target = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| -a * b).collect::<Vec<f64>>();
        let aim = (target(&self.x, &self.s), target(&self.y, &self.t), target(&self.z, &self.u));
        let guess = system.direction(program, self, &aim.0, &aim.1, &aim.2);
        let (worths, loads) = self.reach(&guess);
        let after = |a: &[f64], da: &[f64], b: &[f64], db: &[f64]| {
            (0..a.len()).map(|i| (a[i] + loads * da[i]) * (b[i] + worths * db[i])).sum::<f64>()
        };
        let predicted = (after(&self.x, &guess.x, &self.s, &guess.s)
            + after(&self.y, &guess.y, &self.t, &guess.t)
            + after(&self.z, &guess.z, &self.u, &guess.u))
            / pairs as f64;
        let centre = mean * (predicted / mean).clamp(0.0, 1.0).powi(3);
        let correct = |aim: &[f64], da: &[f64], db: &[f64]| {
            (0..aim.len()).map(|i| aim[i] + centre - da[i] * db[i]).collect::<Vec<f64>>()
        };
        let aim = (
            correct(&aim.0, &guess.x, &guess.s),
            correct(&aim.1, &guess.y, &guess.t),
            correct(&aim.2, &guess.z, &guess.u),
        );
        let direction = system.direction(program, self, &aim.0, &aim.1, &aim.2);
        let (worths, loads) = self.reach(&direction);
        let (worths, loads) = ((0.995 * worths).min(1.0), (0.995 * loads).min(1.0));
        if worths.max(loads) < 1e-6 || worths.is_nan() || loads.is_nan() {
            return false;
        }
        let mut next = Point {
            v: moved(&self.v, worths, &direction.v),
            u: moved(&self.u, worths, &direction.u),
            s: Vec::new(),
            t: Vec::new(),
            x: moved(&self.x, loads, &direction.x),
            y: moved(&self.y, loads, &direction.y),
            z: Vec::new(),
        };
        next.balance(program);
        next.restore(program);
        let inside = |values: &[f64]| values.iter().all(|value| *value > 0.0);
        if ![&next.u, &next.s, &next.t, &next.x, &next.y, &next.z].into_iter().all(|values| inside(values)) {
            return false;
        }
        *self = next;
        true
    }

    /// Makes every class placed exactly once again.
    fn balance(&mut self, program: &Program) {
        let mut placed = vec![0.0; program.weights.len()];
        for (row, x) in program.rows.iter().zip(&self.x) {
            placed[row.class] += x;
        }
        for (row, x) in program.rows.iter().zip(self.x.iter_mut()) {
            *x *= program.weights[row.class] / placed[row.class];
        }
    }

    /// How far each side can go before something becomes negative, at most a little beyond the full step.
    fn reach(&self, direction: &Move) -> (f64, f64) {
        let limit = |values: &[f64], changes: &[f64]| {
            let ratios = values.iter().zip(changes).filter(|(_, change)| **change < 0.0);
            ratios.map(|(value, change)| -value / change).fold(1.0 / 0.995, f64::min)
        };
        let worths =
            limit(&self.u, &direction.u).min(limit(&self.s, &direction.s)).min(limit(&self.t, &direction.t));
        let loads =
            limit(&self.x, &direction.x).min(limit(&self.y, &direction.y)).min(limit(&self.z, &direction.z));
        (worths, loads)
    }
}

fn moved(values: &[f64], length: f64, changes: &[f64]) -> Vec<f64> {
    values.iter().zip(changes).map(|(value, change)| value + length * change).collect()
}

fn dot(terms: &[(usize, f64)], u: &[f64]) -> f64 {
    terms.iter().map(|&(index, coefficient)| coefficient * u[index]).sum()
}

/// The Newton system of one point, reduced to the variables `u` and factorised.
struct System {
    /// Lower triangle of the Cholesky factor, row by row.
    factor: Vec<f64>,
    size: usize,
    /// Per row: multiplier over slack.
    theta: Vec<f64>,
    /// Per class: sum of `theta`.
    weight: Vec<f64>,
}

impl System {
    fn factorise(program: &Program, point: &Point) -> Option<System> {
        let size = point.u.len();
        let theta: Vec<f64> = point.x.iter().zip(&point.s).map(|(x, s)| x / s).collect();
        let mut weight = vec![0.0; program.weights.len()];
        program.rows.iter().zip(&theta).for_each(|(row, theta)| weight[row.class] += theta);

        let mut matrix = vec![0.0; size * size];
        for (block, range) in program.starts.windows(2).enumerate() {
            let coupling = point.y[block] / point.t[block];
            for i in range[0]..range[1] {
                matrix[i * size + range[0]..i * size + i + 1].iter_mut().for_each(|entry| *entry += coupling);
                matrix[i * size + i] += point.z[i] / point.u[i];
            }
        }
        let mut first = 0;
        while first < program.rows.len() {
            let class = program.rows[first].class;
            let mut last = first;
            while last < program.rows.len() && program.rows[last].class == class {
                last += 1;
            }
            for a in first..last {
                // Summed without the row itself: the difference to the whole would lose every digit.
                let others: f64 = (first..last).filter(|&b| b != a).map(|b| theta[b]).sum();
                let own = theta[a] * (others / weight[class]);
                for &(i, left) in &program.rows[a].terms {
                    for &(j, right) in &program.rows[a].terms {
                        if j <= i {
                            matrix[i * size + j] += own * left * right;
                        }
                    }
                }
                for b in first..a {
                    let shared = theta[a] * (theta[b] / weight[class]);
                    for &(i, left) in &program.rows[a].terms {
                        for &(j, right) in &program.rows[b].terms {
                            matrix[i.max(j) * size + i.min(j)] -= shared * left * right;
                        }
                    }
                }
            }
            first = last;
        }
        cholesky(&mut matrix, size).then_some(System { factor: matrix, size, theta, weight })
    }

    /// The move that makes the products of both sides change by `aim_x`, `aim_y` and `aim_z`, to first order.
    fn direction(
        &self,
        program: &Program,
        point: &Point,
        aim_x: &[f64],
        aim_y: &[f64],
        aim_z: &[f64],
    ) -> Move {
        let quotient: Vec<f64> = aim_x.iter().zip(&point.s).map(|(aim, s)| aim / s).collect();
        let mut of_class = vec![0.0; program.weights.len()];
        program.rows.iter().zip(&quotient).for_each(|(row, quotient)| of_class[row.class] += quotient);

        let mut right: Vec<f64> = aim_z.iter().zip(&point.u).map(|(aim, u)| aim / u).collect();
        for (block, range) in program.starts.windows(2).enumerate() {
            right[range[0]..range[1]].iter_mut().for_each(|entry| *entry -= aim_y[block] / point.t[block]);
        }
        for (index, row) in program.rows.iter().enumerate() {
            let amount = quotient[index] - self.theta[index] * of_class[row.class] / self.weight[row.class];
            row.terms.iter().for_each(|&(i, coefficient)| right[i] += coefficient * amount);
        }
        let u = self.substitute(right);

        let gains: Vec<f64> = program.rows.iter().map(|row| dot(&row.terms, &u)).collect();
        let mut v: Vec<f64> = of_class.iter().map(|sum| -sum).collect();
        for (index, row) in program.rows.iter().enumerate() {
            v[row.class] += self.theta[index] * gains[index];
        }
        v.iter_mut().zip(&self.weight).for_each(|(v, weight)| *v /= weight);
        let s: Vec<f64> = program.rows.iter().zip(&gains).map(|(row, gain)| gain - v[row.class]).collect();
        let x = (0..s.len()).map(|index| quotient[index] - self.theta[index] * s[index]).collect();
        let t: Vec<f64> =
            program.starts.windows(2).map(|range| -u[range[0]..range[1]].iter().sum::<f64>()).collect();
        let y =
            (0..t.len()).map(|block| (aim_y[block] - point.y[block] * t[block]) / point.t[block]).collect();
        let z =
            (0..u.len()).map(|index| (aim_z[index] - point.z[index] * u[index]) / point.u[index]).collect();
        Move { v, u, s, t, x, y, z }
    }

    fn substitute(&self, mut right: Vec<f64>) -> Vec<f64> {
        let size = self.size;
        for i in 0..size {
            let row = &self.factor[i * size..i * size + i];
            let sum: f64 = row.iter().zip(&right[..i]).map(|(a, b)| a * b).sum();
            right[i] = (right[i] - sum) / self.factor[i * size + i];
        }
        for i in (0..size).rev() {
            right[i] /= self.factor[i * size + i];
            let value = right[i];
            let row = &self.factor[i * size..i * size + i];
            right[..i].iter_mut().zip(row).for_each(|(entry, factor)| *entry -= factor * value);
        }
        right
    }
}

/// Replaces the lower triangle of a positive definite matrix by its Cholesky factor. `false`: not a number.
fn cholesky(matrix: &mut [f64], size: usize) -> bool {
    for i in 0..size {
        let (above, current) = matrix.split_at_mut(i * size);
        let row = &mut current[..=i];
        let original = row[i];
        for j in 0..i {
            let other = &above[j * size..j * size + j + 1];
            let sum = dot_dense(&row[..j], &other[..j]);
            row[j] = (row[j] - sum) / other[j];
        }
        let pivot = original - dot_dense(&row[..i], &row[..i]);
        // Directions that round-off has swallowed are frozen instead of followed.
        row[i] = if pivot > original * 1e-14 { pivot.sqrt() } else { original.max(1e-300).sqrt() * 1e8 };
        if !row[i].is_finite() {
            return false;
        }
    }
    true
}

/// A dot product in eight independent sums, which the compiler turns into vector instructions.
fn dot_dense(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (a_chunks, b_chunks) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a_chunks.zip(b_chunks) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    rest + sums.iter().sum::<f64>()
}
