//! 1,000 pods on nodes that are not there yet, as `joiner up` has it.

use std::time::{Duration, Instant};

use joiner::commands::up::Speed;
use joiner::commands::up::cluster::{Cluster, Wish};
use joiner_provider_kwok::Catalogue;

use crate::objects::{deployment, pool};
use crate::{cpu_seconds, peak_memory};

const PODS: usize = 1000;

/// Prints how long it takes, from the start of the cluster.
pub fn run() {
    let mut objects = pool(None);
    objects.push(deployment("web", PODS, "500m", "1Gi"));
    let (begun, cpu) = (Instant::now(), cpu_seconds());
    let cluster = Cluster::start(Wish {
        speed: Speed::Times(1),
        seed: 1,
        nodes: 0,
        import: None,
        prices: None,
        objects,
        demo: false,
        catalogue: Some(Catalogue::hypothetical().into()),
        decisions: None,
        startup_taints: None,
        once: false,
        folder: None,
    })
    .unwrap();
    let started = begun.elapsed();
    let mut there = Duration::ZERO;
    loop {
        let counts = cluster.board.open().counts();
        if there.is_zero() && counts.pending + counts.starting + counts.running >= PODS {
            there = begun.elapsed();
        }
        if counts.running >= PODS {
            break;
        }
        assert!(cluster.lives() && begun.elapsed() < Duration::from_secs(120), "{counts:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
    let all = begun.elapsed();
    let nodes = cluster.board.open().rows().len();
    println!(
        "{PODS} pods on {nodes} new nodes: all running after {all:.2?} (API after {started:.0?}, pods there after {there:.2?}; wanted: 3 s), {:.2} s of CPU, {} MiB",
        cpu_seconds() - cpu,
        peak_memory()
    );
    cluster.end().unwrap();
}
