//! NodePool and NodeClaim of v1beta1.

use serde_json::{Map, Value, json};

use super::{Converted, Error, NodeClassKind, Options, Source, sorted_json, v1};
use crate::names::{self, kinds};
use crate::nodepool::ConsolidationPolicy;

pub(super) fn node_pool(mut source: Source, options: &Options) -> Result<Converted, Error> {
    let mut old = std::mem::take(&mut source.spec);
    let mut spec = Map::new();

    let mut old_template = source.take_map(&mut old, "spec", "template")?.unwrap_or_default();
    let mut template = Map::new();
    source.carry(&mut old_template, "metadata", &mut template);
    let mut inner = source.take_map(&mut old_template, "spec.template", "spec")?.unwrap_or_default();
    let mut template_spec = Map::new();
    common_spec(&mut source, &mut inner, &mut template_spec, "spec.template.spec")?;
    node_class_ref(&mut source, &mut inner, &mut template_spec, "spec.template.spec", options)?;
    if source.take(&mut inner, "resources").is_some() {
        source.note("spec.template.spec.resources", "dropped: it never had an effect on a pool");
    }
    source.note_leftovers("spec.template.spec", inner);
    source.note_leftovers("spec.template", old_template);

    let mut old_disruption = source.take_map(&mut old, "spec", "disruption")?.unwrap_or_default();
    source.carry(&mut old_disruption, "expireAfter", &mut template_spec);
    let disruption = disruption(&mut source, &mut old_disruption)?;
    source.note_leftovers("spec.disruption", old_disruption);

    template.insert("spec".to_owned(), template_spec.into());
    spec.insert("template".to_owned(), template.into());
    if !disruption.is_empty() {
        spec.insert("disruption".to_owned(), disruption.into());
    }
    for field in ["limits", "weight"] {
        source.carry(&mut old, field, &mut spec);
    }
    source.note_leftovers("spec", old);
    source.drop_severity();
    Ok(source.finish(names::API_VERSION, kinds::NODE_POOL, spec, Vec::new()))
}

fn disruption(source: &mut Source, old: &mut Map<String, Value>) -> Result<Map<String, Value>, Error> {
    let mut disruption = Map::new();
    let policy = source.take_text(old, "spec.disruption", "consolidationPolicy")?;
    let after = source.take_text(old, "spec.disruption", "consolidateAfter")?;
    match (policy.as_deref(), after) {
        (None | Some("WhenUnderutilized"), after) => {
            // Without a word about it v1beta1 meant WhenUnderutilized, and v1 means the same by default.
            if policy.is_some() || after.is_some() {
                let policy = ConsolidationPolicy::WhenEmptyOrUnderutilized.as_str();
                disruption.insert("consolidationPolicy".to_owned(), policy.into());
                disruption.insert("consolidateAfter".to_owned(), "0s".into());
            }
            if let Some(after) = after {
                source.note(
                    "spec.disruption.consolidateAfter",
                    format!("`{after}` was not allowed with WhenUnderutilized, `0s` is what it did"),
                );
            }
        }
        (Some(policy), Some(after)) => {
            disruption.insert("consolidationPolicy".to_owned(), policy.into());
            disruption.insert("consolidateAfter".to_owned(), after.into());
        }
        (Some(policy), None) => {
            disruption.insert("consolidationPolicy".to_owned(), policy.into());
            source.note(
                "spec.disruption.consolidateAfter",
                format!("was required with {policy} but is absent; v1 takes `0s`"),
            );
        }
    }
    source.carry(old, "budgets", &mut disruption);
    Ok(disruption)
}

pub(super) fn node_claim(mut source: Source, options: &Options) -> Result<Converted, Error> {
    let mut old = std::mem::take(&mut source.spec);
    let mut spec = Map::new();
    common_spec(&mut source, &mut old, &mut spec, "spec")?;
    if let Some(reference) = old.get("nodeClassRef").map(sorted_json) {
        source.annotate(names::NODE_CLASS_REFERENCE_ANNOTATION, reference);
    }
    node_class_ref(&mut source, &mut old, &mut spec, "spec", options)?;
    for field in ["resources", "terminationGracePeriod"] {
        source.carry(&mut old, field, &mut spec);
    }
    expire_after_of_pool(&mut source, &mut spec, options);
    source.note_leftovers("spec", old);
    source.drop_severity();
    Ok(source.finish(names::API_VERSION, kinds::NODE_CLAIM, spec, Vec::new()))
}

/// A claim of an older version lives as long as its pool said.
pub(super) fn expire_after_of_pool(source: &mut Source, spec: &mut Map<String, Value>, options: &Options) {
    let pool = source.metadata.get("labels").and_then(|labels| labels[names::NODEPOOL_LABEL].as_str());
    if let Some(expire_after) = pool.and_then(|pool| options.expire_after_by_pool.get(pool)) {
        spec.insert("expireAfter".to_owned(), expire_after.as_str().into());
    } else {
        source.note("spec.expireAfter", "stood in the pool, which is not at hand; v1 takes `720h`");
    }
}

/// Requirements and taints, which only move, and the kubelet section, which has no place any more.
fn common_spec(
    source: &mut Source,
    old: &mut Map<String, Value>,
    spec: &mut Map<String, Value>,
    path: &str,
) -> Result<(), Error> {
    let mut requirements = source.take_list(old, path, "requirements")?.unwrap_or_default();
    v1::rewrite_paper_keys(&mut requirements, &format!("{path}.requirements"), &mut source.notes);
    spec.insert("requirements".to_owned(), requirements.into());
    for field in ["taints", "startupTaints"] {
        source.carry(old, field, spec);
    }
    if let Some(kubelet) = source.take(old, "kubelet") {
        keep_kubelet(source, &format!("{path}.kubelet"), &kubelet);
    }
    Ok(())
}

/// Keeps a kubelet section as an annotation, since it belongs to the node class now.
pub(super) fn keep_kubelet(source: &mut Source, path: &str, kubelet: &Value) {
    source.annotate(names::KUBELET_COMPATIBILITY_ANNOTATION, sorted_json(kubelet));
    source.note(
        path,
        format!(
            "kubelet settings belong to the node class now: move them to its `spec.kubelet`; kept in annotation `{}`",
            names::KUBELET_COMPATIBILITY_ANNOTATION
        ),
    );
}

fn node_class_ref(
    source: &mut Source,
    old: &mut Map<String, Value>,
    spec: &mut Map<String, Value>,
    parent: &str,
    options: &Options,
) -> Result<(), Error> {
    let path = format!("{parent}.nodeClassRef");
    let Some(mut reference) = source.take_map(old, parent, "nodeClassRef")? else {
        return Err(source.inconvertible(&path, "it is missing", "name the node class"));
    };
    let name = source.take_text(&mut reference, &path, "name")?.unwrap_or_default();
    if name.is_empty() {
        return Err(source.inconvertible(&format!("{path}.name"), "it is empty", "name the node class"));
    }
    let kind = source.take_text(&mut reference, &path, "kind")?.unwrap_or_default();
    let api_version = source.take_text(&mut reference, &path, "apiVersion")?.unwrap_or_default();
    let group = source.take_text(&mut reference, &path, "group")?.unwrap_or_default();
    source.note_leftovers(&path, reference);
    let group = match (group.is_empty(), api_version.split_once('/')) {
        (false, _) => group,
        (true, Some((group, _))) => group.to_owned(),
        (true, None) if api_version.is_empty() => String::new(),
        (true, None) => {
            return Err(source.inconvertible(
                &format!("{path}.apiVersion"),
                format!("`{api_version}` has no group"),
                "write it as `group/version`",
            ));
        }
    };
    let NodeClassKind { group, kind } = complete(source, &path, group, kind, options)?;
    spec.insert("nodeClassRef".to_owned(), json!({ "group": group, "kind": kind, "name": name }));
    Ok(())
}

/// Fills in a group or kind that the reference leaves out.
fn complete(
    source: &mut Source,
    path: &str,
    group: String,
    kind: String,
    options: &Options,
) -> Result<NodeClassKind, Error> {
    if !group.is_empty() && !kind.is_empty() {
        return Ok(NodeClassKind { group, kind });
    }
    let Some(default) = &options.default_node_class else {
        let field = if group.is_empty() { "apiVersion" } else { "kind" };
        return Err(source.inconvertible(
            &format!("{path}.{field}"),
            "it is empty and meant the provider's first node class",
            "write it out, or say which node class is the default",
        ));
    };
    let or = |text: String, default: &str| if text.is_empty() { default.to_owned() } else { text };
    let complete = NodeClassKind { group: or(group, &default.group), kind: or(kind, &default.kind) };
    source.note(path, format!("completed to `{}` of group `{}`", complete.kind, complete.group));
    Ok(complete)
}
