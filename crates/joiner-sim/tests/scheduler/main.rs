//! The scheduler against recorded answers of a real one, and against a real one.

mod bed;
mod golden;
