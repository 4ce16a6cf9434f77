//! A pod spec, read once: requests as numbers, keys under their stable names, selectors flattened.
//!
//! A digest is made the first time a spec is seen and shared by all pods with that spec. What depends on the rest of the cluster
//! (namespaces, priority classes, volumes, which label keys matter) is settled later.

use joiner_api::names;
use joiner_core::model::{Effect, Port, Toleration, TolerationOperator};
use k8s_openapi::api::core::v1::{
    Container, NodeSelectorTerm, PersistentVolumeClaim, PodAffinityTerm, PodSpec, PodStatus,
    TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::canon::is_templated;
use crate::parts;
use crate::problem::Finding;
use crate::requests::{self, Amounts, Limits, is_sidecar};

/// One expression on a label; the operator stays text so that an unknown one can be named in a refusal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expression {
    pub key: Box<str>,
    pub operator: Box<str>,
    pub values: Vec<Box<str>>,
}

/// A node selector term.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Term {
    pub expressions: Vec<Expression>,
    pub match_fields: bool,
}

/// A pod (anti-)affinity term.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PodTerm {
    pub key: Box<str>,
    /// `None` matches nothing; `matchLabels` are folded in as `In`.
    pub selector: Option<Vec<Expression>>,
    pub namespaces: Vec<Box<str>>,
    pub namespace_selector: Option<Vec<Expression>>,
    pub match_label_keys: Vec<Box<str>>,
    pub mismatch_label_keys: Vec<Box<str>>,
}

/// A topology spread constraint.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Spread {
    pub key: Box<str>,
    pub max_skew: i32,
    pub min_domains: Option<i32>,
    pub hard: bool,
    pub selector: Option<Vec<Expression>>,
    pub match_label_keys: Vec<Box<str>>,
    pub honor_affinity: bool,
    pub honor_taints: bool,
}

/// Everything of a spec that matters and is the same for all pods with it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Digest {
    pub namespace: Box<str>,
    pub requests: Amounts,
    pub tolerations: Vec<Toleration>,
    pub node_selector: Vec<(Box<str>, Box<str>)>,
    /// `None` without required node affinity.
    pub required: Option<Vec<Term>>,
    /// Heaviest first; equal weights in the order of the list.
    pub preferred: Vec<Term>,
    pub spread: Vec<Spread>,
    pub affinity: Vec<PodTerm>,
    pub anti_affinity: Vec<PodTerm>,
    /// Heaviest first.
    pub preferred_affinity: Vec<PodTerm>,
    /// Heaviest first.
    pub preferred_anti_affinity: Vec<PodTerm>,
    pub ports: Vec<Port>,
    pub priority: Option<i32>,
    pub priority_class: Option<Box<str>>,
    pub resource_claims: bool,
    /// Keys by which the spec chooses nodes and that no node carries, as written: places in [`names::PAPER_ALIASES`].
    pub paper_keys: Vec<usize>,
}

/// A claim a pod names.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ClaimRef {
    /// By name.
    Named(Box<str>),
    /// Made for the pod: `prefix` + pod name + `suffix`. The rest says what the claim will be like if it is not there yet.
    PerPod { prefix: Box<str>, suffix: Box<str>, class: Option<Box<str>>, volume: Option<Box<str>> },
}

/// The claims of a pod with their namespace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Claims {
    pub namespace: Box<str>,
    pub list: Vec<ClaimRef>,
}

/// The stable name of a node label key.
pub(crate) fn stable_key(key: &str) -> &str {
    let key = names::normalized_key(key);
    names::paper_alias(key).unwrap_or(key)
}

fn paper_keys(spec: &PodSpec) -> Vec<usize> {
    let node = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = node
        .and_then(|n| n.required_during_scheduling_ignored_during_execution.as_ref())
        .into_iter()
        .flat_map(|required| &required.node_selector_terms);
    let preferred = node
        .and_then(|n| n.preferred_during_scheduling_ignored_during_execution.as_ref())
        .into_iter()
        .flatten()
        .map(|preferred| &preferred.preference);
    let expressions = required.chain(preferred).flat_map(|term| term.match_expressions.iter().flatten());
    let selected = spec.node_selector.iter().flat_map(|selector| selector.keys());
    let mut out: Vec<usize> = selected
        .chain(expressions.map(|expression| &expression.key))
        .filter_map(|key| names::PAPER_ALIASES.iter().position(|(paper, _)| paper == key))
        .collect();
    out.sort_unstable();
    out.dedup();
    out
}

impl Digest {
    /// Reads a spec.
    pub(crate) fn new(namespace: &str, spec: &PodSpec, status: Option<&PodStatus>) -> Result<Self, Finding> {
        let affinity = spec.affinity.as_ref();
        let node = affinity.and_then(|a| a.node_affinity.as_ref());
        let together = affinity.and_then(|a| a.pod_affinity.as_ref());
        let apart = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
        let mut preferred: Vec<(i32, Term)> = node
            .and_then(|n| n.preferred_during_scheduling_ignored_during_execution.as_ref())
            .into_iter()
            .flatten()
            .map(|preferred| (preferred.weight, node_term(&preferred.preference)))
            .collect();
        preferred.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        Ok(Self {
            paper_keys: paper_keys(spec),
            namespace: namespace.into(),
            requests: requests::requests(spec, status, Limits::CopiedIntoRequests)?,
            tolerations: tolerations(spec)?,
            node_selector: spec
                .node_selector
                .iter()
                .flatten()
                .map(|(key, value)| (stable_key(key).into(), value.as_str().into()))
                .collect(),
            required: node
                .and_then(|n| n.required_during_scheduling_ignored_during_execution.as_ref())
                .map(|required| required.node_selector_terms.iter().map(node_term).collect()),
            preferred: preferred.into_iter().map(|(_, term)| term).collect(),
            spread: spec
                .topology_spread_constraints
                .iter()
                .flatten()
                .enumerate()
                .map(|(at, constraint)| spread(constraint, &format!("topologySpreadConstraints[{at}]")))
                .collect::<Result<_, _>>()?,
            affinity: required_terms(
                together.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_deref()),
                "affinity.podAffinity",
            )?,
            anti_affinity: required_terms(
                apart.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_deref()),
                "affinity.podAntiAffinity",
            )?,
            preferred_affinity: preferred_terms(
                together.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_deref()),
                "affinity.podAffinity",
            )?,
            preferred_anti_affinity: preferred_terms(
                apart.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_deref()),
                "affinity.podAntiAffinity",
            )?,
            ports: ports(spec)?,
            priority: spec.priority,
            priority_class: spec
                .priority_class_name
                .as_deref()
                .filter(|name| !name.is_empty())
                .map(Into::into),
            resource_claims: spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()),
        })
    }
}

impl Claims {
    /// Reads the claims of a spec; `templates` are a StatefulSet's.
    pub(crate) fn new(namespace: &str, spec: &PodSpec, templates: &[PersistentVolumeClaim]) -> Self {
        let mut list = Vec::new();
        for template in templates {
            let spec = template.spec.as_ref();
            list.push(ClaimRef::PerPod {
                prefix: format!("{}-", template.metadata.name.as_deref().unwrap_or_default()).into(),
                suffix: "".into(),
                class: spec.and_then(|s| s.storage_class_name.as_deref()).map(Into::into),
                volume: spec.and_then(|s| s.volume_name.as_deref()).map(Into::into),
            });
        }
        for volume in spec.volumes.iter().flatten() {
            if is_templated(templates, &volume.name) {
                continue;
            }
            if let Some(claim) = &volume.persistent_volume_claim {
                list.push(ClaimRef::Named(claim.claim_name.as_str().into()));
            } else if let Some(ephemeral) = &volume.ephemeral {
                let spec = ephemeral.volume_claim_template.as_ref().map(|template| &template.spec);
                list.push(ClaimRef::PerPod {
                    prefix: "".into(),
                    suffix: format!("-{}", volume.name).into(),
                    class: spec.and_then(|s| s.storage_class_name.as_deref()).map(Into::into),
                    volume: spec.and_then(|s| s.volume_name.as_deref()).map(Into::into),
                });
            }
        }
        Self { namespace: namespace.into(), list }
    }

    /// Whether claim names differ from pod to pod.
    pub(crate) fn per_pod(&self) -> bool {
        self.list.iter().any(|claim| matches!(claim, ClaimRef::PerPod { .. }))
    }
}

/// A node selector term with stable keys.
pub(crate) fn node_term(term: &NodeSelectorTerm) -> Term {
    Term {
        match_fields: term.match_fields.as_ref().is_some_and(|fields| !fields.is_empty()),
        expressions: term
            .match_expressions
            .iter()
            .flatten()
            .map(|e| Expression {
                key: stable_key(&e.key).into(),
                operator: e.operator.as_str().into(),
                values: e.values.iter().flatten().map(|v| v.as_str().into()).collect(),
            })
            .collect(),
    }
}

/// A label selector as expressions.
pub(crate) fn selector(selector: &LabelSelector, path: &str) -> Result<Vec<Expression>, Finding> {
    let mut out: Vec<Expression> = selector
        .match_labels
        .iter()
        .flatten()
        .map(|(key, value)| Expression {
            key: key.as_str().into(),
            operator: "In".into(),
            values: vec![value.as_str().into()],
        })
        .collect();
    for (at, e) in selector.match_expressions.iter().flatten().enumerate() {
        let values = e.values.as_deref().unwrap_or_default();
        let finding = |message: &str, remedy: &str| {
            Finding::new(
                format!("{path}.matchExpressions[{at}].operator"),
                e.operator.as_str(),
                message,
                remedy,
            )
        };
        match (e.operator.as_str(), values.is_empty()) {
            ("In" | "NotIn", true) => {
                return Err(finding("the operator needs values", "list at least one value"));
            }
            ("In" | "NotIn", false) | ("Exists" | "DoesNotExist", _) => {}
            _ => {
                return Err(finding(
                    "not an operator of label selectors",
                    "use `In`, `NotIn`, `Exists` or `DoesNotExist`",
                ));
            }
        }
        out.push(Expression {
            key: e.key.as_str().into(),
            operator: e.operator.as_str().into(),
            values: values.iter().map(|v| v.as_str().into()).collect(),
        });
    }
    Ok(out)
}

fn optional_selector(given: Option<&LabelSelector>, path: &str) -> Result<Option<Vec<Expression>>, Finding> {
    given.map(|given| selector(given, path)).transpose()
}

fn topology_key(key: &str, path: &str) -> Result<Box<str>, Finding> {
    if key.is_empty() {
        return Err(Finding::new(
            format!("{path}.topologyKey"),
            "",
            "a topology key is needed",
            "name a node label such as `topology.kubernetes.io/zone`",
        ));
    }
    Ok(stable_key(key).into())
}

fn texts(list: Option<&Vec<String>>) -> Vec<Box<str>> {
    list.into_iter().flatten().map(|text| text.as_str().into()).collect()
}

/// A spread constraint.
pub(crate) fn spread(constraint: &TopologySpreadConstraint, path: &str) -> Result<Spread, Finding> {
    let hard = match constraint.when_unsatisfiable.as_str() {
        "DoNotSchedule" => true,
        "ScheduleAnyway" => false,
        other => {
            return Err(Finding::new(
                format!("{path}.whenUnsatisfiable"),
                other,
                "not a known answer",
                "use `DoNotSchedule` or `ScheduleAnyway`",
            ));
        }
    };
    if constraint.max_skew < 1 {
        return Err(Finding::new(
            format!("{path}.maxSkew"),
            constraint.max_skew.to_string(),
            "the largest difference must be positive",
            "write 1 or more",
        ));
    }
    Ok(Spread {
        key: topology_key(&constraint.topology_key, path)?,
        max_skew: constraint.max_skew,
        min_domains: constraint.min_domains,
        hard,
        selector: optional_selector(constraint.label_selector.as_ref(), &format!("{path}.labelSelector"))?,
        match_label_keys: texts(constraint.match_label_keys.as_ref()),
        honor_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
        honor_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
    })
}

fn pod_term(term: &PodAffinityTerm, path: &str) -> Result<PodTerm, Finding> {
    Ok(PodTerm {
        key: topology_key(&term.topology_key, path)?,
        selector: optional_selector(term.label_selector.as_ref(), &format!("{path}.labelSelector"))?,
        namespaces: texts(term.namespaces.as_ref()),
        namespace_selector: optional_selector(
            term.namespace_selector.as_ref(),
            &format!("{path}.namespaceSelector"),
        )?,
        match_label_keys: texts(term.match_label_keys.as_ref()),
        mismatch_label_keys: texts(term.mismatch_label_keys.as_ref()),
    })
}

fn required_terms(terms: Option<&[PodAffinityTerm]>, path: &str) -> Result<Vec<PodTerm>, Finding> {
    terms
        .into_iter()
        .flatten()
        .enumerate()
        .map(|(at, term)| {
            pod_term(term, &format!("{path}.requiredDuringSchedulingIgnoredDuringExecution[{at}]"))
        })
        .collect()
}

fn preferred_terms(terms: Option<&[WeightedPodAffinityTerm]>, path: &str) -> Result<Vec<PodTerm>, Finding> {
    let mut out: Vec<(i32, PodTerm)> = Vec::new();
    for (at, term) in terms.into_iter().flatten().enumerate() {
        let path = format!("{path}.preferredDuringSchedulingIgnoredDuringExecution[{at}].podAffinityTerm");
        out.push((term.weight, pod_term(&term.pod_affinity_term, &path)?));
    }
    out.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    Ok(out.into_iter().map(|(_, term)| term).collect())
}

pub(crate) fn tolerations(spec: &PodSpec) -> Result<Vec<Toleration>, Finding> {
    let mut out = Vec::new();
    for (at, toleration) in spec.tolerations.iter().flatten().enumerate() {
        let effect = toleration.effect.as_deref().unwrap_or_default();
        if !effect.is_empty() && Effect::parse(effect).is_none() {
            return Err(Finding::new(
                format!("tolerations[{at}].effect"),
                effect,
                "not a taint effect",
                "use `NoSchedule`, `PreferNoSchedule`, `NoExecute` or leave it out for all",
            ));
        }
        let read = parts::toleration(toleration);
        if read.operator == TolerationOperator::Unknown {
            return Err(Finding::new(
                format!("tolerations[{at}].operator"),
                toleration.operator.as_deref().unwrap_or_default(),
                "not an operator of tolerations",
                "use `Equal`, `Exists`, `Lt` or `Gt`",
            ));
        }
        out.push(read);
    }
    Ok(out)
}

pub(crate) fn ports(spec: &PodSpec) -> Result<Vec<Port>, Finding> {
    let host_network = spec.host_network == Some(true);
    let sidecars = spec.init_containers.iter().flatten().filter(|container| is_sidecar(container));
    let mut out = Vec::new();
    for container in spec.containers.iter().chain(sidecars) {
        container_ports(container, host_network, &mut out)?;
    }
    out.sort();
    out.dedup();
    Ok(out)
}

fn container_ports(container: &Container, host_network: bool, out: &mut Vec<Port>) -> Result<(), Finding> {
    for port in container.ports.iter().flatten() {
        // On the host's network every container port is a host port.
        let number = match port.host_port {
            Some(number) if number != 0 => number,
            _ if host_network => port.container_port,
            _ => continue,
        };
        let number = u16::try_from(number).ok().filter(|number| *number > 0).ok_or_else(|| {
            Finding::new(
                format!("containers[{}].ports.hostPort", container.name),
                number.to_string(),
                "not a port",
                "write a number from 1 to 65535",
            )
        })?;
        let host_ip = match port.host_ip.as_deref() {
            None | Some("" | "0.0.0.0" | "::") => "",
            Some(address) => address,
        };
        out.push(Port {
            host_ip: host_ip.into(),
            port: number,
            protocol: port.protocol.as_deref().filter(|p| !p.is_empty()).unwrap_or("TCP").into(),
        });
    }
    Ok(())
}
