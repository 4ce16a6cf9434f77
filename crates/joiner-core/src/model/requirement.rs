//! The requirement algebra on one label key.
//!
//! A requirement is a set of label values together with the answer to "may the label be missing?". Kubernetes' operators are
//! all of this shape: `In [a b]` is two values and no; `NotIn [a]` is everything else and *yes*; `Exists` is everything and no;
//! `DoesNotExist` is nothing and yes; the numeric ones are integer ranges and no. Intersection is set intersection plus an AND,
//! so it is commutative, associative and idempotent by construction.
//!
//! The original keeps only the set. A contradiction then looks like `DoesNotExist`, and `Exists ∧ NotIn` like `NotIn`, and pods
//! are placed where the Kubernetes scheduler will never bind them. The extra bit is what makes the difference.
//!
//! Sets are kept symbolically (a sorted list of values, perhaps complemented, perhaps with integer bounds): lists are short, and
//! the fast paths never look inside, because equal requirements share an id.

use smallvec::SmallVec;

use super::Names;
use super::ids::{KeyId, ValueId};

/// The eight operators of node requirements. The API has them too: the core uses no type of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// One of the values.
    In,
    /// None of the values, or no such label.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
    /// An integer above the value.
    Gt,
    /// An integer below the value.
    Lt,
    /// An integer not below the value.
    Gte,
    /// An integer not above the value.
    Lte,
}

impl Operator {
    /// Reads Kubernetes' spelling.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            "Gt" => Self::Gt,
            "Lt" => Self::Lt,
            "Gte" => Self::Gte,
            "Lte" => Self::Lte,
            _ => return None,
        })
    }

    /// Kubernetes' spelling.
    pub fn text(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
            Self::Gte => "Gte",
            Self::Lte => "Lte",
        }
    }
}

/// What one key is allowed to be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The values are the excluded ones.
    pub complement: bool,
    /// Sorted by id.
    pub values: SmallVec<[ValueId; 4]>,
    /// Smallest integer allowed; any bound also excludes values that are no integers. Only on complements.
    pub gte: Option<i64>,
    /// Largest integer allowed.
    pub lte: Option<i64>,
    /// The label may be missing.
    pub may_be_absent: bool,
    /// How many distinct values must stay available; pools only.
    pub min_values: Option<u32>,
}

impl Requirement {
    /// Anything, or missing: what a well-known key is on a template that does not mention it.
    pub fn anything() -> Self {
        Self {
            complement: true,
            values: SmallVec::new(),
            gte: None,
            lte: None,
            may_be_absent: true,
            min_values: None,
        }
    }

    /// The label is there, with any value.
    pub fn exists() -> Self {
        Self { may_be_absent: false, ..Self::anything() }
    }

    /// The label is not there.
    pub fn does_not_exist() -> Self {
        Self { complement: false, may_be_absent: true, ..Self::anything() }
    }

    /// Exactly one value.
    pub fn is(value: ValueId) -> Self {
        Self {
            complement: false,
            values: SmallVec::from_slice(&[value]),
            may_be_absent: false,
            ..Self::anything()
        }
    }

    /// One of some values.
    pub fn one_of(values: impl IntoIterator<Item = ValueId>) -> Self {
        let mut values: SmallVec<[ValueId; 4]> = values.into_iter().collect();
        values.sort_unstable();
        values.dedup();
        Self { complement: false, values, may_be_absent: false, ..Self::anything() }
    }

    /// Reads an expression. A numeric operator whose value is not an integer allows nothing.
    pub fn from_expression(names: &mut Names, key: KeyId, operator: Operator, values: &[&str]) -> Self {
        let number = || values.first().and_then(|v| super::names::atoi(v));
        match operator {
            Operator::In => Self::one_of(values.iter().map(|v| names.value(key, v)).collect::<Vec<_>>()),
            Operator::NotIn => {
                let listed = Self::one_of(values.iter().map(|v| names.value(key, v)).collect::<Vec<_>>());
                Self { complement: true, may_be_absent: true, ..listed }
            }
            Operator::Exists => Self::exists(),
            Operator::DoesNotExist => Self::does_not_exist(),
            Operator::Gt => match number() {
                Some(i64::MAX) | None => Self::nothing(),
                Some(n) => Self { gte: Some(n + 1), ..Self::exists() },
            },
            Operator::Lt => match number() {
                Some(i64::MIN) | None => Self::nothing(),
                Some(n) => Self { lte: Some(n - 1), ..Self::exists() },
            },
            Operator::Gte => match number() {
                None => Self::nothing(),
                Some(n) => Self { gte: Some(n), ..Self::exists() },
            },
            Operator::Lte => match number() {
                None => Self::nothing(),
                Some(n) => Self { lte: Some(n), ..Self::exists() },
            },
        }
    }

    /// The empty requirement: nothing satisfies it.
    pub fn nothing() -> Self {
        Self { complement: false, may_be_absent: false, ..Self::anything() }
    }

    /// Whether nothing satisfies it. (An open integer range is never used up by exclusions: `05` and `5` are two values.)
    pub fn is_empty(&self) -> bool {
        !self.complement && self.values.is_empty() && !self.may_be_absent
    }

    /// Whether a label with this value satisfies it.
    pub fn allows(&self, names: &Names, key: KeyId, value: ValueId) -> bool {
        let listed = self.values.binary_search(&value).is_ok();
        listed != self.complement && self.in_bounds(names.value_integer(key, value))
    }

    /// Whether a value that may not be interned satisfies it.
    pub fn allows_text(&self, names: &Names, key: KeyId, text: &str) -> bool {
        match names.known_value(key, text) {
            Some(value) => self.allows(names, key, value),
            None => self.complement && self.in_bounds(super::names::atoi(text)),
        }
    }

    fn in_bounds(&self, integer: Option<i64>) -> bool {
        if self.gte.is_none() && self.lte.is_none() {
            return true;
        }
        integer.is_some_and(|n| self.gte.is_none_or(|low| n >= low) && self.lte.is_none_or(|high| n <= high))
    }

    /// The one value it allows, if the label must be there with a known single value.
    pub fn single(&self) -> Option<ValueId> {
        (!self.complement && !self.may_be_absent && self.values.len() == 1).then(|| self.values[0])
    }

    /// Both at once.
    pub fn intersect(&self, other: &Self, names: &Names, key: KeyId) -> Self {
        let may_be_absent = self.may_be_absent && other.may_be_absent;
        let min_values = self.min_values.max(other.min_values);
        let gte = self.gte.max(other.gte);
        let lte = match (self.lte, other.lte) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let crossed = matches!((gte, lte), (Some(low), Some(high)) if low > high);
        if crossed {
            return Self { may_be_absent, min_values, complement: false, ..Self::anything() };
        }
        let bounds = Self { gte, lte, ..Self::anything() };
        let mut values: SmallVec<[ValueId; 4]> = SmallVec::new();
        let complement = self.complement && other.complement;
        match (self.complement, other.complement) {
            (true, true) => {
                values.extend(self.values.iter().chain(&other.values).copied());
                values.sort_unstable();
                values.dedup();
            }
            (false, _) => {
                values.extend(
                    self.values
                        .iter()
                        .copied()
                        .filter(|v| other.values.binary_search(v).is_ok() != other.complement),
                );
            }
            (true, false) => {
                values.extend(other.values.iter().copied().filter(|v| self.values.binary_search(v).is_err()));
            }
        }
        // Values outside the bounds are gone either way: excluded twice, or not allowed.
        values.retain(|v| bounds.in_bounds(names.value_integer(key, *v)));
        let (gte, lte) = if complement { (gte, lte) } else { (None, None) };
        Self { complement, values, gte, lte, may_be_absent, min_values }
    }

    /// The operator that describes it best.
    pub fn shown_operator(&self) -> Operator {
        match (self.complement, self.values.is_empty()) {
            (true, true) => Operator::Exists,
            (true, false) => Operator::NotIn,
            (false, true) => Operator::DoesNotExist,
            (false, false) => Operator::In,
        }
    }

    /// The values as text, sorted.
    pub fn value_texts<'n>(&self, names: &'n Names, key: KeyId) -> Vec<&'n str> {
        let mut texts: Vec<&str> = self.values.iter().map(|v| names.value_text(key, *v)).collect();
        texts.sort_unstable();
        texts
    }

    /// One line for people: key, operator, at most five values, bounds and minValues.
    pub fn text(&self, names: &Names, key: KeyId) -> String {
        use std::fmt::Write;
        let operator = self.shown_operator();
        let mut out = format!("{} {}", names.key_text(key), operator.text());
        if matches!(operator, Operator::In | Operator::NotIn) {
            let values = self.value_texts(names, key);
            let shown = values.iter().take(5).copied().collect::<Vec<_>>().join(" ");
            let rest = values.len().saturating_sub(5);
            let more = if rest > 0 { format!(" and {rest} others") } else { String::new() };
            let _ = write!(out, " [{shown}{more}]");
        }
        if let Some(low) = self.gte {
            let _ = write!(out, " >={low}");
        }
        if let Some(high) = self.lte {
            let _ = write!(out, " <={high}");
        }
        if let Some(min) = self.min_values {
            let _ = write!(out, " minValues {min}");
        }
        out
    }

    /// The expressions that say the same in Kubernetes' terms, as they are written to a claim.
    pub fn expressions(&self, names: &Names, key: KeyId) -> Vec<(Operator, Vec<String>)> {
        let texts = || self.value_texts(names, key).into_iter().map(str::to_owned).collect::<Vec<_>>();
        let mut out = Vec::new();
        if let Some(low) = self.gte {
            out.push((Operator::Gte, vec![low.to_string()]));
        }
        if let Some(high) = self.lte {
            out.push((Operator::Lte, vec![high.to_string()]));
        }
        match self.shown_operator() {
            Operator::Exists if !out.is_empty() => {}
            Operator::Exists if self.may_be_absent => {}
            Operator::NotIn => {
                // `NotIn` alone would pass on a node without the label.
                if out.is_empty() && !self.may_be_absent {
                    out.push((Operator::Exists, Vec::new()));
                }
                out.push((Operator::NotIn, texts()));
            }
            operator => out.push((operator, texts())),
        }
        out
    }
}
