//! What the controllers count. A registry is a value: each set of controllers has its own, and whoever serves it asks for its text.
//!
//! Two families of names: ours begin with `joiner_`, those that users of the original know stand in [`rows`]. What happens is counted as it happens
//! ([`Metrics`]); what is, is reckoned from a [view](crate::inspect::View) when somebody asks ([`state`]).

pub mod rows;
mod sheet;
pub(crate) mod state;
mod text;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use self::rows::{Kind, Row};
pub use self::sheet::{Labels, Sheet};
pub use self::state::{Options as StateOptions, state};
use crate::command::Failure;
use crate::executor::Lane;
use crate::queue::Key;

/// The type of the text, as HTTP calls it.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Observations of which a summary tells the quantiles.
const WINDOW: usize = 1024;
/// Those quantiles, as the original has them.
const QUANTILES: [(f64, &str); 5] = [(0.0, "0"), (0.5, "0.5"), (0.9, "0.9"), (0.99, "0.99"), (1.0, "1")];

/// All metrics of one set of controllers.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    commands: Family<CommandLabels, Counter>,
    retries: Family<ReasonLabels, Counter>,
    step_panics: Counter,
    queue_depth: Gauge,
    under_way: Family<LaneLabels, Gauge>,
    waiting: Family<LaneLabels, Gauge>,
    longest_stall_seconds: Gauge<f64, AtomicU64>,
    breakers_tripped: Family<BreakerLabels, Gauge>,
    breaker_trips: Family<BreakerLabels, Counter>,
    decision_steps: Counter,
    counters: BTreeMap<&'static str, Family<Labels, Counter>>,
    histograms: BTreeMap<&'static str, Family<Labels, Histogram, Bounds>>,
    summaries: Mutex<BTreeMap<&'static str, BTreeMap<Labels, Observed>>>,
}

/// Makes histograms with these bounds.
#[derive(Debug, Clone, Copy)]
struct Bounds(&'static [f64]);

impl MetricConstructor<Histogram> for Bounds {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// What a summary has seen.
#[derive(Debug, Default)]
struct Observed {
    last: VecDeque<f64>,
    sum: f64,
    count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CommandLabels {
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LaneLabels {
    lane: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BreakerLabels {
    breaker: &'static str,
}

/// A breaker, as metrics name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tripped {
    /// Machines that help nobody.
    Runaway,
    /// Machines that do not join.
    Registration,
    /// Lists that lack many machines at once.
    Disappearance,
    /// Nodes that are not ready.
    ClusterHealth,
    /// Offerings that could not be had.
    Offering,
}

impl Tripped {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Runaway, Self::Registration, Self::Disappearance, Self::ClusterHealth, Self::Offering];

    fn labels(self) -> BreakerLabels {
        let breaker = match self {
            Self::Runaway => "runaway",
            Self::Registration => "registration",
            Self::Disappearance => "disappearance",
            Self::ClusterHealth => "cluster_health",
            Self::Offering => "offering",
        };
        BreakerLabels { breaker }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut others = Registry::default();
        let registry = others.sub_registry_with_prefix("joiner");
        let commands = Family::default();
        let retries = Family::default();
        let step_panics = Counter::default();
        let queue_depth = Gauge::default();
        let under_way = Family::default();
        let waiting = Family::default();
        let longest_stall_seconds = Gauge::default();
        let (breakers_tripped, breaker_trips) = (Family::default(), Family::default());
        for breaker in Tripped::ALL {
            let tripped: &Family<BreakerLabels, Gauge> = &breakers_tripped;
            drop(tripped.get_or_create(&breaker.labels()));
            let trips: &Family<BreakerLabels, Counter> = &breaker_trips;
            drop(trips.get_or_create(&breaker.labels()));
        }
        let (mut counters, mut histograms) = (BTreeMap::new(), BTreeMap::new());
        let help = rows::help;
        registry.register("commands", help("commands_total"), commands.clone());
        registry.register("retries", help("retries_total"), retries.clone());
        registry.register("step_panics", help("step_panics_total"), step_panics.clone());
        registry.register("queue_depth", help("queue_depth"), queue_depth.clone());
        registry.register("calls_under_way", help("calls_under_way"), under_way.clone());
        registry.register("calls_waiting", help("calls_waiting"), waiting.clone());
        let stall = "loop_longest_stall_seconds";
        registry.register(stall, help(stall), longest_stall_seconds.clone());
        let decision_steps = Counter::default();
        registry.register("decision_steps", help("decision_steps_total"), decision_steps.clone());
        registry.register("breakers_tripped", help("breakers_tripped"), breakers_tripped.clone());
        registry.register("breaker_trips", help("breaker_trips_total"), breaker_trips.clone());
        for row in rows::ALL {
            match row.kind {
                Kind::Counter => {
                    let family = Family::<Labels, Counter>::default();
                    others.register(row.name.trim_end_matches("_total"), row.help, family.clone());
                    counters.insert(row.name, family);
                }
                Kind::Histogram(bounds) => {
                    let family = Family::<Labels, Histogram, Bounds>::new_with_constructor(Bounds(bounds));
                    others.register(row.name, row.help, family.clone());
                    histograms.insert(row.name, family);
                }
                Kind::Gauge | Kind::Summary => {}
            }
        }
        Self {
            registry: others,
            commands,
            retries,
            step_panics,
            queue_depth,
            under_way,
            waiting,
            longest_stall_seconds,
            breakers_tripped,
            breaker_trips,
            decision_steps,
            counters,
            histograms,
            summaries: Mutex::default(),
        }
    }
}

impl Metrics {
    /// All that was counted, in the text format of Prometheus; samples of one metric in the order of their labels.
    pub fn text(&self) -> String {
        let mut sheet = Sheet::default();
        self.summaries(&mut sheet);
        format!("{}{}", text::of(&self.registry), sheet.text())
    }

    /// Counts one.
    pub fn count(&self, row: &Row, labels: &[&str]) {
        self.count_by(row, row.labelled(labels), 1);
    }

    /// Counts several, with labels of which not all stand in the row.
    pub fn count_by(&self, row: &Row, labels: Labels, by: u64) {
        if let Some(family) = self.counters.get(row.name) {
            family.get_or_create(&labels).inc_by(by);
        }
    }

    /// Takes an observation in.
    pub fn observe(&self, row: &Row, labels: &[&str], value: f64) {
        self.observe_as(row, row.labelled(labels), value);
    }

    /// Takes an observation in, with labels of which not all stand in the row.
    pub fn observe_as(&self, row: &Row, labels: Labels, value: f64) {
        // Clocks of two machines may disagree.
        let value = value.max(0.0);
        if let Some(family) = self.histograms.get(row.name) {
            return family.get_or_create(&labels).observe(value);
        }
        let mut summaries = self.summaries.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = summaries.entry(row.name).or_default().entry(labels).or_default();
        seen.last.push_back(value);
        if seen.last.len() > WINDOW {
            seen.last.pop_front();
        }
        seen.sum += value;
        seen.count += 1;
    }

    fn summaries(&self, sheet: &mut Sheet) {
        let summaries = self.summaries.lock().unwrap_or_else(PoisonError::into_inner);
        for row in rows::ALL.into_iter().filter(|row| row.kind == Kind::Summary) {
            for (labels, seen) in summaries.get(row.name).into_iter().flatten() {
                let mut values: Vec<f64> = seen.last.iter().copied().collect();
                values.sort_by(f64::total_cmp);
                for (share, name) in QUANTILES {
                    let at = (share * (values.len().saturating_sub(1)) as f64).round() as usize;
                    let mut labels = labels.clone();
                    labels.push(("quantile".into(), name.to_owned()));
                    sheet.set(row, labels, values.get(at).copied().unwrap_or(0.0));
                }
                sheet.set_part(row, "_sum", labels.clone(), seen.sum);
                sheet.set_part(row, "_count", labels.clone(), seen.count as f64);
            }
        }
    }

    /// A step of a key was decided, or panicked.
    pub(crate) fn reconciled(&self, key: &Key, seconds: f64, ended: bool) {
        let controller = key.controller();
        self.count(&rows::RECONCILES, &[controller, if ended { "success" } else { "error" }]);
        self.observe(&rows::RECONCILE_TIME, &[controller], seconds);
        if *key == Key::Disruption {
            self.observe(&rows::DISRUPTION_EVALUATION, &["empty", "empty"], seconds);
        }
        if !ended {
            self.count(&rows::RECONCILE_PANICS, &[controller]);
        }
    }

    /// The commands of a key failed.
    pub(crate) fn put_back(&self, key: &Key, failure: &Failure) {
        if !matches!(failure, Failure::Fenced | Failure::Overloaded) {
            self.count(&rows::RECONCILE_ERRORS, &[key.controller()]);
        }
    }

    /// A call of a provider took so long, and failed or not.
    pub(crate) fn provider_call(
        &self,
        call: [&'static str; 2],
        provider: &str,
        time: Duration,
        failure: Option<&Failure>,
    ) {
        let [controller, method] = call;
        self.observe(&rows::CLOUD_DURATION, &[controller, method, provider], time.as_secs_f64());
        if let Some(failure) = failure {
            self.provider_error(call, provider, failure);
        }
    }

    /// A provider refused, or did not answer.
    pub(crate) fn provider_error(&self, call: [&'static str; 2], provider: &str, failure: &Failure) {
        let [controller, method] = call;
        self.count(&rows::CLOUD_ERRORS, &[controller, failure.name(), method, provider]);
    }

    /// A request to the API server was answered; 0 if it was not.
    pub(crate) fn request(&self, method: &http::Method, code: u16) {
        self.count(&rows::REQUESTS, &[&code.to_string(), method.as_str()]);
    }

    /// How many commands of a kind came to an outcome.
    pub fn commands(&self, kind: &'static str, outcome: &'static str) -> u64 {
        self.commands.get_or_create(&CommandLabels { kind, outcome }).get()
    }

    /// How many steps and commands have panicked.
    pub fn step_panics(&self) -> u64 {
        self.step_panics.get()
    }

    /// The longest time the loop has been busy without listening.
    pub fn longest_stall(&self) -> Duration {
        Duration::try_from_secs_f64(self.longest_stall_seconds.get()).unwrap_or_default()
    }

    pub(crate) fn command(&self, kind: &'static str, outcome: &'static str) {
        self.commands.get_or_create(&CommandLabels { kind, outcome }).inc();
    }

    pub(crate) fn retry(&self, reason: &'static str) {
        self.retries.get_or_create(&ReasonLabels { reason }).inc();
    }

    pub(crate) fn step_panicked(&self) {
        self.step_panics.inc();
    }

    /// A decision on pods took so many steps.
    pub(crate) fn decided(&self, steps: u64) {
        self.decision_steps.inc_by(steps);
    }

    /// Steps of all decisions on pods.
    pub fn decision_steps(&self) -> u64 {
        self.decision_steps.get()
    }

    /// A breaker has tripped.
    pub(crate) fn breaker_tripped(&self, breaker: Tripped) {
        self.breaker_trips.get_or_create(&breaker.labels()).inc();
    }

    /// What a breaker holds back now: kinds of pods, pools, lists, offerings; 1 for all nodes.
    pub(crate) fn set_breaker(&self, breaker: Tripped, count: usize) {
        self.breakers_tripped.get_or_create(&breaker.labels()).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn set_queue_depth(&self, depth: usize) {
        self.queue_depth.set(i64::try_from(depth).unwrap_or(i64::MAX));
    }

    pub(crate) fn set_waiting(&self, lane: Lane, count: usize) {
        let gauge = self.waiting.get_or_create(&LaneLabels { lane: lane.name() });
        gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts a call until the guard is dropped.
    pub(crate) fn under_way(&self, lane: Lane) -> UnderWay {
        let gauge = self.under_way.get_or_create_owned(&LaneLabels { lane: lane.name() });
        gauge.inc();
        UnderWay(gauge)
    }

    pub(crate) fn stalled(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        if seconds > self.longest_stall_seconds.get() {
            self.longest_stall_seconds.set(seconds);
        }
    }
}

/// A call that is under way.
pub(crate) struct UnderWay(Gauge);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_everything_in_order() {
        let metrics = Metrics::default();
        metrics.command("evict", "later");
        metrics.command("create_claim", "done");
        metrics.stalled(Duration::from_millis(4));
        metrics.stalled(Duration::from_millis(2));
        assert_eq!(metrics.longest_stall(), Duration::from_millis(4));
        drop(metrics.under_way(Lane::Provider));
        let text = metrics.text();
        let first = text.find("joiner_commands_total{kind=\"create_claim\",outcome=\"done\"} 1").unwrap();
        let second = text.find("joiner_commands_total{kind=\"evict\",outcome=\"later\"} 1").unwrap();
        assert!(first < second, "{text}");
        assert!(text.contains("joiner_calls_under_way{lane=\"provider\"} 0"), "{text}");
        assert!(text.contains("# TYPE joiner_commands_total counter\n"), "{text}");
    }

    #[test]
    fn a_panic_is_counted_for_its_controller() {
        let metrics = Metrics::default();
        metrics.reconciled(&Key::Provision, 0.1, false);
        let text = metrics.text();
        assert!(
            text.contains("controller_runtime_reconcile_panics_total{controller=\"provisioner\"} 1"),
            "{text}"
        );
    }

    #[test]
    fn names_come_out_as_they_are_known() {
        let metrics = Metrics::default();
        metrics.count(&rows::NODECLAIMS_CREATED, &["false", "default", "provisioned"]);
        metrics.observe(&rows::PODS_BOUND, &[], 0.3);
        for value in [3.0, 1.0, 2.0] {
            metrics.observe(&rows::PODS_STARTUP, &[], value);
        }
        let text = metrics.text();
        for line in [
            "# TYPE karpenter_nodeclaims_created_total counter",
            "karpenter_nodeclaims_created_total{min_values_relaxed=\"false\",nodepool=\"default\",reason=\"provisioned\"} 1",
            "# TYPE karpenter_pods_bound_duration_seconds histogram",
            "karpenter_pods_bound_duration_seconds_bucket{le=\"1\"} 1",
            "karpenter_pods_bound_duration_seconds_bucket{le=\"0.25\"} 0",
            "karpenter_pods_bound_duration_seconds_count 1",
            "# TYPE karpenter_pods_startup_duration_seconds summary",
            "karpenter_pods_startup_duration_seconds{quantile=\"0.5\"} 2",
            "karpenter_pods_startup_duration_seconds_sum 6",
            "karpenter_pods_startup_duration_seconds_count 3",
        ] {
            assert!(text.lines().any(|of| of == line), "{line}\n{text}");
        }
        assert!(!text.contains("# EOF") && !text.contains(".0\n"), "{text}");
    }
}
