//! What providers do before a machine's life goes on: they are asked beside the loop, their answers are kept by claim. A new process asks again.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use joiner_provider::{HookAnswer, HookPoint, Monotonic};

use crate::clock::Present;
use crate::command::Failure;

/// A hook that failed is asked again after so long.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// How far a provider is with one point of a machine's life.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum HookState {
    /// It has nothing to do there, or has done it.
    #[default]
    Done,
    /// It is to be asked.
    Ask,
    /// It has been asked.
    Waits {
        /// When to ask again; nothing while it has not answered.
        until: Option<Timestamp>,
        /// Why it failed, if it did.
        why: Option<String>,
    },
}

#[derive(Debug)]
enum Answer {
    Awaited,
    Done,
    Wait { until: Monotonic, why: Option<String> },
}

/// The answers of all providers, by the uid of the claim.
#[derive(Debug, Default)]
pub struct Hooks(BTreeMap<(String, HookPoint), Answer>);

impl Hooks {
    /// How far the provider is.
    pub fn state(&self, claim_uid: &str, point: HookPoint, present: Present) -> HookState {
        match self.0.get(&(claim_uid.to_owned(), point)) {
            None => HookState::Ask,
            Some(Answer::Done) => HookState::Done,
            Some(Answer::Awaited) => HookState::Waits { until: None, why: None },
            Some(Answer::Wait { until, .. }) if *until <= present.monotonic => HookState::Ask,
            Some(Answer::Wait { until, why }) => {
                let wait = until.since(present.monotonic);
                let until = present.wall.checked_add(wait).unwrap_or(Timestamp::MAX);
                HookState::Waits { until: Some(until), why: why.clone() }
            }
        }
    }

    /// The provider is being asked.
    pub fn asked(&mut self, claim_uid: &str, point: HookPoint) {
        self.0.insert((claim_uid.to_owned(), point), Answer::Awaited);
    }

    /// The provider has answered.
    pub fn answered(
        &mut self,
        claim_uid: &str,
        point: HookPoint,
        answer: Result<HookAnswer, Failure>,
        now: Monotonic,
    ) {
        let answer = match answer {
            Ok(HookAnswer::Done) => Answer::Done,
            Ok(HookAnswer::Wait(time)) => Answer::Wait { until: now + time, why: None },
            Err(failure) => Answer::Wait { until: now + AFTER_FAILURE, why: Some(failure.to_string()) },
        };
        self.0.insert((claim_uid.to_owned(), point), answer);
    }

    /// The claim is gone.
    pub fn forget(&mut self, claim_uid: &str) {
        for point in HookPoint::ALL {
            self.0.remove(&(claim_uid.to_owned(), point));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_asked_until_it_is_done() {
        let present = |seconds| Present {
            wall: Timestamp::from_second(1000 + seconds as i64).unwrap(),
            monotonic: Monotonic::new(Duration::from_secs(seconds)),
        };
        let mut hooks = Hooks::default();
        let point = HookPoint::Registered;
        let state = |hooks: &Hooks, seconds| hooks.state("a", point, present(seconds));
        assert_eq!(state(&hooks, 0), HookState::Ask);
        hooks.asked("a", point);
        assert_eq!(state(&hooks, 0), HookState::Waits { until: None, why: None });
        hooks.answered("a", point, Ok(HookAnswer::Wait(Duration::from_secs(3))), present(1).monotonic);
        assert_eq!(state(&hooks, 2), HookState::Waits { until: Some(present(4).wall), why: None });
        assert_eq!(state(&hooks, 4), HookState::Ask);
        hooks.answered("a", point, Err(Failure::Other("no".to_owned())), present(4).monotonic);
        assert_eq!(
            state(&hooks, 5),
            HookState::Waits { until: Some(present(9).wall), why: Some("no".to_owned()) }
        );
        hooks.answered("a", point, Ok(HookAnswer::Done), present(9).monotonic);
        assert_eq!(state(&hooks, 9), HookState::Done);
        assert_eq!(hooks.state("a", HookPoint::Initialized, present(9)), HookState::Ask);
        hooks.forget("a");
        assert_eq!(state(&hooks, 9), HookState::Ask);
    }
}
