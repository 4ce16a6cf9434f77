//! Workloads: pods that do not exist yet, described by a template and a number.
//!
//! A template is read once, whatever the number. Where a cluster's own dump holds a workload together with pods of it, only the
//! missing ones are made: pods of a Deployment are found through their ReplicaSet, those of a StatefulSet by their names.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job, JobSpec};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::cluster::{Cluster, NONE, PodRecord, Standing, namespace_of, namespaced_name, without_spec};
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
        self.add_workload(
            "Deployment",
            &deployment.metadata,
            spec.replicas,
            0,
            &spec.template,
            &[],
            "spec.template",
        )
    }

    /// Takes a ReplicaSet in; one that belongs to a known Deployment only tells which pods are the Deployment's.
    pub fn add_replicaset(&mut self, set: &ReplicaSet) -> Result<(), Problem> {
        let spec = &set.spec;
        match &spec.template {
            Some(template) => self.add_workload(
                "ReplicaSet",
                &set.metadata,
                spec.replicas,
                0,
                template,
                &[],
                "spec.template",
            ),
            None => {
                let name = namespaced_name("ReplicaSet", &set.metadata)?;
                Err(Finding::new("spec.template", "", "there is no template", "describe the pods").on(
                    "ReplicaSet",
                    &name,
                    "",
                ))
            }
        }
    }

    /// Takes a StatefulSet in; its claim templates give every pod claims of its own.
    pub fn add_statefulset(&mut self, set: &StatefulSet) -> Result<(), Problem> {
        let spec = &set.spec;
        let first = spec.ordinals.as_ref().and_then(|o| o.start).unwrap_or(0);
        let claims = spec.volume_claim_templates.as_deref().unwrap_or_default();
        self.add_workload(
            "StatefulSet",
            &set.metadata,
            spec.replicas,
            first,
            &spec.template,
            claims,
            "spec.template",
        )
    }

    /// Takes a Job in.
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
        let wanted = if finished || spec.suspend == Some(true) { 0 } else { pods_at_once(spec, succeeded) };
        self.add_workload("Job", &job.metadata, Some(wanted), 0, &spec.template, &[], "spec.template")
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
        let wanted = Some(pods_at_once(job, 0));
        self.add_workload(
            "CronJob",
            &cron.metadata,
            wanted,
            0,
            &job.template,
            &[],
            "spec.jobTemplate.spec.template",
        )
    }

    #[expect(clippy::too_many_arguments, reason = "one caller per kind, each with its own few differences")]
    fn add_workload(
        &mut self,
        kind: &'static str,
        metadata: &ObjectMeta,
        replicas: Option<i32>,
        first: i32,
        template: &PodTemplateSpec,
        claims: &[PersistentVolumeClaim],
        path: &str,
    ) -> Result<(), Problem> {
        let full_name = namespaced_name(kind, metadata)?;
        let (namespace, name) = (namespace_of(metadata), metadata.name.as_deref().unwrap_or_default());
        let replicas = replicas.unwrap_or(1);
        let wanted = usize::try_from(replicas).map_err(|_| {
            Finding::new(
                "spec.replicas",
                replicas.to_string(),
                "a number of pods cannot be negative",
                "write zero or more",
            )
            .on(kind, &full_name, "")
        })?;
        let before = self.workload_index.get(&(kind, full_name.clone())).copied();
        let others = self.workload_pods - before.map_or(0, |at| self.workloads[at].wanted);
        if self.pods.len().saturating_add(others).saturating_add(wanted) > self.options.max_pods {
            return Err(self.too_many(kind, &full_name, "spec.replicas", &replicas.to_string()));
        }
        if metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let (spec, claims, labels) = self
            .intern_template(namespace, template, claims)
            .map_err(|finding| finding.on(kind, &full_name, &format!("{path}.spec")))?;
        let owner = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        let workload = Workload {
            kind,
            namespace: namespace.into(),
            name: name.into(),
            owner: owner.map(|owner| (owner.kind.as_str().into(), owner.name.as_str().into())),
            wanted,
            first: usize::try_from(first).unwrap_or(0),
            spec,
            claims,
            labels,
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
        for pod in &self.pods {
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
            let workload = if kind == "Job" {
                find("Job", namespace, name)
            } else {
                let set = find("ReplicaSet", namespace, name);
                let deployment = match set {
                    Some((_, set)) => set.made_by("Deployment"),
                    // A ReplicaSet that is not here is named after its Deployment and a hash.
                    None => name.rsplit_once('-').map(|(name, _)| name),
                };
                deployment.and_then(|deployment| find("Deployment", namespace, deployment)).or(set)
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
        let mut name = String::new();
        for (workload, missing) in workloads.iter().zip(missing) {
            let mut left = missing;
            let mut ordinal = workload.first;
            // A StatefulSet has fixed names; the others take the next free one.
            let last =
                if workload.kind == "StatefulSet" { workload.first + workload.wanted } else { usize::MAX };
            while left > 0 && ordinal < last {
                use std::fmt::Write;
                name.clear();
                let _ = write!(name, "{}/{}-{ordinal}", workload.namespace, workload.name);
                ordinal += 1;
                if self.pod_names.intern(name.as_bytes()).1 {
                    left -= 1;
                    self.pods.push(PodRecord {
                        spec: workload.spec,
                        labels: workload.labels,
                        claims: workload.claims,
                        node: NONE,
                        owner: NONE,
                        standing: Standing::Pending,
                        created: None,
                        uid: "".into(),
                    });
                }
            }
        }
    }
}

/// Pods a Job runs at a time.
fn pods_at_once(spec: &JobSpec, succeeded: i32) -> i32 {
    let parallelism = spec.parallelism.unwrap_or(1);
    match spec.completions {
        Some(completions) => parallelism.min(completions.saturating_sub(succeeded).max(0)),
        None => parallelism,
    }
}
