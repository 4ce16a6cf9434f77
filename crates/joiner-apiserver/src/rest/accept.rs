//! What form of answer a client accepts.

use super::status::Failure;
use serde_json::json;

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The objects themselves.
    Objects,
    /// Only what and which they are.
    Metadata,
    /// Rows and columns, in `v1` or `v1beta1`.
    Table(&'static str),
    /// All of discovery in one document.
    Discovery,
}

/// The accepted answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// What is sent.
    pub form: Form,
    /// Whether it is sent as YAML.
    pub yaml: bool,
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

const MEDIA_TYPES: [&str; 3] = ["application/json", "application/yaml", PROTOBUF];

const REFUSED: &str = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
    application/vnd.kubernetes.protobuf, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// Chooses the first form in the header that this server can give.
///
/// # Errors
/// There is none.
pub fn negotiate(header: Option<&str>) -> Result<Accepted, Failure> {
    let header = header.unwrap_or_default();
    if header.trim().is_empty() {
        return Ok(Accepted { form: Form::Objects, yaml: false });
    }
    let mut protobuf = false;
    for (media_type, form) in header.split(',').filter_map(accept_one) {
        match media_type {
            PROTOBUF => protobuf = true,
            _ => return Ok(Accepted { form, yaml: media_type == "application/yaml" }),
        }
    }
    // Kubernetes would answer this one. We cannot, and do not say that we could.
    if protobuf {
        let message = format!("only the following media types are accepted: {}", MEDIA_TYPES[..2].join(", "));
        return Err(Failure::new(406, "NotAcceptable", message));
    }
    // A type that is known in a form that is not is refused later, and in other words.
    let known = |clause: &str| MEDIA_TYPES.contains(&clause.split(';').next().unwrap_or_default().trim());
    if header.split(',').any(known) {
        let message = format!("only the following media types are accepted: {}", MEDIA_TYPES.join(", "));
        return Err(Failure::new(406, "NotAcceptable", message));
    }
    Err(Failure::new(406, "NotAcceptable", REFUSED).with_details(json!({})))
}

/// The media type and the form of one clause, if both are known.
fn accept_one(clause: &str) -> Option<(&'static str, Form)> {
    let mut parts = clause.split(';').map(str::trim);
    let media_type = match parts.next()? {
        "application/json" | "application/*" | "*/*" => MEDIA_TYPES[0],
        given => MEDIA_TYPES.into_iter().find(|known| *known == given)?,
    };
    let (mut shape, mut group, mut version) = (None, None, None);
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        match key {
            "as" => shape = Some(value),
            "g" => group = Some(value),
            "v" => version = Some(value),
            _ => {}
        }
    }
    let form = match (shape, group, version) {
        (None, _, _) => Form::Objects,
        (Some("Table"), Some("meta.k8s.io"), Some("v1")) => Form::Table("v1"),
        (Some("Table"), Some("meta.k8s.io"), Some("v1beta1")) => Form::Table("v1beta1"),
        (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), Some("meta.k8s.io"), Some("v1")) => {
            Form::Metadata
        }
        (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2")) => Form::Discovery,
        _ => return None,
    };
    Some((media_type, form))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_form_known_is_taken() {
        let form = |header| negotiate(Some(header)).map(|accepted| accepted.form);
        assert_eq!(form("application/vnd.kubernetes.protobuf,application/json"), Ok(Form::Objects));
        assert_eq!(
            form("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
            Ok(Form::Table("v1"))
        );
        assert_eq!(
            form("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,*/*"),
            Ok(Form::Objects)
        );
        assert_eq!(form("text/csv").unwrap_err().code, 406);
        let alone = form("application/vnd.kubernetes.protobuf").unwrap_err();
        let accepted = "only the following media types are accepted: application/json, application/yaml";
        assert_eq!((alone.code, alone.message.as_str()), (406, accepted));
        assert!(form("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList").is_err());
        assert!(negotiate(Some("application/yaml")).unwrap().yaml);
    }
}
