//! Everything about the controllers that is a number or a choice. Defaults are those that users of the original know.

use std::time::Duration;

use joiner_core::decide;

/// The limits of one kind of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneLimits {
    /// Calls under way at the same time.
    pub at_once: usize,
    /// Calls that may wait; more are turned away and tried again later.
    pub queued: usize,
    /// Calls that may set out in a second, after as many at once.
    pub per_second: Option<u32>,
}

/// The limits of all kinds of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneSettings {
    /// Writes of claims, nodes and pools.
    pub objects: LaneLimits,
    /// Evictions and deletions of pods.
    pub evictions: LaneLimits,
    /// Calls of the provider.
    pub provider: LaneLimits,
    /// Questions to the API server.
    pub reads: LaneLimits,
    /// Events; those that are turned away are not written at all.
    pub events: LaneLimits,
}

impl Default for LaneSettings {
    fn default() -> Self {
        let lane = |at_once, queued, per_second| LaneLimits { at_once, queued, per_second };
        Self {
            objects: lane(64, 16_384, Some(1000)),
            evictions: lane(64, 16_384, Some(500)),
            provider: lane(32, 4096, None),
            reads: lane(64, 16_384, None),
            events: lane(16, 8192, Some(200)),
        }
    }
}

/// How the controllers behave.
#[derive(Debug, Clone)]
pub struct Settings {
    /// A batch of pending pods closes when none has come for so long.
    pub batch_idle: Duration,
    /// A batch closes after so long whatever comes.
    pub batch_max: Duration,
    /// Preferred terms hold until they are relaxed; otherwise they do not count.
    pub respect_preferences: bool,
    /// How pods are packed.
    pub packing: decide::Options,
    /// Names of claims are drawn from it.
    pub seed: u64,
    /// A claim that has not launched after so long is given up.
    pub launch_timeout: Duration,
    /// A claim whose node has not registered after so long is given up.
    pub registration_timeout: Duration,
    /// A node found empty must still be so after so long before it goes.
    pub validation_wait: Duration,
    /// A drain takes at least so long, for pods bound just before the taint.
    pub least_drain: Duration,
    /// A pod that is past the end of its deletion by so much no longer holds a drain up.
    pub stuck_after: Duration,
    /// How often a drain or a detachment is reconciled.
    pub drain_interval: Duration,
    /// How often the provider is asked whether an instance is gone.
    pub instance_interval: Duration,
    /// An attached volume that nobody can detach is not waited for any longer than this.
    pub leaked_after: Duration,
    /// How often a claim is compared with its node.
    pub compare_interval: Duration,
    /// Conditions of claims, pools and nodes that change are told as events.
    pub tell_transitions: bool,
    /// How often pods without a place are planned for again.
    pub retry_interval: Duration,
    /// Pools, and nodes that may go, are reconciled no more often than this, however much changes.
    pub reconcile_interval: Duration,
    /// How often instances and claims are compared.
    pub collect_interval: Duration,
    /// An instance younger than this may still get its claim.
    pub collect_age: Duration,
    /// How often node groups are read.
    pub group_interval: Duration,
    /// A machine of a group that nobody needs goes after so long.
    pub group_unneeded: Duration,
    /// How long an offering without capacity is left alone.
    pub offering_pause: Duration,
    /// Two pod events on a node closer than this are written as one.
    pub pod_event_interval: Duration,
    /// How much may be under way to the outside.
    pub lanes: LaneSettings,
    /// A call of the API server that takes longer counts as not answered.
    pub call_timeout: Duration,
    /// A call of the provider that takes longer counts as not answered.
    pub provider_timeout: Duration,
    /// What is under way when the process is told to end has so long to be finished.
    pub shutdown_timeout: Duration,
    /// Decisions kept.
    pub journal: usize,
    /// They take about so many bytes at most.
    pub journal_bytes: usize,
    /// The namespace in which the last decisions are written to a ConfigMap; nothing to write none. Events that are about no other object
    /// are about this ConfigMap.
    pub record_namespace: Option<String>,
    /// It is written no more often than this.
    pub record_interval: Duration,
    /// Decides and records, and carries nothing out, whatever the fence says.
    pub dry_run: bool,
    /// Prices and capacity of NodeOverlays count.
    pub node_overlays: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            batch_idle: seconds(1),
            batch_max: seconds(10),
            respect_preferences: true,
            packing: decide::Options { packing: decide::Packing::Cheapest, ..decide::Options::default() },
            seed: 0,
            launch_timeout: seconds(5 * 60),
            registration_timeout: seconds(15 * 60),
            validation_wait: seconds(15),
            least_drain: seconds(5),
            stuck_after: seconds(60),
            drain_interval: seconds(1),
            instance_interval: seconds(5),
            leaked_after: seconds(6 * 60),
            compare_interval: seconds(10 * 60),
            tell_transitions: true,
            retry_interval: seconds(10),
            reconcile_interval: seconds(1),
            collect_interval: seconds(120),
            collect_age: seconds(30),
            group_interval: seconds(10),
            group_unneeded: seconds(10 * 60),
            offering_pause: seconds(180),
            pod_event_interval: seconds(10),
            lanes: LaneSettings::default(),
            call_timeout: seconds(30),
            provider_timeout: seconds(120),
            shutdown_timeout: seconds(25),
            journal: 512,
            journal_bytes: 4 << 20,
            record_namespace: None,
            record_interval: seconds(60),
            dry_run: false,
            node_overlays: true,
        }
    }
}

impl Settings {
    /// How long pods are expected on the place they were planned for.
    pub fn nomination(&self) -> Duration {
        (self.batch_max * 2).max(Duration::from_secs(10))
    }
}
