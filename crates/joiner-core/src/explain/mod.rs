//! Why: the cold path that turns a refusal or a placement into words.
//!
//! Deciding only says yes or no. When somebody asks, the same questions are put again in the same order, this time noting which
//! one was answered with no, and by what. Nothing here changes a decision.

mod cause;
mod limits;
mod nearest;
mod reject;
mod story;
mod words;

pub use cause::{Amount, Cause, Counts, LimitReached, Listed, Shortage, TopologyRule};
pub use nearest::{distance, nearest, nearest_key};
pub use reject::{Reason, Reject, refusal};
pub use story::{Story, follow};
