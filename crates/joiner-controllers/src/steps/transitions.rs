//! Events about conditions that changed their status.

use std::time::Duration;

use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::record::{Level, Note};

/// A condition, whatever the kind of its object.
#[derive(Debug, Clone, Copy)]
pub struct Stated<'a> {
    kind: &'a str,
    status: &'a str,
    reason: &'a str,
    message: &'a str,
}

impl<'a> From<&'a Condition> for Stated<'a> {
    fn from(of: &'a Condition) -> Self {
        Self { kind: &of.type_, status: &of.status, reason: &of.reason, message: &of.message }
    }
}

impl<'a> From<&'a NodeCondition> for Stated<'a> {
    fn from(of: &'a NodeCondition) -> Self {
        Self {
            kind: &of.type_,
            status: &of.status,
            reason: of.reason.as_deref().unwrap_or_default(),
            message: of.message.as_deref().unwrap_or_default(),
        }
    }
}

/// What to tell about an object whose conditions were `old` and are `new`: one event per changed status. A condition that was not there
/// before has not changed.
pub fn told<'a, K, C: 'a>(
    object: &K,
    old: impl IntoIterator<Item = &'a C>,
    new: impl IntoIterator<Item = &'a C>,
) -> Vec<Note>
where
    K: kube::Resource<DynamicType = ()>,
    Stated<'a>: From<&'a C>,
{
    let old: Vec<Stated> = old.into_iter().map(Stated::from).collect();
    let mut notes = Vec::new();
    for now in new.into_iter().map(Stated::from) {
        let Some(before) = old.iter().find(|of| of.kind == now.kind && of.status != now.status) else {
            continue;
        };
        let more = if now.message.is_empty() { String::new() } else { format!(", Message: {}", now.message) };
        let message = format!(
            "Status condition transitioned, Type: {}, Status: {} -> {}, Reason: {}{more}",
            now.kind, before.status, now.status, now.reason
        );
        notes.push(Note::new(object, Level::Normal, now.kind.to_owned(), message).quiet_for(Duration::ZERO));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use joiner_api::NodePool;
    use serde_json::json;

    #[test]
    fn only_a_changed_status_is_told() {
        let list = |status: [&str; 2]| -> Vec<Condition> {
            let conditions = [("Ready", status[0], ""), ("NodeClassReady", status[1], "gone")];
            let conditions = conditions.map(|(kind, status, message)| {
                json!({"type": kind, "status": status, "reason": "Because", "message": message,
                    "lastTransitionTime": "2026-01-01T00:00:00Z"})
            });
            serde_json::from_value(json!(conditions)).unwrap()
        };
        let pool = NodePool::new("a", Default::default());
        let tell = |old: &[Condition], new: &[Condition]| -> Vec<(String, String)> {
            told(&pool, old, new).into_iter().map(|note| (note.reason.into_owned(), note.message)).collect()
        };
        let new = list(["True", "False"]);
        assert!(tell(&[], &new).is_empty(), "a first sight is no change");
        assert!(tell(&new, &new).is_empty());
        let text = "Status condition transitioned, Type";
        assert_eq!(
            tell(&list(["Unknown", "Unknown"]), &new),
            [
                ("Ready".to_owned(), format!("{text}: Ready, Status: Unknown -> True, Reason: Because")),
                (
                    "NodeClassReady".to_owned(),
                    format!(
                        "{text}: NodeClassReady, Status: Unknown -> False, Reason: Because, Message: gone"
                    )
                ),
            ]
        );
    }
}
