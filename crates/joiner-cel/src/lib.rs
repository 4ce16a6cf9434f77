//! CEL rules (`x-kubernetes-validations`) as Kubernetes takes and runs them.
//!
//! A definition of a custom resource says with rules what its schema cannot say: that a minimum is not above a maximum, or that a field does
//! not change. Kubernetes judges a rule three times, and here is each of the three:
//!
//! - When the definition is written, [`check`] reads all rules of a schema. The `checker` finds the type of every part by the
//!   schema and by the functions that rules may call, and refuses with the words of Kubernetes what cannot be right. The
//!   `cost` of a rule is estimated from the limits that the schema sets, and what can cost too much is refused.
//! - When the definition is put to use, [`Rules::parse`] makes expressions that can run of the rules of one place.
//! - When an object is written, [`Rules::run`] gives the rules a value and the one it replaces, typed as the schema says ([`Place`]),
//!   and tells what they say: a [`Failure`] becomes a [`Cause`], the form in which Kubernetes names what is wrong with a field.
//!
//! ```
//! use joiner_cel::Rules;
//! use serde_json::json;
//!
//! let schema = json!({
//!     "type": "object",
//!     "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}},
//!     "x-kubernetes-validations": [{"rule": "self.min <= self.max", "message": "min is above max"}],
//! });
//! let mut causes = Vec::new();
//! joiner_cel::check(&schema, "schema", &mut causes);
//! assert!(causes.is_empty());
//! let rules = Rules::parse(&schema, "schema", &mut causes).expect("the schema has rules");
//! assert!(rules.run(&schema, &json!({"min": 1, "max": 2}), None).is_empty());
//! let value = json!({"min": 3, "max": 2});
//! let failures = rules.run(&schema, &value, None);
//! assert_eq!(failures[0].cause("object", &value, "spec").message, "Invalid value: min is above max");
//! ```
//!
//! Nothing here knows of a server, of stores or of requests: schemas, values and rules come in as JSON. Which places of an object a rule
//! stands at, and which old value a new one continues, is for the caller to know, who has read the schema.
//!
//! The parser is our own: the one of the library reads less than Kubernetes does and tells no places. What runs is the library's, put
//! into forms that it runs and with functions of our own where it differs. To run everything by ourselves was not worth it, and to judge by
//! running was impossible: faults must be told before there are values.

mod cause;
mod check;
mod checker;
mod cost;
mod formats;
mod go_duration;
mod place;
mod rules;
mod runner;
mod schema_types;
mod stack;

pub use cause::{Cause, join};
pub use check::check;
pub use formats::matches as has_format;
pub use go_duration::nanoseconds as go_duration_nanoseconds;
pub use place::Place;
pub use rules::{Failure, Rules};
pub use stack::with_room;
