//! Custom resources: what a definition says about its objects, carried out at run time.
//!
//! A [`Definition`] is read from a `CustomResourceDefinition` and refused with the causes Kubernetes would give. Each of its versions has
//! a [`Structural`] schema that does to an object what Kubernetes does: drop fields nobody declared, fill in
//! defaults, check values, keys of lists and CEL rules. Messages are the ones of Kubernetes; clients and tests of
//! controllers match on them.

mod cause;
mod checks;
mod default;
mod definition;
mod embedded;
mod formats;
mod lists;
mod own_defaults;
mod path;
mod prune;
mod rule_check;
mod rule_checker;
mod rule_cost;
mod rule_runner;
mod rule_types;
mod rules;
mod schema;
mod stack;
mod validate;

pub use cause::Cause;
pub use definition::{Definition, Version};
pub use schema::Structural;

#[cfg(test)]
mod tests;
