//! Pending pods: classes of those alike, their relaxation ladders, and the reasons why some are not looked at.

use std::sync::Arc;

use hashbrown::HashMap;
use joiner_api::names::{self, CAPACITY_TYPE_LABEL, CAPACITY_TYPES, NODEPOOL_LABEL};
use joiner_api::validation::qualified_name_fault;
use joiner_core::model::names::atoi;
use joiner_core::model::{
    ClassIdx, FixedState, GroupIdx, Operator, Pod, PodClass, Relaxed, ReqId, Rung, fixed_state,
};

use crate::cluster::PodRecord;
use crate::digest::{Digest, Expression, Term};
use crate::lower::{ClassKey, Lowering};
use crate::topology::matching_terms;

/// Pods that wait and their classes, numbered in the order in which their first pods come.
#[derive(Debug)]
pub(crate) struct Pending {
    pub classes: Vec<Arc<PodClass>>,
    pub pods: Vec<Pod>,
    numbers: HashMap<ClassKey, ClassIdx, FixedState>,
    last: Option<(ClassKey, ClassIdx)>,
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            classes: Vec::new(),
            pods: Vec::new(),
            numbers: HashMap::with_hasher(fixed_state()),
            last: None,
        }
    }
}

impl Pending {
    /// The number of a class, made on first use.
    pub(crate) fn class(&mut self, key: ClassKey, make: impl FnOnce() -> Arc<PodClass>) -> ClassIdx {
        if let Some((last, class)) = self.last
            && last == key
        {
            return class;
        }
        let class = match self.numbers.get(&key) {
            Some(class) => *class,
            None => {
                let class = ClassIdx::new(self.classes.len());
                self.classes.push(make());
                self.numbers.insert(key, class);
                class
            }
        };
        self.last = Some((key, class));
        class
    }
}

/// What is still in force of a pod's wishes.
struct Ladder<'d> {
    /// Required node-affinity terms, any of which will do; `None` for a pod without required node affinity.
    required: Vec<Option<&'d Term>>,
    /// The one in force.
    term: usize,
    /// Heaviest first, as are the next two.
    preferred: &'d [Term],
    affinity: Vec<GroupIdx>,
    anti_affinity: Vec<GroupIdx>,
    /// Spread constraints: hard or not, and group.
    spread: Vec<(bool, GroupIdx)>,
    spare_preferred: bool,
}

impl Ladder<'_> {
    /// Gives one thing up, in the fixed order; `None` when nothing is left to give up. All required terms are tried before a preference goes,
    /// and again after.
    fn relax(&mut self, has_preferred_taints: bool) -> Option<Relaxed> {
        if self.term + 1 < self.required.len() {
            self.term += 1;
            return Some(Relaxed::RequiredTerm);
        }
        let wish = self.give_up_a_wish(has_preferred_taints)?;
        self.term = 0;
        Some(wish)
    }

    fn give_up_a_wish(&mut self, has_preferred_taints: bool) -> Option<Relaxed> {
        if !self.affinity.is_empty() {
            self.affinity.remove(0);
            return Some(Relaxed::PodAffinity);
        }
        if !self.anti_affinity.is_empty() {
            self.anti_affinity.remove(0);
            return Some(Relaxed::PodAntiAffinity);
        }
        if let [_, rest @ ..] = self.preferred {
            self.preferred = rest;
            return Some(Relaxed::NodeAffinity);
        }
        if let Some(at) = self.spread.iter().position(|(hard, _)| !hard) {
            self.spread.swap_remove(at);
            return Some(Relaxed::Spread);
        }
        if has_preferred_taints && !self.spare_preferred {
            self.spare_preferred = true;
            return Some(Relaxed::PreferNoSchedule);
        }
        None
    }
}

impl<'c> Lowering<'c> {
    /// Adds a pod that waits, with its class.
    pub(crate) fn lower_pending(&mut self, row: u32, pod: &PodRecord, pending: &mut Pending) {
        let reduced = self.reduce(pod.labels);
        let reach = self.reach_id(pod.claims, row);
        let key = (pod.spec, reduced, reach, self.frame.default_selectors.of(row));
        let class = pending.class(key, || self.class(key));
        pending.pods.push(Pod { class, created: pod.created, uid: pod.uid.clone(), name: pod.name.clone() });
    }

    /// The class of pods alike.
    pub(crate) fn class(&mut self, key: ClassKey) -> Arc<PodClass> {
        if let Some(known) = self.frame.classes.get(&key) {
            return known.clone();
        }
        let class = Arc::new(self.new_class(key));
        self.frame.classes.insert(key, class.clone());
        class
    }

    fn new_class(&mut self, key: ClassKey) -> PodClass {
        let (spec, reduced, reach, default_selector) = key;
        let cluster = self.cluster;
        let digest = &cluster.specs[spec as usize];
        let identity = self.identity(spec, reduced);
        let requests = self.requests_of(spec).clone();
        let tolerations = self.frame.snapshot.vocabulary.toleration_list(digest.tolerations.clone());
        let reach = self.frame.reaches.get(reach).clone();
        let priority = self.priority(digest);
        let refused = self
            .refusal(digest)
            .or_else(|| priority.as_ref().err().cloned())
            .map(Into::into)
            .or(reach.refused);
        let (rungs, anti_affinity) = if refused.is_some() {
            let empty = self.frame.snapshot.vocabulary.set([]);
            let rung =
                Rung { ask: empty, strict: empty, spare_preferred: false, groups: Vec::new(), relaxed: None };
            (vec![rung], Vec::new())
        } else {
            self.rungs(digest, reduced, default_selector)
        };
        PodClass {
            identity,
            requests,
            priority: priority.unwrap_or(0),
            tolerations,
            ports: digest.ports.clone(),
            volumes: reach.uses,
            volume_alternatives: reach.alternatives,
            anti_affinity,
            rungs,
            refused,
            filler: false,
        }
    }

    /// The relaxation ladder, and the groups of required anti-affinity.
    fn rungs(
        &mut self,
        pod: &Digest,
        reduced: u32,
        default_selector: Option<ReqId>,
    ) -> (Vec<Rung>, Vec<GroupIdx>) {
        let respect = self.cluster.options.respect_preferences;
        let together = self.affinity_groups(pod, reduced);
        let mut apart: Vec<GroupIdx> = Vec::new();
        for term in &pod.anti_affinity {
            let group = self.anti_affinity_group(pod, term, reduced);
            if !apart.contains(&group) {
                apart.push(group);
            }
        }
        let mut ladder = Ladder {
            required: match &pod.required {
                None => vec![None],
                Some(terms) => matching_terms(terms).map(Some).collect(),
            },
            term: 0,
            preferred: if respect { &pod.preferred } else { &[] },
            affinity: Vec::new(),
            anti_affinity: Vec::new(),
            spread: Vec::new(),
            spare_preferred: false,
        };
        if respect {
            for term in &pod.preferred_affinity {
                ladder.affinity.push(self.affinity_group(pod, term, reduced));
            }
            for term in &pod.preferred_anti_affinity {
                ladder.anti_affinity.push(self.anti_affinity_group(pod, term, reduced));
            }
        }
        for spread in pod.spread.iter().filter(|spread| spread.hard || respect) {
            let selector = self.spread_selector(spread, reduced);
            ladder.spread.push((spread.hard, self.spread_group(pod, spread, selector)));
        }
        if let Some(selector) = default_selector {
            let constraints = &self.cluster.default_spread.constraints;
            for spread in constraints.iter().filter(|spread| spread.hard || respect) {
                ladder.spread.push((spread.hard, self.spread_group(pod, spread, Some(selector))));
            }
        }
        let mut rungs = Vec::new();
        let mut relaxed = None;
        loop {
            let term = ladder.required.get(ladder.term).copied().flatten();
            let ask = self.node_ask(pod, term, ladder.preferred.first());
            let strict = self.node_ask(pod, term, None);
            self.ask_about(ask);
            let mut groups: Vec<GroupIdx> = Vec::new();
            let spread = ladder.spread.iter().map(|(_, group)| group);
            for group in
                spread.chain(&together).chain(&ladder.affinity).chain(&apart).chain(&ladder.anti_affinity)
            {
                if !groups.contains(group) {
                    groups.push(*group);
                }
            }
            rungs.push(Rung { ask, strict, spare_preferred: ladder.spare_preferred, groups, relaxed });
            relaxed = ladder.relax(self.frame.snapshot.has_preferred_taints);
            if relaxed.is_none() {
                return (rungs, apart);
            }
        }
    }

    /// A pod's priority; the error is the reason to refuse it.
    fn priority(&mut self, pod: &Digest) -> Result<i32, String> {
        if let Some(priority) = pod.priority {
            return Ok(priority);
        }
        let Some(class) = &pod.priority_class else {
            return Ok(self.cluster.default_priority());
        };
        self.cluster.priorities.get(&**class).copied().ok_or_else(|| {
            let note = format!("priority class `{class}` does not exist; pods that name it are not placed");
            if !self.frame.notes.contains(&note) {
                self.frame.notes.push(note);
            }
            format!("priority class `{class}` does not exist: create it, or name another")
        })
    }

    /// Why a pod is not looked at, as far as its own spec says.
    fn refusal(&mut self, pod: &Digest) -> Option<String> {
        if pod.resource_claims {
            return Some(
                "the pod has resource claims (`spec.resourceClaims`), which are not supported".to_owned(),
            );
        }
        let selector = pod.node_selector.iter().find_map(|(key, value)| {
            self.key_fault(key).or_else(|| {
                (&**key == CAPACITY_TYPE_LABEL && !is_capacity_type(value))
                    .then(|| unknown_capacity_type(value))
            })
        });
        if let Some(fault) = selector {
            return Some(format!("the node selector cannot be met: {fault}"));
        }
        let terms = pod.required.as_deref()?;
        if let Some(fault) = terms.iter().flat_map(|t| &t.expressions).find_map(|e| self.expression_fault(e))
        {
            return Some(format!("the required node affinity cannot be met: {fault}"));
        }
        if terms.iter().any(|term| term.match_fields) {
            return Some(
                "the required node affinity uses `matchFields`, which pick nodes that exist already"
                    .to_owned(),
            );
        }
        if matching_terms(terms).next().is_none() {
            return Some(
                "the required node affinity has no term that can match: a term needs at least one expression"
                    .to_owned(),
            );
        }
        let nodepool = self.frame.snapshot.vocabulary.names.key(NODEPOOL_LABEL);
        let stays_away = matching_terms(terms).all(|term| {
            let ask = self.node_ask(pod, Some(term), None);
            let mut items = self.frame.snapshot.vocabulary.set_items(ask);
            items.any(|(key, rq)| {
                key == nodepool && !rq.complement && rq.values.is_empty() && rq.may_be_absent
            })
        });
        stays_away.then(|| {
            format!("the pod asks for a node without label `{NODEPOOL_LABEL}`, so for one that no pool makes")
        })
    }

    fn key_fault(&self, key: &str) -> Option<String> {
        if let Some(fault) = qualified_name_fault(key) {
            return Some(format!("`{key}` is not a label key: {fault}"));
        }
        names::restriction(key, &self.cluster.well_known)
            .map(|restriction| format!("{restriction} (key `{key}`)"))
    }

    fn expression_fault(&self, expression: &Expression) -> Option<String> {
        let Expression { key, operator, values } = expression;
        if let Some(fault) = self.key_fault(key) {
            return Some(fault);
        }
        let Some(parsed) = Operator::parse(operator) else {
            return Some(format!("`{operator}` is not an operator (key `{key}`)"));
        };
        match parsed {
            Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte => {
                let fits = matches!(values.as_slice(), [value] if atoi(value).is_some_and(|n| n >= 0));
                (!fits).then(|| format!("`{operator}` on `{key}` needs one whole number of zero or more"))
            }
            Operator::In
                if &**key == CAPACITY_TYPE_LABEL && !values.iter().any(|value| is_capacity_type(value)) =>
            {
                Some(unknown_capacity_type(&values.join("`, `")))
            }
            Operator::In | Operator::NotIn | Operator::Exists | Operator::DoesNotExist => None,
        }
    }
}

fn is_capacity_type(value: &str) -> bool {
    CAPACITY_TYPES.contains(&value)
}

fn unknown_capacity_type(values: &str) -> String {
    format!("`{values}` is not a capacity type: use `spot`, `on-demand` or `reserved`")
}
