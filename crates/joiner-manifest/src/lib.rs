//! # Kubernetes objects out of JSON values, strictly
//!
//! [`read`] takes any value and returns the objects in it as the types the rest of joiner works with: Kubernetes' own kinds, and Karpenter's
//! brought to their current version first. What it can't read it refuses with one [`Fault`]: object, field, value, what is wrong, what
//! to do.
//!
//! *Unknown fields* are found by writing the typed object back and looking for what got lost. That sounds wasteful, but objects of one
//! file mostly have the same fields, so callers ask only once per [`shape`]; and it keeps the number of generated readers
//! at one per kind. What is empty gets lost on that way even where the field is known; such a field is tried with a value no field takes: a
//! reader that knows it refuses that, one that does not passes over it. Wrapping the reader to watch it (as `serde_ignored` and `serde_path_to_error` do) was tried first: each wrapper
//! generates every reader anew, and this crate took minutes to compile.
//!
//! *Wrong types* are found in the same spirit: a value cut off right behind the culprit is refused with the same words as the whole, and
//! one cut off before it is not, so halving finds the place in a few more readings. Only ever done once, before the
//! error is shown.
//!
//! This crate is apart from the ones around it for a plain reason: reading all kinds takes long to compile and seldom changes.

mod fault;
mod field_names;
mod kinds;
mod quantities;
mod typed;
mod unknown;
mod words;

pub use fault::Fault;
pub use kinds::{Object, Read, name_of, place_in, read};
pub use typed::shape;
pub use words::one_line;
