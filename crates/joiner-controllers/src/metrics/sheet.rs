//! Gauges and summaries as they are at one moment.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::rows::{Kind, Row};
use super::text;

/// Labels with their values, in the order in which they are shown.
pub type Labels = Vec<(Cow<'static, str>, String)>;

type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;

impl Row {
    /// Values for the labels of the row, in their order.
    pub fn labelled(&self, values: &[&str]) -> Labels {
        debug_assert_eq!(self.labels.len(), values.len(), "{}", self.name);
        let named = self.labels.iter().zip(values);
        named.map(|(label, value)| (Cow::Borrowed(*label), (*value).to_owned())).collect()
    }
}

/// A sheet of gauges that is filled once and shown.
#[derive(Debug, Default)]
pub struct Sheet {
    of: BTreeMap<String, (&'static str, Gauges)>,
    summaries: Vec<&'static str>,
}

impl Sheet {
    /// Sets a gauge, or a quantile of a summary.
    pub fn set(&mut self, row: &Row, labels: Labels, value: f64) {
        if row.kind == Kind::Summary && !self.summaries.contains(&row.name) {
            self.summaries.push(row.name);
        }
        self.set_part(row, "", labels, value);
    }

    /// Sets a gauge by the values of its labels.
    pub fn put(&mut self, row: &Row, values: &[&str], value: f64) {
        self.set(row, row.labelled(values), value);
    }

    /// Sets the sum or count of a summary.
    pub(super) fn set_part(&mut self, row: &Row, suffix: &str, labels: Labels, value: f64) {
        let name = format!("{}{suffix}", row.name);
        let (_, family) = self.of.entry(name).or_insert_with(|| (row.help, Gauges::default()));
        family.get_or_create(&labels).set(value);
    }

    /// In the text format of Prometheus.
    pub fn text(&self) -> String {
        let mut registry = Registry::default();
        for (name, (help, family)) in &self.of {
            registry.register(name, *help, family.clone());
        }
        text::with_summaries(&registry, &self.summaries)
    }
}
