//! Refusals, and how Kubernetes words them.

use serde_json::{Map, Value, json};

use crate::resources::Resource;

/// One reason among those of an invalid object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The machine's word, `FieldValueInvalid`.
    pub reason: String,
    /// The message, without the field.
    pub message: String,
    /// The field, `spec.replicas`.
    pub field: String,
}

impl Cause {
    /// A field has a value it must not have; `value` is shown as JSON.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self {
            reason: "FieldValueInvalid".to_owned(),
            message: format!("Invalid value: {value}: {detail}"),
            field: field.into(),
        }
    }

    /// As [`Cause::invalid`] for a value that Kubernetes shows in a form of its own.
    pub fn invalid_shown(field: impl Into<String>, shown: &str, detail: &str) -> Self {
        Self {
            reason: "FieldValueInvalid".to_owned(),
            message: if detail.is_empty() {
                format!("Invalid value: {shown}")
            } else {
                format!("Invalid value: {shown}: {detail}")
            },
            field: field.into(),
        }
    }

    /// A field names something that is not there.
    pub fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Self {
            reason: "FieldValueNotFound".to_owned(),
            message: format!("Not found: {value}"),
            field: field.into(),
        }
    }

    /// A field must be given.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let message =
            if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") };
        Self { reason: "FieldValueRequired".to_owned(), message, field: field.into() }
    }

    /// A field must not be given or changed.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self {
            reason: "FieldValueForbidden".to_owned(),
            message: format!("Forbidden: {detail}"),
            field: field.into(),
        }
    }

    /// A value occurs twice.
    pub fn duplicate(field: impl Into<String>, value: &str, detail: &str) -> Self {
        let message =
            format!("Duplicate value: {value}{}{detail}", if detail.is_empty() { "" } else { ": " });
        Self { reason: "FieldValueDuplicate".to_owned(), message, field: field.into() }
    }

    /// A text is longer than so many bytes.
    pub fn too_long(field: impl Into<String>, bytes: usize) -> Self {
        Self {
            reason: "FieldValueTooLong".to_owned(),
            message: format!("Too long: may not be more than {bytes} bytes"),
            field: field.into(),
        }
    }

    /// A value is not among the known ones.
    pub fn unsupported(field: impl Into<String>, value: &Value, known: &[&str]) -> Self {
        Self::unsupported_shown(field, &value.to_string(), known)
    }

    /// As [`Cause::unsupported`] for a value that Kubernetes shows in a form of its own.
    pub fn unsupported_shown(field: impl Into<String>, value: &str, known: &[&str]) -> Self {
        let known: Vec<String> = known.iter().map(|word| format!("{word:?}")).collect();
        Self {
            reason: "FieldValueNotSupported".to_owned(),
            message: format!("Unsupported value: {value}: supported values: {}", known.join(", ")),
            field: field.into(),
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut cause = Map::new();
        cause.insert("reason".to_owned(), self.reason.clone().into());
        cause.insert("message".to_owned(), self.message.clone().into());
        if !self.field.is_empty() {
            cause.insert("field".to_owned(), self.field.clone().into());
        }
        Value::Object(cause)
    }
}

impl From<crate::crd::Cause> for Cause {
    fn from(cause: crate::crd::Cause) -> Self {
        Self { reason: cause.reason, message: cause.message, field: cause.field }
    }
}

/// A request that is answered with a `Status` of failure, or with plain text where Kubernetes does so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The HTTP status.
    pub code: u16,
    /// The machine's word, empty where Kubernetes gives none.
    pub reason: String,
    /// The message.
    pub message: String,
    /// The details of the `Status`.
    pub details: Option<Value>,
    /// When to try again, in seconds.
    pub retry_after: Option<u32>,
    /// A token to go on with a list whose version has expired.
    pub continue_token: Option<String>,
    /// The message is the whole answer, as text.
    pub plain_text: bool,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// A refusal with a reason and a message.
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.to_owned(),
            message: message.into(),
            details: None,
            retry_after: None,
            continue_token: None,
            plain_text: false,
        }
    }

    /// The same with details.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    /// The request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Kubernetes answers some mistakes of clients as its own, without a reason.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// The disk does not take a change.
    pub(crate) fn not_saved(reason: &str) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {reason}"))
    }

    /// There is no such object.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", resource.qualified()))
            .with_details(about(resource, name))
    }

    /// There is no such resource, though its group exists.
    pub fn unknown_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").with_details(json!({}))
    }

    /// There is nothing at this path at all.
    pub fn unknown_path() -> Self {
        Self { plain_text: true, ..Self::new(404, "NotFound", "404 page not found\n") }
    }

    /// The method does not fit the path.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).with_details(json!({}))
    }

    /// The name is taken.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", resource.qualified());
        Self::new(409, "AlreadyExists", message).with_details(about(resource, name))
    }

    /// The object is not in the state that the request assumes.
    pub fn conflict(resource: &Resource, name: &str, message: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} {name:?}: {message}", resource.qualified());
        Self::new(409, "Conflict", message).with_details(about(resource, name))
    }

    /// The object has been written by someone else since it was read.
    pub fn modified(resource: &Resource, name: &str) -> Self {
        let message =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, message)
    }

    /// The request is understood and refused by policy.
    pub fn forbidden(resource: &Resource, name: &str, message: &str) -> Self {
        let message = format!("{} {name:?} is forbidden: {message}", resource.qualified());
        Self::new(403, "Forbidden", message).with_details(about(resource, name))
    }

    /// The object breaks the rules of its kind.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let mut seen: Vec<String> = Vec::new();
        for cause in causes {
            let text = format!("{}: {}", cause.field, cause.message);
            if !seen.contains(&text) {
                seen.push(text);
            }
        }
        let errors = if seen.len() == 1 { seen.remove(0) } else { format!("[{}]", seen.join(", ")) };
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let mut details = Map::new();
        if !name.is_empty() {
            details.insert("name".to_owned(), name.into());
        }
        if !group.is_empty() {
            details.insert("group".to_owned(), group.into());
        }
        if !kind.is_empty() {
            details.insert("kind".to_owned(), kind.into());
        }
        details.insert("causes".to_owned(), causes.iter().map(Cause::to_value).collect());
        Self::new(422, "Invalid", format!("{qualified} {name:?} is invalid: {errors}"))
            .with_details(Value::Object(details))
    }

    /// An option of a request breaks its rules; `kind` is `ListOptions` and the like.
    pub fn invalid_option(kind: &str, cause: Cause) -> Self {
        Self::invalid_options(kind, &[cause])
    }

    /// Options of a request break their rules.
    pub fn invalid_options(kind: &str, causes: &[Cause]) -> Self {
        Self::invalid("meta.k8s.io", kind, "", causes)
    }

    /// The version asked for has left the history.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The `Status` object.
    pub fn to_value(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".to_owned(), token.clone().into());
        }
        let mut status = Map::new();
        status.insert("kind".to_owned(), "Status".into());
        status.insert("apiVersion".to_owned(), "v1".into());
        status.insert("metadata".to_owned(), Value::Object(metadata));
        status.insert("status".to_owned(), "Failure".into());
        status.insert("message".to_owned(), self.message.clone().into());
        if !self.reason.is_empty() {
            status.insert("reason".to_owned(), self.reason.clone().into());
        }
        if let Some(details) = &self.details {
            status.insert("details".to_owned(), details.clone());
        }
        status.insert("code".to_owned(), self.code.into());
        Value::Object(status)
    }
}

/// The details of a `Status` about one object: its name and resource.
pub fn about(resource: &Resource, name: &str) -> Value {
    let mut details = Map::new();
    details.insert("name".to_owned(), name.into());
    if !resource.group.is_empty() {
        details.insert("group".to_owned(), resource.group.clone().into());
    }
    details.insert("kind".to_owned(), resource.plural.clone().into());
    Value::Object(details)
}

/// A `Status` of success with an HTTP code.
pub fn success(code: Option<u16>, details: Option<Value>) -> Value {
    let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    if let Some(details) = details {
        status["details"] = details;
    }
    if let Some(code) = code {
        status["code"] = code.into();
    }
    status
}
