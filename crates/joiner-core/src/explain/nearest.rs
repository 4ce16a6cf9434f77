//! "Did you mean": the known name closest to a misspelt one.

/// Insertions, deletions, replacements and swaps of neighbours that make one text of another.
pub use strsim::osa_distance as distance;

/// How many letters of a word may differ for it to be a likely typo.
fn most(word: &str) -> usize {
    match word.chars().count() {
        // One letter for another is no likely typo in a word of one or two.
        0..=2 => 0,
        length => (length / 3).max(1),
    }
}

/// The candidate with the smallest edit distance, if it is close enough to be a likely typo.
pub fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = most(wanted);
    candidates
        .into_iter()
        .filter(|candidate| *candidate != wanted)
        .map(|candidate| (distance(wanted, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// The key of a label that was probably meant. Keys share long domains, so their parts are held against each other: what differs must be a likely
/// typo in the name and in the domain, or the whole domain, under a name of more than a few letters.
pub fn nearest_key<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// A shorter name means something else in another domain.
    const TELLING: usize = 6;
    let (domain, name) = parts(wanted);
    candidates
        .into_iter()
        .filter(|candidate| *candidate != wanted)
        .filter_map(|candidate| {
            let (of_domain, of_name) = parts(candidate);
            let (domains, names) = (distance(domain, of_domain), distance(name, of_name));
            // In short words two letters make another word: `team` is not `type`.
            let near_name = names <= (name.chars().count() / 4).max(1).min(most(name));
            let near_domain = domains <= (domain.chars().count() / 6).min(2);
            let moved = names == 0 && name.chars().count() >= TELLING;
            (near_name && near_domain || moved).then_some((names, domains, candidate))
        })
        .min()
        .map(|(.., candidate)| candidate)
}

fn parts(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

#[cfg(test)]
mod tests {
    use super::{nearest, nearest_key};

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

    #[test]
    fn keys_are_near_part_by_part() {
        let known = [
            "example.com/disk",
            "karpenter.k8s.aws/instance-category",
            "karpenter.k8s.aws/instance-cpu",
            "karpenter.k8s.aws/instance-family",
            "karpenter.kwok.sh/instance-memory",
            "karpenter.sh/capacity-type",
            "kubernetes.io/arch",
            "kubernetes.io/os",
            "team",
            "topology.kubernetes.io/region",
            "topology.kubernetes.io/zone",
        ];
        for (wanted, expected) in [
            ("topology.kubernetes.io/zome", Some("topology.kubernetes.io/zone")),
            ("topology.kubernets.io/zone", Some("topology.kubernetes.io/zone")),
            ("kubernetes.io/ach", Some("kubernetes.io/arch")),
            ("karpenter.k8s.aws/instance-famly", Some("karpenter.k8s.aws/instance-family")),
            ("karpenter.sh/instance-family", Some("karpenter.k8s.aws/instance-family")),
            ("capacity-type", Some("karpenter.sh/capacity-type")),
            ("teem", Some("team")),
            // A long domain in common is no likeness.
            ("karpenter.k8s.aws/instance-tenancy", None),
            ("karpenter.k8s.aws/zone", None),
            ("topology.kubernetes.io/rack", None),
            ("example.com/team", None),
            ("example.com/rack", None),
            ("kubernetes.io/role", None),
            ("cloud.example.com/disk", None),
        ] {
            assert_eq!(nearest_key(wanted, known), expected, "{wanted}");
        }
    }
}
