//! The report of the cost comparison: a table by family for the terminal, and the page with every scenario.

use super::cost::{RECORDED, Trial};
use super::one_more_type::Addition;
use crate::inputs::families::Family;

/// Everything that was measured.
pub struct Report<'t> {
    /// Scenarios.
    pub trials: &'t [Trial],
    /// Plans with one more type.
    pub additions: &'t [Addition],
    /// Programs and machine.
    pub caption: String,
}

const HEADINGS: [&str; 11] = [
    "family",
    "scenarios",
    "comparable",
    "price, mean (worst)",
    "price without charge",
    "least possible",
    "to bound, mean (worst)",
    "to bound without charge",
    "nodes, mean (worst)",
    "nodes without charge",
    "times faster, median (least)",
];

impl Report<'_> {
    /// By family, for a terminal.
    pub fn summary(&self) -> String {
        let rows = self.rows();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
        let mut text = String::new();
        for row in &rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| {
                let blanks = " ".repeat(width - cell.chars().count());
                format!("{cell}{blanks}")
            });
            text += cells.collect::<Vec<_>>().join("  ").trim_end();
            text.push('\n');
        }
        text + "\n" + &self.large() + &self.one_more() + "\n" + &self.caption + "\n"
    }

    /// The page kept in the repository.
    pub fn page(&self) -> String {
        let mut text = String::from(
            "# What plans cost\n\nJoiner's default packing and the original on the same files: six families of generated workloads on AWS \
             types, and\nrecorded inputs (the trace of a GPU cluster, the original's benchmark mix, 150 services). `cargo xtask compare --cost --write` measures again and writes this page; `--check` fails where\n\
             joiner breaks a rule or pays more than the original.\n\n\
             - **comparable**: the checker finds nothing wrong with the original's plan, and it leaves no pod out that joiner places. Prices and nodes are\n  \
             compared only there: a plan that breaks a rule may be cheap for that reason.\n\
             - **price**: joiner's over the original's; below 1 is cheaper.\n\
             - **least possible**: the bound over the original's price, mean. No packing has a lower price than that; few can have this one.\n\
             - **to bound**: joiner's price over the price that no packing of these pods can beat, in all scenarios. The bound knows sizes, selectors and\n  \
             taints, but nothing of zones, weights and limits of pools, and of rules between pods only those about hosts.\n\
             - **AWS types**: those of `bench/data/aws-us-west-2.json`, for both programs: 848 types of example data of the original, whose memory and prices\n  \
             are not what AWS gives and charges. Joiner's own catalogue of AWS is not used here.\n\
             - **without charge**: `--node-charge 0`; otherwise the default, which trades about one cent an hour for a node less\n  \
             and buys at most two and a half times as many as the original.\n\n\
             ## By family\n\n",
        );
        for (at, row) in self.rows().iter().enumerate() {
            text += &format!("| {} |\n", row.join(" | "));
            if at == 0 {
                text += &format!("|---{}|\n", "|---:".repeat(HEADINGS.len() - 1));
            }
        }
        text += &format!(
            "\n{}\n\n## Large ones\n\n{}\n## One more instance type\n\n",
            self.caption,
            self.large()
        );
        text += "A longer catalogue can only help, but the search does not see everything: a workload is planned with a part of the AWS types and\n\
                 again with one type more.\n\n";
        text += &self.one_more();
        text += "\n## Every scenario\n\nPrices in dollars per hour, without charges. A plan of the original that is not comparable says why.\n\n\
                 | scenario | pods | original: $/h | nodes | joiner: $/h | ratio | nodes | to bound | without charge: $/h | ratio | nodes | to bound | times faster | not comparable |\n\
                 |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|\n";
        for trial in self.trials {
            text += &line(trial);
        }
        text
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let names = Family::ALL.iter().map(|family| family.name()).chain(RECORDED);
        let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
        for name in names {
            let of: Vec<&Trial> = self.trials.iter().filter(|trial| trial.family == name).collect();
            if !of.is_empty() {
                rows.push(row(name, &of));
            }
        }
        rows.push(row("all", &self.trials.iter().collect::<Vec<_>>()));
        rows
    }

    /// Scenarios of a thousand pods and more, against the bound.
    fn large(&self) -> String {
        let mut text = String::new();
        for name in [Family::Unconstrained.name(), Family::Services.name()] {
            let of: Vec<&Trial> = self
                .trials
                .iter()
                .filter(|trial| trial.family == name && trial.usual.pods >= 1_000)
                .collect();
            if !of.is_empty() {
                text += &format!(
                    "- {name}, {} scenarios of 1,000 pods and more: {} of the bound, without charge {}.\n",
                    of.len(),
                    mean_and_worst(&of.iter().filter_map(|t| to_bound(&t.usual)).collect::<Vec<_>>()),
                    mean_and_worst(&of.iter().filter_map(|t| to_bound(&t.uncharged)).collect::<Vec<_>>()),
                );
            }
        }
        text
    }

    fn one_more(&self) -> String {
        let mut text = String::new();
        for (what, charged) in [("with a charge of one cent per node", true), ("without charge", false)] {
            let of: Vec<f64> = self
                .additions
                .iter()
                .filter(|addition| (addition.charge > 0.0) == charged)
                .map(Addition::dearer_by)
                .collect();
            if of.is_empty() {
                continue;
            }
            let dearer: Vec<f64> = of.iter().copied().filter(|by| *by > 1e-9).collect();
            let cheaper = of.iter().filter(|by| **by < -1e-9).count();
            let by = if dearer.is_empty() {
                String::new()
            } else {
                let mean = mean(&dearer).unwrap_or(0.0);
                let worst = dearer.iter().copied().fold(0.0, f64::max);
                format!(" (by {:.2} % on average, {:.2} % at worst)", 100.0 * mean, 100.0 * worst)
            };
            text += &format!(
                "- {what}: {} plans, {} dearer{by}, {cheaper} cheaper, the others the same.\n",
                of.len(),
                dearer.len(),
            );
        }
        text
    }
}

type Of = fn(&Trial) -> f64;

fn row(name: &str, trials: &[&Trial]) -> Vec<String> {
    let comparable: Vec<&&Trial> = trials.iter().filter(|trial| trial.comparable()).collect();
    let there = |of: Of| mean_and_worst(&comparable.iter().map(|trial| of(trial)).collect::<Vec<_>>());
    let bounds = |ours: fn(&Trial) -> Option<f64>| {
        mean_and_worst(&trials.iter().filter_map(|trial| ours(trial)).collect::<Vec<_>>())
    };
    let mut faster: Vec<f64> = trials.iter().map(|trial| times_faster(trial)).collect();
    faster.sort_by(f64::total_cmp);
    vec![
        name.to_owned(),
        trials.len().to_string(),
        comparable.len().to_string(),
        there(price_ratio),
        there(|trial| trial.uncharged.price_per_hour / trial.original.price_per_hour),
        mean(&comparable.iter().filter_map(|trial| least_possible(trial)).collect::<Vec<_>>())
            .map_or("–".to_owned(), |mean| format!("{mean:.3}")),
        bounds(|trial| to_bound(&trial.usual)),
        bounds(|trial| to_bound(&trial.uncharged)),
        there(|trial| trial.usual.nodes as f64 / trial.original.nodes as f64),
        there(|trial| trial.uncharged.nodes as f64 / trial.original.nodes as f64),
        match faster.as_slice() {
            [] => "–".to_owned(),
            [least, ..] => format!("{} ({})", factor(faster[faster.len() / 2]), factor(*least)),
        },
    ]
}

fn price_ratio(trial: &Trial) -> f64 {
    trial.usual.price_per_hour / trial.original.price_per_hour
}

fn least_possible(trial: &Trial) -> Option<f64> {
    trial.uncharged.lower_bound_per_hour.map(|bound| bound / trial.original.price_per_hour)
}

fn times_faster(trial: &Trial) -> f64 {
    trial.original.solve_seconds / trial.usual.solve_seconds.max(1e-6)
}

fn factor(times: f64) -> String {
    if times < 10.0 { format!("{times:.1}") } else { format!("{times:.0}") }
}

fn to_bound(measure: &super::measure::Measure) -> Option<f64> {
    measure.lower_bound_per_hour.filter(|bound| *bound > 0.0).map(|bound| measure.price_per_hour / bound)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn mean_and_worst(values: &[f64]) -> String {
    let worst = values.iter().copied().fold(0.0, f64::max);
    mean(values).map_or("–".to_owned(), |mean| format!("{mean:.3} ({worst:.3})"))
}

fn line(trial: &Trial) -> String {
    let (original, usual, uncharged) = (&trial.original, &trial.usual, &trial.uncharged);
    let ratio = |ours: f64| match trial.comparable() {
        true => format!("{:.3}", ours / original.price_per_hour),
        false => "–".to_owned(),
    };
    let bound = |ours| to_bound(ours).map_or("–".to_owned(), |ratio| format!("{ratio:.3}"));
    let mut why: Vec<String> =
        original.violations.iter().flatten().map(|(rule, count)| format!("`{rule}` {count}×")).collect();
    if original.unschedulable > usual.unschedulable {
        why.push(format!("leaves {} pods out", original.unschedulable - usual.unschedulable));
    }
    format!(
        "| {} | {} | {:.3} | {} | {:.3} | {} | {} | {} | {:.3} | {} | {} | {} | {} | {} |\n",
        trial.name,
        usual.pods,
        original.price_per_hour,
        original.nodes,
        usual.price_per_hour,
        ratio(usual.price_per_hour),
        usual.nodes,
        bound(usual),
        uncharged.price_per_hour,
        ratio(uncharged.price_per_hour),
        uncharged.nodes,
        bound(uncharged),
        factor(times_faster(trial)),
        why.join(", "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_worsts_are_of_all_values() {
        assert_eq!(mean_and_worst(&[0.5, 0.7]), "0.600 (0.700)");
        assert_eq!(mean_and_worst(&[]), "–");
    }

    #[test]
    fn dearer_plans_with_one_more_type_are_counted() {
        let additions = [
            Addition { charge: 0.0, before: 1.0, after: 1.01 },
            Addition { charge: 0.0, before: 1.0, after: 0.9 },
            Addition { charge: 0.0, before: 1.0, after: 1.0 },
        ];
        let report = Report { trials: &[], additions: &additions, caption: String::new() };
        let text = report.one_more();
        assert!(
            text.contains("3 plans, 1 dearer (by 1.00 % on average, 1.00 % at worst), 1 cheaper"),
            "{text}"
        );
    }
}
