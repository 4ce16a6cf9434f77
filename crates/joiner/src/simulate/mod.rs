//! Scenarios and seeds: the whole product in a cluster that is simulated, under faults, watched by checkers that share no code with it.
//!
//! * [`scenario`]: what a file says; [`expect`]: what must hold of objects; [`hands`] and [`play`]: doing it, on a simulated cluster or a real one.
//! * [`stage`]: a simulated cluster in virtual time with joiner's processes in it; [`outside`] is the way of a process to the API server, which can be cut after any
//!   call or lose its answer, [`cloud`] the same for the provider, [`weather`] faults drawn from a seed.
//! * [`referee`]: sees every version of every object and every call ([`happening`]), and asks the [`checks`]; [`rest`] judges a cluster that has come to rest.
//! * [`runs`]: plays scenarios undisturbed and at every point of disturbance; [`drawn`]: clusters, deeds and faults from a seed.
//!
//! ```text
//! file ──> Scenario ──> Player ──> cluster ──> Expectations (what kubectl would show)
//! seed ──> drawn ─────────┘          │
//!            └──> weather ──> Way <── joiner ──> Referee ──> checks
//! ```

pub mod checks;
pub mod cloud;
pub mod drawn;
pub mod expect;
pub mod hands;
pub mod happening;
pub mod outside;
pub mod play;
pub mod referee;
pub mod rest;
pub mod runs;
pub mod scenario;
pub mod stage;
pub mod weather;
