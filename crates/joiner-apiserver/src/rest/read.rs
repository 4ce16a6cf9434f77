//! Get and list.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Value, json};

use super::render::ListMeta;
use super::status::Failure;
use super::{Answer, Call, leases, list_options, render};
use crate::selector::{FieldSelector, LabelSelector, Selectable};
use crate::store::{Section, Stored};

/// How long a read waits for a version that has not come yet.
const PATIENCE: Duration = Duration::from_secs(3);

/// What a list or watch chooses by.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
}

impl Choice {
    pub(crate) fn read(call: &Call<'_>) -> Result<Self, Failure> {
        let labels = LabelSelector::parse(call.query().get("labelSelector").unwrap_or_default())
            .map_err(Failure::bad_request)?;
        let fields = FieldSelector::parse(call.query().get("fieldSelector").unwrap_or_default())
            .map_err(Failure::bad_request)?;
        for term in fields.terms() {
            call.resource.selectable_field(&term.field).map_err(Failure::bad_request)?;
        }
        // The old form of a watch names one object in its path.
        let fields = if call.name.is_empty() { fields } else { FieldSelector::of_name(&call.name) };
        Ok(Self { labels, fields })
    }

    pub(crate) fn matches(
        &self,
        call_resource: &crate::resources::Resource,
        object: &impl Selectable,
    ) -> bool {
        self.labels.matches(object)
            && self.fields.matches(object, |field| {
                call_resource.selectable_field(field).unwrap_or_else(|_| field.to_owned())
            })
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}

/// The version a request asks for; 0 means any.
pub(crate) fn version_asked(text: Option<&str>) -> Result<Option<u64>, Failure> {
    let Some(text) = text else { return Ok(None) };
    text.parse().map(Some).map_err(|_| Failure::internal(no_number(text)))
}

/// A version that is no number, in the words of Go.
pub(crate) fn no_number(text: &str) -> String {
    format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax")
}

/// Waits until the store has reached a version.
async fn wait_for(call: &Call<'_>, version: u64) -> Result<(), Failure> {
    if call.core.store.open().revision() >= version {
        return Ok(());
    }
    tokio::time::sleep(PATIENCE).await;
    let present = call.core.store.open().revision();
    if present >= version {
        return Ok(());
    }
    let message = format!("Timeout: Too large resource version: {version}, current: {present}");
    let causes = json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
    let mut failure =
        Failure::new(504, "Timeout", message).with_details(json!({"causes": causes, "retryAfterSeconds": 1}));
    failure.retry_after = Some(1);
    Err(failure)
}

/// `GET` of one object.
pub(crate) async fn get(call: &Call<'_>) -> Result<Answer, Failure> {
    if let Some(version) = version_asked(call.query().get("resourceVersion"))? {
        wait_for(call, version).await?;
    }
    let session = call.core.store.open();
    match call.stored(&session) {
        Ok(object) => Ok(render::object(call, 200, &object)),
        Err(failure) => {
            let lease = leases::of_node(call, &session).ok_or(failure)?;
            Ok(render::document(call, 200, &lease))
        }
    }
}

/// How the version of a list is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Match {
    Exact,
    NotOlder,
}

fn match_asked(call: &Call<'_>) -> Option<Match> {
    call.query().get("resourceVersionMatch").map(|matching| match matching {
        "Exact" => Match::Exact,
        _ => Match::NotOlder,
    })
}

/// `GET` of a collection.
pub(crate) async fn list(call: &Call<'_>) -> Result<Answer, Failure> {
    let query = call.query();
    let limit = query
        .integer("limit")?
        .filter(|limit| *limit > 0)
        .map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    list_options::check_list(query)?;
    let given = query.get("resourceVersion");
    let token = query.get("continue").map(Token::read).transpose()?;
    let version = version_asked(given)
        .map_err(|failure| Failure::bad_request(format!("invalid resource version: {}", failure.message)))?;
    let matching = match_asked(call);
    let choice = Choice::read(call)?;
    if token.is_some() && version.is_some_and(|version| version > 0) {
        return Err(Failure::bad_request("specifying resource version is not allowed when using continue"));
    }
    if let Some(version) = version {
        wait_for(call, version).await?;
    }
    // A list of "any" version is given whole, whatever the limit.
    let limit = if version == Some(0) && token.is_none() { None } else { limit };

    let session = call.core.store.open();
    let namespace = (!call.everywhere && call.resource.namespaced).then_some(call.namespace.as_str());
    let present = session.revision();
    let stored_as = &call.resource.stored_as;
    let after = token.as_ref().map(|token| token.after.as_str());
    let exact = match (&token, matching, version) {
        (Some(token), _, _) => token.version,
        (None, Some(Match::Exact), version) => version,
        (None, None, Some(version)) if version > 0 && limit.is_some() => Some(version),
        _ => None,
    };
    let at = exact.unwrap_or(present);
    // A namespace may hold much, and most lists ask for all of it, page by page.
    let everything = choice.is_everything();
    let section = Section { namespace, after, limit: limit.filter(|_| everything) };
    let page =
        session.page(stored_as, &section, at).map_err(|expired| expired_list(after, at, expired.oldest))?;
    drop(session);

    let mut matched =
        page.objects.into_iter().filter(|(_, object)| everything || choice.matches(&call.resource, object));
    let mut items: Vec<Stored> = Vec::new();
    let mut last = None;
    for (key, object) in matched.by_ref().take(limit.unwrap_or(usize::MAX)) {
        items.push(object);
        last = Some(key);
    }
    let remaining = matched.count() + page.remaining;
    let mut meta = ListMeta { resource_version: at.to_string(), continue_token: None, remaining: None };
    if let (true, Some(last)) = (remaining > 0, last) {
        meta.continue_token = Some(Token { version: Some(at), after: last.to_string() }.write());
        meta.remaining = everything.then_some(remaining);
    }
    Ok(render::list(call, &items, &meta))
}

fn expired_list(after: Option<&str>, version: u64, oldest: u64) -> Failure {
    let Some(after) = after else {
        return Failure::expired(format!(
            "The resourceVersion for the provided list is too old: {version} ({oldest})"
        ));
    };
    let message = "The provided continue parameter is too old to display a consistent list result. You can start a new list \
        without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
        Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted \
        between the time the first chunk was returned and now may show up in the list.";
    let mut failure = Failure::expired(message);
    failure.continue_token = Some(Token { version: None, after: after.to_owned() }.write());
    failure
}

/// Tokens travel in queries. Sloppy ones are read as Go reads them.
const TOKENS: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Where a list goes on.
#[derive(Debug, PartialEq, Eq)]
struct Token {
    /// The version of all pages; nothing for a list that goes on at whatever version.
    version: Option<u64>,
    after: String,
}

impl Token {
    fn write(&self) -> String {
        let version = self.version.map_or(-1, |version| i64::try_from(version).unwrap_or(i64::MAX));
        TOKENS.encode(json!({"v": "meta.k8s.io/v1", "rv": version, "start": self.after}).to_string())
    }

    fn read(text: &str) -> Result<Self, Failure> {
        let refuse = |detail: String| {
            Failure::bad_request(format!("invalid continue token: continue key is not valid: {detail}"))
        };
        let bytes = TOKENS.decode(text).map_err(|_| refuse("illegal base64 data".to_owned()))?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|_| {
            let first = bytes.iter().copied().map(char::from).next();
            let shown = first.map_or("unexpected end of JSON input".to_owned(), |first| {
                // Characters outside ASCII print as their number, as Go prints them.
                let shown = if (' '..='~').contains(&first) {
                    first.to_string()
                } else {
                    format!("\\u{:04x}", u32::from(first))
                };
                format!("invalid character '{shown}' looking for beginning of value")
            });
            refuse(shown)
        })?;
        let start = token.get("start").and_then(Value::as_str).unwrap_or_default();
        if start.is_empty() {
            return Err(refuse("encoded start key is empty".to_owned()));
        }
        let version = token.get("rv").and_then(Value::as_u64);
        Ok(Self { version, after: start.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_as_they_went() {
        for token in [
            Token { version: Some(7), after: "a/b".to_owned() },
            Token { version: None, after: "n".to_owned() },
        ] {
            assert_eq!(Token::read(&token.write()).unwrap(), token);
        }
        assert!(Token::read("garbage").is_err());
        assert!(Token::read("").is_err());
    }
}
