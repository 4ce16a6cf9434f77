//! A scenario, played: its steps in order, then its expectations. The cluster may be simulated or real; what differs is handed in.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use joiner_provider::Clock;
use serde_json::{Value, json};

use crate::simulate::expect::Expectation;
use crate::simulate::hands::Hands;
use crate::simulate::scenario::{Deed, Scenario, Step, read_length};

/// How often a thing that is waited for is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// The process that a scenario starts, stops and kills.
pub trait Process {
    /// Starts it, unless it runs.
    fn start(&self) -> impl Future<Output = anyhow::Result<()>>;
    /// Ends it at once.
    fn kill(&self) -> impl Future<Output = anyhow::Result<()>>;
    /// Asks it to end, and waits for that.
    fn stop(&self) -> impl Future<Output = anyhow::Result<()>>;
}

/// Who plays.
pub struct Player<P> {
    /// Hands on the cluster.
    pub hands: Hands,
    /// The cluster's clock.
    pub clock: Arc<dyn Clock>,
    /// Joiner.
    pub process: P,
    /// By how much longer than the file says things may take: a crash or a lost answer costs time.
    pub patience: Duration,
}

impl<P: Process> Player<P> {
    /// Sets the scene, plays all steps, and holds the end to what is expected.
    ///
    /// # Errors
    /// A step cannot be done, or what is expected does not come.
    pub async fn play(&self, scenario: &Scenario) -> anyhow::Result<()> {
        self.begin(scenario).await?;
        self.steps(scenario).await?;
        self.end(scenario).await
    }

    /// Sets the scene and starts joiner.
    ///
    /// # Errors
    /// The server refuses an object.
    pub async fn begin(&self, scenario: &Scenario) -> anyhow::Result<()> {
        for object in scenario.beginning() {
            self.hands.apply(&object).await?;
        }
        self.process.start().await
    }

    /// Plays the steps.
    ///
    /// # Errors
    /// One of them cannot be done.
    pub async fn steps(&self, scenario: &Scenario) -> anyhow::Result<()> {
        for (number, step) in scenario.steps.iter().enumerate() {
            self.step(step).await.with_context(|| format!("step {}", number + 1))?;
        }
        Ok(())
    }

    /// Waits for what the scenario expects of its end.
    ///
    /// # Errors
    /// It does not come in time.
    pub async fn end(&self, scenario: &Scenario) -> anyhow::Result<()> {
        self.wait(&scenario.expect, scenario.within).await.context("in the end")
    }

    async fn step(&self, step: &Step) -> anyhow::Result<()> {
        match step {
            Step::Pods(pods) => {
                for pod in pods.objects() {
                    self.hands.create(&pod).await?;
                }
            }
            Step::Apply(object) => self.hands.apply(object).await?,
            Step::Refused(refused) => match self.hands.apply(&refused.object).await {
                Ok(()) => bail!("the server takes what it should refuse"),
                Err(error) => {
                    let said = crate::report::chain(&error);
                    if !said.contains(&refused.because) {
                        bail!("it is refused, but not because `{}`: {said}", refused.because);
                    }
                }
            },
            Step::Patch(patch) => {
                for object in self.hands.choose(&patch.of, "Node").await? {
                    self.hands.patch(&object, &patch.with).await?;
                }
            }
            Step::Delete(query) => {
                for object in self.hands.choose(query, "Pod").await? {
                    self.hands.delete(&object).await?;
                }
            }
            Step::Scale(scale) => self.hands.scale(&scale.kind, &scale.name, scale.replicas).await?,
            Step::Evict(query) => {
                for pod in self.hands.choose(query, "Pod").await? {
                    self.hands.evict(&pod).await?;
                }
            }
            Step::Wait(wait) => self.wait(&wait.until, wait.within).await?,
            Step::Pass(time) => self.clock.sleep(*time).await,
            Step::Chaos(chaos) => {
                let class = json!({"kind": "KWOKNodeClass", "metadata": {"name": "default"}});
                // Files of YAML 1.1 readers know `off` as false.
                let is_off = chaos == "off" || *chaos == Value::Bool(false);
                let chaos = if is_off { Value::Null } else { chaos.clone() };
                self.hands.patch(&class, &json!({"spec": {"chaos": chaos}})).await?;
            }
            Step::Joiner(Deed::Start) => self.process.start().await?,
            Step::Joiner(Deed::Kill) => self.process.kill().await?,
            Step::Joiner(Deed::Stop) => self.process.stop().await?,
        }
        Ok(())
    }

    /// Waits until all of this holds.
    ///
    /// # Errors
    /// It does not in time: what is missing.
    pub async fn wait(&self, expectations: &[Expectation], within: Duration) -> anyhow::Result<()> {
        let begun = self.clock.monotonic();
        let within = within + self.patience;
        loop {
            let objects = self.hands.look(expectations).await?;
            let missing: Vec<String> =
                expectations.iter().filter_map(|expectation| expectation.missing(&objects)).collect();
            if missing.is_empty() {
                return Ok(());
            }
            if self.clock.monotonic().since(begun) >= within {
                bail!("not after {} s: {}", within.as_secs(), missing.join("; "));
            }
            self.clock.sleep(LOOK).await;
        }
    }
}

/// A length of time as scenarios write it.
///
/// # Errors
/// A sentence.
pub fn length(text: &str) -> Result<Duration, String> {
    read_length(text)
}
