//! The tasks of a production GPU cluster, all pending at once.
//!
//! A share of a GPU cannot be said with plain device resources, so `num_gpu` counts whole GPUs here: a task that shares
//! one asks for one.

use anyhow::{Context, Result};
use serde_json::json;

use super::Sink;
use super::draw::Draw;
use super::objects::{CAPACITY_TYPE, is_in, pod, pool};

/// One pod per row of the trace, in its order.
pub fn write(csv_text: &str, draw: &mut Draw, sink: &mut Sink) -> Result<()> {
    sink(pool("default", None, &json!([is_in(CAPACITY_TYPE, &["on-demand"])])))?;
    let mut reader = csv::Reader::from_reader(csv_text.as_bytes());
    for (row, record) in reader.records().enumerate() {
        let record = record.with_context(|| format!("openb trace, row {}", row + 1))?;
        let field = |index: usize| record.get(index).unwrap_or_default();
        let number = |index: usize| -> Result<u64> {
            field(index)
                .parse()
                .with_context(|| format!("openb trace, row {}, column {index}: `{}`", row + 1, field(index)))
        };
        let (cpu_milli, memory_mib, gpus) = (number(1)?, number(2)?, number(3)?);
        let labels = json!({"qos": field(6)});
        let mut pod =
            pod(field(0), &draw.uid(), &labels, &format!("{cpu_milli}m"), &format!("{memory_mib}Mi"));
        if gpus > 0 {
            let resources = &mut pod["spec"]["containers"][0]["resources"];
            resources["requests"]["nvidia.com/gpu"] = json!(gpus.to_string());
            resources["limits"] = json!({"nvidia.com/gpu": gpus.to_string()});
        }
        sink(pod)?;
    }
    Ok(())
}
