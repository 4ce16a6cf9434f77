//! A day in virtual time.

use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use joiner::commands::up::assembly::{Design, Parts};
use joiner_apiserver::rest::PatchLanguage;
use joiner_apiserver::selector::LabelSelector;
use joiner_apiserver::service::ApiServer;
use joiner_provider_kwok::Catalogue;
use joiner_sim::clock::Clock;
use serde_json::json;

use crate::objects::{deployment, pool};
use crate::trace::{self, Scale};
use crate::{cpu_seconds, peak_memory};

const SEED: u64 = 24;
const SERVICES: usize = 50;
/// Pods that a machine of the pool holds.
const PODS_PER_NODE: usize = 10;
/// From nothing to all services running, before the day begins.
const DAWN: SignedDuration = SignedDuration::from_mins(10);

/// Prints how long it takes.
pub fn run(nodes: usize, events: usize) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(live(nodes, events));
}

async fn live(nodes: usize, events: usize) {
    let start: Timestamp = "2026-03-02T00:00:00Z".parse().unwrap();
    let design = Design {
        clock: Clock::new(start, 1),
        seed: SEED,
        catalogue: Some(Catalogue::hypothetical().into()),
        folder: None,
        restored: Vec::new(),
        startup_taints: None,
    };
    let Parts { server, clock, mut world, controllers, .. } = design.assemble().unwrap();
    let summary = controllers.as_ref().unwrap().summary();
    let usual = nodes * PODS_PER_NODE / SERVICES;
    let script = async {
        let client = server.direct("measurement");
        let (classes, pools) = (
            client.resource("karpenter.kwok.sh", "kwoknodeclasses").unwrap(),
            client.resource("karpenter.sh", "nodepools").unwrap(),
        );
        let deployments = client.resource("apps", "deployments").unwrap();
        let mut kinds = [&classes, &pools].into_iter();
        for object in pool(Some("16")) {
            client.create(kinds.next().unwrap(), "", object).unwrap();
        }
        let begun = Instant::now();
        for (service, size) in trace::start(SERVICES, usual).into_iter().enumerate() {
            client.create(&deployments, "default", deployment(&name(service), size, "1500m", "1Gi")).unwrap();
        }
        let dawn = start + DAWN;
        clock.sleep_until(dawn).await;
        let (bound, all) = running(&server);
        let at_dawn = count(&server, "nodes");
        println!("before the day: {at_dawn} nodes, {bound} of {all} pods running, {:.1?}", begun.elapsed());
        assert_eq!(bound, all);

        let (begun, cpu) = (Instant::now(), cpu_seconds());
        let (mut most, mut fewest) = (at_dawn, at_dawn);
        for Scale { at, service, replicas } in trace::day(SEED, events, SERVICES, usual) {
            clock.sleep_until(dawn + SignedDuration::from_secs(i64::try_from(at).unwrap())).await;
            let patch = json!({"spec": {"replicas": replicas}});
            client.patch(&deployments, ("default", &name(service)), "", PatchLanguage::Merge, patch).unwrap();
            let nodes = count(&server, "nodes");
            (most, fewest) = (most.max(nodes), fewest.min(nodes));
        }
        clock.sleep_until(dawn + SignedDuration::from_hours(24)).await;
        let took = begun.elapsed();
        let (bound, all) = running(&server);
        let decisions = summary.borrow().decisions;
        println!(
            "24 h with {events} scale events: {took:.1?} ({:.1} s of CPU; wanted: 30 s), {fewest} to {most} nodes, {bound} of {all} pods running at the end, {decisions} decisions, {} MiB",
            cpu_seconds() - cpu,
            peak_memory()
        );
        assert_eq!(bound, all);
    };
    tokio::select! {
        biased;
        () = script => {}
        () = world.run() => {}
        () = async { controllers.unwrap().run(std::future::pending()).await } => {}
    }
}

fn name(service: usize) -> String {
    format!("service-{service:02}")
}

fn count(server: &ApiServer, plural: &str) -> usize {
    let client = server.direct("measurement");
    client.present(&client.resource("", plural).unwrap()).0.len()
}

/// Pods that run, and all.
fn running(server: &ApiServer) -> (usize, usize) {
    let client = server.direct("measurement");
    let (pods, _) = client.list(&client.resource("", "pods").unwrap(), None, &LabelSelector::default());
    let running =
        pods.iter().filter(|pod| pod.object().kept_field("status.phase") == Some("Running")).count();
    (running, pods.len())
}
