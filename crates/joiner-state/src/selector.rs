//! Selectors of overlays and cost models: which offerings they pick, pool by pool.
//!
//! Such a selector is held against what is *known* of a machine: the type's labels, the offering's, the pool's name and the labels of its
//! template. A key that none of them defines is missing, so `In` and `Exists` fail on it and `NotIn` holds. (A pod's ask is
//! milder: there a well-known key that nobody defines is open.)

use joiner_api::instance_type::{InstanceType, TypeRequirement};
use joiner_api::names::NODEPOOL_LABEL;
use joiner_api::requirement::{NodeRequirement, OverlayRequirement};
use joiner_core::model::{KeyId, Names, Operator, Requirement, Vocabulary};

use crate::digest::stable_key;
use crate::lower::Lowering;
use crate::node_digest::Labels;
use crate::pools::node_requirement;

type List = Vec<(KeyId, Requirement)>;

/// What an overlay, a discount, a fee or a commitment is about.
#[derive(Debug)]
pub(crate) struct Selector(List);

/// What is known of one kind of machine.
#[derive(Debug)]
pub(crate) struct TypeFacts {
    own: List,
    offerings: Vec<List>,
}

/// Label values that a pool's template fixes, its name included.
#[derive(Debug)]
pub(crate) struct PoolFacts(List);

impl Selector {
    pub(crate) fn new(vocabulary: &mut Vocabulary, requirements: &[OverlayRequirement]) -> Self {
        let mut list = List::new();
        for requirement in requirements {
            let requirement = NodeRequirement::from(requirement.clone());
            let (key, made) = node_requirement(vocabulary, &requirement);
            add(&mut list, &vocabulary.names, key, made);
        }
        Self(list)
    }

    /// Whether it picks an offering for machines of a pool.
    pub(crate) fn picks(&self, names: &Names, pool: &PoolFacts, of: &TypeFacts, offering: usize) -> bool {
        let offered = of.offerings.get(offering);
        self.0.iter().all(|(key, wanted)| {
            let mut known = get(&of.own, *key).cloned();
            if let Some(label) = get(&pool.0, *key) {
                known = Some(known.map_or_else(|| label.clone(), |own| own.intersect(label, names, *key)));
            }
            let offered = offered.and_then(|list| get(list, *key));
            let overlaps = |have: &Requirement| !have.intersect(wanted, names, *key).is_empty();
            match (&known, offered) {
                (None, None) => wanted.may_be_absent,
                (known, offered) => known.iter().chain(offered).all(overlaps),
            }
        })
    }

    /// Whether a node with these labels is one of those meant.
    pub(crate) fn holds_on(&self, names: &Names, labels: &Labels) -> bool {
        self.0.iter().all(|(key, wanted)| match labels.get(names.key_text(*key)) {
            Some(value) => wanted.allows_text(names, *key, value),
            None => wanted.may_be_absent,
        })
    }
}

impl TypeFacts {
    pub(crate) fn new(vocabulary: &mut Vocabulary, of: &InstanceType) -> Self {
        let own = requirements(vocabulary, &of.requirements);
        let offerings = of.offerings.iter().map(|o| requirements(vocabulary, &o.requirements)).collect();
        Self { own, offerings }
    }
}

impl Lowering<'_> {
    /// What is known of every machine of a pool.
    pub(crate) fn pool_facts(&mut self, name: &str) -> PoolFacts {
        let labels = self.cluster.pools[name].spec.template.metadata.labels.iter().flatten();
        let labels = labels.map(|(key, value)| (stable_key(key), value.as_str()));
        let names = &mut self.frame.snapshot.vocabulary.names;
        let mut list = List::new();
        for (key, value) in labels.chain([(NODEPOOL_LABEL, name)]) {
            let key = names.key(key);
            let value = names.value(key, value);
            add(&mut list, names, key, Requirement::is(value));
        }
        PoolFacts(list)
    }
}

fn requirements(vocabulary: &mut Vocabulary, of: &[TypeRequirement]) -> List {
    let mut list = List::new();
    for requirement in of {
        let names = &mut vocabulary.names;
        let key = names.key(stable_key(&requirement.key));
        let values: Vec<&str> = requirement.values.iter().map(String::as_str).collect();
        let made = match Operator::parse(requirement.operator.as_str()) {
            Some(operator) => Requirement::from_expression(names, key, operator, &values),
            None => Requirement::nothing(),
        };
        add(&mut list, names, key, made);
    }
    list
}

fn add(list: &mut List, names: &Names, key: KeyId, made: Requirement) {
    match list.iter_mut().find(|(have, _)| *have == key) {
        Some((_, have)) => *have = have.intersect(&made, names, key),
        None => list.push((key, made)),
    }
}

fn get(list: &[(KeyId, Requirement)], key: KeyId) -> Option<&Requirement> {
    list.iter().find(|(have, _)| *have == key).map(|(_, requirement)| requirement)
}
