//! Scenarios of a cluster, to be played on a simulated one or a real one.
//!
//! * [`scenario`]: what a file says; [`expect`]: what must hold of objects; [`hands`] and [`play`]: doing it.
//!
//! ```text
//! file ──> Scenario ──> Player (steps) ──> cluster ──> Expectations (what kubectl would show)
//! ```

pub mod expect;
pub mod hands;
pub mod play;
pub mod scenario;
