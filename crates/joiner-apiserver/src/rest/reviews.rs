//! Kinds that are questions: they are answered and not kept.

use serde_json::{Value, json};

use super::status::Failure;
use super::{Answer, Call, Payload, body};

/// Answers a question, or nothing if the resource is none.
pub(crate) fn answer(call: &Call<'_>) -> Result<Option<Answer>, Failure> {
    let resource = &call.resource;
    let status = match (resource.group.as_str(), resource.plural.as_str()) {
        // Everybody may do everything: rules are kept as objects and not enforced.
        (
            "authorization.k8s.io",
            "selfsubjectaccessreviews" | "subjectaccessreviews" | "localsubjectaccessreviews",
        ) => {
            json!({"allowed": true})
        }
        ("authorization.k8s.io", "selfsubjectrulesreviews") => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        ("authentication.k8s.io", "selfsubjectreviews") => json!({"userInfo": user()}),
        ("authentication.k8s.io", "tokenreviews") => json!({"authenticated": true, "user": user()}),
        _ => return Ok(None),
    };
    let options = call.write_options("CreateOptions")?;
    let decoded = body::decode(call, options.validation)?;
    let mut review = decoded.object;
    review["status"] = status;
    Ok(Some(Answer { warnings: decoded.warnings, ..Answer::new(201, Payload::Document(review)) }))
}

fn user() -> Value {
    json!({"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]})
}

/// A token for a service account: good for nothing, but of the right form.
pub(crate) fn token(call: &Call<'_>) -> Result<Answer, Failure> {
    let account = call.stored(&call.core.store.open())?;
    let mut request = body::document(call, "TokenRequest")?.to_value();
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(3600);
    let expires = call.core.clock.now() + jiff::SignedDuration::from_secs(seconds.clamp(600, 1 << 32));
    request["kind"] = "TokenRequest".into();
    request["apiVersion"] = "authentication.k8s.io/v1".into();
    request["metadata"] = json!({
        "name": call.name, "namespace": call.namespace, "creationTimestamp": call.core.now(),
    });
    if request["spec"]["audiences"].as_array().is_none_or(Vec::is_empty) {
        request["spec"]["audiences"] = json!(["https://kubernetes.default.svc"]);
    }
    request["spec"]["expirationSeconds"] = seconds.into();
    if request["spec"].get("boundObjectRef").is_none() {
        request["spec"]["boundObjectRef"] = Value::Null;
    }
    request["status"] = json!({
        "token": format!("joiner.{}.{}", super::meta_text(&account, "uid"), call.core.chance.uid()),
        "expirationTimestamp": crate::clock::format_time(expires),
    });
    Ok(Answer::new(201, Payload::Document(request)))
}
