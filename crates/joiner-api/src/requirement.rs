//! Requirements on node labels, as pools, claims and overlays write them.
//!
//! Operators stay text in the structs: an object with an operator this build does not know must still load, so that
//! validation can name the field instead of a parser giving up on the whole list. [`Operator`] is the typed view.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names;

/// A requirement on one node label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRequirement {
    /// Label key the requirement is about.
    pub key: String,
    /// How the label must relate to the values.
    pub operator: String,
    /// Values to compare with. In needs at least one; Gt, Lt, Gte and Lte need exactly one whole number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// How many different values of the key the instance types offered for one node must span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_values: Option<i64>,
}

/// A requirement on one node label, without a wish for variety.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverlayRequirement {
    /// Label key the requirement is about.
    pub key: String,
    /// How the label must relate to the values.
    pub operator: String,
    /// Values to compare with. In and NotIn need at least one; Gt, Lt, Gte and Lte need exactly one whole number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl NodeRequirement {
    /// A requirement that the label has one of `values`.
    pub fn is_in<V: Into<String>>(key: &str, values: impl IntoIterator<Item = V>) -> Self {
        Self::new(key, Operator::In, values)
    }

    /// A requirement without `minValues`.
    pub fn new<V: Into<String>>(key: &str, operator: Operator, values: impl IntoIterator<Item = V>) -> Self {
        Self {
            key: key.to_owned(),
            operator: operator.to_string(),
            values: values.into_iter().map(Into::into).collect(),
            min_values: None,
        }
    }

    /// The operator, if it is one we know.
    pub fn parsed_operator(&self) -> Option<Operator> {
        Operator::parse(&self.operator)
    }

    /// The key under its stable name: old aliases and paper names replaced.
    pub fn stable_key(&self) -> &str {
        let key = names::normalized_key(&self.key);
        names::paper_alias(key).unwrap_or(key)
    }
}

impl OverlayRequirement {
    /// The operator, if it is one we know.
    pub fn parsed_operator(&self) -> Option<Operator> {
        Operator::parse(&self.operator)
    }
}

impl From<OverlayRequirement> for NodeRequirement {
    fn from(requirement: OverlayRequirement) -> Self {
        let OverlayRequirement { key, operator, values } = requirement;
        Self { key, operator, values, min_values: None }
    }
}

/// How a label must relate to the values of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label is missing or has none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is missing.
    DoesNotExist,
    /// The label is a number above the value.
    Gt,
    /// The label is a number below the value.
    Lt,
    /// The label is a number not below the value.
    Gte,
    /// The label is a number not above the value.
    Lte,
}

impl Operator {
    /// All operators, in the order documents list them.
    pub const ALL: [Self; 8] =
        [Self::In, Self::NotIn, Self::Exists, Self::DoesNotExist, Self::Gt, Self::Lt, Self::Gte, Self::Lte];

    /// Reads an operator; case matters, as in Kubernetes.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operator| operator.as_str() == text)
    }

    /// The operator as written in manifests.
    pub fn as_str(self) -> &'static str {
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

    /// Whether the operator compares numbers.
    pub fn is_numeric(self) -> bool {
        matches!(self, Self::Gt | Self::Lt | Self::Gte | Self::Lte)
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_read_back() {
        for operator in Operator::ALL {
            assert_eq!(Operator::parse(operator.as_str()), Some(operator));
        }
        assert_eq!(Operator::parse("in"), None);
        assert_eq!(Operator::parse(""), None);
    }

    #[test]
    fn keys_get_their_stable_names() {
        for (written, stable) in [
            ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
            ("karpenter.kwok.sh/instance-type", "node.kubernetes.io/instance-type"),
            ("karpenter.sh/instance-memory", "karpenter.kwok.sh/instance-memory"),
            ("team", "team"),
        ] {
            assert_eq!(NodeRequirement::is_in(written, ["x"]).stable_key(), stable);
        }
    }
}
