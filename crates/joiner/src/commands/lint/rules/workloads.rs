//! Workloads that would not know their own pods.

use std::collections::BTreeMap;

use joiner_manifest::Object;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::pod_topology::matches;
use crate::commands::lint::finding::Hit;
use crate::commands::lint::subject::Subject;

/// The selector of a workload and the template of its pods.
pub fn selected(object: &Object) -> Option<(LabelSelector, &PodTemplateSpec)> {
    let found = match object {
        Object::Deployment(of) => (of.spec.selector.clone(), &of.spec.template),
        Object::StatefulSet(of) => (of.spec.selector.clone(), &of.spec.template),
        Object::DaemonSet(of) => (of.spec.selector.clone(), &of.spec.template),
        Object::ReplicaSet(of) => (of.spec.selector.clone(), of.spec.template.as_ref()?),
        Object::ReplicationController(of) => {
            // Without a selector it takes the labels of the template.
            let spec = of.spec.as_ref()?;
            let labels = spec.selector.clone().filter(|labels| !labels.is_empty());
            let selector = LabelSelector { match_labels: Some(labels?), ..LabelSelector::default() };
            (selector, spec.template.as_ref()?)
        }
        _ => return None,
    };
    Some(found)
}

/// Workloads whose selector does not match the labels of their own template.
pub fn selector_misses_template(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for (object, loaded) in subject.objects.iter().enumerate() {
        let Some((selector, template)) = selected(&loaded.object) else { continue };
        let labels = labels(template);
        if matches(&selector, labels) {
            continue;
        }
        // The first key that differs says most; expressions are told as a whole.
        let wanted = selector.match_labels.iter().flatten();
        let differs = wanted.into_iter().find(|(key, value)| labels.get(*key) != Some(*value));
        let (message, remedy) = match differs {
            Some((key, value)) => (
                format!(
                    "the selector wants `{key}: {value}`, the template has {}: the API refuses the {}",
                    labels.get(key).map_or("no such label".to_owned(), |have| format!("`{key}: {have}`")),
                    loaded.kind
                ),
                format!("label the template `{key}: {value}`, or select what it is labelled"),
            ),
            None => (
                format!(
                    "the selector does not match the labels of the template: the API refuses the {}",
                    loaded.kind
                ),
                "let the selector match the template's labels".to_owned(),
            ),
        };
        hits.push(Hit::new(object, "spec.selector", message, remedy));
    }
    hits
}

/// The labels of a template.
pub fn labels(template: &PodTemplateSpec) -> &BTreeMap<String, String> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref()).unwrap_or(&NONE)
}
