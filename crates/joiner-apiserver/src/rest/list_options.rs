//! Rules for the options of lists and watches, all breaches told at once.

use serde_json::json;

use super::options::Query;
use super::status::{Cause, Failure};

const MATCH: &str = "resourceVersionMatch";

/// Refuses options of a list that contradict each other.
pub(crate) fn check_list(query: &Query) -> Result<(), Failure> {
    let mut causes = Vec::new();
    if let Some(matching) = query.get(MATCH) {
        let mut forbid = |detail: &str| causes.push(Cause::forbidden(MATCH, detail));
        if query.get("resourceVersion").is_none() {
            forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if query.get("continue").is_some() {
            forbid("resourceVersionMatch is forbidden when continue is provided");
        }
        if matching == "Exact" && query.get("resourceVersion") == Some("0") {
            forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            causes.push(Cause::unsupported(MATCH, &json!(matching), &["Exact", "NotOlderThan", ""]));
        }
    }
    if query.get("sendInitialEvents").is_some() {
        causes.push(Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    conclude(&causes)
}

/// Refuses options of a watch that contradict each other. Returns whether the current state is to come first, if the client says.
pub(crate) fn check_watch(query: &Query) -> Result<Option<bool>, Failure> {
    let mut causes = Vec::new();
    let (matching, initial) = (query.get(MATCH), query.get("sendInitialEvents"));
    if initial.is_some() && matching != Some("NotOlderThan") {
        let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        causes.push(Cause::forbidden(MATCH, detail));
    }
    if let Some(matching) = matching {
        if initial.is_none() {
            let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            causes.push(Cause::forbidden(MATCH, detail));
        }
        if matching != "NotOlderThan" {
            causes.push(Cause::unsupported(MATCH, &json!(matching), &["NotOlderThan"]));
        }
        if query.get("continue").is_some() {
            let detail = "resourceVersionMatch is forbidden when continue is provided";
            causes.push(Cause::forbidden(MATCH, detail));
        }
    }
    conclude(&causes)?;
    Ok(initial.map(|text| text != "false" && text != "0"))
}

fn conclude(causes: &[Cause]) -> Result<(), Failure> {
    if causes.is_empty() { Ok(()) } else { Err(Failure::invalid_options("ListOptions", causes)) }
}
