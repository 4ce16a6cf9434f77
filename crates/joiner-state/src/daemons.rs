//! DaemonSets: pods that come with every machine they fit.

use joiner_core::model::{Daemon, Effect, Toleration, TolerationOperator};
use k8s_openapi::api::apps::v1::DaemonSet;

use crate::cluster::{Cluster, namespace_of, namespaced_name};
use crate::digest::Digest;
use crate::lower::Lowering;
use crate::problem::{Finding, Problem};

/// What is kept of a DaemonSet.
#[derive(Debug, PartialEq)]
pub(crate) struct DaemonDigest {
    pub pod: Digest,
}

impl Cluster {
    /// Takes a DaemonSet in.
    pub fn add_daemonset(&mut self, set: &DaemonSet) -> Result<(), Problem> {
        let name = namespaced_name("DaemonSet", &set.metadata)?;
        let spec = &set.spec;
        let Some(pod) = &spec.template.spec else {
            return Err(Finding::new(
                "spec.template.spec",
                "",
                "the template has no spec",
                "describe the pod's containers",
            )
            .on("DaemonSet", &name, ""));
        };
        if set.metadata.deletion_timestamp.is_some() {
            self.remove_daemonset_by(&name);
            return Ok(());
        }
        let mut digest = Digest::new(namespace_of(&set.metadata), pod, None)
            .map_err(|finding| finding.on("DaemonSet", &name, "spec.template.spec"))?;
        digest.tolerations.extend(added_tolerations(pod.host_network == Some(true)));
        let daemon = DaemonDigest { pod: digest };
        let before = self.daemons.get(&name);
        let replaces = before.is_some();
        if before != Some(&daemon) {
            self.changes.frame = true;
            self.daemons.insert(name.clone(), daemon);
        }
        if replaces {
            self.note_duplicate("DaemonSet", &name);
        }
        Ok(())
    }

    /// A DaemonSet is gone.
    pub fn remove_daemonset(&mut self, namespace: &str, name: &str) {
        self.remove_daemonset_by(&format!("{namespace}/{name}"));
    }

    fn remove_daemonset_by(&mut self, full_name: &str) {
        self.changes.frame |= self.daemons.remove(full_name).is_some();
    }
}

/// What the DaemonSet controller adds to every pod it makes.
fn added_tolerations(host_network: bool) -> impl Iterator<Item = Toleration> {
    let no_execute = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
    let no_schedule = [
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/pid-pressure",
        "node.kubernetes.io/unschedulable",
    ];
    let network = host_network.then_some("node.kubernetes.io/network-unavailable");
    let exists = |effect: Effect| {
        move |key: &'static str| Toleration {
            key: key.into(),
            operator: TolerationOperator::Exists,
            value: "".into(),
            effect: Some(effect),
        }
    };
    let hard = no_schedule.into_iter().chain(network).map(exists(Effect::NoSchedule));
    no_execute.into_iter().map(exists(Effect::NoExecute)).chain(hard)
}

impl Lowering<'_> {
    /// Fills in the daemons, by name.
    pub(crate) fn lower_daemons(&mut self) {
        for (name, daemon) in &self.cluster.daemons {
            let pod = &daemon.pod;
            let asks = match &pod.required {
                None => vec![self.node_ask(pod, None, None)],
                // A term that names fields picks single nodes; no future machine is one of them.
                Some(terms) => terms
                    .iter()
                    .filter(|term| !term.expressions.is_empty() && !term.match_fields)
                    .map(|term| self.node_ask(pod, Some(term), None))
                    .collect(),
            };
            for ask in &asks {
                self.ask_about(*ask);
            }
            let daemon = Daemon {
                name: name.as_str().into(),
                requests: self.lanes(&pod.requests),
                asks,
                tolerations: self.frame.snapshot.vocabulary.toleration_list(pod.tolerations.clone()),
                ports: pod.ports.clone(),
            };
            self.frame.snapshot.daemons.push(daemon);
        }
    }
}
