//! Which fields of an object stay: a small language, and its rules.
//!
//! A rule is a list of field names. A name alone keeps everything below it; `name{…}` keeps only what the braces say, of a list in each
//! element; `name@Rule` does the same with a rule that has a name. `name#` keeps texts as hashes, `name~` as empty texts (where a schema
//! demands that they are there), and `name!` keeps metadata of a template by the rules for metadata. What no rule names is gone.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Hashes, scrub};

/// What hashes begin with.
const HASHED: &str = "hashed-";

/// Rules that others refer to.
const SHARED: &[(&str, &str)] = &[
    ("Condition", "type status reason lastTransitionTime lastUpdateTime observedGeneration"),
    // Schemas of custom kinds demand a message.
    ("CustomCondition", "type status reason lastTransitionTime observedGeneration message~"),
    (
        "PodSpec",
        "nodeName nodeSelector affinity tolerations topologySpreadConstraints schedulerName priority priorityClassName
         preemptionPolicy runtimeClassName overhead restartPolicy terminationGracePeriodSeconds activeDeadlineSeconds hostNetwork
         hostname subdomain os schedulingGates readinessGates resourceClaims resources serviceAccountName
         volumes@Volume initContainers@Container containers@Container",
    ),
    (
        "Container",
        "name image# resources ports{containerPort hostPort hostIP protocol} restartPolicy resizePolicy",
    ),
    (
        "ContainerStatus",
        "name ready restartCount started
         state{running waiting{reason} terminated{exitCode reason startedAt finishedAt}}",
    ),
    (
        "Volume",
        "name persistentVolumeClaim emptyDir{medium sizeLimit} csi{driver}
         ephemeral{volumeClaimTemplate{metadata! spec@ClaimSpec}}
         awsElasticBlockStore{volumeID#} gcePersistentDisk{pdName#} azureDisk{diskName# diskURI#}",
    ),
    (
        "ClaimSpec",
        "accessModes resources storageClassName volumeName volumeMode selector volumeAttributesClassName",
    ),
    ("Template", "metadata! spec@PodSpec"),
    (
        "JobSpec",
        "parallelism completions completionMode backoffLimit backoffLimitPerIndex maxFailedIndexes activeDeadlineSeconds
         ttlSecondsAfterFinished suspend selector manualSelector podFailurePolicy podReplacementPolicy successPolicy
         template@Template",
    ),
];

/// How much of a value stays.
#[derive(Debug, Clone)]
pub enum Keep {
    /// All of it.
    Whole,
    /// Its texts as hashes.
    Hashed,
    /// An empty text.
    Emptied,
    /// Metadata, by the rules for metadata.
    Metadata,
    /// These fields.
    Fields(BTreeMap<String, Keep>),
}

impl Keep {
    /// Reads a rule. Rules are part of the program: one that cannot be read keeps nothing, and a test reads them all.
    pub fn parse(rule: &str) -> Self {
        let mut rest = rule;
        Self::Fields(fields(&mut rest))
    }

    /// What stays of a value; nothing if it is not of the form that the rule expects.
    pub fn apply(&self, value: Value, hashes: &Hashes) -> Option<Value> {
        match (self, value) {
            (Self::Whole, value) => Some(value),
            (Self::Emptied, _) => Some(Value::String(String::new())),
            // What is a hash already stays the same, so that the snapshot of a copy equals that of the original.
            (Self::Hashed, Value::String(text)) if text.starts_with(HASHED) => Some(Value::String(text)),
            (Self::Hashed, Value::String(text)) => {
                Some(Value::String(format!("{HASHED}{}", hashes.name(&text))))
            }
            (Self::Metadata, Value::Object(metadata)) => Some(scrub::template_metadata(metadata).into()),
            (keep, Value::Array(items)) => {
                Some(items.into_iter().filter_map(|item| keep.apply(item, hashes)).collect())
            }
            (Self::Fields(fields), Value::Object(object)) => {
                let mut kept = Map::new();
                for (name, value) in object {
                    if let Some(keep) = fields.get(&name)
                        && let Some(value) = keep.apply(value, hashes)
                    {
                        kept.insert(name, value);
                    }
                }
                Some(kept.into())
            }
            _ => None,
        }
    }
}

fn fields(rest: &mut &str) -> BTreeMap<String, Keep> {
    let mut found = BTreeMap::new();
    loop {
        *rest = rest.trim_start();
        let end = rest.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        *rest = after;
        if name.is_empty() {
            *rest = rest.strip_prefix('}').unwrap_or(rest);
            return found;
        }
        let keep = match rest.chars().next() {
            Some('#') => {
                *rest = &rest[1..];
                Keep::Hashed
            }
            Some('~') => {
                *rest = &rest[1..];
                Keep::Emptied
            }
            Some('!') => {
                *rest = &rest[1..];
                Keep::Metadata
            }
            Some('{') => {
                *rest = &rest[1..];
                Keep::Fields(fields(rest))
            }
            Some('@') => {
                let after = &rest[1..];
                let end = after.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(after.len());
                let (shared, after) = after.split_at(end);
                *rest = after;
                let rule = SHARED.iter().find(|(name, _)| *name == shared).map_or("", |(_, rule)| rule);
                Keep::parse(rule)
            }
            _ => Keep::Whole,
        };
        found.insert(name.to_owned(), keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_rule_keeps_what_it_names() {
        let keep = Keep::parse("a b{c d{e}} f# g~ h{i}");
        let value = json!({
            "a": {"x": 1}, "b": [{"c": 1, "z": 2, "d": {"e": 3, "y": 4}}, 7], "f": "secret", "g": "words", "h": "text", "k": 5,
        });
        let hashes = Hashes::new("");
        let kept = keep.apply(value, &hashes).unwrap();
        assert_eq!(
            kept,
            json!({"a": {"x": 1}, "b": [{"c": 1, "d": {"e": 3}}], "f": format!("hashed-{}", hashes.name("secret")), "g": ""})
        );
    }

    #[test]
    fn every_shared_rule_can_be_read() {
        fn count(keep: &Keep) -> usize {
            match keep {
                Keep::Fields(fields) => {
                    assert!(!fields.is_empty(), "a rule refers to one that is not there");
                    fields.values().map(count).sum()
                }
                _ => 1,
            }
        }
        for (name, rule) in SHARED {
            let mut rest = *rule;
            let read = Keep::Fields(fields(&mut rest));
            assert!(rest.is_empty(), "{name}: `{rest}` is left over");
            assert!(count(&read) >= 2, "{name}");
        }
        for kind in super::super::kinds::KINDS {
            let mut rest = kind.keeps;
            let read = fields(&mut rest);
            assert!(rest.is_empty(), "{}: `{rest}` is left over", kind.kind);
            read.values().map(count).for_each(drop);
        }
    }
}
