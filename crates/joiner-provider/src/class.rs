//! Kinds of node classes, by which everything finds its provider.

#![allow(missing_docs, reason = "fields and variants that explain themselves have no comment")]

use std::fmt;

use joiner_api::names::node_class_label;
use joiner_api::nodepool::NodeClassReference;

/// A kind of object without its version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKind {
    pub group: String,
    pub kind: String,
}

impl GroupKind {
    /// A kind by its names.
    pub fn new(group: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), kind: kind.into() }
    }
}

impl From<&NodeClassReference> for GroupKind {
    fn from(class: &NodeClassReference) -> Self {
        Self::new(&class.group, &class.kind)
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind, self.group)
    }
}

/// A kind of node class, with all it takes to watch its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeClassKind {
    pub group: String,
    pub version: String,
    pub kind: String,
    /// As in paths.
    pub plural: String,
}

impl NodeClassKind {
    /// The kind without its version.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(&self.group, &self.kind)
    }

    /// The label that names the class on claims and nodes.
    pub fn label(&self) -> String {
        node_class_label(&self.group, &self.kind)
    }
}
