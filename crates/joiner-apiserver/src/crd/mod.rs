//! Custom resources: what a definition says about its objects, carried out at run time.
//!
//! A [`Definition`] is read from a `CustomResourceDefinition` and refused with the causes Kubernetes would give. Each of its versions has
//! a [`Structural`] schema that does to an object what Kubernetes does: drop fields nobody declared, fill in
//! defaults, check values, keys of lists and CEL rules (which `joiner-cel` judges and runs). Messages are the ones of Kubernetes; clients and tests of
//! controllers match on them.

mod checks;
mod default;
mod definition;
mod embedded;
mod lists;
mod own_defaults;
mod path;
mod prune;
mod rules;
mod schema;
mod validate;

pub use definition::{Definition, Version};
pub use joiner_cel::Cause;
pub use schema::Structural;

#[cfg(test)]
mod tests;
