//! One run of one program on one input.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::Value;

/// Figures of one run, or medians of several.
#[derive(Clone, Debug, Serialize)]
pub struct Measure {
    /// Time to decide.
    pub solve_seconds: f64,
    /// From start to exit, files included.
    pub wall_seconds: f64,
    /// Highest resident size of the process.
    pub peak_rss_bytes: u64,
    /// New nodes.
    pub nodes: u64,
    /// Hourly price of the new nodes, each at its cheapest offering.
    pub price_per_hour: f64,
    /// Hourly price that no plan can go below, where it was computed.
    pub lower_bound_per_hour: Option<f64>,
    /// Pods left out.
    pub unschedulable: u64,
    /// Pods to place.
    pub pods: u64,
    /// Nodes that were there before.
    pub existing_nodes: u64,
    /// Broken rules with their number, if the plan was judged.
    pub violations: Option<BTreeMap<String, u64>>,
}

impl Measure {
    /// One line for progress.
    pub fn summary(&self) -> String {
        format!(
            "{:>9.4} s  {:>7.1} MB  {:>5} nodes  ${:.3}/h  {} left out",
            self.solve_seconds,
            self.peak_rss_bytes as f64 / 1e6,
            self.nodes,
            self.price_per_hour,
            self.unschedulable
        )
    }
}

/// Runs the original's scheduler; its plan comes with the figures if asked for.
pub fn run_peer(peer: &Path, dir: &Path, with_plan: bool) -> Result<(Measure, Value)> {
    let mut command = Command::new(peer);
    if with_plan {
        command.arg("-plan");
    }
    command.arg(dir);
    let (mut report, wall_seconds, _) = observe(&mut command)?;
    if report["timedOut"] == Value::Bool(true) {
        bail!("the original ran out of time on `{}`", dir.display());
    }
    let number = |name: &str| number_at(&report, &format!("/{name}"), "the original");
    let measure = Measure {
        solve_seconds: number("solveSeconds")?,
        wall_seconds,
        peak_rss_bytes: number("peakRssBytes")? as u64,
        nodes: number("nodes")? as u64,
        price_per_hour: number("pricePerHour")?,
        lower_bound_per_hour: None,
        unschedulable: number("unschedulable")? as u64,
        pods: number("pods")? as u64,
        existing_nodes: number("existingNodes")? as u64,
        violations: None,
    };
    Ok((measure, report["plan"].take()))
}

/// Runs joiner with these options: its figures and its plan.
pub fn run_joiner(joiner: &Path, dir: &Path, options: &[&str]) -> Result<(Measure, Value)> {
    let mut command = Command::new(joiner);
    command.arg("plan").arg("-f").arg(dir.join("manifests.json"));
    command.arg("--instance-types").arg(dir.join("types.json"));
    // The original is not asked what stands.
    command.args(["-o", "json", "--threads", "1", "--no-afresh"]).args(options);
    let (report, wall_seconds, peak_rss_bytes) = observe(&mut command)?;
    Ok((joiner_measure(&report, wall_seconds, peak_rss_bytes)?, report))
}

/// Reads the fields of joiner's plan that the comparison needs; all names stand here and nowhere else.
fn joiner_measure(report: &Value, wall_seconds: f64, peak_rss_bytes: u64) -> Result<Measure> {
    let number = |pointer: &str| number_at(report, pointer, "joiner");
    let unschedulable = number("/totals/unschedulable")? as u64;
    let nodes = report["nodes"].as_array().context("joiner's report has no `/nodes`")?;
    let placed: usize = nodes.iter().map(|node| node["pods"].as_array().map_or(0, Vec::len)).sum();
    Ok(Measure {
        solve_seconds: number("/timing/solveSeconds")?,
        wall_seconds,
        peak_rss_bytes,
        nodes: number("/totals/newNodes")? as u64,
        price_per_hour: number("/totals/pricePerHour")?,
        lower_bound_per_hour: number("/totals/lowerBoundPerHour").ok(),
        unschedulable,
        pods: placed as u64 + unschedulable,
        existing_nodes: 0,
        violations: None,
    })
}

fn number_at(report: &Value, pointer: &str, whose: &str) -> Result<f64> {
    let field = report.pointer(pointer).with_context(|| format!("{whose}'s report has no `{pointer}`"))?;
    field.as_f64().with_context(|| format!("{whose}'s report: `{pointer}` is `{field}`, not a number"))
}

/// Runs a program to its end: its JSON output, wall time in seconds, and peak memory in bytes.
///
/// Output goes to a file, for a pipe that nobody empties would stop the program. Memory is asked of the kernel while the
/// program runs: the high-water mark only grows, so the last answer before the exit is the peak up to a millisecond.
fn observe(command: &mut Command) -> Result<(Value, f64, u64)> {
    let program = command.get_program().to_string_lossy().into_owned();
    let scratch = std::env::temp_dir().join(format!("joiner-compare-{}.json", std::process::id()));
    let started = Instant::now();
    let mut child = command
        .stdout(Stdio::from(File::create(&scratch)?))
        .spawn()
        .with_context(|| format!("starting `{program}`: was it built?"))?;
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        peak =
            peak.max(fs::read_to_string(&status_file).ok().as_deref().and_then(high_water_mark).unwrap_or(0));
        thread::sleep(Duration::from_millis(1));
    };
    let wall = started.elapsed().as_secs_f64();
    let output = fs::read(&scratch)?;
    fs::remove_file(&scratch).ok();
    // A plan that leaves pods out may end with a status of its own; the JSON is there all the same.
    if !status.success() && output.is_empty() {
        bail!("`{program}` ended with {status} and printed nothing");
    }
    let report =
        serde_json::from_slice(&output).with_context(|| format!("`{program}` ({status}) printed no JSON"))?;
    Ok((report, wall, peak))
}

fn high_water_mark(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// Medians of several runs, each figure on its own: the original iterates over maps, so even its plans differ from run to
/// run. The rest is taken from the run in the middle by time.
pub fn median(runs: &[Measure]) -> Option<Measure> {
    let middle = runs.len().checked_sub(1)? / 2;
    let sorted_by = |key: &dyn Fn(&Measure) -> f64| {
        let mut sorted: Vec<&Measure> = runs.iter().collect();
        sorted.sort_by(|a, b| key(a).total_cmp(&key(b)));
        sorted[middle]
    };
    let mut median = sorted_by(&|run| run.solve_seconds).clone();
    median.wall_seconds = sorted_by(&|run| run.wall_seconds).wall_seconds;
    median.peak_rss_bytes = sorted_by(&|run| run.peak_rss_bytes as f64).peak_rss_bytes;
    median.nodes = sorted_by(&|run| run.nodes as f64).nodes;
    median.price_per_hour = sorted_by(&|run| run.price_per_hour).price_per_hour;
    median.unschedulable = sorted_by(&|run| run.unschedulable as f64).unschedulable;
    median.violations = runs.iter().find_map(|run| run.violations.clone());
    Some(median)
}

/// Pending pods of an input, from whichever program ran; both have to agree.
pub fn pending_pods(dir: &Path, original: Option<&Measure>, joiner: Option<&Measure>) -> Result<u64> {
    match (original, joiner) {
        (Some(a), Some(b)) if a.pods != b.pods => bail!(
            "`{}`: the original saw {} pending pods and joiner {}; they do not solve the same problem",
            dir.display(),
            a.pods,
            b.pods
        ),
        (Some(a), _) => Ok(a.pods),
        (None, Some(b)) => Ok(b.pods),
        (None, None) => Ok(0),
    }
}

/// Entries of the input's `types.json`.
pub fn instance_types(dir: &Path) -> Result<u64> {
    let path = dir.join("types.json");
    let text = fs::read(&path).with_context(|| format!("reading `{}`", path.display()))?;
    let types: Vec<serde::de::IgnoredAny> =
        serde_json::from_slice(&text).with_context(|| format!("parsing `{}`", path.display()))?;
    Ok(types.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seconds: f64, peak: u64) -> Measure {
        Measure {
            solve_seconds: seconds,
            wall_seconds: seconds,
            peak_rss_bytes: peak,
            nodes: 1,
            price_per_hour: 1.0,
            lower_bound_per_hour: None,
            unschedulable: 0,
            pods: 10,
            existing_nodes: 0,
            violations: None,
        }
    }

    #[test]
    fn the_median_is_taken_of_each_figure() {
        let mut runs = vec![run(3.0, 10), run(1.0, 30), run(2.0, 20)];
        runs[2].price_per_hour = 9.0;
        runs[0].violations = Some(BTreeMap::new());
        let middle = median(&runs).unwrap();
        assert_eq!((middle.solve_seconds, middle.peak_rss_bytes, middle.price_per_hour), (2.0, 20, 1.0));
        assert!(middle.violations.is_some());
        assert!(median(&[]).is_none());
    }

    #[test]
    fn the_high_water_mark_is_in_kib() {
        assert_eq!(high_water_mark("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n"), Some(2 << 20));
        assert_eq!(high_water_mark("Name:\tx\n"), None);
    }

    #[test]
    fn a_child_is_observed_with_its_output_and_memory() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 0.1; echo '{\"a\": 1}'"]);
        let (report, wall, peak) = observe(&mut command).unwrap();
        assert_eq!(report["a"], 1);
        assert!(wall >= 0.1);
        assert!(peak > 100_000, "{peak}");
    }

    #[test]
    fn joiner_reports_are_read_and_missing_fields_named() {
        let report = serde_json::json!({
            "timing": {"solveSeconds": 0.5},
            "nodes": [{"pods": ["a/1", "a/2"]}, {"pods": ["a/3"]}, {"existing": true, "pods": ["a/4"]}],
            "unschedulable": [{}],
            "totals": {
                "newNodes": 2, "pricePerHour": 2.5, "lowerBoundPerHour": 2.0, "unschedulable": 1,
            },
        });
        let measure = joiner_measure(&report, 1.0, 7).unwrap();
        assert_eq!((measure.nodes, measure.pods, measure.unschedulable), (2, 5, 1));
        assert_eq!(measure.lower_bound_per_hour, Some(2.0));
        let error = joiner_measure(&serde_json::json!({}), 1.0, 7).unwrap_err();
        assert!(error.to_string().contains("`/totals/unschedulable`"), "{error}");
    }

    #[test]
    fn programs_that_see_different_pods_are_not_compared() {
        let (a, mut b) = (run(1.0, 1), run(1.0, 1));
        assert_eq!(pending_pods(Path::new("x"), Some(&a), Some(&b)).unwrap(), 10);
        b.pods = 11;
        assert!(pending_pods(Path::new("x"), Some(&a), Some(&b)).is_err());
    }
}
