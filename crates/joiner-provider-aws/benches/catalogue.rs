//! What it takes to know a region's machines as a class gets them.

#![allow(clippy::print_stdout, reason = "a measurement tells what it found")]

use divan::Bencher;
use joiner_provider_aws::catalogue;
use joiner_provider_aws::class::Class;
use joiner_provider_aws::prices::Prices;
use joiner_provider_aws::resources::Settings;
use joiner_provider_aws::world::{PACKED_BYTES, World, world};

fn main() {
    println!(
        "the catalogue makes the program {:.1} kB larger (600 kB at most); building one region may take 10 ms",
        PACKED_BYTES as f64 / 1e3
    );
    divan::main();
}

/// Unpacking all regions, once per process.
#[divan::bench]
fn unpack() -> usize {
    World::unpack().machines().len()
}

/// One region and class.
#[divan::bench(args = ["us-east-1", "us-west-2", "eu-west-1"])]
fn types(bencher: Bencher, name: &str) {
    let region = world().region(name).expect("a region");
    let (class, prices) = (Class::named("default"), Prices::default());
    bencher.bench(|| catalogue::types(region, &class, Settings::default(), &prices));
}
