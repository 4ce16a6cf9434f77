//! Manifests in: files, folders and standard input, streamed document by document.
//!
//! [`source`] finds the files, [`documents`] cuts them into documents (a JSON `List` into its items) without holding more than one at a
//! time, `yaml_value` makes a value of YAML (`plain_yaml` of the plain part of it, quickly), [`objects`] reads a document as the kind it
//! says it is, strictly, and [`locate`] finds the line of a field, but only when there is something to complain about. [`scheduler_config`] reads the one file that holds no
//! manifests.

pub mod documents;
mod json;
pub mod locate;
mod locate_json;
pub mod objects;
mod plain_yaml;
pub mod scheduler_config;
pub mod source;
mod yaml_value;

pub use documents::{Document, Documents};
pub use locate_json::line_of_field as line_in_json_file;
pub use objects::{Object, Reading, read_object};
pub use scheduler_config::SchedulerConfig;
pub use source::{Source, sources, sources_of};
pub use yaml_value::parse_yaml;

/// The largest document accepted, in bytes: a single object is never this large, a runaway file is.
pub const DOCUMENT_BYTES_MAX: usize = 16 << 20;
