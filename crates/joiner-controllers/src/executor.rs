//! Carries commands out: the one place that writes to the API server or calls the provider.
//!
//! Every call goes through a lane (bounds, rate), then past the fence (is it still ours to make?), and has a deadline. A write that is
//! not answered has perhaps been carried out: it is read back, for as long as it takes, and its key stays busy meanwhile, so that nothing is
//! planned from a state that nobody knows.

mod calls;
mod fence;
mod guard;
mod lanes;
mod machines;
mod node_groups;
mod rate;
mod read_back;
mod versions;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use joiner_provider::{Clock, Registry};
use kube::Client;
use tracing::Instrument;

use self::calls::{Calls, Problem};
pub use self::fence::{Epoch, Fence};
pub use self::guard::{Guard, GuardLayer, NotSent};
pub use self::lanes::Lane;
use self::lanes::Lanes;
use self::read_back::Found;
use self::versions::Versions;
use crate::command::{Command, Done, Failure};
use crate::metrics::Metrics;
use crate::settings::Settings;

/// First and longest pause between two questions about a write that was not answered.
const READ_BACK_PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// Refused so often, the question is given up.
const MOST_REFUSALS: u32 = 3;

/// The ways to the outside. Clones share them.
#[derive(Clone)]
pub struct Executor {
    shared: Arc<Shared>,
}

struct Shared {
    calls: Calls,
    registry: Registry,
    clock: Arc<dyn Clock>,
    lanes: Lanes,
    fence: Fence,
    metrics: Arc<Metrics>,
    call_timeout: Duration,
    provider_timeout: Duration,
}

impl Executor {
    /// An executor over a client and providers, whose writes pass this fence.
    pub fn new(
        client: Client,
        registry: Registry,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
        settings: &Settings,
        fence: Fence,
    ) -> Self {
        let shared = Shared {
            calls: Calls::new(client),
            registry,
            lanes: Lanes::new(&settings.lanes, clock.clone(), metrics.clone()),
            clock,
            fence,
            metrics,
            call_timeout: settings.call_timeout,
            provider_timeout: settings.provider_timeout,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The fence that all writes pass.
    pub fn fence(&self) -> &Fence {
        &self.shared.fence
    }

    /// What is not sent yet is dropped; what was sent is seen to its end.
    pub fn stop(&self) {
        self.shared.fence.retire();
        self.shared.lanes.shut();
    }

    /// Carries out one after the other; the first failure is the last answer.
    pub async fn run_in_order(&self, epoch: Epoch, commands: &[Command]) -> Vec<Result<Done, Failure>> {
        let mut versions = Versions::default();
        let mut answers = Vec::with_capacity(commands.len());
        for command in commands {
            let answer = self.run(epoch, &versions.follow(command)).await;
            let failed = answer.is_err();
            if let Ok(done) = &answer {
                versions.learn(command, done);
            }
            answers.push(answer);
            if failed {
                break;
            }
        }
        answers
    }

    /// Carries out commands that have nothing to do with each other.
    pub async fn run_each(&self, epoch: Epoch, commands: &[Command]) -> Vec<Result<Done, Failure>> {
        let mut answers = Vec::with_capacity(commands.len());
        let at_once = commands.first().map_or(1, |first| self.shared.lanes.width(Lane::of(first)));
        for chunk in commands.chunks(at_once) {
            let runs = chunk.iter().map(|command| self.run(epoch, command));
            answers.extend(futures::future::join_all(runs).await);
        }
        answers
    }

    async fn run(&self, epoch: Epoch, command: &Command) -> Result<Done, Failure> {
        let span = tracing::debug_span!("command", kind = command.kind(), object = %command.object());
        async {
            let (answer, outcome) = self.carry_out(epoch, command).await;
            match &answer {
                Ok(_) => tracing::debug!(outcome, "command carried out"),
                Err(failure) => tracing::debug!(outcome, %failure, "command not carried out"),
            }
            self.shared.metrics.command(command.kind(), outcome);
            answer
        }
        .instrument(span)
        .await
    }

    /// The answer to a command, and its outcome as metrics name it.
    async fn carry_out(&self, epoch: Epoch, command: &Command) -> (Result<Done, Failure>, &'static str) {
        let sent = self.send(epoch, command).await;
        let answer = match sent {
            Ok(done) => return (Ok(done), "done"),
            Err(Problem::Refused(failure)) => Err(failure),
            Err(Problem::Unanswered(why)) if read_back::can_be_read_back(command) => {
                tracing::warn!(error = %why, "no answer to a write: reading the object back");
                let answer = self.read_back(command, &why).await;
                if answer.is_ok() {
                    return (answer, "found_done");
                }
                answer
            }
            Err(Problem::Unanswered(why)) => Err(Failure::Other(why)),
        };
        let outcome = answer.as_ref().err().map_or("done", Failure::name);
        (answer, outcome)
    }

    async fn send(&self, epoch: Epoch, command: &Command) -> Result<Done, Problem> {
        match command {
            Command::Terminate { class, provider_id } => {
                return self.terminate(epoch, class, provider_id).await.map_err(Problem::Refused);
            }
            Command::CancelLaunch { class, handle } => {
                return self.cancel(epoch, class, handle).await.map_err(Problem::Refused);
            }
            Command::EndMachineOf { class, claim_uid } => {
                return self.end_machine_of(epoch, class, claim_uid).await.map_err(Problem::Refused);
            }
            Command::FindMachine { class, provider_id } => {
                return self.find_machine(class, provider_id).await.map_err(Problem::Refused);
            }
            Command::GrowGroup { provider, growth } => {
                return self.grow_group(epoch, provider, growth).await;
            }
            Command::RemoveMember { group, provider_id } => {
                return self.remove_member(epoch, group, provider_id).await.map_err(Problem::Refused);
            }
            _ => {}
        }
        let call = self.shared.calls.send(command);
        match self.pass(Lane::of(command), Some(epoch), self.shared.call_timeout, call).await {
            Ok(Some(answer)) => answer,
            Ok(None) => Err(self.too_late(self.shared.call_timeout)),
            Err(failure) => Err(Problem::Refused(failure)),
        }
    }

    /// Makes a call when its turn has come, unless it is no longer ours to make. Nothing comes back if it takes too long.
    async fn pass<T>(
        &self,
        lane: Lane,
        epoch: Option<Epoch>,
        limit: Duration,
        call: impl Future<Output = T>,
    ) -> Result<Option<T>, Failure> {
        let shared = &self.shared;
        let _pass = shared.lanes.enter(lane).await?;
        if epoch.is_some_and(|epoch| !shared.fence.admits(epoch)) {
            return Err(Failure::Fenced);
        }
        let _under_way = shared.metrics.under_way(lane);
        tokio::select! {
            biased;
            answer = call => Ok(Some(answer)),
            () = shared.clock.sleep(limit) => Ok(None),
        }
    }

    fn too_late(&self, limit: Duration) -> Problem {
        Problem::Unanswered(format!("no answer within {} s", limit.as_secs()))
    }

    async fn find_out(&self, command: &Command) -> Result<Found, Problem> {
        let (shared, limit) = (&self.shared, self.shared.call_timeout);
        match self.pass(Lane::Reads, None, limit, read_back::find_out(&shared.calls, command)).await {
            Ok(Some(found)) => found,
            Ok(None) => Err(self.too_late(limit)),
            Err(failure) => Err(Problem::Refused(failure)),
        }
    }

    /// Asks what became of a write until somebody knows.
    async fn read_back(&self, command: &Command, why: &str) -> Result<Done, Failure> {
        let shared = &self.shared;
        let (mut pause, mut refusals) = (READ_BACK_PAUSES.0, 0);
        loop {
            let found = match command {
                Command::GrowGroup { provider, growth } => self.find_out_growth(provider, growth).await,
                _ => self.find_out(command).await,
            };
            match found {
                Ok(found) => return found.into_answer(why),
                Err(Problem::Refused(failure)) => {
                    refusals += 1;
                    if refusals >= MOST_REFUSALS {
                        return Err(Failure::Unknown(format!("{why}; the object cannot be read: {failure}")));
                    }
                }
                Err(Problem::Unanswered(_)) => {}
            }
            shared.metrics.retry("read_back");
            shared.clock.sleep(pause).await;
            pause = (pause * 2).min(READ_BACK_PAUSES.1);
        }
    }
}
