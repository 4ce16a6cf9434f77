//! What the rules mean: `--list`, `--explain`, and the reference page.

use super::finding::Rule;
use super::rules::RULES;
use crate::Streams;
use crate::show::{BOLD, DIM, Table, folded};

const READABLE_WIDTH: usize = 100;

/// All rules in a table.
pub fn list(streams: &mut Streams) -> std::io::Result<()> {
    let mut table = Table::new(&["RULE", "SEVERITY", "FINDS"]);
    for rule in RULES {
        table.push(vec![rule.id.to_owned(), rule.severity.word().to_owned(), rule.summary.to_owned()]);
    }
    write!(streams.out, "{}", table.render(streams.width))
}

/// One rule with its examples.
pub fn explain(rule: &Rule, streams: &mut Streams) -> std::io::Result<()> {
    writeln!(streams.out, "{BOLD}{}{BOLD:#} ({}): {}\n", rule.id, rule.severity.word(), rule.summary)?;
    for line in folded(rule.why, streams.width.min(READABLE_WIDTH)) {
        writeln!(streams.out, "{line}")?;
    }
    for (name, example) in [("Bad", rule.bad), ("Good", rule.good)] {
        writeln!(streams.out, "\n{BOLD}{name}{BOLD:#}")?;
        for line in example.lines() {
            match line.starts_with('#') {
                true => writeln!(streams.out, "    {DIM}{line}{DIM:#}")?,
                false if line.is_empty() => writeln!(streams.out)?,
                false => writeln!(streams.out, "    {line}")?,
            }
        }
    }
    Ok(())
}

const PAGE_HEAD: &str = "\
# Lint rules

<!-- Made from the rules themselves. To renew: UPDATE_DOCS=1 cargo test -p joiner --test lint -->

`joiner lint -f FILE` looks for these things. Each finding has a rule, a severity, file and line, the object, the field, what is wrong and
what to do. `joiner lint --explain RULE` prints the text below, `--skip RULE` leaves a rule out.

The exit code is 3 if there is a finding at or above `--fail-on` (`error`, `warning` or `note`; the default is `warning`, so notes alone
leave it 0), 2 if the input can't be read, else 0. What `joiner plan` can't read at all (YAML, unknown fields, wrong types) is bad input, not
a finding; what the API would refuse on a NodePool, NodeOverlay or CapacityBuffer is a finding, so that all of it is told at once.

Pools are judged by a list of instance types: `--instance-types FILE`, `--catalog kwok|aws`, or the one `plan` would take. Rules about pods and pools
together need at least one NodePool in the input; pods that a Node of the input would take are left alone.

## Output

`-o table` is for people. `-o json` prints one object:

| field | |
|---|---|
| `apiVersion`, `kind` | `joiner.sh/v1alpha1`, `LintReport` |
| `findings[]` | in the order of the input |
| `findings[].rule`, `.severity` | id of the rule; `error`, `warning` or `note` |
| `findings[].file`, `.line` | where; the line is null where it can't be known (JSON from standard input) |
| `findings[].object`, `.path` | kind and name; the field |
| `findings[].message`, `.remedy` | what is wrong; what to do |
| `totals` | `errors`, `warnings`, `notes`, `files`, `objects` |

`-o sarif` prints SARIF 2.1.0 for code scanning; every rule is in `runs[0].tool.driver.rules`.

## Rules

| rule | severity | finds |
|---|---|---|
";

/// The reference page.
pub fn reference_page() -> String {
    let mut page = PAGE_HEAD.to_owned();
    for rule in RULES {
        page.push_str(&format!("| [{0}](#{0}) | {1} | {2} |\n", rule.id, rule.severity.word(), rule.summary));
    }
    for rule in RULES {
        let head = format!("\n## {}\n\n*{}*: {}.\n\n", rule.id, rule.severity.word(), rule.summary);
        page.push_str(&head);
        page.push_str(&folded(rule.why, 120).join("\n"));
        for (name, example) in [("Bad", rule.bad), ("Good", rule.good)] {
            page.push_str(&format!("\n\n{name}:\n\n```yaml\n{}\n```", example.trim_end()));
        }
        page.push('\n');
    }
    page
}
