//! The table of medians, for the terminal and for the page.

use super::Row;
use super::contest::{Contestant, Figures};

/// What is shown, in this order.
const SHOWN: [Contestant; 3] = [Contestant::Joiner, Contestant::Floor, Contestant::Karpenter];

/// One line of the table: its name, and how a figure is written. Nothing: not measured, or it makes no sense.
type Line = (&'static str, fn(&Figures) -> Option<String>);

const LINES: [Line; 9] = [
    ("time until all pods are ready", |figures| Some(format!("{:.1} s", figures.seconds))),
    ("price per hour", |figures| some(figures.price, |price| format!("${price:.2}"))),
    ("nodes", |figures| Some(format!("{:.0}", figures.nodes))),
    ("CPU of the autoscaler", |figures| some(figures.cpu_seconds, |seconds| format!("{seconds:.2} s"))),
    ("CPU of the API server", |figures| Some(format!("{:.1} s", figures.api_cpu_seconds))),
    ("memory, idle", |figures| some(figures.idle_bytes, |bytes| format!("{:.0} MB", bytes / 1e6))),
    ("memory, peak", |figures| some(figures.peak_bytes, |bytes| format!("{:.0} MB", bytes / 1e6))),
    ("its requests", |figures| figures.requests.map(|count| format!("{count:.0}"))),
    ("of them writes", |figures| figures.writes.map(|count| format!("{count:.0}"))),
];

/// A figure of an autoscaler; the floor has none.
fn some(value: f64, text: impl Fn(f64) -> String) -> Option<String> {
    (value > 0.0).then(|| text(value))
}

/// One run, for progress.
pub fn line(figures: &Figures) -> String {
    format!(
        "{:>6.1} s  {:>6.2} CPU-s  API server {:>5.1} CPU-s  {:>4.0} / {:>4.0} MB  ${:>6.2}/h  {:>3} nodes",
        figures.seconds,
        figures.cpu_seconds,
        figures.api_cpu_seconds,
        figures.idle_bytes / 1e6,
        figures.peak_bytes / 1e6,
        figures.price,
        figures.nodes
    )
}

/// The figures of the run in the middle, each by itself.
fn medians(runs: &[Figures]) -> Figures {
    let of = |figure: fn(&Figures) -> f64| median(runs.iter().map(figure).collect());
    let maybe = |figure: fn(&Figures) -> Option<f64>| {
        let all: Vec<f64> = runs.iter().filter_map(figure).collect();
        (!all.is_empty()).then(|| median(all))
    };
    Figures {
        seconds: of(|run| run.seconds),
        cpu_seconds: of(|run| run.cpu_seconds),
        api_cpu_seconds: of(|run| run.api_cpu_seconds),
        idle_bytes: of(|run| run.idle_bytes),
        peak_bytes: of(|run| run.peak_bytes),
        nodes: of(|run| run.nodes),
        price: of(|run| run.price),
        requests: maybe(|run| run.requests),
        writes: maybe(|run| run.writes),
    }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    match (all.len() / 2, all.len() % 2) {
        (_, _) if all.is_empty() => 0.0,
        (half, 1) => all[half],
        (half, _) => (all[half - 1] + all[half]) / 2.0,
    }
}

/// Heading and lines of one workload.
fn cells(row: &Row) -> Vec<Vec<String>> {
    let shown: Vec<(Contestant, Figures)> =
        SHOWN.iter().filter_map(|who| Some((*who, medians(row.runs.get(who)?)))).collect();
    let heading = format!("{} pods, {}", row.pods, row.workload.name);
    let names = shown.iter().map(|(who, _)| who.name().to_owned());
    let mut all = vec![std::iter::once(heading).chain(names).collect::<Vec<_>>()];
    for (name, text) in LINES {
        let values: Vec<Option<String>> = shown.iter().map(|(_, figures)| text(figures)).collect();
        if values.iter().any(Option::is_some) {
            let values = values.into_iter().map(|value| value.unwrap_or_else(|| "–".to_owned()));
            all.push(std::iter::once(name.to_owned()).chain(values).collect());
        }
    }
    all
}

/// All tables with columns padded by blanks.
pub fn plain(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let cells = cells(row);
        let width = |column: usize| cells.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..cells[0].len()).map(width).collect();
        for line in &cells {
            for (column, cell) in line.iter().enumerate() {
                let blanks = " ".repeat(widths[column] - cell.chars().count());
                text += &if column == 0 { format!("{cell}{blanks}") } else { format!("   {blanks}{cell}") };
            }
            text.push('\n');
        }
        text.push('\n');
    }
    text
}

/// What was measured how, on what.
pub fn caption(runs: u32, machine: &str, karpenter: &str) -> String {
    let runs = if runs == 1 { "one run".to_owned() } else { format!("median of {runs} runs") };
    format!(
        "Karpenter {karpenter} with its KWOK provider, Kubernetes {}, kwok {}; {runs} on {machine}.",
        joiner_testbed::cache::KUBERNETES,
        joiner_testbed::cache::KWOK
    )
}

/// The page kept in the repository.
pub fn page(rows: &[Row], caption: &str) -> String {
    let mut text = String::from(
        "# On a real control plane, beside Karpenter\n\n\
         Pods without a place, and what it takes until all of them are ready: joiner and Karpenter with the same objects on the same real control plane, kubelets\n\
         played by kwok. `cargo xtask compare-live --write` measures again and writes this page.\n\n\
         - **floor**: the same pods when the nodes that joiner bought, and a third more, are there already, ready and empty. What the control plane itself needs.\n\
         - **CPU**, **peak**: between the first Deployment and the last ready pod. **idle**: ten seconds after the autoscaler leads.\n\
         - **price**, **nodes**: at the end of that time, at the list prices of KWOK's 144 machine types, which both programs compute alike.\n\
         - **requests**: counted in a run apart, from the API server's audit log.\n\
         - The pool: on-demand, amd64, machines below 32 CPUs, `consolidateAfter: 10s`, a budget of 100 %. Both programs with the options they have by default. Every run has a\n  \
         control plane of its own; scheduler and controller manager may send 500 requests a second, 1,000 at once; etcd does not wait for the disk.\n",
    );
    for row in rows {
        text += &format!("\n## {} pods\n\n{}: {}.\n\n", row.pods, row.workload.name, row.workload.about);
        for (number, line) in cells(row).iter().enumerate() {
            text += &format!("| {} |\n", line.join(" | "));
            if number == 0 {
                text += &format!("|---|{}\n", "---:|".repeat(line.len() - 1));
            }
        }
    }
    text + "\n" + caption + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_has_its_own_median() {
        let run = |seconds: f64, price: f64| Figures { seconds, price, ..Figures::default() };
        let middle = medians(&[run(3.0, 1.0), run(1.0, 9.0), run(2.0, 5.0)]);
        assert_eq!((middle.seconds, middle.price, middle.requests), (2.0, 5.0, None));
        assert_eq!(median(vec![4.0, 1.0]), 2.5);
    }
}
