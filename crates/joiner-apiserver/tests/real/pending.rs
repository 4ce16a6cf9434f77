//! Cases that are answered differently, with the reason.

/// Of `further.jsonl`, by the embedded server.
pub(crate) const EMBEDDED: &[(&str, &str)] = &[];

/// Of both files, by a real server: recordings that depend on more than the case says.
pub(crate) const REAL: &[(&str, &str)] = &[];
