//! The three patches that change a whole document: JSON patch, merge patch and strategic merge patch.
//!
//! Each is a pure function from document and patch to document. A refusal says what Kubernetes answers, status and words.
//! Server-side apply is no patch of this kind: it lives in [`crate::apply`].

pub(crate) mod go_print;
mod json;
mod merge;
mod strategic;

pub use json::json;
pub use merge::{check_merge, merge};
pub use strategic::strategic;

/// Why a patch was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchError {
    /// The HTTP status.
    pub status: u16,
    /// The reason in the `Status` object; empty where Kubernetes gives none.
    pub reason: &'static str,
    /// The message in the `Status` object.
    pub message: String,
}

impl PatchError {
    /// The patch cannot be read.
    fn undecodable(found: &serde_json::Value, wanted: &str) -> Self {
        let found = match found {
            serde_json::Value::Null => "null",
            serde_json::Value::Bool(_) => "bool",
            serde_json::Value::Number(_) => "number",
            serde_json::Value::String(_) => "string",
            serde_json::Value::Array(_) => "array",
            serde_json::Value::Object(_) => "object",
        };
        Self::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {found} into Go value of type {wanted}"
        ))
    }

    fn bad_request(message: impl Into<String>) -> Self {
        Self { status: 400, reason: "BadRequest", message: message.into() }
    }

    /// The patch can be read but not carried out on this object.
    fn unprocessable() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self { status: 422, reason: "Invalid", message: message.to_owned() }
    }

    /// Kubernetes answers some mistakes of the client with 500 and without a reason.
    fn internal(message: impl Into<String>) -> Self {
        Self { status: 500, reason: "", message: message.into() }
    }
}
