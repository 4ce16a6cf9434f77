//! All providers of a process, found by kind of node class. Controllers ask the registry; none of them knows how many clouds there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use joiner_api::NodeClaim;
use joiner_api::nodepool::NodeClassReference;
use k8s_openapi::api::core::v1::Node;

use crate::{GroupKind, NodeClassKind, NodeGroups, Provider, TypeSet};

/// Providers, each with its kinds of node classes.
#[derive(Clone)]
pub struct Registry {
    providers: Vec<Arc<dyn Provider>>,
    by_kind: BTreeMap<GroupKind, (usize, NodeClassKind)>,
    node_groups: Vec<Arc<dyn NodeGroups>>,
}

/// Why providers cannot work side by side.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Nobody could tell whose machine it is.
    #[error(
        "node class kind `{kind}` is served by the providers `{first}` and `{second}`: leave one of them out"
    )]
    #[allow(missing_docs, reason = "the sentence above names its fields")]
    KindServedTwice { kind: GroupKind, first: String, second: String },
    /// The health of their offerings would be one.
    #[error("two providers are called `{0}`: give each a name of its own")]
    NameTaken(String),
}

impl Registry {
    /// A registry of these providers.
    ///
    /// # Errors
    /// Two of them share a name or serve the same kind of class.
    pub fn new(providers: impl IntoIterator<Item = Arc<dyn Provider>>) -> Result<Self, RegistryError> {
        let mut registry = Self { providers: Vec::new(), by_kind: BTreeMap::new(), node_groups: Vec::new() };
        for provider in providers {
            registry.add(provider)?;
        }
        Ok(registry)
    }

    fn add(&mut self, provider: Arc<dyn Provider>) -> Result<(), RegistryError> {
        self.check_name(provider.name())?;
        let index = self.providers.len();
        for kind in provider.node_class_kinds() {
            let group_kind = kind.group_kind();
            if let Some((first, _)) = self.by_kind.get(&group_kind) {
                let first = self.providers.get(*first).map_or(provider.name(), |first| first.name());
                return Err(RegistryError::KindServedTwice {
                    kind: group_kind,
                    first: first.to_owned(),
                    second: provider.name().to_owned(),
                });
            }
            self.by_kind.insert(group_kind, (index, kind.clone()));
        }
        self.providers.push(provider);
        Ok(())
    }

    /// The same with clouds that keep machines in groups.
    ///
    /// # Errors
    /// Two providers share a name.
    pub fn with_node_groups(
        mut self,
        node_groups: impl IntoIterator<Item = Arc<dyn NodeGroups>>,
    ) -> Result<Self, RegistryError> {
        for groups in node_groups {
            self.check_name(groups.name())?;
            self.node_groups.push(groups);
        }
        Ok(self)
    }

    fn check_name(&self, name: &str) -> Result<(), RegistryError> {
        let providers = self.providers.iter().map(|have| have.name());
        let mut names = providers.chain(self.node_groups.iter().map(|have| have.name()));
        match names.any(|have| have == name) {
            true => Err(RegistryError::NameTaken(name.to_owned())),
            false => Ok(()),
        }
    }

    /// All clouds that keep machines in groups, in the order in which they were given.
    pub fn node_groups(&self) -> &[Arc<dyn NodeGroups>] {
        &self.node_groups
    }

    /// The cloud of that name, if it keeps machines in groups.
    pub fn node_groups_of(&self, name: &str) -> Option<&Arc<dyn NodeGroups>> {
        self.node_groups.iter().find(|groups| groups.name() == name)
    }

    /// All providers, in the order in which they were given.
    pub fn providers(&self) -> &[Arc<dyn Provider>] {
        &self.providers
    }

    /// All kinds of node classes with their providers, by group and kind.
    pub fn kinds(&self) -> impl Iterator<Item = (&NodeClassKind, &Arc<dyn Provider>)> {
        self.by_kind.values().filter_map(|(index, kind)| Some((kind, self.providers.get(*index)?)))
    }

    /// The provider of a kind of class.
    pub fn provider_of_kind(&self, kind: &GroupKind) -> Option<&Arc<dyn Provider>> {
        self.providers.get(self.by_kind.get(kind)?.0)
    }

    /// The provider of a class.
    pub fn provider_of(&self, class: &NodeClassReference) -> Option<&Arc<dyn Provider>> {
        self.provider_of_kind(&class.into())
    }

    /// Whether a class is anybody's here. Objects of other classes belong to somebody else and are left alone.
    pub fn serves(&self, class: &NodeClassReference) -> bool {
        self.provider_of(class).is_some()
    }

    /// The kind of class that a Node's labels name, if it is served here.
    pub fn kind_of_node(&self, node: &Node) -> Option<GroupKind> {
        let labels = node.metadata.labels.as_ref()?;
        let mut kinds = self.by_kind.iter();
        kinds.find(|(_, (_, kind))| labels.contains_key(&kind.label())).map(|(kind, _)| kind.clone())
    }

    /// The present types of a class; an empty set if nobody serves it.
    pub fn types(&self, class: &NodeClassReference) -> Arc<TypeSet> {
        self.provider_of(class).map(|provider| provider.watch_types(class).current()).unwrap_or_default()
    }

    /// What the machine of a claim costs per hour, where its labels tell.
    pub fn price(&self, claim: &NodeClaim) -> Option<f64> {
        let labels = claim.metadata.labels.as_ref()?;
        self.types(&claim.spec.node_class_ref).price_by_labels(labels)
    }
}
