//! What it takes to know a region's machines as a class gets them.

use divan::Bencher;
use joiner_provider_aws::catalogue;
use joiner_provider_aws::class::Class;
use joiner_provider_aws::prices::Prices;
use joiner_provider_aws::resources::Settings;
use joiner_provider_aws::world::world;

fn main() {
    divan::main();
}

/// One region and class.
#[divan::bench(args = ["us-east-1", "us-west-2", "eu-west-1"])]
fn types(bencher: Bencher, name: &str) {
    let region = world().region(name).expect("a region");
    let (class, prices) = (Class::named("default"), Prices::default());
    bencher.bench(|| catalogue::types(region, &class, Settings::default(), &prices));
}
