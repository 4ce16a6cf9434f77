//! The scripted day of `joiner up --demo`.
//!
//! A script is data: what happens when, and how it is called on the screen. It only does what a user could do with kubectl, plus one
//! thing that clouds do: take a spot machine back.

use std::time::Duration;

use jiff::Timestamp;

/// The objects the day begins with.
pub const MANIFESTS: &str = include_str!("demo.yaml");

/// How fast the day passes unless told otherwise: in four minutes.
pub const SPEED: u32 = 360;

/// When the day begins: six o'clock of the morning before `now`, so that ages are those of a day gone by.
pub fn morning(now: Timestamp) -> Timestamp {
    const DAY: i64 = 24 * 3600;
    const SIX: i64 = 6 * 3600;
    let second = now.as_second();
    let morning = second - (second - SIX).rem_euclid(DAY);
    Timestamp::from_second(morning).unwrap_or(now)
}

/// What happens at one point of the day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Since the start.
    pub after: Duration,
    /// What the screen says.
    pub caption: &'static str,
    /// What is done.
    pub actions: Vec<Action>,
}

/// One thing that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A deployment of the shop gets so many replicas.
    Scale(&'static str, u32),
    /// So many pods of a nightly job are to run, each for so long.
    NightlyWork {
        /// Pods.
        pods: u32,
        /// Minutes that each takes.
        minutes: u32,
    },
    /// The cloud takes a spot machine back.
    TakeSpotMachine,
}

/// The day, hour by hour.
pub fn day() -> Vec<Step> {
    use Action::{NightlyWork, Scale, TakeSpotMachine};
    let at = |minutes: u64, caption, actions: &[Action]| Step {
        after: Duration::from_secs(60 * minutes),
        caption,
        actions: actions.to_vec(),
    };
    vec![
        at(0, "morning: seven services start", &[]),
        at(60, "people wake up: web and api grow", &[Scale("web", 16), Scale("api", 12)]),
        at(
            180,
            "working hours",
            &[Scale("web", 24), Scale("api", 18), Scale("search", 8), Scale("images", 9)],
        ),
        at(
            300,
            "a spike: a newsletter went out",
            &[Scale("web", 80), Scale("api", 45), Scale("checkout", 8)],
        ),
        at(390, "the spike is over", &[Scale("web", 26), Scale("api", 18), Scale("checkout", 4)]),
        at(510, "the cloud takes a spot machine back", &[TakeSpotMachine]),
        at(660, "evening", &[Scale("web", 14), Scale("api", 9), Scale("search", 5), Scale("images", 4)]),
        at(
            840,
            "a quiet night, and work that waits for it",
            &[
                Scale("web", 4),
                Scale("api", 3),
                Scale("search", 2),
                Scale("images", 1),
                Scale("checkout", 3),
                NightlyWork { pods: 24, minutes: 45 },
            ],
        ),
        at(1_020, "nothing left to do: the cluster is small", &[]),
        at(
            1_380,
            "morning again",
            &[Scale("web", 8), Scale("api", 6), Scale("search", 4), Scale("images", 5)],
        ),
        at(1_440, "the day is over, the cluster is yours: kubectl apply, scale, drain", &[]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_day_begins_in_the_morning() {
        for (now, begins) in [
            ("2026-03-02T15:04:05Z", "2026-03-02T06:00:00Z"),
            ("2026-03-02T05:59:59Z", "2026-03-01T06:00:00Z"),
            ("2026-03-02T06:00:00.5Z", "2026-03-02T06:00:00Z"),
        ] {
            assert_eq!(morning(now.parse().unwrap()), begins.parse().unwrap(), "{now}");
        }
    }

    #[test]
    fn steps_follow_one_another_and_name_deployments_that_exist() {
        let day = day();
        assert!(day.windows(2).all(|pair| pair[0].after < pair[1].after));
        for action in day.iter().flat_map(|step| &step.actions) {
            if let Action::Scale(name, _) = action {
                assert!(
                    MANIFESTS.contains(&format!("kind: Deployment\nmetadata: {{ name: {name}, ")),
                    "{name}"
                );
            }
        }
    }
}
