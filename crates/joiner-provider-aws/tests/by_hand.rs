//! Five machine types worked out by hand from EC2's figures, for a class that says nothing (AL2023), as the page on the catalogue does it for one.

use joiner_provider_aws::catalogue::types;
use joiner_provider_aws::class::Class;
use joiner_provider_aws::prices::Prices;
use joiner_provider_aws::resources::Settings;
use joiner_provider_aws::world::world;

/// MiB of memory less 7.5 % (rounded up) and, on arm64, 64 MiB before that; interfaces × (addresses − 1) + 2 pods; 11 MiB for each of these and 255
/// kept for the kubelet, 100 MiB before pods are evicted; of the CPUs 6 %, 1 %, twice 0.5 %, then 0.25 % kept.
#[test]
fn five_types_come_out_as_by_hand() {
    let region = world().region("us-east-1").expect("a region");
    let all = types(region, &Class::named("default"), Settings::default(), &Prices::default());
    for (name, memory_mib, pods, cpu_milli, gpus) in [
        // 4096 − 308; 3 × 9 + 2; 255 + 11 × 29 = 574; 60 + 10.
        ("c6a.large", 3788 - 574 - 100, 29, 2_000 - 70, 0),
        // 131072 − 9831; 8 × 29 + 2; 255 + 11 × 234 = 2829; 60 + 10 + 10 + 70.
        ("m5a.8xlarge", 121_241 - 2829 - 100, 234, 32_000 - 150, 0),
        // 2048 − 154; 2 × 3 + 2; 255 + 11 × 8 = 343; 60.
        ("c7a.medium", 1894 - 343 - 100, 8, 1_000 - 60, 0),
        // 8192 − 64 = 8128, − 610; 3 × 9 + 2; 574; 60 + 10.
        ("m7g.large", 7518 - 574 - 100, 29, 2_000 - 70, 0),
        // 16384 − 1229; 3 × 9 + 2; 574; 60 + 10 + 10.
        ("g4dn.xlarge", 15_155 - 574 - 100, 29, 4_000 - 80, 1),
    ] {
        let of = all.iter().find(|of| of.name == name).expect("a type of the region");
        let room = of.allocatable();
        let amount = |resource: &str| room.get(resource).map_or(0, |amount| amount.value_saturating());
        assert_eq!(
            (amount("memory"), amount("pods"), amount("nvidia.com/gpu"), amount("ephemeral-storage")),
            (memory_mib * (1 << 20), pods, gpus, 17 << 30),
            "{name}"
        );
        assert_eq!(room.get("cpu").map(|amount| amount.milli_saturating()), Some(cpu_milli), "{name}");
    }
}
