//! Numbers in the documents that can be counted: files, recorded lines, types, crates. A document that states another number is wrong.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::Finding;

/// What is counted.
enum Counted {
    /// Files under a folder with an ending.
    Files(&'static str, &'static str),
    /// Lines of files, less so many at the top of each.
    Lines(&'static [&'static str], usize),
}

/// A number in a document: the words right behind it, and what it counts.
struct Fact {
    document: &'static str,
    words: &'static str,
    counted: Counted,
    /// The document says "more than" a round hundred.
    is_round: bool,
}

const SCENARIOS: &str = "crates/joiner/tests/scenarios/";
const SCRIPTS: &str = "crates/joiner-sim/tests/scenarios/";
const REQUESTS: [&str; 2] = [
    "crates/joiner-apiserver/tests/data/apiserver.jsonl",
    "crates/joiner-apiserver/tests/data/further.jsonl",
];
const AWS_TYPES: [&str; 1] = ["crates/joiner-provider-aws/data/types.jsonl"];

const FACTS: [Fact; 5] = [
    Fact {
        document: "ARCHITECTURE.md",
        words: " small clusters with hand-worked expectations",
        counted: Counted::Files(SCENARIOS, ".yaml"),
        is_round: true,
    },
    Fact {
        document: "ARCHITECTURE.md",
        words: " scripts, recorded from a real control plane",
        counted: Counted::Files(SCRIPTS, ".yaml"),
        is_round: false,
    },
    Fact {
        document: "docs/concepts/simulated-cluster.md",
        words: " scripts were played on a real control plane",
        counted: Counted::Files(SCRIPTS, ".yaml"),
        is_round: false,
    },
    Fact {
        document: "ARCHITECTURE.md",
        words: " recorded requests",
        counted: Counted::Lines(&REQUESTS, 0),
        is_round: false,
    },
    Fact {
        document: "ARCHITECTURE.md",
        words: " machine types in 32 regions",
        counted: Counted::Lines(&AWS_TYPES, 0),
        is_round: false,
    },
];

/// Checks all facts, and the table of crates.
pub fn check(root: &Path, files: &[String]) -> Vec<Finding> {
    let read = |file: &str| fs::read_to_string(root.join(file)).unwrap_or_default();
    let mut findings = Vec::new();
    for fact in &FACTS {
        let count = match fact.counted {
            Counted::Files(folder, ending) => {
                files.iter().filter(|file| file.starts_with(folder) && file.ends_with(ending)).count()
            }
            Counted::Lines(of, head) => {
                of.iter().map(|file| read(file).lines().count().saturating_sub(head)).sum()
            }
        };
        findings.extend(compare(fact, &read(fact.document), count));
    }
    findings.extend(crates(&read("ARCHITECTURE.md"), files));
    findings
}

fn compare(fact: &Fact, text: &str, count: usize) -> Option<Finding> {
    let Some((line, number)) = text.lines().enumerate().find_map(|(at, line)| {
        let before = &line[..line.find(fact.words)?];
        let digits = before.len() - before.trim_end_matches(|c: char| c.is_ascii_digit() || c == ',').len();
        let number = before[before.len() - digits..].replace(',', "");
        Some((at + 1, number.parse::<usize>().ok()))
    }) else {
        let message =
            format!("no longer says how many `{}`: take the fact out of tidy's list", fact.words.trim());
        return Some(Finding::new(fact.document, 0, message));
    };
    let is_right = match number {
        Some(number) if fact.is_round => {
            number.is_multiple_of(100) && (number..number + 100).contains(&count)
        }
        Some(number) => number == count,
        None => false,
    };
    (!is_right).then(|| {
        let right = if fact.is_round { count / 100 * 100 } else { count };
        let said = number.map_or("no number".to_owned(), |number| number.to_string());
        Finding::new(
            fact.document,
            line,
            format!("says {said}{}, there are {count}: write {right}", fact.words),
        )
    })
}

/// The table of crates has a row for each folder under `crates/`, and no other but that of `xtask`.
fn crates(architecture: &str, files: &[String]) -> Vec<Finding> {
    let folders: BTreeSet<&str> = files
        .iter()
        .filter_map(|file| file.strip_prefix("crates/")?.split_once('/'))
        .map(|(name, _)| name)
        .collect();
    let section = architecture.split("## Crates").nth(1).unwrap_or_default();
    let table = section.split("\n## ").next().unwrap_or_default();
    let rows: BTreeSet<&str> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name)
        .filter(|name| *name != "xtask")
        .collect();
    let missing =
        folders.difference(&rows).map(|name| format!("the table of crates has no row for `{name}`"));
    let gone = rows
        .difference(&folders)
        .map(|name| format!("the table of crates has a row for `{name}`, which is no crate"));
    missing.chain(gone).map(|message| Finding::new("ARCHITECTURE.md", 0, message)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(is_round: bool) -> Fact {
        Fact { document: "a.md", words: " apples", counted: Counted::Files("", ""), is_round }
    }

    fn said(is_round: bool, text: &str, count: usize) -> Option<String> {
        compare(&fact(is_round), text, count).map(|finding| finding.to_string())
    }

    #[test]
    fn a_wrong_number_is_found() {
        assert_eq!(said(false, "x\nall 12 apples", 12), None);
        assert_eq!(said(false, "1,200 apples", 1200), None);
        assert_eq!(
            said(false, "x\n12 apples", 13).unwrap(),
            "a.md:2: says 12 apples, there are 13: write 13"
        );
        assert!(said(false, "some apples", 13).is_some());
        assert!(said(false, "12 pears", 12).unwrap().contains("take the fact out"));
    }

    #[test]
    fn more_than_a_round_number() {
        assert_eq!(said(true, "more than 700 apples", 732), None);
        for (number, count) in [(500, 732), (732, 732), (800, 732)] {
            assert!(said(true, &format!("more than {number} apples"), count).is_some(), "{number}");
        }
    }

    #[test]
    fn crates_are_those_of_the_table() {
        let files = ["crates/a/Cargo.toml".to_owned(), "crates/b/src/lib.rs".to_owned()];
        let table = |rows: &str| format!("# A\n## Crates\n| crate |\n{rows}\n## Next\n| `z` |\n");
        assert!(crates(&table("| `a` | x |\n| `b` | x |\n| `xtask` | x |"), &files).is_empty());
        let found: Vec<String> = crates(&table("| `a` | x |\n| `c` | x |"), &files)
            .into_iter()
            .map(|finding| finding.message)
            .collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("`b`") && found[1].contains("`c`"), "{found:?}");
    }
}
