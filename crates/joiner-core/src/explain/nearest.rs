//! "Did you mean": the known name closest to a misspelt one.

/// The candidate with the smallest edit distance, if it is close enough to be a likely typo.
pub fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (wanted.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| *candidate != wanted)
        .map(|candidate| (distance(wanted, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions and replacements needed (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replace = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_typos_and_nothing_else() {
        assert_eq!(nearest("us-west-2e", ["us-west-2a", "eu-central-1a"]), Some("us-west-2a"));
        assert_eq!(nearest("amd46", ["amd64", "arm64"]), Some("amd64"));
        assert_eq!(nearest("mars", ["test-zone-a", "test-zone-b"]), None);
        assert_eq!(nearest("topology.kubernetes.io/zome", ["topology.kubernetes.io/zone"]), Some("topology.kubernetes.io/zone"));
    }
}
