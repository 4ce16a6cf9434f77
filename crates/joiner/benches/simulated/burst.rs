//! Pods by the thousand come at once, as `joiner up` has it.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use joiner::commands::up::assembly::{Design, Parts};
use joiner_provider_kwok::Catalogue;
use joiner_sim::clock::Clock;

use crate::objects::{deployment, pool};
use crate::{cpu_seconds, peak_memory};

/// A batch closes so long after the last pod came to it, or so long after the first.
const IDLE: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(10);
/// When no claim has come for so long, all are there.
const QUIET: Duration = Duration::from_secs(4);

/// Prints how long it takes from the end of the batch to the last claim, and how long the loop was not listening meanwhile.
pub fn run(pods: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(live(pods));
}

async fn live(pods: usize) {
    let design = Design {
        clock: Clock::new(Timestamp::now(), 1),
        seed: 7,
        catalogue: Some(Catalogue::hypothetical().into()),
        folder: None,
        restored: Vec::new(),
        startup_taints: None,
    };
    let Parts { server, mut world, controllers, .. } = design.assemble().unwrap();
    let controllers = controllers.unwrap();
    let metrics = controllers.metrics();
    let script = async {
        let client = server.direct("measurement");
        let classes = client.resource("karpenter.kwok.sh", "kwoknodeclasses").unwrap();
        let pools = client.resource("karpenter.sh", "nodepools").unwrap();
        for (resource, object) in [classes, pools].iter().zip(pool(None)) {
            client.create(resource, "", object).unwrap();
        }
        let deployments = client.resource("apps", "deployments").unwrap();
        client.create(&deployments, "default", deployment("web", pods, "500m", "1Gi")).unwrap();
        let watch = |group: &str, plural: &str| {
            let resource = client.resource(group, plural).unwrap();
            let (_, revision) = client.present(&resource);
            client.watch(&resource, revision).unwrap()
        };
        let (mut all_pods, mut claims) = (watch("", "pods"), watch("karpenter.sh", "nodeclaims"));
        let (mut refused, mut made) = (Vec::with_capacity(pods), Vec::new());
        let (mut begun, mut cpu) = (None, cpu_seconds());
        loop {
            tokio::select! {
                biased;
                events = claims.next() => for event in events.unwrap() {
                    if event.kind == joiner_apiserver::store::ChangeKind::Added {
                        made.push(Instant::now());
                    }
                },
                events = all_pods.next() => for event in events.unwrap() {
                    let is_refused = event.object["status"]["conditions"][0]["reason"] == "Unschedulable";
                    if is_refused && made.is_empty() {
                        refused.push(Instant::now());
                        if refused.len() == pods {
                            (begun, cpu) = (Some(Instant::now()), cpu_seconds());
                        }
                    }
                },
                () = tokio::time::sleep(QUIET), if !made.is_empty() => break,
            }
            assert!(begun.is_none_or(|begun| begun.elapsed() < Duration::from_secs(120)), "no end");
        }
        let (first, last) = (refused[0], refused[refused.len() - 1]);
        let closed = (last + IDLE).min(first + LONGEST);
        println!(
            "{} pods refused by the scheduler, {} claims: {:.2?} from the end of the batch to the first, {:.2?} to the last (wanted: 1 s); \
             the loop did not listen for {:.1?} at most (wanted: 5 ms); {:.1} s of CPU, {} MiB",
            refused.len(),
            made.len(),
            made[0].saturating_duration_since(closed),
            made[made.len() - 1].saturating_duration_since(closed),
            metrics.longest_stall(),
            cpu_seconds() - cpu,
            peak_memory()
        );
    };
    tokio::select! {
        biased;
        () = script => {}
        () = world.run() => {}
        () = async { controllers.run(std::future::pending()).await } => {}
    }
}
