//! The text of a registry as Prometheus has always read it.
//!
//! The library writes OpenMetrics, where a counter's name lacks its `_total` in the lines about it, numbers end in `.0`, and there are no summaries. Whoever
//! looks a metric up by its name, or by a bound, expects what the original says.

use prometheus_client::registry::Registry;

/// The text of a registry.
pub fn of(registry: &Registry) -> String {
    with_summaries(registry, &[])
}

/// The text of a registry; gauges of these names are the quantiles of summaries, those with `_sum` and `_count` the rest of them.
pub fn with_summaries(registry: &Registry, summaries: &[&str]) -> String {
    let mut written = String::new();
    if prometheus_client::encoding::text::encode(&mut written, registry).is_err() {
        return String::new();
    }
    let is_part = |name: &str| {
        let whole = name.strip_suffix("_sum").or_else(|| name.strip_suffix("_count"));
        whole.is_some_and(|whole| summaries.contains(&whole))
    };
    let mut text = String::with_capacity(written.len());
    let (mut head, mut samples): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut finish = |head: &mut Vec<String>, samples: &mut Vec<String>| {
        in_order(samples);
        // What has no samples is not there yet.
        if !samples.is_empty() {
            head.iter().chain(samples.iter()).for_each(|line| {
                text.push_str(line);
                text.push('\n');
            });
        }
        head.clear();
        samples.clear();
    };
    for line in written.lines() {
        let Some(said) = line.strip_prefix("# ") else {
            samples.push(plain(line));
            continue;
        };
        let mut words = said.splitn(3, ' ');
        let (Some(about), Some(name), rest) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        if about == "HELP" {
            finish(&mut head, &mut samples);
        }
        if is_part(name) {
            continue;
        }
        match (about, rest) {
            ("TYPE", Some("counter")) => {
                // The line above is about the same metric.
                if let Some(help) = head.last_mut() {
                    *help = help.replacen(&format!(" {name} "), &format!(" {name}_total "), 1);
                }
                head.push(format!("# TYPE {name}_total counter"));
            }
            ("TYPE", Some("gauge")) if summaries.contains(&name) => {
                head.push(format!("# TYPE {name} summary"));
            }
            _ => head.push(line.to_owned()),
        }
    }
    finish(&mut head, &mut samples);
    text
}

/// Sorts samples by their labels. What belongs to one histogram stays together, its buckets in the order of their bounds.
fn in_order(samples: &mut Vec<String>) {
    let is_sum = |line: &str| line.split(['{', ' ']).next().is_some_and(|name| name.ends_with("_sum"));
    if !samples.iter().any(|line| line.contains("le=\"")) {
        return samples.sort_unstable();
    }
    let mut histograms: Vec<Vec<String>> = Vec::new();
    for line in samples.drain(..) {
        match histograms.last_mut().filter(|_| !is_sum(&line)) {
            Some(histogram) => histogram.push(line),
            None => histograms.push(vec![line]),
        }
    }
    histograms.sort_unstable();
    samples.extend(histograms.into_iter().flatten());
}

/// A sample whose numbers are written as Go writes them.
fn plain(line: &str) -> String {
    let line = line.strip_suffix(".0").unwrap_or(line);
    let line = match line.split_once("le=\"").and_then(|(head, rest)| Some((head, rest.split_once('"')?))) {
        Some((head, (bound, rest))) => {
            format!("{head}le=\"{}\"{rest}", bound.strip_suffix(".0").unwrap_or(bound))
        }
        None => line.to_owned(),
    };
    line.replacen("{} ", " ", 1)
}
