//! What became of a write that was not answered, found out by reading the object.

use k8s_openapi::api::core::v1::Pod;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::Value;

use super::calls::{Calls, Problem, claim_done, is_of_one_plan, node_done, pool_done, problem};
use crate::command::{Command, Done, Failure};

/// What the object says about a write.
#[derive(Debug)]
pub enum Found {
    /// It was carried out.
    Done(Done),
    /// It was not.
    NotDone,
    /// The object is gone, so nothing is left to write.
    Gone,
    /// Somebody else has changed the object, so what was to be written is out of date.
    Changed,
}

/// Reads the object of a command.
///
/// # Errors
/// The question was refused or not answered either.
pub async fn find_out(calls: &Calls, command: &Command) -> Result<Found, Problem> {
    match command {
        Command::CreateClaim(claim) => {
            let found = calls.claims.get_opt(&claim.name_any()).await.map_err(problem)?;
            Ok(match found {
                None => Found::NotDone,
                Some(found) if is_of_one_plan(claim, &found) => Found::Done(claim_done(found)),
                Some(_) => Found::Changed,
            })
        }
        Command::PatchClaim { name, patch } | Command::PatchClaimStatus { name, patch } => {
            Ok(patched(calls.claims.get_opt(name).await.map_err(problem)?, patch, claim_done))
        }
        Command::PatchNode { name, patch } => {
            Ok(patched(calls.nodes.get_opt(name).await.map_err(problem)?, patch, node_done))
        }
        Command::PatchPool { name, patch } | Command::PatchPoolStatus { name, patch } => {
            Ok(patched(calls.pools.get_opt(name).await.map_err(problem)?, patch, pool_done))
        }
        Command::DeleteClaim { name, uid } => {
            Ok(deleted(calls.claims.get_opt(name).await.map_err(problem)?, uid, claim_done))
        }
        Command::DeleteNode { name, uid } => {
            Ok(deleted(calls.nodes.get_opt(name).await.map_err(problem)?, uid, node_done))
        }
        Command::Evict { namespace, name, uid } => {
            let pod = calls.pods(namespace).get_opt(name).await.map_err(problem)?;
            Ok(deleted(pod, uid, |_| Done::Nothing))
        }
        Command::DeletePod { namespace, name, uid, grace_seconds } => {
            let pod = calls.pods(namespace).get_opt(name).await.map_err(problem)?;
            let grace = |pod: &Pod| pod.metadata.deletion_grace_period_seconds.unwrap_or(i64::MAX);
            // It may have been leaving already, with more time than it has now.
            if pod
                .as_ref()
                .is_some_and(|pod| pod.uid().as_ref() == Some(uid) && grace(pod) > i64::from(*grace_seconds))
            {
                return Ok(Found::NotDone);
            }
            Ok(deleted(pod, uid, |_| Done::Nothing))
        }
        // Questions are simply asked again, machines are ended until they are gone, groups are read from their provider, and no
        // plan depends on an event or on the record.
        Command::ConfirmEmpty { .. }
        | Command::Terminate { .. }
        | Command::CancelLaunch { .. }
        | Command::EndMachineOf { .. }
        | Command::FindMachine { .. }
        | Command::RemoveMember { .. }
        | Command::GrowGroup { .. }
        | Command::WriteRecord(_)
        | Command::CreateEvent(_)
        | Command::PatchEvent { .. } => Ok(Found::NotDone),
    }
}

/// Whether what a command changes can be read back at all.
pub fn can_be_read_back(command: &Command) -> bool {
    !matches!(
        command,
        Command::ConfirmEmpty { .. }
            | Command::Terminate { .. }
            | Command::CancelLaunch { .. }
            | Command::EndMachineOf { .. }
            | Command::FindMachine { .. }
            | Command::RemoveMember { .. }
            | Command::WriteRecord(_)
            | Command::CreateEvent(_)
            | Command::PatchEvent { .. }
    )
}

impl Found {
    /// The answer that the write itself should have had.
    pub fn into_answer(self, why: &str) -> Result<Done, Failure> {
        match self {
            Self::Done(done) => Ok(done),
            Self::NotDone => Err(Failure::NotDone(why.to_owned())),
            Self::Gone => Err(Failure::Gone),
            Self::Changed => Err(Failure::Conflict),
        }
    }
}

fn deleted<K: Resource>(found: Option<K>, uid: &str, done: impl FnOnce(K) -> Done) -> Found {
    match found.filter(|object| object.uid().as_deref() == Some(uid)) {
        None => Found::Done(Done::Nothing),
        Some(object) if object.meta().deletion_timestamp.is_some() => Found::Done(done(object)),
        Some(_) => Found::NotDone,
    }
}

fn patched<K: Resource + Serialize>(found: Option<K>, patch: &Value, done: impl FnOnce(K) -> Done) -> Found {
    let Some(object) = found else { return Found::Gone };
    let made_from = patch.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    if made_from.is_some() && made_from == object.meta().resource_version.as_deref() {
        return Found::NotDone;
    }
    let holds = serde_json::to_value(&object).is_ok_and(|fields| holds(&fields, patch));
    match (holds, made_from) {
        (true, _) => Found::Done(done(object)),
        (false, Some(_)) => Found::Changed,
        (false, None) => Found::NotDone,
    }
}

/// Whether merging a patch would change nothing; the version it was made from does not count.
fn holds(object: &Value, patch: &Value) -> bool {
    match patch {
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| *key != "resourceVersion")
            .all(|(key, wanted)| holds(object.get(key).unwrap_or(&Value::Null), wanted)),
        // Lists without elements are not stored.
        Value::Array(list) if list.is_empty() && object.is_null() => true,
        wanted => object == wanted,
    }
}

#[cfg(test)]
mod tests {
    use joiner_api::NodeClaim;
    use serde_json::json;

    use super::*;

    fn claim(version: &str, finalizers: &[&str]) -> NodeClaim {
        let mut claim = NodeClaim::new("a", joiner_api::NodeClaimSpec::default());
        claim.metadata.uid = Some("1".to_owned());
        claim.metadata.resource_version = Some(version.to_owned());
        claim.metadata.finalizers =
            (!finalizers.is_empty()).then(|| finalizers.iter().map(|of| (*of).to_owned()).collect());
        claim
    }

    fn outcome(found: Option<NodeClaim>, patch: &Value) -> &'static str {
        match patched(found, patch, claim_done) {
            Found::Done(_) => "done",
            Found::NotDone => "not done",
            Found::Gone => "gone",
            Found::Changed => "changed",
        }
    }

    #[test]
    fn a_patch_is_found_by_version_and_fields() {
        let patch = json!({"metadata": {"resourceVersion": "5", "finalizers": ["ours"]}});
        assert_eq!(outcome(Some(claim("5", &[])), &patch), "not done");
        assert_eq!(outcome(Some(claim("6", &["ours"])), &patch), "done");
        assert_eq!(outcome(Some(claim("6", &["theirs"])), &patch), "changed");
        assert_eq!(outcome(None, &patch), "gone");
        let removal = json!({"metadata": {"resourceVersion": "5", "finalizers": []}});
        assert_eq!(outcome(Some(claim("6", &[])), &removal), "done");
        let without_version = json!({"metadata": {"labels": {"a": "b"}}});
        assert_eq!(outcome(Some(claim("6", &[])), &without_version), "not done");
        assert_eq!(outcome(Some(claim("6", &[])), &json!({"metadata": {"labels": {"a": null}}})), "done");
    }

    #[test]
    fn a_deletion_is_found_by_uid() {
        let going = |mut claim: NodeClaim| {
            claim.metadata.deletion_timestamp =
                Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
            claim
        };
        let is_done = |found| matches!(deleted(found, "1", claim_done), Found::Done(_));
        assert!(is_done(None));
        assert!(is_done(Some(going(claim("5", &[])))));
        assert!(!is_done(Some(claim("5", &[]))));
        let mut other = claim("5", &[]);
        other.metadata.uid = Some("2".to_owned());
        assert!(is_done(Some(other)), "another object of that name");
    }
}
