//! The table of the comparison, for the terminal and for Markdown.

use anyhow::{Context, Result};

use super::Row;
use super::measure::Measure;

const BEGIN: &str = "<!-- compare:begin -->";
const END: &str = "<!-- compare:end -->";

const SPEED: [&str; 10] = [
    "input",
    "pods",
    "types",
    "time: original",
    "joiner",
    "memory: original",
    "joiner",
    "nodes: original / joiner",
    "$/h: original",
    "joiner",
];

const PRICE: [&str; 8] = [
    "input",
    "$/h: original",
    "joiner",
    "joiner / lower bound",
    "nodes: original / joiner",
    "time: original",
    "joiner",
    "memory: joiner",
];

/// Both tables, columns padded with blanks.
pub fn plain(rows: &[Row]) -> String {
    format!(
        "joiner --packing upstream\n{}\njoiner --packing cheapest\n{}",
        padded(&SPEED, &speed(rows)),
        padded(&PRICE, &price(rows))
    )
}

fn padded(headings: &[&str], rows: &[Vec<String>]) -> String {
    let headings: Vec<String> = headings.iter().map(|heading| (*heading).to_owned()).collect();
    let cells: Vec<&Vec<String>> = std::iter::once(&headings).chain(rows).collect();
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let mut text = String::new();
    for row in &cells {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let blanks = " ".repeat(widths[column] - cell.chars().count());
            // Names to the left, figures to the right.
            line += &if column == 0 { format!("{cell}{blanks}") } else { format!("   {blanks}{cell}") };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Both tables in Markdown.
pub fn markdown(rows: &[Row]) -> String {
    format!(
        "**How much faster**: the original's packing (`--packing upstream`).\n\n{}\n\
         **How much cheaper**: joiner's own packing (`--packing cheapest`, the default).\n\n{}",
        piped(&SPEED, &speed(rows)),
        piped(&PRICE, &price(rows))
    )
}

fn piped(headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = format!("| {} |\n|---{}|\n", headings.join(" | "), "|---:".repeat(headings.len() - 1));
    for row in rows {
        text += &format!("| {} |\n", row.join(" | "));
    }
    text
}

fn speed(rows: &[Row]) -> Vec<Vec<String>> {
    let cells = |row: &Row| {
        let (original, joiner) = (row.original.as_ref(), row.joiner.as_ref());
        vec![
            row.input.to_owned(),
            thousands(row.pods),
            thousands(row.types),
            show(original, &|m| seconds(m.solve_seconds)),
            show(joiner, &|m| seconds(m.solve_seconds)) + &factor(original, joiner, &|m| m.solve_seconds),
            show(original, &|m| megabytes(m.peak_rss_bytes)),
            show(joiner, &|m| megabytes(m.peak_rss_bytes))
                + &factor(original, joiner, &|m| m.peak_rss_bytes as f64),
            format!("{} / {}", show(original, &node_count), show(joiner, &node_count)),
            show(original, &|m| format!("{:.2}", m.price_per_hour)),
            show(joiner, &|m| format!("{:.2}", m.price_per_hour)) + &price_ratio(original, joiner),
        ]
    };
    rows.iter().map(cells).collect()
}

/// Rows where something is bought.
fn price(rows: &[Row]) -> Vec<Vec<String>> {
    let buys = |row: &&Row| row.cheapest.as_ref().is_some_and(|measure| measure.price_per_hour > 0.0);
    let cells = |row: &Row| {
        let (original, joiner) = (row.original.as_ref(), row.cheapest.as_ref());
        let bound = joiner
            .and_then(|m| m.lower_bound_per_hour.filter(|bound| *bound > 0.0).map(|b| m.price_per_hour / b));
        vec![
            row.input.to_owned(),
            show(original, &|m| format!("{:.2}", m.price_per_hour)),
            show(joiner, &|m| format!("{:.2}", m.price_per_hour)) + &price_ratio(original, joiner),
            bound.map_or("–".into(), |ratio| format!("{ratio:.3}")),
            format!("{} / {}", show(original, &node_count), show(joiner, &node_count)),
            show(original, &|m| seconds(m.solve_seconds)),
            show(joiner, &|m| seconds(m.solve_seconds)) + &factor(original, joiner, &|m| m.solve_seconds),
            show(joiner, &|m| megabytes(m.peak_rss_bytes))
                + &factor(original, joiner, &|m| m.peak_rss_bytes as f64),
        ]
    };
    rows.iter().filter(buys).map(cells).collect()
}

fn show(measure: Option<&Measure>, text: &dyn Fn(&Measure) -> String) -> String {
    measure.map_or("–".into(), text)
}

/// How many times less of something joiner needs.
fn factor(original: Option<&Measure>, joiner: Option<&Measure>, of: &dyn Fn(&Measure) -> f64) -> String {
    match (original, joiner) {
        (Some(a), Some(b)) if of(b) > 0.0 => format!(" ({}×)", significant(of(a) / of(b))),
        _ => String::new(),
    }
}

fn price_ratio(original: Option<&Measure>, joiner: Option<&Measure>) -> String {
    match (original, joiner) {
        (Some(a), Some(b)) if a.price_per_hour > 0.0 => {
            format!(" ({})", signed_percent(percent_above(b.price_per_hour, a.price_per_hour)))
        }
        _ => String::new(),
    }
}

fn node_count(measure: &Measure) -> String {
    let left_out = if measure.unschedulable > 0 {
        format!(" ({} pods left out)", thousands(measure.unschedulable))
    } else {
        String::new()
    };
    thousands(measure.nodes) + &left_out
}

/// How joiner is worse than the original on this input, if it is.
pub fn complaints(row: &Row) -> Vec<String> {
    let (Some(original), Some(joiner)) = (&row.original, &row.joiner) else {
        return Vec::new();
    };
    let mut complaints = Vec::new();
    if joiner.solve_seconds > original.solve_seconds {
        complaints.push(format!(
            "`{}`: {} instead of {}",
            row.input,
            seconds(joiner.solve_seconds),
            seconds(original.solve_seconds)
        ));
    }
    if joiner.unschedulable > original.unschedulable {
        complaints.push(format!(
            "`{}`: {} pods left out instead of {}",
            row.input, joiner.unschedulable, original.unschedulable
        ));
    }
    complaints.extend(broken_rules(row));
    // With fewer pods left out a higher price is no fault.
    let above = percent_above(joiner.price_per_hour, original.price_per_hour);
    if above > 0.5 && joiner.unschedulable >= original.unschedulable {
        complaints.push(format!(
            "`{}`: ${:.3}/h instead of ${:.3}/h ({above:+.1} %)",
            row.input, joiner.price_per_hour, original.price_per_hour
        ));
    }
    complaints
}

/// Hard rules that joiner's plan breaks, as far as it was judged.
pub fn broken_rules(row: &Row) -> Vec<String> {
    let ours = row.joiner.iter().chain(&row.cheapest);
    let violations = ours.flat_map(|joiner| joiner.violations.iter().flatten());
    violations
        .filter(|(rule, _)| *rule != "undecided")
        .map(|(rule, count)| format!("`{}`: rule `{rule}` broken {count} times", row.input))
        .collect()
}

/// The README with a new table.
pub fn put_between_markers(readme: &str, table: &str) -> Result<String> {
    let missing = || format!("README.md has no `{BEGIN}` … `{END}` to put the table between");
    let (before, rest) = readme.split_once(BEGIN).with_context(missing)?;
    let (_, after) = rest.split_once(END).with_context(missing)?;
    Ok(format!("{before}{BEGIN}\n{}\n{END}{after}", table.trim_end()))
}

/// With a sign, unless there is nothing to sign.
fn signed_percent(percent: f64) -> String {
    let text = format!("{percent:+.1} %");
    if matches!(text.as_str(), "-0.0 %" | "+0.0 %") { "0.0 %".to_owned() } else { text }
}

fn percent_above(value: f64, base: f64) -> f64 {
    if base > 0.0 {
        (value / base - 1.0) * 100.0
    } else if value > 0.0 {
        f64::INFINITY
    } else {
        0.0
    }
}

fn seconds(value: f64) -> String {
    match value {
        v if v >= 1.0 => format!("{} s", significant(v)),
        v if v >= 1e-3 => format!("{} ms", significant(v * 1e3)),
        v => format!("{} µs", significant(v * 1e6)),
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", significant(bytes as f64 / 1e6))
}

/// Three digits that mean something.
fn significant(value: f64) -> String {
    match value {
        v if v >= 100.0 => thousands(v.round() as u64),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(seconds: f64, price: f64, unschedulable: u64) -> Measure {
        Measure {
            solve_seconds: seconds,
            wall_seconds: seconds,
            peak_rss_bytes: 50_000_000,
            nodes: 1_234,
            price_per_hour: price,
            lower_bound_per_hour: Some(8.0),
            unschedulable,
            pods: 5_000,
            existing_nodes: 0,
            violations: None,
        }
    }

    fn row(original: Measure, joiner: Measure) -> Row {
        Row {
            input: "mix",
            pods: 5_000,
            types: 400,
            existing_nodes: 0,
            original: Some(original),
            cheapest: Some(Measure {
                price_per_hour: 7.5,
                lower_bound_per_hour: Some(7.2),
                ..joiner.clone()
            }),
            joiner: Some(joiner),
            original_runs: Vec::new(),
            joiner_runs: Vec::new(),
            cheapest_runs: Vec::new(),
        }
    }

    #[test]
    fn what_rounds_to_nothing_has_no_sign() {
        assert_eq!(
            [-0.04, 0.0, 0.04, -0.06, 0.06].map(signed_percent),
            ["0.0 %", "0.0 %", "0.0 %", "-0.1 %", "+0.1 %"]
        );
    }

    #[test]
    fn a_row_shows_both_sides_and_the_factors() {
        let text = markdown(&[row(measure(12.0, 10.0, 0), measure(0.015, 9.0, 0))]);
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| mix")).collect();
        assert_eq!(
            rows,
            [
                "| mix | 5,000 | 400 | 12.0 s | 15.0 ms (800×) | 50.0 MB | 50.0 MB (1.00×) | 1,234 / 1,234 | 10.00 | \
                 9.00 (-10.0 %) |",
                "| mix | 10.00 | 7.50 (-25.0 %) | 1.042 | 1,234 / 1,234 | 12.0 s | 15.0 ms (800×) | 50.0 MB (1.00×) |",
            ]
        );
    }

    #[test]
    fn only_what_is_worse_is_complained_about() {
        assert!(complaints(&row(measure(2.0, 10.0, 0), measure(1.0, 10.0, 0))).is_empty());
        assert_eq!(complaints(&row(measure(1.0, 10.0, 0), measure(2.0, 10.1, 1))).len(), 3);
        assert!(complaints(&row(measure(2.0, 10.0, 5), measure(1.0, 11.0, 0))).is_empty());
        let mut wrong = measure(1.0, 10.0, 0);
        wrong.violations = Some([("spread".to_owned(), 2), ("undecided".to_owned(), 1)].into());
        let of_both = complaints(&row(measure(2.0, 10.0, 0), wrong));
        assert_eq!(of_both, ["`mix`: rule `spread` broken 2 times", "`mix`: rule `spread` broken 2 times"]);
    }

    #[test]
    fn the_table_replaces_what_was_between_the_markers() {
        let readme = format!("a\n{BEGIN}\nold\n{END}\nz\n");
        let text = put_between_markers(&readme, "new\n").unwrap();
        assert_eq!(text, format!("a\n{BEGIN}\nnew\n{END}\nz\n"));
        assert_eq!(put_between_markers(&text, "new\n").unwrap(), text);
        assert!(put_between_markers("nothing", "new").is_err());
    }

    #[test]
    fn numbers_are_grouped_and_rounded() {
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(thousands(12), "12");
        assert_eq!(seconds(0.000_25), "250 µs");
        assert_eq!(seconds(75.25), "75.2 s");
    }
}
