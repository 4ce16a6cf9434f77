//! References to objects that are not in the input, while others of their kind are.

use joiner_core::explain::nearest;
use joiner_manifest::Object;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::commands::lint::finding::{Hit, Severity};
use crate::commands::lint::subject::Subject;

/// Node classes that are not there.
pub fn node_classes(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for pool in &subject.pools {
        let class = &pool.pool.spec.template.spec.node_class_ref;
        let names = subject.objects.iter().filter_map(|loaded| match &loaded.object {
            Object::NodeClass(group, kind, name, _) if *group == class.group && *kind == class.kind => {
                Some(name.as_str())
            }
            _ => None,
        });
        let path = "spec.template.spec.nodeClassRef.name";
        hits.extend(missing(pool.object, path, &class.kind, &class.name, names.collect()));
    }
    hits
}

/// Workloads of buffers that are not there.
pub fn buffer_targets(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for (object, buffer) in &subject.buffers {
        let Some(target) = &buffer.spec.scalable_ref else { continue };
        let namespace = namespace_of(&buffer.metadata);
        let names = subject.objects.iter().filter_map(|loaded| {
            let metadata = match (&loaded.object, target.kind.as_str()) {
                (Object::Deployment(object), "Deployment") => &object.metadata,
                (Object::StatefulSet(object), "StatefulSet") => &object.metadata,
                (Object::ReplicaSet(object), "ReplicaSet") => &object.metadata,
                _ => return None,
            };
            (namespace_of(metadata) == namespace).then_some(metadata.name.as_deref()?)
        });
        hits.extend(missing(*object, "spec.scalableRef.name", &target.kind, &target.name, names.collect()));
    }
    hits
}

fn missing(object: usize, path: &str, kind: &str, name: &str, names: Vec<&str>) -> Option<Hit> {
    if names.is_empty() || names.contains(&name) {
        return None;
    }
    let message = format!("{kind} `{name}` is not in the input, though others of its kind are");
    Some(match nearest(name, names.iter().copied()) {
        Some(near) => {
            Hit::new(object, path, message, format!("did you mean `{near}`?")).with(Severity::Warning)
        }
        None => Hit::new(object, path, message, "fine if it is in the cluster; otherwise add it"),
    })
}

fn namespace_of(metadata: &ObjectMeta) -> &str {
    metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}
