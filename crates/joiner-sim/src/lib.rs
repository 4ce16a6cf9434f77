//! A cluster around the embedded API server.
//!
//! `joiner-apiserver` keeps objects and answers requests; nothing happens by itself. This crate adds what makes a cluster of it: the
//! controllers that turn Deployments, StatefulSets, DaemonSets, Jobs and CronJobs into pods, those that look after nodes, budgets, volumes and
//! namespaces, and kubelets that run nothing but say that they do. The [`scheduler`] does what kube-scheduler does by default, with the rules
//! that joiner plans by; it joins as a participant.
//!
//! **One loop, pure reconcilers.** [`world::World`] takes one key at a time from a queue that is ordered by time, asks the
//! controller it belongs to for the changes to make ([`controller::Controller`]: no I/O, no clock, no dice), sends them to the server through
//! [`connection`], and takes in every event that follows ([`cache`], [`event`]) before the next key. So the same input with the same
//! seed gives the same cluster, byte for byte, at any speed of the [`clock`].
//!
//! **Time** is tokio's. In a runtime with paused time a day passes as fast as its work is done; [`pace`] slows that down to a given speed
//! and changes nothing else.
//!
//! What is not simulated: images, networks, logs, endpoints, device plugins, and pods' containers themselves. A pod runs because its kubelet
//! ([`kubelet`]) says so; how long starting, stopping and a job take are settings, or annotations of the pod or its node.

pub mod autoscaling;
pub mod cache;
pub mod clock;
pub mod connection;
pub mod controller;
pub mod disruption;
pub mod event;
pub mod json;
pub mod kubelet;
pub mod namespace;
pub mod node_lifecycle;
pub mod object;
mod outline;
pub mod pace;
pub mod pod_gc;
mod queue;
mod recorder;
pub mod scheduler;
pub mod settings;
pub mod taint_eviction;
pub mod volumes;
pub mod workloads;
pub mod world;
pub mod write;

use controller::Controller;
use settings::Settings;

/// All controllers, in the order in which they act at the same moment.
fn controllers(settings: &Settings) -> Vec<Box<dyn Controller>> {
    let seed = settings.seed;
    vec![
        Box::new(namespace::Namespaces::default()),
        Box::new(kubelet::Kubelets::new(settings.lifecycle.clone(), seed)),
        Box::new(node_lifecycle::NodeLifecycle::default()),
        Box::new(taint_eviction::TaintEviction),
        Box::new(pod_gc::PodGc::default()),
        Box::new(volumes::Volumes),
        Box::new(workloads::daemon_set::DaemonSets::new(seed)),
        Box::new(workloads::stateful_set::StatefulSets),
        Box::new(workloads::replica_set::ReplicaSets::new(seed)),
        Box::new(workloads::deployment::Deployments),
        Box::new(workloads::job::Jobs::new(seed)),
        Box::new(workloads::cron_job::CronJobs),
        Box::new(disruption::Disruption),
        Box::new(autoscaling::Autoscalers::default()),
    ]
}
