//! Every file of `tests/cluster`, undisturbed and disturbed.
//!
//! `JOINER_STRIDE=1` plays every point (`cargo xtask simulate`); otherwise scenarios with many calls are disturbed at some of them.

use std::path::Path;

use joiner::simulate::runs::{Point, play, sweep};
use joiner::simulate::scenario::Scenario;
use rayon::prelude::*;

/// How many points of each scenario are played at most in CI, of each kind.
const POINTS: usize = 6;

fn every_file() -> Vec<Scenario> {
    Scenario::read_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster")).unwrap()
}

/// The files, or those that `JOINER_SCENARIO` names.
fn all() -> Vec<Scenario> {
    let mut all = every_file();
    if let Ok(one) = std::env::var("JOINER_SCENARIO") {
        all.retain(|scenario| scenario.name.contains(&one));
        assert!(!all.is_empty(), "no scenario is called `{one}`");
    }
    all
}

#[test]
fn rules_have_one_file_each() {
    let all = every_file();
    assert!(all.len() >= 40, "{}", all.len());
    let mut rules: Vec<&str> = all.iter().map(|scenario| scenario.rule.as_str()).collect();
    rules.sort_unstable();
    let count = rules.len();
    rules.dedup();
    assert_eq!(rules.len(), count, "two files for one rule");
    for scenario in &all {
        let letters = ["P", "L", "T", "B"];
        let hundreds = letters.iter().position(|letter| scenario.rule.starts_with(letter)).unwrap();
        let number: usize = scenario.rule[1..].parse().unwrap();
        let begins = format!("{:03}-", hundreds * 100 + number);
        assert!(
            scenario.name.starts_with(&begins),
            "`{}` is rule {}: call it {begins}…",
            scenario.name,
            scenario.rule
        );
    }
}

#[test]
fn every_scenario_comes_to_its_end_and_rests() {
    let wrong: Vec<String> = all()
        .par_iter()
        .flat_map_iter(|scenario| {
            let outcome = play(scenario, 0, Point::Undisturbed).unwrap();
            let told = format!("{}: {}", scenario.name, outcome.complaints().join("\n    "));
            (!outcome.is_fine()).then_some(told)
        })
        .collect();
    assert!(wrong.is_empty(), "{} scenarios:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn no_crash_and_no_lost_answer_changes_the_end() {
    let every = std::env::var("JOINER_STRIDE").ok().map(|text| text.parse::<usize>().expect("a number"));
    let wrong: Vec<String> = all()
        .par_iter()
        .flat_map_iter(|scenario| {
            let calls = play(scenario, 0, Point::Undisturbed).unwrap().calls;
            let stride = every.unwrap_or(calls.div_ceil(POINTS)).max(1);
            sweep(scenario, 0, stride).unwrap().0
        })
        .collect();
    assert!(wrong.is_empty(), "{} runs:\n{}", wrong.len(), wrong.join("\n"));
}
