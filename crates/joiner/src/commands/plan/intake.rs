//! From documents to a snapshot: reading in batches on several threads, digesting in order.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use joiner_api::NodePool;
use joiner_state::{Cluster, Lowered, Standing};
use rayon::prelude::*;

use crate::cli::{Catalog, PlanArgs, PreferencePolicy, Validate};
use crate::commands::catalogues::{Catalogues, Survey};
use crate::load::{self, Document, Documents, Object, Reading, SchedulerConfig, Source, read_object};
use crate::report::InputError;

/// Documents read before several threads work on them: enough to keep those busy, few enough to hold.
const BATCH: usize = 64;
/// Documents between two looks at whether there is progress to show.
const PROGRESS: usize = 512;

/// Takes manifests in.
pub struct Intake {
    cluster: Cluster,
    reading: Reading,
    threads: usize,
    /// A file still to be read.
    scheduler_config: Option<PathBuf>,
    skipped: BTreeMap<String, usize>,
    notes: Vec<String>,
    pools: usize,
    survey: Survey,
    /// The catalogue that was asked for.
    catalog: Option<Catalog>,
    costs_only: bool,
    lowering: Duration,
}

impl Intake {
    /// Nothing taken in yet.
    pub fn new(arguments: &PlanArgs) -> Self {
        let options = joiner_state::Options {
            respect_preferences: arguments.preference_policy == PreferencePolicy::Respect,
            max_pods: arguments.max_pods,
            ..joiner_state::Options::default()
        };
        let scheduler_config = arguments.scheduler_config.clone();
        let catalog = arguments.catalogue.catalog;
        Self { scheduler_config, catalog, ..Self::with(options, arguments.validate, arguments.threads) }
    }

    /// The same for callers without `plan`'s arguments.
    pub fn with(options: joiner_state::Options, validate: Validate, threads: usize) -> Self {
        Self {
            cluster: Cluster::new(options),
            reading: Reading::new(validate),
            threads,
            scheduler_config: None,
            skipped: BTreeMap::new(),
            notes: Vec::new(),
            pools: 0,
            survey: Survey::default(),
            catalog: None,
            costs_only: false,
            lowering: Duration::ZERO,
        }
    }

    /// Reads all sources.
    pub fn read(&mut self, sources: &[Source]) -> anyhow::Result<()> {
        self.read_scheduler_config()?;
        let names: Vec<String> = sources.iter().map(Source::name).collect();
        let pool = match self.threads {
            1 => None,
            threads => Some(rayon::ThreadPoolBuilder::new().num_threads(threads).build()?),
        };
        let progress = Progress::start();
        // One thread takes each document as it comes: a value and its object are many times the size of their text.
        let batch_size = if pool.is_some() { BATCH } else { 1 };
        let mut batch: Vec<Document> = Vec::with_capacity(batch_size);
        let mut count = 0;
        Documents::new(sources).for_each(&mut |document| {
            batch.push(document);
            if batch.len() == batch_size {
                self.digest(&names, &batch, pool.as_ref())?;
                batch.clear();
            }
            count += 1;
            if count % PROGRESS == 0 {
                progress.more(PROGRESS);
            }
            Ok(())
        })?;
        self.digest(&names, &batch, pool.as_ref())?;
        Ok(())
    }

    /// Reads what machines really cost, if the arguments name a file.
    pub fn read_costs(&mut self, arguments: &PlanArgs) -> anyhow::Result<()> {
        let Some(path) = &arguments.cost_model else { return Ok(()) };
        self.costs_only = true;
        let done = self.read(&load::sources_of("--cost-model", std::slice::from_ref(path))?);
        self.costs_only = false;
        done
    }

    /// Takes in objects that are values already.
    pub fn read_values(
        &mut self,
        name: &str,
        values: impl IntoIterator<Item = serde_json::Value>,
    ) -> Result<(), InputError> {
        self.read_scheduler_config()?;
        let names = [name.to_owned()];
        for (item, value) in values.into_iter().enumerate() {
            let document = Document { source: 0, line: None, item, text: None, value: Some(value) };
            self.digest(&names, std::slice::from_ref(&document), None)?;
        }
        Ok(())
    }

    /// How documents are read.
    pub(super) fn reading_mut(&mut self) -> &mut Reading {
        &mut self.reading
    }

    /// Sets default constraints, before any object comes in: workloads keep their selectors only if somebody asks for them.
    fn read_scheduler_config(&mut self) -> Result<(), InputError> {
        let Some(path) = self.scheduler_config.take() else { return Ok(()) };
        let config = SchedulerConfig::read(&path)?;
        self.cluster
            .set_default_spread(&config.constraints, &config.field)
            .map_err(|problem| config.complaint(problem))
    }

    /// Takes in documents that were cut before; `names` are those of their sources.
    pub fn read_documents(&mut self, names: &[String], documents: &[Document]) -> Result<(), InputError> {
        self.read_scheduler_config()?;
        self.digest(names, documents, None)
    }

    fn digest(
        &mut self,
        names: &[String],
        batch: &[Document],
        pool: Option<&rayon::ThreadPool>,
    ) -> Result<(), InputError> {
        let reading = &self.reading;
        let read_one = |document: &Document| read_object(&names[document.source], document, reading);
        let read: Vec<_> = match pool {
            Some(pool) if batch.len() > 16 => pool.install(|| batch.par_iter().map(read_one).collect()),
            _ => batch.iter().map(read_one).collect(),
        };
        for (document, read) in batch.iter().zip(read) {
            let read = read?;
            self.notes.extend(read.notes);
            for (name, object) in read.objects {
                self.look_at(&names[document.source], document, [(name.as_str(), &object)]);
                let start = Instant::now();
                let added = self.add(name, object);
                self.lowering += start.elapsed();
                added.map_err(|problem| {
                    load::objects::place_problem(&names[document.source], document, problem)
                })?;
            }
        }
        Ok(())
    }

    /// Looks at what objects tell about the machines that pools want, without taking them in.
    pub fn look_at<'o>(
        &mut self,
        file: &str,
        document: &Document,
        objects: impl IntoIterator<Item = (&'o str, &'o Object)>,
    ) {
        for (name, object) in objects {
            for (slot, problem) in self.survey.add(name, object) {
                self.survey.blame(slot, load::objects::place_problem(file, document, problem));
            }
        }
    }

    fn add(&mut self, name: String, object: Object) -> Result<(), joiner_state::Problem> {
        if self.costs_only && !matches!(object, Object::NodeOverlay(_) | Object::CostModel(_)) {
            let (kind, _) = name.split_once(' ').unwrap_or((&name, ""));
            return Err(joiner_state::Problem {
                path: "kind".to_owned(),
                value: kind.to_owned(),
                message: "a cost model holds NodeOverlay and CostModel objects only".to_owned(),
                remedy: "give other objects with `-f`".to_owned(),
                object: name,
            });
        }
        let cluster = &mut self.cluster;
        match object {
            Object::Pod(pod) => cluster.add_pod(&pod),
            Object::NodePool(pool) => {
                self.pools += 1;
                cluster.add_nodepool(&pool)
            }
            Object::NodeClaim(claim) => cluster.add_nodeclaim(&claim),
            Object::Deployment(object) => cluster.add_deployment(&object),
            Object::ReplicaSet(object) => cluster.add_replicaset(&object),
            Object::StatefulSet(object) => cluster.add_statefulset(&object),
            Object::ReplicationController(object) => cluster.add_replication_controller(&object),
            Object::Service(object) => cluster.add_service(&object),
            Object::Job(object) => cluster.add_job(&object),
            Object::CronJob(object) => cluster.add_cronjob(&object),
            Object::DaemonSet(object) => cluster.add_daemonset(&object),
            Object::Node(object) => cluster.add_node(&object),
            Object::PersistentVolume(object) => cluster.add_persistent_volume(&object),
            Object::PersistentVolumeClaim(object) => cluster.add_persistent_volume_claim(&object),
            Object::StorageClass(object) => cluster.add_storage_class(&object),
            Object::PriorityClass(object) => cluster.add_priority_class(&object),
            Object::Namespace(object) => cluster.add_namespace(&object),
            Object::CsiNode(object) => cluster.add_csi_node(&object),
            Object::NodeOverlay(object) => cluster.add_node_overlay(&object),
            Object::CostModel(object) => cluster.add_cost_model(&object),
            Object::CapacityBuffer(object) => cluster.add_capacity_buffer(&object),
            Object::PodTemplate(object) => cluster.add_pod_template(&object),
            Object::NodeClass(..) => Ok(()),
            Object::Skipped(kind) => {
                *self.skipped.entry(kind).or_insert(0) += 1;
                Ok(())
            }
        }
    }

    /// Somebody looks at objects of this kind after all: no note says that they are skipped.
    pub fn uses(&mut self, kind: &str) {
        self.skipped.remove(kind);
    }

    /// What the input tells about the machines its pools want. Without a pool of its own the default one counts after
    /// [`finish_notes`](Self::finish_notes).
    pub fn survey(&self) -> &Survey {
        &self.survey
    }

    /// The same with the default pool, if the input has none, before that is added.
    pub fn survey_with_default(&self) -> Survey {
        let mut survey = self.survey.clone();
        if self.pools == 0 {
            survey.add("NodePool default", &Object::NodePool(Box::new(default_pool(self.catalog))));
        }
        survey
    }

    /// What the user should know about the input; adds the default pool if there is none.
    pub fn finish_notes(&mut self) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.notes);
        if self.pools == 0 {
            let pool = default_pool(self.catalog);
            let machines = match self.catalog {
                // Burstable CPUs are shares, and cheap ones would mislead.
                Some(Catalog::Aws) => ", generation 5 and newer of the families c, m and r",
                _ => "",
            };
            notes.push(format!(
                "the input has no NodePool: using a default one (linux, amd64, spot or on-demand, no limits{machines})"
            ));
            if let Err(problem) = self.cluster.add_nodepool(&pool) {
                notes.push(problem.to_string());
            }
            self.survey.add("NodePool default", &Object::NodePool(Box::new(pool)));
        }
        if !self.skipped.is_empty() {
            let list: Vec<String> =
                self.skipped.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
            notes.push(format!("skipped, without effect on placement: {}", list.join(", ")));
        }
        notes
    }

    /// The snapshot, and the time spent lowering (reading not included).
    pub fn lower(self, catalogues: impl Into<Catalogues>) -> (Lowered, Duration) {
        let (lowered, _, time) = self.lower_and_keep(catalogues);
        (lowered, time)
    }

    /// The same, with what stands, to be packed afresh.
    pub fn lower_and_keep(mut self, catalogues: impl Into<Catalogues>) -> (Lowered, Standing, Duration) {
        let start = Instant::now();
        let Catalogues { everybody, of_pools, .. } = catalogues.into();
        if let Some(catalogue) = everybody {
            self.cluster.add_catalogue(None, catalogue.types, &catalogue.well_known);
        }
        for (pools, catalogue) in of_pools {
            self.cluster.add_pool_catalogue(pools, catalogue.types, &catalogue.well_known);
        }
        let (lowered, standing) = self.cluster.finish_and_keep();
        (lowered, standing, self.lowering + start.elapsed())
    }
}

/// The pool used when the input has none: of AWS, if its machines were asked for.
pub fn default_pool(catalog: Option<Catalog>) -> NodePool {
    let mut requirements = serde_json::json!([
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
    ]);
    let class = match (catalog, requirements.as_array_mut()) {
        (Some(Catalog::Aws), Some(list)) => {
            list.push(serde_json::json!({"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]}));
            list.push(serde_json::json!({"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["4"]}));
            serde_json::json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"})
        }
        _ => serde_json::json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}),
    };
    let manifest = serde_json::json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {"template": {"spec": {"requirements": requirements, "nodeClassRef": class}}},
    });
    serde_json::from_value(manifest).expect("the default pool is a NodePool: a test reads it")
}

/// A counter on standard error while reading takes more than a second, on a terminal only.
struct Progress {
    bar: indicatif::ProgressBar,
    start: Instant,
}

impl Progress {
    fn start() -> Self {
        Self { bar: indicatif::ProgressBar::hidden(), start: Instant::now() }
    }

    fn more(&self, documents: usize) {
        if self.bar.is_hidden() && self.start.elapsed() > Duration::from_secs(1) {
            self.bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
            self.bar.set_message("reading manifests");
        }
        self.bar.inc(documents as u64);
        self.bar.set_message(format!("reading manifests: {} objects", self.bar.position()));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_default_pools_are_valid() {
        for catalog in [None, Some(crate::cli::Catalog::Kwok), Some(crate::cli::Catalog::Aws)] {
            assert_eq!(joiner_api::validation::validate_nodepool(&super::default_pool(catalog)), []);
        }
    }
}
