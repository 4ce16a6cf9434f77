//! How fast a simulated cluster with joiner in it lives: `cargo bench -p joiner --bench simulated -- [start|growth|burst|day|large|memory]`, all otherwise.
//!
//! | word | what |
//! |---|---|
//! | `start` | from the start of the program to the first answer over TLS, with and without a cluster behind the API |
//! | `growth` | a Deployment of 1,000 pods comes to an empty cluster, in real time: until all of them run on nodes that joiner made |
//! | `day` | 24 hours of about 1,000 nodes with 1,000 scale events, in virtual time and on one thread |
//! | `burst` | 10,000 pods come at once, in real time: until the last claim for them is created, and how long the loop did not listen meanwhile |
//! | `memory` | the controllers in a process of their own beside an API server with 10,000 nodes and 100,000, then 300,000 pods; then pods that come one by one: from the end of their batch to their claim |
//! | `large` | 5,000 nodes and 100,000 pods come to life out of a file; then 1,000 more pods come |
//!
//! Each runs in a process of its own, so that memory is its own. `large 500 10000` and `day 100 100` are smaller ones.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement for developers")]

mod burst;
mod day;
mod growth;
mod large;
mod memory;
mod objects;
mod start;
mod trace;

use std::process::Command;

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["start"] => start::run(),
        ["growth"] => growth::run(),
        ["day"] => day::run(1000, 1000),
        ["day", nodes, events] => day::run(nodes.parse().unwrap(), events.parse().unwrap()),
        ["burst"] => burst::run(10_000),
        ["burst", pods] => burst::run(pods.parse().unwrap()),
        ["memory"] => [100_000, 300_000].into_iter().for_each(|pods| memory::run(10_000, pods)),
        ["memory", nodes, pods] => memory::run(nodes.parse().unwrap(), pods.parse().unwrap()),
        ["controllers", kubeconfig] => memory::controllers(kubeconfig.as_ref()),
        ["large"] => large::run(5000, 100_000),
        ["large", nodes, pods] => large::run(nodes.parse().unwrap(), pods.parse().unwrap()),
        [] => {
            for word in ["start", "growth", "burst", "day", "large", "memory"] {
                let status = Command::new(std::env::current_exe().unwrap()).arg(word).status().unwrap();
                assert!(status.success());
            }
        }
        _ => panic!(
            "one of: start, growth, burst [PODS], day [NODES EVENTS], large [NODES PODS], memory [NODES PODS]"
        ),
    }
}

/// Seconds that this process has kept cores busy, as Linux tells it.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    ticks / 100.0
}

/// The most memory this process has had so far, in MiB, as Linux tells it.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) / 1024
}
