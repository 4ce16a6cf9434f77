//! One search over clusters of ten pods a node, with services that spread over zones, services with one pod a node, and blocked nodes among them:
//! nodes that fit what they run, that are a third empty, and that are four times too large. `cargo bench --workspace --bench consolidate`.

#[path = "../tests/support/fleets.rs"]
mod fleets;

use divan::Bencher;
use fleets::{Fit, large};
use joiner_core::disrupt::{Options, consolidate};

fn main() {
    divan::main();
}

const NODES: [usize; 3] = [1_000, 5_000, 10_000];

fn bench(bencher: Bencher, nodes: usize, fit: Fit) {
    let fleet = large(nodes, fit);
    bencher.bench_local(|| consolidate(&fleet, &Options::default(), None));
}

#[divan::bench(args = NODES, sample_count = 3, sample_size = 1)]
fn tight(bencher: Bencher, nodes: usize) {
    bench(bencher, nodes, Fit::Tight);
}

#[divan::bench(args = NODES, sample_count = 3, sample_size = 1)]
fn slack(bencher: Bencher, nodes: usize) {
    bench(bencher, nodes, Fit::Slack);
}

#[divan::bench(args = NODES, sample_count = 3, sample_size = 1)]
fn ill_packed(bencher: Bencher, nodes: usize) {
    bench(bencher, nodes, Fit::Ill);
}
