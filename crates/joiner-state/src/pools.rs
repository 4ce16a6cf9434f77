//! Pools: templates of future machines, in the order in which they are tried, with what their limits leave.

use std::collections::BTreeSet;
use std::sync::Arc;

use joiner_api::NodePool;
use joiner_api::names::{
    self, INITIALIZED_LABEL, NODEPOOL_LABEL, NODES_RESOURCE, REGISTERED_LABEL, conditions,
};
use joiner_api::requirement::NodeRequirement;
use joiner_core::model::{CatalogueIdx, KeyId, Limit, Operator, Pool, Requirement, Taint, Vocabulary};

use crate::cluster::{Cluster, Whose};
use crate::digest::stable_key;
use crate::lower::Lowering;
use crate::node_digest;
use crate::problem::Problem;
use crate::requests::read_amounts;

/// Whether two states of a pool are the same to planning.
pub(crate) fn is_same(a: &NodePool, b: &NodePool) -> bool {
    a.spec == b.spec && why_not(a) == why_not(b)
}

/// Adds a lane for every resource some limit names.
pub(crate) fn limit_lanes(cluster: &Cluster, lanes: &mut BTreeSet<Box<str>>) {
    for pool in cluster.pools.values() {
        let named = pool.spec.limits.iter().flat_map(|limits| limits.keys());
        lanes.extend(named.filter(|name| *name != NODES_RESOURCE).map(|name| name.as_str().into()));
    }
}

/// Refuses a pool that validation finds fault with.
pub(crate) fn check(pool: &NodePool, name: &str, well_known: &BTreeSet<String>) -> Result<(), Problem> {
    let mut found = joiner_api::validation::validate_nodepool_with(pool, well_known).into_iter();
    let Some(first) = found.next() else {
        // Validation knows quantities and effects too; reading them here keeps lowering free of surprises.
        let spec = &pool.spec.template.spec;
        let read = node_digest::taints(spec.taints.as_deref(), "spec.template.spec.taints")
            .and_then(|_| {
                node_digest::taints(spec.startup_taints.as_deref(), "spec.template.spec.startupTaints")
            })
            .and_then(|_| {
                pool.spec.limits.as_ref().map_or(Ok(()), |l| read_amounts(l, "spec.limits").map(|_| ()))
            });
        return read.map_err(|finding| finding.on("NodePool", name, ""));
    };
    let more = found.count();
    let and_more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
    Err(Problem {
        object: format!("NodePool {name}"),
        path: first.path,
        value: first.value,
        message: format!("{}{and_more}", first.message),
        remedy: first.remedy,
    })
}

/// The startup taints of a pool.
pub(crate) fn startup_taints(pool: &NodePool) -> Vec<Taint> {
    node_digest::taints(pool.spec.template.spec.startup_taints.as_deref(), "").unwrap_or_default()
}

/// Requirements of a pool or claim as the core has them.
pub(crate) fn node_requirement(
    vocabulary: &mut Vocabulary,
    requirement: &NodeRequirement,
) -> (KeyId, Requirement) {
    let key = vocabulary.names.key(requirement.stable_key());
    let values: Vec<&str> = requirement.values.iter().map(String::as_str).collect();
    let mut made = match Operator::parse(&requirement.operator) {
        Some(operator) => Requirement::from_expression(&mut vocabulary.names, key, operator, &values),
        None => Requirement::nothing(),
    };
    made.min_values = requirement.min_values.and_then(|min| u32::try_from(min).ok());
    (key, made)
}

impl Lowering<'_> {
    /// Puts the pools in order: weight descending, then name descending.
    pub(crate) fn order_pools(&mut self) {
        let mut pools: Vec<(&String, &NodePool)> = self.cluster.pools.iter().collect();
        pools.sort_by(|(a_name, a), (b_name, b)| {
            (self.weight(b_name, b), b_name).cmp(&(self.weight(a_name, a), a_name))
        });
        self.frame.pool_order = pools.into_iter().map(|(name, _)| name.as_str().into()).collect();
        self.frame.pool_index = self.frame.pool_order.iter().cloned().zip(0..).collect();
    }

    /// A written weight is at least 1, and none counts as 0.
    fn weight(&self, name: &str, pool: &NodePool) -> i32 {
        match self.cluster.last_pools.contains(name) {
            true => -1,
            false => pool.spec.weight.unwrap_or(0),
        }
    }

    /// The catalogue of a node class: its own, or everybody's.
    pub(crate) fn catalogue_of(&self, class: (&str, &str, &str)) -> Option<usize> {
        let inputs = &self.cluster.catalogues;
        let is_of = |whose: &Whose| match whose {
            Whose::Class((group, kind, name)) => (group.as_str(), kind.as_str(), name.as_str()) == class,
            _ => false,
        };
        let own = inputs.iter().position(|input| is_of(&input.whose));
        own.or_else(|| inputs.iter().position(|input| input.whose == Whose::Everybody))
    }

    /// The catalogue of a pool: its own, else that of its class.
    pub(crate) fn catalogue_of_pool(&self, name: &str) -> Option<usize> {
        let is_of = |whose: &Whose| matches!(whose, Whose::Pools(pools) if pools.contains(name));
        let own = self.cluster.catalogues.iter().position(|input| is_of(&input.whose));
        own.or_else(|| {
            let class = &self.cluster.pools.get(name)?.spec.template.spec.node_class_ref;
            self.catalogue_of((&class.group, &class.kind, &class.name))
        })
    }

    /// Fills in the pools; usage is added when nodes are known.
    pub(crate) fn lower_pools(&mut self) {
        let cluster = self.cluster;
        let mut nothing_known: Option<CatalogueIdx> = None;
        for name in self.frame.pool_order.clone() {
            let pool = &cluster.pools[&*name];
            let spec = &pool.spec.template.spec;
            let class = &spec.node_class_ref;
            let mut not_ready = why_not(pool);
            let catalogue = match self.frame.pool_catalogues[self.frame.pool_index[&name]] {
                Some(at) => at,
                None => {
                    not_ready.get_or_insert_with(|| {
                        format!("no instance types are known for {} `{}`", class.kind, class.name)
                    });
                    *nothing_known.get_or_insert_with(|| {
                        self.frame.snapshot.catalogues.push(Arc::default());
                        CatalogueIdx::new(self.frame.snapshot.catalogues.len() - 1)
                    })
                }
            };
            let vocabulary = &mut self.frame.snapshot.vocabulary;
            let mut list: Vec<(KeyId, Requirement)> = Vec::new();
            for requirement in &spec.requirements {
                list.push(node_requirement(vocabulary, requirement));
            }
            let class_label = names::node_class_label(&class.group, &class.kind);
            let labels = pool.spec.template.metadata.labels.iter().flatten();
            let labels = labels.map(|(key, value)| (stable_key(key), value.as_str()));
            let own = [(NODEPOOL_LABEL, &*name), (class_label.as_str(), class.name.as_str())];
            for (key, value) in labels.chain(own) {
                list.push(label(vocabulary, key, value));
            }
            let requirements = vocabulary.set(list.iter().cloned());
            for key in [REGISTERED_LABEL, INITIALIZED_LABEL] {
                list.push(label(vocabulary, key, "true"));
            }
            let daemon_requirements = vocabulary.set(list);
            let taints = node_digest::taints(spec.taints.as_deref(), "").unwrap_or_default();
            let taints = vocabulary.taint_list(taints);
            let limits = pool.spec.limits.iter().flatten().filter_map(|(resource, _)| {
                let amounts = read_amounts(pool.spec.limits.as_ref()?, "").ok()?;
                let most = *amounts.get(resource.as_str())?;
                let lane = match resource.as_str() {
                    NODES_RESOURCE => None,
                    other => Some(vocabulary.names.known_lane(other)?),
                };
                Some(Limit { lane, most, used: 0 })
            });
            let limits = limits.collect();
            self.frame.snapshot.pools.push(Pool {
                name: (*name).into(),
                weight: self.weight(&name, pool),
                catalogue,
                requirements,
                daemon_requirements,
                taints,
                limits,
                not_ready: not_ready.map(Into::into),
            });
        }
    }

    /// Counts machines against their pool's limits, or (with a negative number) no longer.
    pub(crate) fn use_up(&mut self, pool: usize, capacity: &[i64], machines: i64) {
        for limit in &mut self.frame.snapshot.pools[pool].limits {
            let more = match limit.lane {
                None => 1,
                Some(lane) => capacity.get(lane).copied().unwrap_or(0),
            };
            limit.used = limit.used.saturating_add(more.saturating_mul(machines));
        }
    }
}

fn label(vocabulary: &mut Vocabulary, key: &str, value: &str) -> (KeyId, Requirement) {
    let key = vocabulary.names.key(key);
    let value = vocabulary.names.value(key, value);
    (key, Requirement::is(value))
}

fn why_not(pool: &NodePool) -> Option<String> {
    if pool.metadata.deletion_timestamp.is_some() {
        return Some("the pool is being deleted".to_owned());
    }
    if let Some(replicas) = pool.spec.replicas {
        return Some(format!("the pool is static: it keeps {replicas} nodes whatever pods are pending"));
    }
    let conditions = pool.status.iter().flat_map(|status| &status.conditions);
    let mut unready = conditions.filter(|c| c.type_ == conditions::READY && c.status == "False");
    unready.next().map(|c| {
        format!(
            "its condition `Ready` is False: {}",
            if c.message.is_empty() { &c.reason } else { &c.message }
        )
    })
}
