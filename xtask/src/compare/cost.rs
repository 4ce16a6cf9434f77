//! What plans cost: joiner's default packing and the original on scenarios of six families and on a GPU cluster's trace.
//!
//! Both get the same files. The original's plan is held against every hard rule, for a plan that breaks one may be cheap for that reason;
//! prices are compared where it breaks none and places every pod that joiner places. Joiner runs twice, with its default charge per node and without any.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::cost_report::Report;
use super::judge::Judge;
use super::measure::{self, Measure};
use super::{Args, one_more_type};
use crate::inputs::{self, families};

/// Where the report is kept.
const REPORT: &str = "docs/reference/cost-comparison.md";
/// Recorded inputs that are compared as well: a trace, and sizes at which time matters. Each is a family of its own.
pub const RECORDED: [&str; 3] = ["openb", "mix-5k-aws", "services-10k"];

/// Both programs on one scenario.
pub struct Trial {
    /// Family of the scenario.
    pub family: &'static str,
    /// Its name.
    pub name: String,
    /// The original.
    pub original: Measure,
    /// Joiner with its default charge per node.
    pub usual: Measure,
    /// Joiner without a charge per node.
    pub uncharged: Measure,
}

impl Trial {
    /// Whether prices can be compared: the original's plan breaks no rule and leaves no pod out that joiner places.
    pub fn comparable(&self) -> bool {
        self.original.violations.as_ref().is_some_and(|broken| broken.is_empty())
            && self.original.unschedulable <= self.usual.unschedulable.min(self.uncharged.unschedulable)
            && self.original.price_per_hour > 0.0
    }

    /// What is wrong with joiner's plans.
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        for (how, ours) in [("usual charge", &self.usual), ("no charge", &self.uncharged)] {
            for (rule, count) in ours.violations.iter().flatten() {
                complaints.push(format!("{}, {how}: breaks `{rule}` {count} times", self.name));
            }
            if self.comparable() && ours.price_per_hour > self.original.price_per_hour * (1.0 + 1e-9) {
                complaints.push(format!(
                    "{}, {how}: ${:.4}/h where the original pays ${:.4}/h",
                    self.name, ours.price_per_hour, self.original.price_per_hour
                ));
            }
        }
        complaints
    }
}

/// Runs `cargo xtask compare --cost`.
pub fn run(args: &Args, root: &Path) -> Result<()> {
    let (peer, joiner) = super::programs(args, root)?;
    let sources = inputs::Sources::read(root)?;
    let wanted =
        |name: &str| args.only.is_empty() || args.only.iter().any(|part| name.contains(part.as_str()));
    let bench = Bench { peer, joiner, directory: root.join("target").join("compare-cost") };
    let mut trials = Vec::new();
    for scenario in families::scenarios(args.quick) {
        let name = scenario.name();
        if wanted(&name) {
            let dir = bench.directory.join(&name);
            fs::create_dir_all(&dir).with_context(|| format!("creating `{}`", dir.display()))?;
            let types = inputs::types_of(scenario.family.catalogue(), &sources)?;
            fs::write(dir.join("types.json"), serde_json::to_string(&types)?)?;
            let mut manifests = Vec::new();
            scenario.write(inputs::DEFAULT_SEED, &mut manifests)?;
            fs::write(dir.join("manifests.json"), manifests)?;
            trials.push(bench.trial(scenario.family.name(), name, &dir)?);
            // Hundreds of catalogues would fill the disk; a single scenario is kept for a closer look.
            if args.only.is_empty() {
                fs::remove_dir_all(&dir)?;
            }
        }
    }
    for name in RECORDED.into_iter().filter(|name| !args.quick && wanted(name)) {
        let directory = args.inputs.clone().unwrap_or_else(|| inputs::default_directory(root));
        let recipe = inputs::RECIPES.iter().find(|recipe| recipe.name == name);
        let recipe = recipe.with_context(|| format!("there is no recipe of `{name}`"))?;
        super::write_missing(&[recipe], &directory, root)?;
        trials.push(bench.trial(name, name.to_owned(), &directory.join(name))?);
    }
    if trials.is_empty() {
        bail!("no scenario's name contains `{}`", args.only.join("` or `"));
    }
    let additions = if args.only.is_empty() {
        one_more_type::trials(&bench.joiner, &bench.directory, &sources, args.quick)?
    } else {
        Vec::new()
    };

    let report = Report { trials: &trials, additions: &additions, caption: caption(root) };
    print!("{}", report.summary());
    if args.write {
        let path = root.join(REPORT);
        fs::write(&path, report.page()).with_context(|| format!("writing `{}`", path.display()))?;
    }
    let complaints: Vec<String> = trials.iter().flat_map(Trial::complaints).collect();
    if !complaints.is_empty() {
        let text = format!("joiner breaks a rule or is dearer:\n  {}", complaints.join("\n  "));
        if args.check {
            bail!(text);
        }
        eprintln!("{text}");
    }
    Ok(())
}

struct Bench {
    peer: PathBuf,
    joiner: PathBuf,
    directory: PathBuf,
}

impl Bench {
    fn trial(&self, family: &'static str, name: String, dir: &Path) -> Result<Trial> {
        eprintln!("{name}");
        let judge = Judge::new(dir)?;
        let (mut original, plan) = measure::run_peer(&self.peer, dir, true)?;
        eprintln!("  original   {}", original.summary());
        let mut broken = judge.violations(&plan);
        // Sums are written by our own driver of the original, which counts only the pods it placed.
        broken.remove("totals");
        original.violations = Some(broken);
        let ours = |options: &[&str], what: &str| -> Result<Measure> {
            let (mut measure, plan) = measure::run_joiner_with(&self.joiner, dir, options)?;
            eprintln!("  {what} {}", measure.summary());
            measure.violations = Some(judge.violations(&plan));
            Ok(measure)
        };
        let usual = ours(&["--packing", "cheapest"], "joiner    ")?;
        let uncharged = ours(&["--packing", "cheapest", "--node-charge", "0"], "uncharged ")?;
        measure::pending_pods(dir, Some(&original), Some(&usual))?;
        Ok(Trial { family, name, original, usual, uncharged })
    }
}

fn caption(root: &Path) -> String {
    format!(
        "Original: Karpenter {}, five workers, no time limit; joiner: one thread, `--packing cheapest`. Time to decide without \
         reading files, one run, on {}.",
        super::original_version(root),
        super::processor()
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn measure(price: f64, unschedulable: u64, broken: &[&str]) -> Measure {
        Measure {
            solve_seconds: 1.0,
            wall_seconds: 1.0,
            peak_rss_bytes: 1,
            nodes: 1,
            price_per_hour: price,
            lower_bound_per_hour: Some(1.0),
            unschedulable,
            pods: 10,
            existing_nodes: 0,
            violations: Some(broken.iter().map(|rule| ((*rule).to_owned(), 1)).collect::<BTreeMap<_, _>>()),
        }
    }

    fn trial(original: Measure, ours: Measure) -> Trial {
        Trial { family: "spread", name: "spread-01".into(), original, uncharged: ours.clone(), usual: ours }
    }

    #[test]
    fn only_right_plans_for_the_same_pods_are_compared() {
        let ours = measure(2.0, 1, &[]);
        assert!(trial(measure(1.0, 1, &[]), ours.clone()).comparable());
        assert!(!trial(measure(1.0, 2, &[]), ours.clone()).comparable());
        assert!(!trial(measure(1.0, 1, &["spread"]), ours).comparable());
    }

    #[test]
    fn a_dearer_plan_and_a_broken_rule_are_complained_about() {
        assert!(trial(measure(2.0, 0, &[]), measure(2.0, 0, &[])).complaints().is_empty());
        assert_eq!(trial(measure(2.0, 0, &[]), measure(2.1, 0, &[])).complaints().len(), 2);
        assert_eq!(trial(measure(2.0, 0, &["taints"]), measure(2.1, 0, &[])).complaints().len(), 0);
        assert_eq!(trial(measure(2.0, 0, &[]), measure(1.0, 0, &["taints"])).complaints().len(), 2);
    }
}
