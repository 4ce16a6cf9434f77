//! Causes in words: one sentence each, which names what is missing and, if there is one, the likely remedy.

use std::fmt::{self, Display, Formatter};

use super::cause::{Amount, Cause, Counts, LimitReached, Listed, Shortage, TopologyRule};

impl Display for Cause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod { message } | Self::PoolNotReady { message } => f.write_str(message),
            Self::NoPool => f.write_str("there is no NodePool to launch machines from"),
            Self::ClassNotServed { kind, group } => {
                write!(f, "its node class is of the kind {kind} ({group}), which is not served here")
            }
            Self::Taint { taint } => write!(f, "does not tolerate taint `{taint}`"),
            Self::OwnContradiction { key } => {
                write!(f, "its own requirements on `{key}` contradict each other")
            }
            Self::UndefinedLabel { asked, nearest } => {
                write!(f, "asks for `{asked}`, a label the pool does not define")?;
                match nearest {
                    Some(near) => write!(f, "; did you mean `{near}`?"),
                    None => f.write_str("; add it to the pool's template labels or requirements"),
                }
            }
            Self::PoolDisagrees { asked, pool_has, nearest } => {
                write!(f, "asks for `{asked}`, but the pool has `{pool_has}`{}", hint(nearest.as_deref()))
            }
            Self::Contradiction => f.write_str("its requirements contradict the pool's"),
            Self::VolumesUnreachable => {
                f.write_str("its volumes can't be reached from the pool's zones or labels")
            }
            Self::VolumesWithoutOffering => f.write_str("no offering is where its volumes can be reached"),
            Self::TooManyVolumes { driver, wanted, most } => write!(
                f,
                "volumes of driver `{driver}` it brings: {wanted}; the most that an instance type attaches: {most}"
            ),
            Self::NoInstanceType { alone: Some(alone), nearest } => {
                write!(f, "no instance type has the pool's `{alone}`{}", hint(nearest.as_deref()))
            }
            Self::NoInstanceType { .. } => f.write_str("the pool's requirements match no instance type"),
            Self::OfferingsUnavailable => f.write_str("the offerings it could use can't be had now"),
            Self::DaemonsTooLarge => f.write_str("none of the pool's instance types holds its daemons"),
            Self::PoolUnavailable { asked: Some(asked), key, available } => write!(
                f,
                "the pool asks for `{asked}`, of which nothing can be had now; {} that can: {available}",
                plural_name(key.as_deref().unwrap_or_default())
            ),
            Self::PoolUnavailable { .. } => {
                f.write_str("no offering of the pool's instance types can be had now")
            }
            Self::NoOffering { asked, values, nearest, .. } if values.is_empty() => {
                write!(f, "no offering satisfies `{asked}`{}", hint(nearest.as_deref()))
            }
            Self::NoOffering { key, values, offered, nearest, .. } => {
                let (word, plural, asked) = (short_name(key), plural_name(key), values.join("`, `"));
                write!(f, "no offering has {word} `{asked}`; {plural}: {offered}{}", hint(nearest.as_deref()))
            }
            Self::NoOfferingTogether { asked } => {
                let asked: Vec<String> = asked.iter().map(|text| format!("`{text}`")).collect();
                write!(f, "no offering satisfies {} at once", asked.join(" and "))
            }
            Self::Resources { short, unit_doubtful } => {
                let doubt = "a CPU request that large is often `M` written for `m`".to_owned();
                let parts = short.iter().map(Shortage::to_string).chain(unit_doubtful.then_some(doubt));
                f.write_str(&parts.collect::<Vec<_>>().join("; "))
            }
            Self::ResourcesTogether { wanted } => {
                let wanted: Vec<String> = wanted.iter().map(Amount::to_string).collect();
                write!(f, "no single instance type has {} together", wanted.join(" and "))
            }
            Self::HostPort { ports } => {
                write!(f, "host port {} is taken by a daemon on every instance type", ports.join(", "))
            }
            Self::NodeLimit { limit, used, planned } => {
                write!(f, "the pool's limit of {limit} `nodes` is reached ({used} there, {planned} planned)")
            }
            Self::Limit { limits, .. } if limits.is_empty() => {
                f.write_str("the pool's limits together leave no instance type that holds the pod")
            }
            Self::Limit { limits, min_values } => {
                let all = limits.iter().map(LimitReached::leaves).collect::<Vec<_>>().join("; ");
                let smallest = limits.iter().map(LimitReached::smallest).collect::<Vec<_>>().join(" and ");
                match min_values {
                    Some(key) => write!(
                        f,
                        "{all}; with the pool's minValues of `{key}` a node must be able to have {smallest}"
                    ),
                    None => write!(f, "{all}; the smallest instance type that holds the pod has {smallest}"),
                }
            }
            Self::MinValues { key, left, needed } => write!(
                f,
                "distinct values of `{key}` left for it: {left}; the pool's minValues asks for {needed}"
            ),
            Self::Reserved => f.write_str("waits for reserved capacity that is used up for now"),
            Self::Topology { rules, others_refuse } => {
                let others = "required anti-affinity of other pods keeps it away".to_owned();
                let parts = rules.iter().map(TopologyRule::to_string).chain(others_refuse.then_some(others));
                match parts.collect::<Vec<_>>() {
                    none if none.is_empty() => {
                        f.write_str("no machine can be opened for it together with the pods already placed")
                    }
                    parts => f.write_str(&parts.join("; ")),
                }
            }
            Self::Existing { cordoned, tainted, unlabelled, full, ruled_out } => {
                let tally = [
                    (*cordoned, "cordoned or leaving"),
                    (*tainted, "with an untolerated taint"),
                    (*unlabelled, "without the labels asked for"),
                    (*full, "without room"),
                    (*ruled_out, "ruled out by topology, ports or volumes"),
                ];
                let all: u64 = tally.iter().map(|(count, _)| count).sum();
                let parts: Vec<String> = tally
                    .iter()
                    .filter(|(count, _)| *count > 0)
                    .map(|(count, word)| format!("{count} {word}"))
                    .collect();
                let nodes = if all == 1 { "node" } else { "nodes" };
                write!(f, "{all} existing {nodes}: {}", parts.join(", "))
            }
        }
    }
}

impl Display for Amount {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", amount(&self.resource, self.amount), self.resource)
    }
}

impl Display for Shortage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { resource, asked, largest } = self;
        let short = amount(resource, asked.saturating_sub(*largest));
        let (asked, largest) = (amount(resource, *asked), amount(resource, *largest));
        write!(
            f,
            "asks for {asked} {resource}, the largest instance type has room for {largest} ({short} short)"
        )
    }
}

impl LimitReached {
    /// The limit, who uses it, and what is left.
    fn leaves(&self) -> String {
        let Self { resource, limit, used, planned, left, .. } = self;
        let say = |value: i64| amount(resource, value);
        let by = match (used, planned) {
            (0, 0) => String::new(),
            (used, 0) => format!(" (nodes use {})", say(*used)),
            (0, planned) => format!(" (planned nodes use {})", say(*planned)),
            (used, planned) => format!(" (nodes use {}, planned ones {})", say(*used), say(*planned)),
        };
        format!("the pool's limit of {} {resource} leaves {}{by}", say(*limit), say(*left))
    }

    fn smallest(&self) -> String {
        format!("{} {}", amount(&self.resource, self.smallest), self.resource)
    }
}

impl Display for TopologyRule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spread { key, max_skew, min_domains, counts } => {
                let min = min_domains.map_or(String::new(), |least| format!(", minDomains {least}"));
                write!(
                    f,
                    "spread over `{key}` (maxSkew {max_skew}{min}) allows no value it could be placed in{counts}"
                )
            }
            Self::Affinity { key } => {
                write!(f, "pod affinity over `{key}` finds no matching pod it could join")
            }
            Self::AntiAffinity { key, counts } => {
                write!(f, "pod anti-affinity over `{key}` leaves no value without a matching pod{counts}")
            }
        }
    }
}

impl Display for Counts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = |(value, count): &(String, u32)| format!("{value} {count}");
        let more = (self.more > 0).then(|| format!("{} more", self.more));
        let parts: Vec<String> =
            self.fewest.iter().map(text).chain(more).chain(self.most.iter().map(text)).collect();
        if parts.is_empty() { Ok(()) } else { write!(f, " (pods now: {})", parts.join(", ")) }
    }
}

impl Display for Listed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.shown.is_empty() {
            return f.write_str("none");
        }
        f.write_str(&self.shown.join(", "))?;
        if self.more > 0 { write!(f, " and {} more", self.more) } else { Ok(()) }
    }
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or(String::new(), |near| format!("; did you mean `{near}`?"))
}

fn short_name(key: &str) -> &str {
    match key {
        "topology.kubernetes.io/zone" => "zone",
        "topology.kubernetes.io/region" => "region",
        "karpenter.sh/capacity-type" => "capacity type",
        "node.kubernetes.io/instance-type" => "instance type",
        "kubernetes.io/arch" => "architecture",
        "kubernetes.io/os" => "operating system",
        other => other,
    }
}

fn plural_name(key: &str) -> String {
    match short_name(key) {
        word if word.contains('/') => "values".to_owned(),
        word => format!("{word}s"),
    }
}

/// An amount with its unit: CPU in cores, bytes in binary units, the rest as it is.
fn amount(resource: &str, value: i64) -> String {
    if resource == "cpu" {
        return if value % 1000 == 0 { format!("{}", value / 1000) } else { format!("{value}m") };
    }
    let bytes = matches!(resource, "memory" | "ephemeral-storage") || resource.starts_with("hugepages-");
    if !bytes {
        return value.to_string();
    }
    for (unit, size) in [("Ti", 1i64 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)] {
        if value >= size {
            return if value % size == 0 {
                format!("{}{unit}", value / size)
            } else {
                format!("{:.1}{unit}", value as f64 / size as f64)
            };
        }
    }
    value.to_string()
}
