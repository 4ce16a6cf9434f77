//! "Did you mean": the known name closest to a misspelt one.

/// The candidate with the smallest edit distance, if it is close enough to be a likely typo.
pub fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // One letter for another is no likely typo in a word of one or two.
    let limit = match wanted.chars().count() {
        0..=2 => 0,
        length => (length / 3).max(1),
    };
    candidates
        .into_iter()
        .filter(|candidate| *candidate != wanted)
        .map(|candidate| (distance(wanted, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours needed (optimal string alignment).
pub fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let mut best = (last[j] + usize::from(a[i] != b[j])).min(row[j] + 1).min(last[j + 1] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_typos_and_nothing_else() {
        assert_eq!(nearest("us-west-2e", ["us-west-2a", "eu-central-1a"]), Some("us-west-2a"));
        assert_eq!(nearest("amd46", ["amd64", "arm64"]), Some("amd64"));
        assert_eq!(nearest("mars", ["test-zone-a", "test-zone-b"]), None);
        assert_eq!(
            nearest("topology.kubernetes.io/zome", ["topology.kubernetes.io/zone"]),
            Some("topology.kubernetes.io/zone")
        );
    }
}
