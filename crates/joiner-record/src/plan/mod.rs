//! A plan as a document: new machines, pods on standing nodes, refusals, buffers, sums.

mod buffers;
mod document;

pub use buffers::BufferDocument;
pub use document::{
    PlanDocument, PlanNode, PriceSourceWord, ReasonDocument, Timing, Totals, Unschedulable, is_virtual,
    reasons,
};
