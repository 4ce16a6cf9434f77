//! Clusters drawn from seeds. `JOINER_SEEDS=FROM..TO` takes others than CI does.

use joiner::simulate::drawn::Drawn;
use rayon::prelude::*;

/// Seeds of every test run. CI lives 300 more of them with the optimised program, `joiner simulate --seeds`.
const SEEDS: std::ops::Range<u64> = 0..16;

fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("JOINER_SEEDS") else { return SEEDS };
    let (from, to) = text.split_once("..").expect("JOINER_SEEDS=FROM..TO");
    from.parse().expect("a number")..to.parse().expect("a number")
}

#[test]
fn an_hour_of_trouble_ends_well() {
    let wrong: Vec<String> = seeds()
        .into_par_iter()
        .flat_map_iter(|seed| {
            let (outcome, ..) = Drawn::new(seed, 1.0).live(false).unwrap();
            let told = || {
                let complaints = outcome.complaints().join("\n    ");
                format!("seed {seed}: {complaints}\n  replay: joiner simulate --seed {seed} --hours 1")
            };
            (!outcome.is_fine()).then(told)
        })
        .collect();
    assert!(wrong.is_empty(), "{} seeds:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn seeds_that_went_wrong_once_end_well() {
    // Seed 1: a claim is deleted after its node has joined and before the claim says so; its pods are evicted first.
    for (seed, hours) in [(1, 0.75), (55, 1.0)] {
        let (outcome, ..) = Drawn::new(seed, hours).live(false).unwrap();
        assert!(outcome.is_fine(), "seed {seed}: {:#?}", outcome.complaints());
    }
}

#[test]
fn a_seed_lives_the_same_twice() {
    for seed in [3, 11] {
        let run = || Drawn::new(seed, 1.0).live(true).unwrap();
        let (one, other) = (run(), run());
        assert!(one.2.len() > 300, "{} things happened", one.2.len());
        let differs = one.2.iter().zip(&other.2).position(|(one, other)| one != other);
        if let Some(at) = differs {
            panic!("seed {seed} differs at {at}:\n{}\n{}", one.2[at], other.2[at]);
        }
        assert_eq!((one.0, one.1, one.2.len()), (other.0, other.1, other.2.len()));
    }
}

#[test]
fn seeds_differ() {
    assert_eq!(Drawn::new(1, 1.0), Drawn::new(1, 1.0));
    assert_ne!(Drawn::new(1, 1.0).deeds, Drawn::new(2, 1.0).deeds);
}
