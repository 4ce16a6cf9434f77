//! Types with names of AWS: in a list that somebody wrote, and as AWS has them.

use joiner_api::names::{AWS_INSTANCE_CATEGORY_LABEL, KWOK_WELL_KNOWN_LABELS};
use joiner_provider_aws::class::Class;
use joiner_provider_aws::prices::Prices;
use joiner_provider_aws::resources::Settings;
use joiner_provider_aws::world::world;
use joiner_provider_kwok::{Catalogue, LoadError};

use crate::{label, named, resources};

const EXCERPT: &str = include_str!("../data/aws-us-west-2-excerpt.json");

/// Lists of the original's examples carry names of AWS, so that pools written for AWS select from them.
#[test]
fn labels_follow_from_names_and_capacities() -> Result<(), LoadError> {
    let loaded = Catalogue::from_text("aws_instance_types.json", EXCERPT)?;
    assert_eq!((loaded.types.len(), loaded.notes.len()), (20, 0));
    assert!(loaded.well_known.iter().any(|key| key == AWS_INSTANCE_CATEGORY_LABEL));
    let of = named(&loaded.types, "c5.large");
    assert_eq!(resources(&of.capacity), "cpu=2 ephemeral-storage=20Gi memory=4Gi pods=32");
    assert_eq!(resources(&of.allocatable()), "cpu=1900m ephemeral-storage=20Gi memory=4086Mi pods=32");
    for (key, value) in [
        ("karpenter.k8s.aws/instance-category", "c"),
        ("karpenter.k8s.aws/instance-family", "c5"),
        ("karpenter.k8s.aws/instance-generation", "5"),
        ("karpenter.k8s.aws/instance-size", "large"),
        ("karpenter.k8s.aws/instance-capability-flex", "false"),
        ("karpenter.k8s.aws/instance-cpu", "2"),
        ("karpenter.k8s.aws/instance-memory", "4096"),
        ("karpenter.k8s.aws/instance-gpu-count", "-"),
        ("karpenter.kwok.sh/instance-size", "large"),
        ("karpenter.kwok.sh/instance-family", "c5"),
    ] {
        assert_eq!(label(of, key), value, "{key}");
    }
    Ok(())
}

#[test]
fn machines_of_aws_serve_pools_of_kwok_too() {
    let region = world().region("us-west-2").unwrap();
    let class = Class::named("default");
    let catalogue = Catalogue::aws(region, &class, Settings::default(), &Prices::default());
    assert_eq!(catalogue.types.len(), 1345);
    assert!(!catalogue.well_known.iter().any(|key| KWOK_WELL_KNOWN_LABELS.contains(&key.as_str())));
    assert!(catalogue.types[0].requirement("karpenter.kwok.sh/instance-size").is_none());

    let both = catalogue.clone().with_kwok_labels();
    assert_eq!(label(named(&both.types, "m5.4xlarge"), "karpenter.kwok.sh/instance-cpu"), "16");
    assert!(KWOK_WELL_KNOWN_LABELS.iter().all(|key| both.well_known.iter().any(|known| known == key)));
}

#[test]
fn beside_others_machines_say_what_they_lack() {
    let mut catalogue = Catalogue::hypothetical();
    catalogue.deny(&[AWS_INSTANCE_CATEGORY_LABEL, "karpenter.kwok.sh/instance-size"]);
    let of = &catalogue.types[0];
    assert_eq!(label(of, AWS_INSTANCE_CATEGORY_LABEL), "-");
    assert_eq!(label(of, "karpenter.kwok.sh/instance-size"), "1", "said already");
}
