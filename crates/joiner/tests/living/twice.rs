//! Lived twice, a cluster leaves the same log, byte for byte: every change to every object with all its fields, times and versions
//! included. It does so too when time does not jump but passes at some speed, however busy the machine is.

use std::io::Write as _;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::cluster::{Pace, live};
use crate::day::Day;
use crate::deeds::{Hands, name_of};
use crate::log::Log;
use crate::scenarios::{self, assert_lively};

/// A speed at which stories of an hour take a second or more.
const FAST: Pace = Pace::Times(3600);

fn lives_the_same(name: &str, story: impl AsyncFn(&mut Hands)) {
    let run = |pace| live(pace, Log::whole(), async |hands: &mut Hands| story(hands).await);
    let first = run(Pace::Jumps);
    assert_lively(name, &first);
    first.assert_same(&run(Pace::Jumps), &format!("{name}, twice in jumps"));
    first.assert_same(&run(FAST), &format!("{name}, in jumps and at {FAST:?}"));
}

macro_rules! stories {
    ($($test:ident: $story:ident,)*) => {
        $(#[test]
        fn $test() {
            lives_the_same(stringify!($story), scenarios::$story);
        })*
    };
}

stories! {
    growth_is_the_same_again: growth,
    a_spike_is_the_same_again: spike,
    a_night_is_the_same_again: night,
    an_interruption_is_the_same_again: interruption,
    the_loss_of_a_node_is_the_same_again: loss,
    a_rollout_while_scaling_is_the_same_again: rollout,
    a_set_with_volumes_is_the_same_again: volumes,
    jobs_are_the_same_again: jobs,
    a_drain_is_the_same_again: drain,
    autoscaling_is_the_same_again: autoscaling,
}

/// A pod that somebody makes after hours in which nothing happened lives from then on.
#[test]
fn what_follows_comes_after() {
    live(Pace::Jumps, Log::whole(), async |hands: &mut Hands| {
        scenarios::growth(hands).await;
        hands.wait(Duration::from_secs(3 * 3600)).await;
        let before = hands.clock.now();
        hands
            .apply(
                "{apiVersion: v1, kind: Pod, metadata: {name: late}, spec: {containers: [{name: main, image: a}]}}",
            )
            .await;
        hands.wait(Duration::from_secs(60)).await;
        let pods = hands.list("Pod").await;
        let late = pods.iter().find(|pod| name_of(pod) == "late").unwrap();
        let time = |value: &Value| value.as_str().unwrap().parse::<Timestamp>().unwrap();
        let made = time(&late["metadata"]["creationTimestamp"]);
        assert!(
            before.duration_since(made) < SignedDuration::from_secs(1),
            "made {made}, not before {before}"
        );
        assert!(time(&late["status"]["startTime"]) >= made, "{}", late["status"]);
    });
}

/// A day of a thousand scalings; with `JOINER_DAY_NODES`, of so many nodes at noon.
#[test]
fn a_day_is_the_same_again() {
    let asked = std::env::var("JOINER_DAY_NODES").ok().map(|text| text.parse().expect("a number of nodes"));
    let (nodes, scalings) = (asked.unwrap_or(20), 1000);
    let day = Day { seed: 4, nodes, scalings };
    let run = || {
        let begun = Instant::now();
        let log = live(Pace::Jumps, Log::brief(), async |hands: &mut Hands| day.live(hands).await);
        let (changes, took) = (log.len(), begun.elapsed());
        let told =
            writeln!(std::io::stderr(), "{scalings} scalings, {nodes} nodes: {changes} changes, {took:.1?}");
        told.unwrap();
        log
    };
    let first = run();
    let most = first.most("nodes");
    assert!(most * 10 >= nodes * 7 && most <= nodes * 2, "{most} nodes at noon");
    assert!(first.count("DELETED", "nodes") > 0, "nodes go in the evening");
    first.assert_same(&run(), "a day");
}

/// The comparison would find a difference: another seed, another time.
#[test]
fn other_days_are_different() {
    let run = |seed| {
        let day = Day { seed, nodes: 3, scalings: 4 };
        live(Pace::Jumps, Log::whole(), async |hands: &mut Hands| day.live(hands).await)
    };
    let (one, other) = (run(1), run(2));
    let outcome =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| one.assert_same(&other, "two days")));
    assert!(outcome.is_err());
}
