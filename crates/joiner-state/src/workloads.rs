//! Workloads: pods that do not exist yet, described by a template and a number.
//!
//! A template is read once, whatever the number. Where a cluster's own dump holds a workload together with pods of it, only the
//! missing ones are made: pods of a Deployment are found through their ReplicaSet, those of a StatefulSet by their names.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};

use joiner_core::model::fixed_state;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job, JobSpec};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PodTemplateSpec, ReplicationController};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::bytes::Pairs;
use crate::cluster::{Cluster, NONE, PodRecord, Standing, namespace_of, namespaced_name, without_spec};
use crate::pod_table::Intent;
use crate::problem::{Finding, Problem};

/// Pods to be.
#[derive(Debug)]
pub(crate) struct Workload {
    pub kind: &'static str,
    pub namespace: Box<str>,
    pub name: Box<str>,
    /// Kind and name of the object that made it.
    owner: Option<(Box<str>, Box<str>)>,
    pub wanted: usize,
    first: usize,
    pub spec: u32,
    claims: u32,
    pub labels: u32,
    /// The same with the label that tells templates of a Deployment apart; those of other kinds have none.
    pub hashed: u32,
}

impl Workload {
    /// The name of the object of a kind that made this one.
    fn made_by(&self, kind: &str) -> Option<&str> {
        self.owner.as_ref().filter(|(owner, _)| &**owner == kind).map(|(_, name)| &**name)
    }
}

impl Cluster {
    /// Takes a Deployment in.
    pub fn add_deployment(&mut self, deployment: &Deployment) -> Result<(), Problem> {
        let spec = &deployment.spec;
        let name = namespaced_name("Deployment", &deployment.metadata)?;
        self.remember_selector("Deployment", &name, &spec.selector)?;
        self.add_workload(
            "Deployment",
            &deployment.metadata,
            Count::replicas(spec.replicas),
            &spec.template,
            &[],
        )?;
        // The label that its controller would give the pods, by which they are told from those of other templates.
        if let Some(at) = self.workload_index.get(&("Deployment", name)).copied() {
            let mut labels = template_labels(&spec.template).cloned().unwrap_or_default();
            labels.insert(TEMPLATE_HASH.to_owned(), template_hash(&spec.template));
            self.workloads[at].hashed = self.intern_labels(Some(&labels));
        }
        Ok(())
    }

    /// Takes a ReplicaSet in; one that belongs to a known Deployment only tells which pods are the Deployment's.
    pub fn add_replicaset(&mut self, set: &ReplicaSet) -> Result<(), Problem> {
        let spec = &set.spec;
        let name = namespaced_name("ReplicaSet", &set.metadata)?;
        let template = spec.template.as_ref().ok_or_else(|| no_template("ReplicaSet", &name))?;
        self.remember_selector("ReplicaSet", &name, &spec.selector)?;
        self.add_workload("ReplicaSet", &set.metadata, Count::replicas(spec.replicas), template, &[])
    }

    /// Takes a ReplicationController in.
    pub fn add_replication_controller(&mut self, controller: &ReplicationController) -> Result<(), Problem> {
        const KIND: &str = "ReplicationController";
        let name = namespaced_name(KIND, &controller.metadata)?;
        let Some(spec) = &controller.spec else { return Err(without_spec(KIND, &name)) };
        let template = spec.template.as_ref().ok_or_else(|| no_template(KIND, &name))?;
        // Without a selector it selects by the labels of its template.
        let labels = template_labels(template);
        if let Some(selector) = spec.selector.as_ref().filter(|map| !map.is_empty()).or(labels) {
            self.remember_map(KIND, &name, selector);
        }
        self.add_workload(KIND, &controller.metadata, Count::replicas(spec.replicas), template, &[])
    }

    /// Takes a StatefulSet in; its claim templates give every pod claims of its own.
    pub fn add_statefulset(&mut self, set: &StatefulSet) -> Result<(), Problem> {
        let spec = &set.spec;
        let first = spec.ordinals.as_ref().and_then(|o| o.start).unwrap_or(0);
        let claims = spec.volume_claim_templates.as_deref().unwrap_or_default();
        let name = namespaced_name("StatefulSet", &set.metadata)?;
        self.remember_selector("StatefulSet", &name, &spec.selector)?;
        let count = Count { first, ..Count::replicas(spec.replicas) };
        self.add_workload("StatefulSet", &set.metadata, count, &spec.template, claims)
    }

    /// Takes a Job in. A suspended one brings no pods.
    pub fn add_job(&mut self, job: &Job) -> Result<(), Problem> {
        let Some(spec) = &job.spec else {
            return Err(without_spec("Job", &namespaced_name("Job", &job.metadata)?));
        };
        let status = job.status.as_ref();
        let finished = status.is_some_and(|status| {
            status
                .conditions
                .iter()
                .flatten()
                .any(|c| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True")
        });
        let succeeded = status.and_then(|status| status.succeeded).unwrap_or(0);
        let (field, mut wanted) = pods_at_once(spec, succeeded);
        let suspended = !finished && spec.suspend == Some(true);
        if finished || suspended {
            wanted = 0;
        }
        let name = namespaced_name("Job", &job.metadata)?;
        if suspended && job.metadata.deletion_timestamp.is_none() {
            self.suspended.insert(name);
        } else {
            self.suspended.remove(&name);
        }
        let count = Count { within: "spec", field, wanted, first: 0 };
        self.add_workload("Job", &job.metadata, count, &spec.template, &[])
    }

    /// Takes a CronJob in: one run of its job. A suspended one is noted and brings no pods.
    pub fn add_cronjob(&mut self, cron: &CronJob) -> Result<(), Problem> {
        let name = namespaced_name("CronJob", &cron.metadata)?;
        let Some(job) = &cron.spec.job_template.spec else {
            return Err(without_spec("CronJob", &name));
        };
        if cron.spec.suspend == Some(true) {
            self.notes.push(format!("CronJob `{name}` is suspended and brings no pods"));
            return Ok(());
        }
        let (field, wanted) = pods_at_once(job, 0);
        let count = Count { within: "spec.jobTemplate.spec", field, wanted, first: 0 };
        self.add_workload("CronJob", &cron.metadata, count, &job.template, &[])
    }

    fn add_workload(
        &mut self,
        kind: &'static str,
        metadata: &ObjectMeta,
        count: Count,
        template: &PodTemplateSpec,
        claims: &[PersistentVolumeClaim],
    ) -> Result<(), Problem> {
        let full_name = namespaced_name(kind, metadata)?;
        let (namespace, name) = (namespace_of(metadata), metadata.name.as_deref().unwrap_or_default());
        let field = format!("{}.{}", count.within, count.field);
        let given = count.wanted.to_string();
        let wanted = usize::try_from(count.wanted).map_err(|_| {
            Finding::new(&field, &given, "a number of pods cannot be negative", "write zero or more")
                .on(kind, &full_name, "")
        })?;
        let before = self.workload_index.get(&(kind, full_name.clone())).copied();
        let others = self.workload_pods - before.map_or(0, |at| self.workloads[at].wanted);
        if self.pods.len().saturating_add(others).saturating_add(wanted) > self.options.max_pods {
            return Err(self.too_many(kind, &full_name, &field, &given));
        }
        if metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let (spec, claims, labels) = self
            .intern_template(namespace, template, claims)
            .map_err(|finding| finding.on(kind, &full_name, &format!("{}.template.spec", count.within)))?;
        let owner = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        let workload = Workload {
            kind,
            namespace: namespace.into(),
            name: name.into(),
            owner: owner.map(|owner| (owner.kind.as_str().into(), owner.name.as_str().into())),
            wanted,
            first: usize::try_from(count.first).unwrap_or(0),
            spec,
            claims,
            labels,
            hashed: labels,
        };
        self.workload_pods = others + wanted;
        match before {
            Some(at) => {
                self.workloads[at] = workload;
                self.note_duplicate(kind, &full_name);
            }
            None => {
                self.workload_index.insert((kind, full_name), self.workloads.len());
                self.workloads.push(workload);
            }
        }
        Ok(())
    }

    /// Turns workloads into pods, as far as their pods are not there already.
    pub(crate) fn expand_workloads(&mut self) {
        let workloads = std::mem::take(&mut self.workloads);
        let index = std::mem::take(&mut self.workload_index);
        let find = |kind: &'static str, namespace: &str, name: &str| {
            index.get(&(kind, format!("{namespace}/{name}"))).map(|at| (*at, &workloads[*at]))
        };
        // Pods that are there, by the workload they belong to: looked up once per owner, not per pod.
        let mut owned = vec![0usize; self.owners.len()];
        for (_, pod) in self.pods.iter() {
            if pod.owner != NONE && pod.standing != Standing::Ignored {
                owned[pod.owner as usize] += 1;
            }
        }
        let mut there = vec![0usize; workloads.len()];
        for (owner, count) in owned.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            let mut parts = self.owners.text(owner as u32).splitn(3, '/');
            let (Some(namespace), Some(kind), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
                continue;
            };
            let workload = match kind {
                "Job" => find("Job", namespace, name),
                "ReplicationController" => find("ReplicationController", namespace, name),
                "ReplicaSet" => {
                    let set = find("ReplicaSet", namespace, name);
                    let deployment = match set {
                        Some((_, set)) => set.made_by("Deployment"),
                        // A ReplicaSet that is not here is named after its Deployment and a hash.
                        None => name.rsplit_once('-').map(|(name, _)| name),
                    };
                    deployment.and_then(|deployment| find("Deployment", namespace, deployment)).or(set)
                }
                _ => None,
            };
            if let Some((at, _)) = workload {
                there[at] += count;
            }
        }
        let running: std::collections::BTreeSet<(&str, &str)> = workloads
            .iter()
            .filter(|w| w.kind == "Job")
            .filter_map(|job| Some((&*job.namespace, job.made_by("CronJob")?)))
            .collect();
        let missing: Vec<usize> = workloads
            .iter()
            .zip(&there)
            .map(|(workload, there)| {
                let deployment = workload.made_by("Deployment");
                let belongs =
                    deployment.is_some_and(|name| find("Deployment", &workload.namespace, name).is_some());
                let runs =
                    workload.kind == "CronJob" && running.contains(&(&*workload.namespace, &*workload.name));
                if belongs || runs { 0 } else { workload.wanted.saturating_sub(*there) }
            })
            .collect();
        // A ReplicaSet that is there for the same template says which label it is.
        let sets = workloads.iter().filter(|w| w.kind == "ReplicaSet");
        let mut of_deployment: BTreeMap<(&str, &str), Vec<&Workload>> = BTreeMap::new();
        for set in sets {
            if let Some(deployment) = set.made_by("Deployment") {
                of_deployment.entry((&set.namespace, deployment)).or_default().push(set);
            }
        }
        let labels_of = |cluster: &Self, workload: &Workload| {
            let sets = of_deployment.get(&(&*workload.namespace, &*workload.name)).into_iter().flatten();
            let is_same = |set: &&&Workload| {
                let pairs = Pairs(cluster.label_sets.get(set.labels));
                set.spec == workload.spec
                    && pairs
                        .filter(|(key, _)| *key != TEMPLATE_HASH)
                        .eq(Pairs(cluster.label_sets.get(workload.labels)))
            };
            let set = sets.into_iter().find(is_same).filter(|_| workload.kind == "Deployment");
            set.map_or(workload.hashed, |set| set.labels)
        };
        let mut name = String::new();
        for (workload, missing) in workloads.iter().zip(missing) {
            let labels = labels_of(self, workload);
            let mut left = missing;
            let mut ordinal = workload.first;
            // A StatefulSet has fixed names; the others take the next free one.
            let last =
                if workload.kind == "StatefulSet" { workload.first + workload.wanted } else { usize::MAX };
            let owner = match workload.kind {
                "Job" | "CronJob" => NONE,
                kind => self.intern_owner(&workload.namespace, kind, &workload.name),
            };
            while left > 0 && ordinal < last {
                use std::fmt::Write;
                name.clear();
                let _ = write!(name, "{}/{}-{ordinal}", workload.namespace, workload.name);
                ordinal += 1;
                if self.pods.find(&name).is_none() {
                    left -= 1;
                    let row = self.pods.insert(PodRecord {
                        name: name.as_str().into(),
                        uid: "".into(),
                        intent: Intent::AsSeen,
                        spec: workload.spec,
                        labels,
                        claims: workload.claims,
                        node: NONE,
                        owner,
                        controlled: owner != NONE,
                        is_mirror: false,
                        standing: Standing::Pending,
                        created: None,
                    });
                    self.enter(row);
                }
            }
        }
    }
}

/// The label by which the pods of a Deployment's templates are told apart.
const TEMPLATE_HASH: &str = "pod-template-hash";

fn template_labels(template: &PodTemplateSpec) -> Option<&BTreeMap<String, String>> {
    template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref())
}

/// Ten letters that stand for a template, from the letters that Kubernetes makes such names of.
fn template_hash(template: &PodTemplateSpec) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut hasher = Hashing(fixed_state().build_hasher());
    // What can be read can be written, and a hash takes whatever is written.
    let _ = serde_json::to_writer(&mut hasher, template);
    let (mut number, base) = (hasher.0.finish(), LETTERS.len() as u64);
    (0..10)
        .map(|_| {
            let letter = LETTERS[(number % base) as usize];
            number /= base;
            char::from(letter)
        })
        .collect()
}

/// Hashes what is written.
struct Hashing<H>(H);

impl<H: Hasher> std::io::Write for Hashing<H> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// How many pods, and the field that says so.
#[derive(Debug, Clone, Copy)]
struct Count {
    /// What `field` and the template stand below.
    within: &'static str,
    field: &'static str,
    wanted: i32,
    first: i32,
}

impl Count {
    fn replicas(wanted: Option<i32>) -> Self {
        Self { within: "spec", field: "replicas", wanted: wanted.unwrap_or(1), first: 0 }
    }
}

fn no_template(kind: &str, name: &str) -> Problem {
    Finding::new("spec.template", "", "there is no template", "describe the pods").on(kind, name, "")
}

/// Pods a Job runs at a time, and the field that decides.
fn pods_at_once(spec: &JobSpec, succeeded: i32) -> (&'static str, i32) {
    let parallelism = spec.parallelism.unwrap_or(1);
    match spec.completions.map(|completions| completions.saturating_sub(succeeded).max(0)) {
        Some(left) if left < parallelism => ("completions", left),
        _ => ("parallelism", parallelism),
    }
}
