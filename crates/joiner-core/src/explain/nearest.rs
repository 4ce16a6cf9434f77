//! "Did you mean": the known name closest to a misspelt one.

/// Insertions, deletions, replacements and swaps of neighbours that make one text of another.
pub use strsim::osa_distance as distance;

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
