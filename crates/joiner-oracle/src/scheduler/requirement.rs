//! Rule book §1, "Requirements": what a label may be, and whether a pod's wish and a node's or template's offer go together.
//!
//! A requirement is a plain set of texts plus "may be missing". A set is either listed, or "all texts but these, and only
//! integers in this range if there is a range". As texts such as `5`, `05` and `+5` all lie in a range without being
//! equal, excluding single texts never empties a range: only crossed bounds do.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::world::{Expr, Labels};

/// The allowed values of one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Values {
    /// Exactly these.
    Listed(BTreeSet<String>),
    /// Everything except these; with a bound, only integers inside it.
    Open { excluded: BTreeSet<String>, at_least: Option<i64>, at_most: Option<i64> },
}

/// What one label may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The allowed values.
    pub values: Values,
    /// Whether a node without the label is fine.
    pub may_be_missing: bool,
}

/// Requirements by label key.
pub type Requirements = BTreeMap<String, Requirement>;

impl Requirement {
    /// Any value, or no label at all: what is known of a key nobody spoke about.
    pub fn anything_or_missing() -> Self {
        Requirement {
            values: Values::Open { excluded: BTreeSet::new(), at_least: None, at_most: None },
            may_be_missing: true,
        }
    }

    /// The label is not there.
    pub fn missing() -> Self {
        Requirement { values: Values::Listed(BTreeSet::new()), may_be_missing: true }
    }

    /// Exactly this value.
    pub fn exactly(value: &str) -> Self {
        Requirement { values: Values::Listed(BTreeSet::from([value.to_owned()])), may_be_missing: false }
    }

    /// Reads the table of operators. A malformed numeric value or unknown operator allows nothing.
    pub fn from_expr(expr: &Expr) -> Self {
        let nothing = Requirement { values: Values::Listed(BTreeSet::new()), may_be_missing: false };
        let listed: BTreeSet<String> = expr.values.iter().cloned().collect();
        let range = |at_least: Option<i64>, at_most: Option<i64>| Requirement {
            values: Values::Open { excluded: BTreeSet::new(), at_least, at_most },
            may_be_missing: false,
        };
        let number = match expr.values.as_slice() {
            [one] => go_integer(one),
            _ => None,
        };
        match (expr.operator.as_str(), number) {
            ("In", _) => Requirement { values: Values::Listed(listed), may_be_missing: false },
            ("NotIn", _) => Requirement {
                values: Values::Open { excluded: listed, at_least: None, at_most: None },
                may_be_missing: true,
            },
            ("Exists", _) => range(None, None),
            ("DoesNotExist", _) => Requirement::missing(),
            // One above the largest integer is no integer: nothing is left.
            ("Gt", Some(n)) => n.checked_add(1).map_or(nothing, |n| range(Some(n), None)),
            ("Lt", Some(n)) => n.checked_sub(1).map_or(nothing, |n| range(None, Some(n))),
            ("Gte", Some(n)) => range(Some(n), None),
            ("Lte", Some(n)) => range(None, Some(n)),
            _ => nothing,
        }
    }

    /// Whether this very text is an allowed value.
    pub fn allows(&self, value: &str) -> bool {
        match &self.values {
            Values::Listed(listed) => listed.contains(value),
            Values::Open { excluded, at_least, at_most } => {
                !excluded.contains(value)
                    && ((at_least.is_none() && at_most.is_none())
                        || go_integer(value).is_some_and(|n| {
                            at_least.is_none_or(|least| n >= least) && at_most.is_none_or(|most| n <= most)
                        }))
            }
        }
    }

    /// Intersects the values and ANDs "may be missing".
    pub fn and(&self, other: &Requirement) -> Requirement {
        let may_be_missing = self.may_be_missing && other.may_be_missing;
        let values = match (&self.values, &other.values) {
            (Values::Listed(listed), _) => {
                Values::Listed(listed.iter().filter(|value| other.allows(value)).cloned().collect())
            }
            (_, Values::Listed(listed)) => {
                Values::Listed(listed.iter().filter(|value| self.allows(value)).cloned().collect())
            }
            (
                Values::Open { excluded, at_least, at_most },
                Values::Open { excluded: excluded_too, at_least: least_too, at_most: most_too },
            ) => Values::Open {
                excluded: excluded.union(excluded_too).cloned().collect(),
                at_least: *at_least.max(least_too),
                at_most: match (at_most, most_too) {
                    (Some(a), Some(b)) => Some(*a.min(b)),
                    (bound, None) | (None, bound) => *bound,
                },
            },
        };
        Requirement { values, may_be_missing }
    }

    /// Whether some label value is allowed.
    pub fn allows_some_value(&self) -> bool {
        match &self.values {
            Values::Listed(listed) => !listed.is_empty(),
            Values::Open { at_least: Some(least), at_most: Some(most), .. } => least <= most,
            Values::Open { .. } => true,
        }
    }

    /// Nothing satisfies it.
    pub fn is_empty(&self) -> bool {
        !self.may_be_missing && !self.allows_some_value()
    }

    /// The values, where they can be listed at all.
    pub fn listed_values(&self) -> Option<&BTreeSet<String>> {
        match &self.values {
            Values::Listed(listed) => Some(listed),
            Values::Open { .. } => None,
        }
    }

    /// The value, if exactly one is left and the label must be there.
    pub fn single_value(&self) -> Option<&str> {
        match &self.values {
            Values::Listed(listed) if listed.len() == 1 && !self.may_be_missing => {
                listed.first().map(String::as_str)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |values: &BTreeSet<String>| values.iter().cloned().collect::<Vec<_>>().join(", ");
        match &self.values {
            Values::Listed(listed) if listed.is_empty() && self.may_be_missing => write!(f, "DoesNotExist"),
            Values::Listed(listed) if listed.is_empty() => write!(f, "Nothing"),
            Values::Listed(listed) => write!(f, "In [{}]", join(listed)),
            Values::Open { excluded, at_least, at_most } => {
                if self.may_be_missing {
                    write!(f, "NotIn [{}]", join(excluded))?;
                } else {
                    write!(f, "Exists")?;
                    if !excluded.is_empty() {
                        write!(f, " but [{}]", join(excluded))?;
                    }
                }
                if let Some(least) = at_least {
                    write!(f, " >={least}")?;
                }
                if let Some(most) = at_most {
                    write!(f, " <={most}")?;
                }
                Ok(())
            }
        }
    }
}

/// Reads an integer as Go's `strconv.Atoi`: an optional sign and decimal digits, within 64 bits.
pub fn go_integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// The conjunction of expressions, key by key, aliases rewritten.
pub fn conjunction<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> Requirements {
    let mut all = Requirements::new();
    for expr in exprs {
        add(&mut all, stable_key(&expr.key), &Requirement::from_expr(expr));
    }
    all
}

/// Asked-for labels (a nodeSelector, a pool's labels) as requirements. An alias and its stable name are two demands.
pub fn from_selector(labels: &Labels) -> Requirements {
    let mut all = Requirements::new();
    for (key, value) in labels {
        add(&mut all, stable_key(key), &Requirement::exactly(value));
    }
    all
}

/// The labels a real node has, under their stable names; where a node carries both names the stable one speaks.
pub fn stable_labels(labels: &Labels) -> Labels {
    let mut stable: Labels =
        labels.iter().map(|(key, value)| (stable_key(key).to_owned(), value.clone())).collect();
    stable.extend(
        labels.iter().filter(|(key, _)| stable_key(key) == *key).map(|(k, v)| (k.clone(), v.clone())),
    );
    stable
}

/// Adds one requirement to a set by intersection.
pub fn add(all: &mut Requirements, key: &str, requirement: &Requirement) {
    let merged = match all.get(key) {
        Some(present) => present.and(requirement),
        None => requirement.clone(),
    };
    all.insert(key.to_owned(), merged);
}

/// Both sets together, key by key.
pub fn both(one: &Requirements, other: &Requirements) -> Requirements {
    let mut all = one.clone();
    for (key, requirement) in other {
        add(&mut all, key, requirement);
    }
    all
}

/// "Sides": what is known of a key that the node or template does not define.
#[derive(Debug, Clone, Copy)]
pub enum Side<'a> {
    /// A real node: a key it lacks is missing.
    RealNode,
    /// A pool's future machine: a well-known key is open, any other is missing.
    Template { well_known: &'a BTreeSet<String> },
}

impl Side<'_> {
    /// What the side offers for a key.
    pub fn offers(&self, offered: &Requirements, key: &str) -> Requirement {
        match (offered.get(key), self) {
            (Some(requirement), _) => requirement.clone(),
            (None, Side::Template { well_known }) if well_known.contains(key) => {
                Requirement::anything_or_missing()
            }
            (None, _) => Requirement::missing(),
        }
    }

    /// Whether for each key asked about the intersection is not empty: if so, the offer narrowed by the ask, else the
    /// first key that fails.
    pub fn narrow(&self, offered: &Requirements, asked: &Requirements) -> Result<Requirements, String> {
        let mut narrowed = offered.clone();
        for (key, requirement) in asked {
            let left = self.offers(offered, key).and(requirement);
            if left.is_empty() {
                return Err(key.clone());
            }
            narrowed.insert(key.clone(), left);
        }
        Ok(narrowed)
    }

    /// Whether the ask is compatible with the offer.
    pub fn compatible(&self, offered: &Requirements, asked: &Requirements) -> bool {
        self.narrow(offered, asked).is_ok()
    }
}

/// Whether two sets overlap on every key that both define (how types, offerings and volume alternatives are compared: a
/// key one of them does not speak about is "anything" there).
pub fn overlap(one: &Requirements, other: &Requirements) -> bool {
    one.iter().all(|(key, requirement)| match other.get(key) {
        Some(too) => !requirement.and(too).is_empty(),
        None => true,
    })
}

/// "Key aliases": the stable name of a label key.
pub fn stable_key(key: &str) -> &str {
    match key {
        "beta.kubernetes.io/arch" => "kubernetes.io/arch",
        "beta.kubernetes.io/os" => "kubernetes.io/os",
        "beta.kubernetes.io/instance-type" => "node.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/zone" => "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
        other => other,
    }
}
