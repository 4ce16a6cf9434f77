//! The invariants, each as a checker that sees everything that happens and says when it must not have.
//!
//! No checker shares code with the controllers: they read JSON, and their own few lines about amounts and times. Each is seen to fail in `tests/simulate/planted.rs`.

mod disrupting;
mod draining;
mod drifting;
mod limits;
mod machines;
mod manners;

use jiff::Timestamp;

use crate::simulate::happening::{Cluster, Happening};
pub use limits::Types;

/// What must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// When it was seen.
    pub at: Timestamp,
    /// Which invariant: `S1`.
    pub invariant: &'static str,
    /// What was seen.
    pub text: String,
}

/// An invariant that must hold after everything that happens.
pub trait Check: Send {
    /// Sees something; `cluster` is what there is after it, or just before a call is carried out. Says what must not be, by invariant.
    fn see(&mut self, happening: &Happening, cluster: &Cluster) -> Vec<(&'static str, String)>;
}

/// All of them.
pub fn all(types: Types) -> Vec<Box<dyn Check>> {
    vec![
        Box::new(limits::Limits::new(types)),
        Box::<disrupting::Disrupting>::default(),
        Box::<draining::Draining>::default(),
        Box::<machines::Machines>::default(),
        Box::<drifting::Drifting>::default(),
        Box::new(manners::Manners),
    ]
}
