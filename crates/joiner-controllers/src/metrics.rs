//! What the controllers count. A registry is a value: each set of controllers has its own, and whoever serves it asks for its text.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::executor::Lane;

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

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("joiner");
        let commands = Family::default();
        let retries = Family::default();
        let step_panics = Counter::default();
        let queue_depth = Gauge::default();
        let under_way = Family::default();
        let waiting = Family::default();
        let longest_stall_seconds = Gauge::default();
        registry.register("commands", "Commands by what they do and what came of them", commands.clone());
        registry.register("retries", "Work done again, by the reason", retries.clone());
        registry.register("step_panics", "Steps and commands that ended in a panic", step_panics.clone());
        registry.register("queue_depth", "Keys that wait to be reconciled", queue_depth.clone());
        registry.register("calls_under_way", "Calls to the outside, by lane", under_way.clone());
        registry.register("calls_waiting", "Calls that wait for their turn, by lane", waiting.clone());
        registry.register(
            "loop_longest_stall_seconds",
            "The longest time the loop has been busy without listening",
            longest_stall_seconds.clone(),
        );
        Self {
            registry,
            commands,
            retries,
            step_panics,
            queue_depth,
            under_way,
            waiting,
            longest_stall_seconds,
        }
    }
}

impl Metrics {
    /// All of it as OpenMetrics text; samples of one metric in the order of their labels.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if prometheus_client::encoding::text::encode(&mut text, &self.registry).is_err() {
            return String::new();
        }
        let mut lines: Vec<&str> = Vec::new();
        let mut samples: Vec<&str> = Vec::new();
        for line in text.lines() {
            if line.starts_with('#') {
                samples.sort_unstable();
                lines.append(&mut samples);
                lines.push(line);
            } else {
                samples.push(line);
            }
        }
        lines.iter().flat_map(|line| [*line, "\n"]).collect()
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
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
