//! Kinds that are questions: they are answered and not kept.

use serde_json::{Value, json};

use super::status::{Cause, Failure};
use super::{Answer, Call, Payload, body, users};
use crate::tokens::{AUDIENCE, Wish};

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
        ("authentication.k8s.io", "selfsubjectreviews") => {
            json!({"userInfo": users::of(call.core, call.incoming)?.to_value()})
        }
        ("authentication.k8s.io", "tokenreviews") => Value::Null,
        _ => return Ok(None),
    };
    let options = call.write_options("CreateOptions")?;
    let decoded = body::decode(call, options.validation)?;
    let mut review = decoded.object;
    review["status"] = if status.is_null() { token_review(call, &review["spec"])? } else { status };
    Ok(Some(Answer { warnings: decoded.warnings, ..Answer::new(201, Payload::Document(review)) }))
}

/// Whose token this is.
fn token_review(call: &Call<'_>, spec: &Value) -> Result<Value, Failure> {
    let token = spec["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(Failure::bad_request("token is required for TokenReview in authentication"));
    }
    Ok(match call.core.tokens.review(call.core, token, audiences(spec)) {
        Ok((user, audiences)) => {
            json!({"authenticated": true, "user": user.to_value(), "audiences": audiences})
        }
        Err(error) => json!({"user": {}, "error": error}),
    })
}

/// Whom a token is for.
fn audiences(spec: &Value) -> Vec<String> {
    let given = spec["audiences"].as_array().into_iter().flatten();
    let given: Vec<String> = given.filter_map(|audience| audience.as_str().map(str::to_owned)).collect();
    if given.is_empty() { vec![AUDIENCE.to_owned()] } else { given }
}

/// A token for a service account.
pub(crate) fn token(call: &Call<'_>) -> Result<Answer, Failure> {
    let account = call.stored(&call.core.store.open())?;
    let mut request = body::document(call, "TokenRequest")?.to_value();
    let invalid =
        |name: &str, cause: Cause| Failure::invalid("authentication.k8s.io", "TokenRequest", name, &[cause]);
    for (field, wanted) in [("name", &call.name), ("namespace", &call.namespace)] {
        let given = super::meta_text(&request, field);
        if !given.is_empty() && given != wanted {
            let detail = format!("must match the service account {field} if specified");
            let cause = Cause::invalid(format!("metadata.{field}"), &json!(given), &detail);
            return Err(invalid(&call.name, cause));
        }
    }
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(3600);
    let detail = match seconds {
        ..600 => "may not specify a duration less than 10 minutes",
        4_294_967_297.. => "may not specify a duration larger than 2^32 seconds",
        _ => "",
    };
    if !detail.is_empty() {
        return Err(invalid("", Cause::invalid("spec.expirationSeconds", &json!(seconds), detail)));
    }
    let audiences = audiences(&request["spec"]);
    let wish = Wish {
        namespace: &call.namespace,
        account: &call.name,
        uid: super::meta_text(&account, "uid"),
        audiences: audiences.clone(),
        life: jiff::SignedDuration::from_secs(seconds),
    };
    let (token, expires) = call
        .core
        .tokens
        .issue(call.core, wish)
        .ok_or_else(|| Failure::internal("cannot make a token: the system gives no random bytes"))?;
    request["kind"] = "TokenRequest".into();
    request["apiVersion"] = "authentication.k8s.io/v1".into();
    request["metadata"] = json!({
        "name": call.name, "namespace": call.namespace, "creationTimestamp": call.core.now(),
    });
    request["spec"]["audiences"] = json!(audiences);
    request["spec"]["expirationSeconds"] = seconds.into();
    if request["spec"].get("boundObjectRef").is_none() {
        request["spec"]["boundObjectRef"] = Value::Null;
    }
    request["status"] = json!({
        "token": token,
        "expirationTimestamp": crate::clock::format_time(expires),
    });
    Ok(Answer::new(201, Payload::Document(request)))
}
