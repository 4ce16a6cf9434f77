//! CapacityBuffers: room for pods that have not come yet, kept by placing virtual ones.
//!
//! A virtual pod is a copy of a template without its claims and of the lowest priority there is. It is placed after every real pod, by the same
//! rules, and counts as a pod of its template's labels while it is. Its name holds a colon, which no pod's name can.

use std::collections::BTreeMap;
use std::sync::Arc;

use joiner_api::CapacityBuffer;
use joiner_api::names::ACTIVE_CAPACITY_STRATEGY;
use joiner_core::model::{Pod, PodClass, PodIdx};
use k8s_openapi::api::core::v1::PodTemplate;

use crate::cluster::{Cluster, NONE, PodRecord, Standing, Usage, namespace_of, namespaced_name};
use crate::lower::Lowering;
use crate::pod_table::Intent;
use crate::pods::Pending;
use crate::problem::{Finding, Problem};
use crate::requests::{Amounts, Nanos, read};

/// What is kept of a CapacityBuffer.
#[derive(Debug)]
pub(crate) struct BufferInput {
    namespace: String,
    object: CapacityBuffer,
    limits: Nanos,
}

/// What is kept of a PodTemplate.
#[derive(Debug)]
pub(crate) struct TemplateInput {
    pub spec: u32,
    pub labels: u32,
}

/// A buffer, and the virtual pods it came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buffer {
    /// `namespace/name`.
    pub name: String,
    /// Its virtual pods.
    pub pods: Vec<PodIdx>,
    /// Why it has none, if something is wrong with it.
    pub not_ready: Option<NotReady>,
}

/// Why no room is kept for a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotReady {
    /// The reason of its condition `ReadyForProvisioning`.
    pub reason: &'static str,
    /// One sentence.
    pub message: String,
}

/// A buffer with the rows of its virtual pods.
#[derive(Debug)]
pub(crate) struct Resolved {
    name: String,
    outcome: Result<Sized, NotReady>,
}

#[derive(Debug)]
struct Sized {
    spec: u32,
    labels: u32,
    count: usize,
}

impl Cluster {
    /// Takes a buffer in, after validating it.
    pub fn add_capacity_buffer(&mut self, buffer: &CapacityBuffer) -> Result<(), Problem> {
        let full_name = namespaced_name("CapacityBuffer", &buffer.metadata)?;
        let found = joiner_api::validation::validate_capacitybuffer(buffer);
        Problem::first_of(found, &format!("CapacityBuffer {full_name}"))?;
        let limits = buffer.spec.limits.as_ref().map_or(Ok(Nanos::new()), |list| read(list, "spec.limits"));
        let limits = limits.map_err(|finding| finding.on("CapacityBuffer", &full_name, ""))?;
        let input = BufferInput {
            namespace: namespace_of(&buffer.metadata).to_owned(),
            object: buffer.clone(),
            limits,
        };
        if self.buffers.insert(full_name.clone(), input).is_some() {
            self.note_duplicate("CapacityBuffer", &full_name);
        }
        Ok(())
    }

    /// Takes a template in that buffers may refer to.
    pub fn add_pod_template(&mut self, template: &PodTemplate) -> Result<(), Problem> {
        let name = namespaced_name("PodTemplate", &template.metadata)?;
        let Some(pod) = &template.template else {
            return Err(Finding::new("template", "", "there is no template", "describe the pod").on(
                "PodTemplate",
                &name,
                "",
            ));
        };
        let (spec, _, labels) = self
            .intern_template(namespace_of(&template.metadata), pod, &[])
            .map_err(|finding| finding.on("PodTemplate", &name, "template.spec"))?;
        if self.pod_templates.insert(name.clone(), TemplateInput { spec, labels }).is_some() {
            self.note_duplicate("PodTemplate", &name);
        }
        Ok(())
    }

    /// Works out what each buffer comes to; before workloads are expanded.
    pub(crate) fn resolve_buffers(&mut self) -> Vec<Resolved> {
        let buffers = std::mem::take(&mut self.buffers);
        let mut left = self.options.max_pods.saturating_sub(self.pods.len() + self.workload_pods);
        let mut out = Vec::new();
        for (full_name, buffer) in &buffers {
            let spec = &buffer.object.spec;
            if let Some(strategy) =
                spec.provisioning_strategy.as_deref().filter(|s| *s != ACTIVE_CAPACITY_STRATEGY)
            {
                self.notes.push(format!(
                    "CapacityBuffer `{full_name}` is ignored: only the strategy `{ACTIVE_CAPACITY_STRATEGY}` is known, not `{strategy}`"
                ));
                continue;
            }
            let mut outcome = self.size(buffer);
            if let Ok(sized) = &outcome
                && sized.count > left
            {
                outcome = Err(not_resolved(format!(
                    "{} virtual pods would be more than {} pods in all; raise the limit on pods or lower `replicas` or `limits`",
                    sized.count, self.options.max_pods
                )));
            }
            left -= outcome.as_ref().map_or(0, |sized| sized.count);
            out.push(Resolved { name: full_name.clone(), outcome });
        }
        out
    }

    fn size(&self, buffer: &BufferInput) -> Result<Sized, NotReady> {
        let spec = &buffer.object.spec;
        let full = |name: &str| format!("{}/{name}", buffer.namespace);
        let (template, labels, current) = match (&spec.pod_template_ref, &spec.scalable_ref) {
            (Some(reference), _) => {
                let found = self.pod_templates.get(&full(&reference.name)).ok_or_else(|| NotReady {
                    reason: "PodTemplateNotFound",
                    message: format!("there is no PodTemplate `{}` in the input", full(&reference.name)),
                })?;
                (found.spec, found.labels, None)
            }
            (None, Some(reference)) => {
                let group =
                    reference.api_group.as_deref().filter(|group| !group.is_empty()).unwrap_or("apps");
                let kind = ["Deployment", "ReplicaSet", "StatefulSet"]
                    .into_iter()
                    .find(|kind| *kind == reference.kind && group == "apps")
                    .ok_or_else(|| {
                        not_resolved(format!(
                            "`spec.scalableRef` names a {group}/{}; refer to a Deployment, StatefulSet or ReplicaSet of `apps`",
                            reference.kind
                        ))
                    })?;
                let found =
                    self.workload_index.get(&(kind, full(&reference.name))).ok_or_else(|| NotReady {
                        reason: "ScalableRefNotFound",
                        message: format!("there is no {kind} `{}` in the input", full(&reference.name)),
                    })?;
                let workload = &self.workloads[*found];
                (workload.spec, workload.hashed, Some(workload.wanted))
            }
            (None, None) => {
                return Err(not_resolved("it names neither `podTemplateRef` nor `scalableRef`".to_owned()));
            }
        };
        let count = self.copies(buffer, template, current)?;
        Ok(Sized { spec: template, labels, count })
    }

    /// How many copies: the larger of number and percentage, within the limits; without both what the limits hold.
    fn copies(&self, buffer: &BufferInput, template: u32, current: Option<usize>) -> Result<usize, NotReady> {
        let spec = &buffer.object.spec;
        let given = spec.replicas.map(|n| usize::try_from(n).unwrap_or(0));
        let share = spec.percentage.zip(current).map(|(percent, current)| {
            let percent = u128::try_from(percent).unwrap_or(0);
            usize::try_from((percent * current as u128).div_ceil(100)).unwrap_or(usize::MAX)
        });
        let within = within_limits(&buffer.limits, &self.specs[template as usize].requests);
        match (given.max(share), within) {
            (Some(wanted), within) => Ok(within.map_or(wanted, |most| wanted.min(most))),
            (None, Some(most)) => Ok(most),
            (None, None) if buffer.limits.is_empty() => Err(not_resolved(
                "its size is not given; set `replicas`, `limits` or, with `scalableRef`, `percentage`"
                    .to_owned(),
            )),
            (None, None) => Err(not_resolved(
                "`limits` alone give its size, but name no resource that the pods request".to_owned(),
            )),
        }
    }

    /// Makes the virtual pods; after workloads are expanded, so their rows come last.
    pub(crate) fn make_virtual_pods(&mut self, resolved: &[Resolved]) -> BTreeMap<String, Vec<u32>> {
        let mut rows = BTreeMap::new();
        for buffer in resolved {
            let Ok(sized) = &buffer.outcome else { continue };
            let spec = self.virtual_spec(sized.spec);
            let (namespace, name) = buffer.name.split_once('/').unwrap_or(("", &buffer.name));
            let mut own = Vec::with_capacity(sized.count);
            for number in 0..sized.count {
                // A colon is not allowed in names of pods, so this one is new.
                let row = self.pods.insert(PodRecord {
                    name: format!("{namespace}/buffer:{name}-{number}").into(),
                    uid: "".into(),
                    intent: Intent::AsSeen,
                    spec,
                    labels: sized.labels,
                    claims: NONE,
                    node: NONE,
                    owner: NONE,
                    controlled: false,
                    is_mirror: false,
                    standing: Standing::Virtual,
                    created: None,
                });
                self.enter(row);
                own.push(row);
            }
            rows.insert(buffer.name.clone(), own);
        }
        rows
    }

    /// A spec like another, of the lowest priority: its own row, so no real pod shares its class.
    fn virtual_spec(&mut self, of: u32) -> u32 {
        let key = [b"virtual ".as_slice(), &of.to_le_bytes()].concat();
        if let Some(known) = self.spec_bytes.find(&key) {
            return known;
        }
        let mut digest = self.specs[of as usize].clone();
        (digest.priority, digest.priority_class) = (Some(i32::MIN), None);
        self.specs.push(digest);
        self.usage.push(Usage::default());
        self.spec_bytes.intern(&key).0
    }
}

impl Lowering<'_> {
    /// Fills in virtual pods and their classes, and tells which are whose.
    pub(crate) fn lower_buffers(
        &mut self,
        resolved: Vec<Resolved>,
        rows: &BTreeMap<String, Vec<u32>>,
        pending: &mut Pending,
    ) -> Vec<Buffer> {
        let mut buffers = Vec::new();
        for buffer in resolved {
            let mut own = Vec::new();
            for row in rows.get(&buffer.name).into_iter().flatten() {
                let Some(pod) = self.cluster.pods.get(*row) else { continue };
                // No default spread: room is kept wherever it is cheapest.
                let key = (pod.spec, self.reduce(pod.labels), 0, None);
                let class = pending.class(key, || {
                    let class = PodClass { filler: true, ..(*self.class(key)).clone() };
                    Arc::new(class)
                });
                own.push(PodIdx::new(pending.pods.len()));
                let (uid, name) = (pod.uid.clone(), pod.name.clone());
                pending.pods.push(Pod { class, created: None, uid, name });
            }
            buffers.push(Buffer { name: buffer.name, pods: own, not_ready: buffer.outcome.err() });
        }
        buffers
    }
}

/// How often requests fit into limits, over the resources that both name.
fn within_limits(limits: &Nanos, requests: &Amounts) -> Option<usize> {
    let shared = limits.iter().filter_map(|(name, limit)| {
        let request = i128::from(*requests.get(name).filter(|amount| **amount > 0)?);
        let unit: i128 = if &**name == "cpu" { 1_000_000 } else { 1_000_000_000 };
        Some(usize::try_from(*limit / request.saturating_mul(unit)).unwrap_or(usize::MAX))
    });
    shared.min()
}

fn not_resolved(message: String) -> NotReady {
    NotReady { reason: "ResolutionFailed", message }
}
