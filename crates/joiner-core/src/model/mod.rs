//! The data decisions are made on: small integers and flat vectors.
//!
//! Lowering (in `joiner-state`) turns Kubernetes objects into these once; everything after that compares ids. Nothing here knows
//! a clock, a file or a Kubernetes type.

pub mod catalogue;
pub mod ids;
pub mod intern;
pub mod names;
pub mod node;
pub mod pod;
pub mod pool;
pub mod requirement;
pub mod resources;
pub mod snapshot;
pub mod taint;
pub mod vocabulary;

pub use catalogue::{Catalogue, InstanceType, Offering, PriceSource, Reservation};
pub use ids::*;
pub use names::Names;
pub use node::Node;
pub use pod::{
    GroupSpec, Identity, Matcher, MatcherTerm, NodeFilter, Pod, PodClass, Port, Relaxed, Rung, VolumeUse,
};
pub use pool::{Daemon, Limit, Pool};
pub use requirement::{Operator, Requirement};
pub use resources::ResVec;
pub use snapshot::Snapshot;
pub use taint::{Effect, Taint, Toleration, TolerationOperator};
pub use vocabulary::Vocabulary;

/// A hasher with a fixed seed: tables must look the same in every run, though nothing may depend on their order.
pub type FixedState = foldhash::fast::FixedState;

/// The one seed.
pub fn fixed_state() -> FixedState {
    foldhash::fast::FixedState::with_seed(0x6a6f_696e)
}
