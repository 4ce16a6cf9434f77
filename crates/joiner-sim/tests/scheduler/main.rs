//! The scheduler against recorded answers of a real one, and against a real one.

mod against_real;
mod bed;
mod generate;
mod golden;
mod incremental;
mod life;
