//! A plan as a document: new machines, pods on standing nodes, refusals, buffers, sums, and what stands.

mod buffers;
mod document;
mod standing;

pub use buffers::BufferDocument;
pub use document::{
    PlanDocument, PlanNode, PriceSourceWord, ReasonDocument, Timing, Totals, Unschedulable, is_virtual,
    reasons,
};
pub use standing::{AfreshDocument, Bill, StandingDocument, StaysDocument, bill, planned_waste, to_nano};
