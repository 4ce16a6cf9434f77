//! Pods as rules see them: where each stands, what it asks for, and which pool could take it.

use std::collections::BTreeMap;

use joiner_api::owners::{is_daemon, is_mirror};
use joiner_core::model::{KeyId, Requirement, Taint, Toleration, taint};
use joiner_manifest::Object;
use joiner_state::parts;
use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::input::Loaded;
use super::shelf::{Clause, Offers, Shelf, is_empty};
use super::subject::{NodeView, PoolView, Subject};

/// Why a pod is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It waits for a place, or will.
    Pending,
    /// It has one.
    Bound,
    /// It follows nodes.
    Daemon,
}

/// A pod or a template of pods.
#[derive(Debug)]
pub struct PodView<'i> {
    /// The object, by number.
    pub object: usize,
    /// Where the pod's spec is in it.
    pub path: &'static str,
    /// Why it is there.
    pub standing: Standing,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its spec.
    pub spec: &'i PodSpec,
    /// What it may ask for instead of each other: its selector with each required term.
    pub asks: Vec<Vec<Clause>>,
    /// What it tolerates.
    pub tolerations: Vec<Toleration>,
    /// Further pods that ask for the same.
    pub more: usize,
}

/// Why a pool can't take a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// A taint that it does not tolerate.
    Taint(Taint),
    /// A label that machines of the pool do not have.
    Undefined(ClauseAt),
    /// The pool and the pod contradict each other.
    Contradiction(ClauseAt, String),
    /// No type or offering is left.
    NoType(ClauseAt),
}

/// A clause of a pod, by number of its ask and of the clause in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClauseAt(pub usize, pub usize);

impl PodView<'_> {
    /// What a pool could launch for it, or why nothing.
    pub fn on(&self, pool: &PoolView, shelf: &Shelf) -> Result<Offers, Obstacle> {
        if let Some(taint) = taint::untolerated(&pool.taints, &self.tolerations, true) {
            return Err(Obstacle::Taint(taint.clone()));
        }
        let mut obstacle = None;
        for (at, ask) in self.asks.iter().enumerate() {
            match met(at, ask, pool, shelf) {
                Ok(offers) => return Ok(offers),
                Err(found) => obstacle = obstacle.or(Some(found)),
            }
        }
        // A pod without terms asks once for nothing, so one of the two was found.
        obstacle.map_or_else(|| Ok(pool.offers.clone()), Err)
    }

    /// Whether a node would take it, as far as labels and taints go.
    pub fn fits_node(&self, node: &NodeView, shelf: &Shelf) -> bool {
        let allowed = |clause: &Clause| match node.labels.get(&clause.key) {
            Some(value) => clause.requirement.allows_text(&shelf.names, clause.key, value),
            None => clause.requirement.may_be_absent,
        };
        taint::untolerated(&node.taints, &self.tolerations, true).is_none()
            && self.asks.iter().any(|ask| ask.iter().all(allowed))
    }

    /// Whether it asks to stay away from pools, or for one node by its name.
    pub fn avoids_pools(&self, shelf: &Shelf) -> bool {
        let pool_key = shelf.names.known_key(joiner_api::names::NODEPOOL_LABEL);
        let refuses = |clause: &Clause| Some(clause.key) == pool_key && clause.operator == "DoesNotExist";
        let affinity = self.spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
        let required =
            affinity.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
        let terms = required.iter().flat_map(|required| &required.node_selector_terms);
        let is_pinned =
            terms.into_iter().any(|term| term.match_fields.as_ref().is_some_and(|f| !f.is_empty()));
        is_pinned || !self.asks.is_empty() && self.asks.iter().all(|ask| ask.iter().any(refuses))
    }

    /// The clause at a place.
    pub fn clause(&self, at: ClauseAt) -> Option<&Clause> {
        self.asks.get(at.0)?.get(at.1)
    }

    /// `, and 3 more like it` or nothing.
    pub fn and_more(&self) -> String {
        match self.more {
            0 => String::new(),
            more => format!(" (and {more} more pods like it)"),
        }
    }
}

fn met(ask_at: usize, ask: &[Clause], pool: &PoolView, shelf: &Shelf) -> Result<Offers, Obstacle> {
    let mut together: BTreeMap<KeyId, Requirement> = BTreeMap::new();
    let mut offers = pool.offers.clone();
    for (at, clause) in ask.iter().enumerate() {
        let place = ClauseAt(ask_at, at);
        let said = together.get(&clause.key).or_else(|| pool.template.get(&clause.key));
        let met = match said {
            Some(said) => {
                let met = said.intersect(&clause.requirement, &shelf.names, clause.key);
                if met.is_empty() {
                    return Err(Obstacle::Contradiction(place, said.text(&shelf.names, clause.key)));
                }
                met
            }
            None if shelf.is_restricted(clause.key) => return Err(Obstacle::Undefined(place)),
            None if shelf.is_well_known(clause.key) && !clause.requirement.is_empty() => {
                clause.requirement.clone()
            }
            None if clause.requirement.may_be_absent => continue,
            None => return Err(Obstacle::Undefined(place)),
        };
        shelf.narrow(&mut offers, clause.key, &met);
        // A pool without types is another rule's business.
        if is_empty(&offers) && !is_empty(&pool.offers) {
            return Err(Obstacle::NoType(place));
        }
        together.insert(clause.key, met);
    }
    Ok(offers)
}

/// What each pool says to a pod that none takes; nothing if some pool or node does, or if that can't be told.
pub fn obstacles<'s>(subject: &'s Subject, pod: &PodView) -> Option<Vec<(&'s str, Obstacle)>> {
    if pod.standing != Standing::Pending || !subject.knows_all_pools || pod.avoids_pools(&subject.shelf) {
        return None;
    }
    let dynamic = || subject.pools.iter().filter(|pool| pool.is_dynamic());
    if dynamic().next().is_none() || subject.nodes.iter().any(|node| pod.fits_node(node, &subject.shelf)) {
        return None;
    }
    dynamic().map(|pool| Some((pool.name, pod.on(pool, &subject.shelf).err()?))).collect()
}

/// All pods and templates of an input; plain pods that ask for the same stand for each other.
pub fn views<'i>(objects: &'i [Loaded], shelf: &mut Shelf) -> Vec<PodView<'i>> {
    let mut views: Vec<PodView> = Vec::new();
    let mut alike: BTreeMap<String, usize> = BTreeMap::new();
    for (object, loaded) in objects.iter().enumerate() {
        let Some((path, standing, labels, spec)) = pod_of(&loaded.object) else { continue };
        let signature = matches!(loaded.object, Object::Pod(_)).then(|| signature(spec, standing)).flatten();
        if let Some(first) = signature.as_ref().and_then(|signature| alike.get(signature)) {
            views[*first].more += 1;
            continue;
        }
        if let Some(signature) = signature {
            alike.insert(signature, views.len());
        }
        views.push(PodView {
            object,
            path,
            standing,
            labels,
            spec,
            asks: asks(spec, path, shelf),
            tolerations: tolerations(spec),
            more: 0,
        });
    }
    views
}

type Found<'i> = (&'static str, Standing, BTreeMap<String, String>, &'i PodSpec);

fn pod_of(object: &Object) -> Option<Found<'_>> {
    const TEMPLATE: &str = "spec.template.spec";
    let of = |template: &'_ PodTemplateSpec| template.metadata.as_ref().and_then(|m| m.labels.clone());
    let workload = |meta: &ObjectMeta| {
        // What another object made is judged there.
        !meta.owner_references.iter().flatten().any(|owner| owner.controller == Some(true))
    };
    let (path, standing, labels, spec) = match object {
        Object::Pod(pod) => {
            let spec = pod.spec.as_ref()?;
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            if matches!(phase, Some("Succeeded" | "Failed")) {
                return None;
            }
            let owners = pod.metadata.owner_references.as_deref();
            let standing = match (is_daemon(owners) || is_mirror(owners), &spec.node_name) {
                (true, _) => Standing::Daemon,
                (false, Some(node)) if !node.is_empty() => Standing::Bound,
                _ => Standing::Pending,
            };
            ("spec", standing, pod.metadata.labels.clone(), spec)
        }
        Object::Deployment(d) => {
            (TEMPLATE, Standing::Pending, of(&d.spec.template), d.spec.template.spec.as_ref()?)
        }
        Object::StatefulSet(s) => {
            (TEMPLATE, Standing::Pending, of(&s.spec.template), s.spec.template.spec.as_ref()?)
        }
        Object::DaemonSet(d) => {
            (TEMPLATE, Standing::Daemon, of(&d.spec.template), d.spec.template.spec.as_ref()?)
        }
        Object::ReplicaSet(r) if workload(&r.metadata) => {
            let template = r.spec.template.as_ref()?;
            (TEMPLATE, Standing::Pending, of(template), template.spec.as_ref()?)
        }
        Object::Job(job) if workload(&job.metadata) => {
            let template = &job.spec.as_ref()?.template;
            (TEMPLATE, Standing::Pending, of(template), template.spec.as_ref()?)
        }
        Object::CronJob(cron) => {
            let template = &cron.spec.job_template.spec.as_ref()?.template;
            ("spec.jobTemplate.spec.template.spec", Standing::Pending, of(template), template.spec.as_ref()?)
        }
        _ => return None,
    };
    Some((path, standing, labels.unwrap_or_default(), spec))
}

/// What makes plain pods alike to the rules.
fn signature(spec: &PodSpec, standing: Standing) -> Option<String> {
    let init = spec.init_containers.iter().flatten();
    let containers: Vec<_> = spec.containers.iter().map(|container| &container.resources).collect();
    let init: Vec<_> = init.map(|container| &container.resources).collect();
    let parts = (
        &spec.node_selector,
        &spec.affinity,
        &spec.tolerations,
        &spec.topology_spread_constraints,
        (&containers, &init, &spec.resources),
        standing == Standing::Pending,
        standing == Standing::Daemon,
    );
    serde_json::to_string(&parts).ok()
}

fn asks(spec: &PodSpec, path: &str, shelf: &mut Shelf) -> Vec<Vec<Clause>> {
    let mut selector = Vec::new();
    for (key, value) in spec.node_selector.iter().flatten() {
        let value = std::slice::from_ref(value);
        selector.push(shelf.clause(format!("{path}.nodeSelector[{key}]"), key, "In", value));
    }
    let node_affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        node_affinity.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
    let Some(required) = required else { return vec![selector] };
    let within = format!("{path}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution");
    required
        .node_selector_terms
        .iter()
        .enumerate()
        .map(|(term_at, term)| {
            let mut clauses = selector.clone();
            for (at, e) in term.match_expressions.iter().flatten().enumerate() {
                let path = format!("{within}.nodeSelectorTerms[{term_at}].matchExpressions[{at}]");
                clauses.push(shelf.clause(
                    path,
                    &e.key,
                    &e.operator,
                    e.values.as_deref().unwrap_or_default(),
                ));
            }
            clauses
        })
        .collect()
}

fn tolerations(spec: &PodSpec) -> Vec<Toleration> {
    let list = spec.tolerations.iter().flatten();
    list.map(parts::toleration).collect()
}
