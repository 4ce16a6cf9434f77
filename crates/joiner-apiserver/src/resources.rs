//! What resources exist: the built-in ones, from the packed discovery data, and the rules that data does not tell.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::schema;
use crate::store::ResourceName;

/// A subresource such as `pods/binding`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// Its name without the resource, `binding`.
    pub name: String,
    /// Group, version and kind of what is sent and answered; empty group and version mean those of the resource.
    pub kind: (String, String, String),
    /// The verbs it knows.
    pub verbs: Vec<String>,
}

/// One resource in one version.
#[derive(Clone, Debug)]
pub struct Resource {
    /// The API group, empty for the core group.
    pub group: String,
    /// The version, `v1`.
    pub version: String,
    /// The plural name, as in paths.
    pub plural: String,
    /// The singular name.
    pub singular: String,
    /// The kind of its objects.
    pub kind: String,
    /// The kind of its lists.
    pub list_kind: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// The verbs it knows.
    pub verbs: Vec<String>,
    /// Short names, `po`.
    pub short_names: Vec<String>,
    /// Groups of resources it belongs to, `all`.
    pub categories: Vec<String>,
    /// Its subresources.
    pub subresources: Vec<Subresource>,
    /// Where its objects are kept.
    pub stored_as: ResourceName,
    /// What a definition says about it; nothing for built-in resources.
    pub custom: Option<Arc<crate::rest::CustomKind>>,
}

impl Resource {
    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        group_version(&self.group, &self.version)
    }

    /// The name in messages: `pods` or `deployments.apps`.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// The kind in messages: `Pod` or `Deployment.apps`.
    pub fn qualified_kind(&self) -> String {
        if self.group.is_empty() { self.kind.clone() } else { format!("{}.{}", self.kind, self.group) }
    }

    /// Whether this is the built-in resource `plural` of `group`.
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.custom.is_none() && self.group == group && self.plural == plural
    }

    /// One of its subresources.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Whether the status can be written only through its subresource.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// Whether its objects count the changes of what is wanted in `metadata.generation`.
    pub fn has_generation(&self) -> bool {
        self.custom.is_some() || GENERATION.contains(&(self.group.as_str(), self.plural.as_str()))
    }

    /// Whether deleting it leaves dependents in place unless the request says otherwise.
    pub fn orphans_by_default(&self) -> bool {
        self.is("batch", "jobs") || self.is("", "replicationcontrollers")
    }

    /// Whether a PUT may leave out the version that it replaces.
    pub fn updates_without_version(&self) -> bool {
        const KINDS: [(&str, &str); 12] = [
            ("coordination.k8s.io", "leases"),
            ("node.k8s.io", "runtimeclasses"),
            ("policy", "poddisruptionbudgets"),
            ("storage.k8s.io", "csidrivers"),
            ("storage.k8s.io", "csinodes"),
            ("storage.k8s.io", "csistoragecapacities"),
            ("storage.k8s.io", "volumeattachments"),
            ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
            ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
            ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
            ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
            ("apiextensions.k8s.io", "customresourcedefinitions"),
        ];
        self.custom.is_none() && !KINDS.contains(&(self.group.as_str(), self.plural.as_str()))
    }

    /// Whether a PUT of something missing creates it.
    pub fn created_by_update(&self) -> bool {
        const KINDS: [(&str, &str); 10] = [
            ("coordination.k8s.io", "leases"),
            ("", "events"),
            ("events.k8s.io", "events"),
            ("", "endpoints"),
            ("", "limitranges"),
            ("rbac.authorization.k8s.io", "roles"),
            ("rbac.authorization.k8s.io", "rolebindings"),
            ("rbac.authorization.k8s.io", "clusterroles"),
            ("rbac.authorization.k8s.io", "clusterrolebindings"),
            ("node.k8s.io", "runtimeclasses"),
        ];
        self.custom.is_none() && KINDS.contains(&(self.group.as_str(), self.plural.as_str()))
    }

    /// Where the value of a field of a field selector is kept, or the message that refuses the field.
    ///
    /// # Errors
    /// The field cannot be selected by.
    pub fn selectable_field(&self, field: &str) -> Result<String, String> {
        if field == "metadata.name"
            || (field == "metadata.namespace" && (self.namespaced || self.custom.is_none()))
        {
            return Ok(field.to_owned());
        }
        if let Some(custom) = &self.custom {
            return if custom.selectable.iter().any(|path| path == field) {
                Ok(field.to_owned())
            } else {
                Err(format!("field label not supported: {field}"))
            };
        }
        let own = FIELDS.iter().find(|(group, plural, _)| *group == self.group && *plural == self.plural);
        match own {
            Some((_, _, fields)) => match fields.iter().find(|(name, _)| *name == field) {
                Some((_, path)) => Ok((*path).to_owned()),
                None => Err(format!("field label not supported: {field}")),
            },
            None => Err(format!(
                "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            )),
        }
    }
}

/// `v1` or `apps/v1`.
pub fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

const GENERATION: [(&str, &str); 29] = [
    ("", "pods"),
    ("", "replicationcontrollers"),
    ("", "podtemplates"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "daemonsets"),
    ("apps", "statefulsets"),
    ("batch", "jobs"),
    ("batch", "cronjobs"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("policy", "poddisruptionbudgets"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("networking.k8s.io", "ingresses"),
    ("networking.k8s.io", "ingressclasses"),
    ("networking.k8s.io", "networkpolicies"),
    ("networking.k8s.io", "servicecidrs"),
    ("discovery.k8s.io", "endpointslices"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "resourceslices"),
    ("resource.k8s.io", "resourceclaims"),
    ("resource.k8s.io", "resourceclaimtemplates"),
    ("storage.k8s.io", "csidrivers"),
];

type FieldPaths = &'static [(&'static str, &'static str)];

/// Fields that selectors of a resource may name, and where their values are kept.
const FIELDS: [(&str, &str, FieldPaths); 8] = [
    (
        "",
        "pods",
        &[
            ("spec.nodeName", "spec.nodeName"),
            ("spec.restartPolicy", "spec.restartPolicy"),
            ("spec.schedulerName", "spec.schedulerName"),
            ("spec.serviceAccountName", "spec.serviceAccountName"),
            ("spec.hostNetwork", "spec.hostNetwork"),
            ("status.phase", "status.phase"),
            ("status.podIP", "status.podIP"),
            ("status.podIPs", "status.podIP"),
            ("status.nominatedNodeName", "status.nominatedNodeName"),
        ],
    ),
    ("", "nodes", &[("spec.unschedulable", "spec.unschedulable")]),
    ("", "namespaces", &[("status.phase", "status.phase")]),
    ("", "secrets", &[("type", "type")]),
    ("", "replicationcontrollers", &[("status.replicas", "status.replicas")]),
    ("batch", "jobs", &[("status.successful", "status.succeeded")]),
    (
        "",
        "events",
        &[
            ("involvedObject.kind", "involvedObject.kind"),
            ("involvedObject.namespace", "involvedObject.namespace"),
            ("involvedObject.name", "involvedObject.name"),
            ("involvedObject.uid", "involvedObject.uid"),
            ("involvedObject.apiVersion", "involvedObject.apiVersion"),
            ("involvedObject.resourceVersion", "involvedObject.resourceVersion"),
            ("involvedObject.fieldPath", "involvedObject.fieldPath"),
            ("reason", "reason"),
            ("reportingComponent", "reportingComponent"),
            ("source", "source.component"),
            ("type", "type"),
        ],
    ),
    (
        "events.k8s.io",
        "events",
        &[
            ("regarding.kind", "involvedObject.kind"),
            ("regarding.namespace", "involvedObject.namespace"),
            ("regarding.name", "involvedObject.name"),
            ("regarding.uid", "involvedObject.uid"),
            ("regarding.apiVersion", "involvedObject.apiVersion"),
            ("regarding.resourceVersion", "involvedObject.resourceVersion"),
            ("regarding.fieldPath", "involvedObject.fieldPath"),
            ("reason", "reason"),
            ("reportingController", "reportingComponent"),
            ("type", "type"),
        ],
    ),
];

/// Events of both groups are the same objects.
fn kept_as(group: &str, plural: &str) -> ResourceName {
    match (group, plural) {
        ("events.k8s.io", "events") => ResourceName::new("", plural),
        _ => ResourceName::new(group, plural),
    }
}

/// A group with its versions, the preferred one first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The name of the group, empty for the core group.
    pub name: String,
    /// Its versions.
    pub versions: Vec<String>,
}

/// A set of resources.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    groups: Vec<Group>,
    /// By group and version.
    resources: BTreeMap<String, BTreeMap<String, Vec<Arc<Resource>>>>,
}

static BUILTIN: LazyLock<Resources> = LazyLock::new(|| {
    let mut all = Resources::default();
    all.add_core(&serde_json::from_str(include_str!("../data/core-v1.json")).unwrap_or_default());
    all.add_groups(schema::packed_discovery());
    all
});

impl Resources {
    /// The built-in resources of the stable versions.
    pub fn builtin() -> &'static Resources {
        &BUILTIN
    }

    /// The core group is published apart from the others, one entry per resource or subresource.
    fn add_core(&mut self, entries: &Value) {
        let entries = || entries.as_array().into_iter().flatten();
        for entry in entries().filter(|entry| !text(&entry["name"]).contains('/')) {
            let plural = text(&entry["name"]);
            let prefix = format!("{plural}/");
            let subresources = entries().filter_map(|entry| {
                let name = text(&entry["name"]).strip_prefix(&prefix)?.to_owned();
                let kind = (text(&entry["group"]), text(&entry["version"]), text(&entry["kind"]));
                Some(Subresource { name, kind, verbs: texts(entry, "verbs") })
            });
            let kind = text(&entry["kind"]);
            self.add(Arc::new(Resource {
                group: String::new(),
                version: "v1".to_owned(),
                singular: text(&entry["singularName"]),
                list_kind: format!("{kind}List"),
                namespaced: entry["namespaced"] == true,
                verbs: texts(entry, "verbs"),
                short_names: texts(entry, "shortNames"),
                categories: texts(entry, "categories"),
                subresources: subresources.collect(),
                stored_as: ResourceName::new("", &plural),
                plural,
                kind,
                custom: None,
            }));
        }
    }

    fn add_groups(&mut self, document: &Value) {
        for item in list(document, "items") {
            let group = text(&item["metadata"]["name"]);
            if group.is_empty() {
                continue;
            }
            for version in list(item, "versions") {
                let name = text(&version["version"]);
                // A server with default settings serves stable versions only.
                if name.contains("alpha") || name.contains("beta") {
                    continue;
                }
                for resource in list(version, "resources") {
                    self.add(Arc::new(read_resource(&group, &name, resource)));
                }
            }
        }
    }

    /// Adds a resource, and its group and version when they are new.
    pub fn add(&mut self, resource: Arc<Resource>) {
        match self.groups.iter_mut().find(|group| group.name == resource.group) {
            Some(group) => {
                if !group.versions.contains(&resource.version) {
                    group.versions.push(resource.version.clone());
                }
            }
            None => self
                .groups
                .push(Group { name: resource.group.clone(), versions: vec![resource.version.clone()] }),
        }
        let versions = self.resources.entry(resource.group.clone()).or_default();
        versions.entry(resource.version.clone()).or_default().push(resource);
    }

    /// The groups in the order of discovery, the core group first.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The resources of one version of a group.
    pub fn of(&self, group: &str, version: &str) -> Option<&[Arc<Resource>]> {
        self.resources.get(group)?.get(version).map(Vec::as_slice)
    }

    /// One resource.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.of(group, version)?.iter().find(|resource| resource.plural == plural)
    }

    /// The resource of a kind.
    pub fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.of(group, version)?.iter().find(|resource| resource.kind == kind)
    }

    /// All resources.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values().flat_map(BTreeMap::values).flatten()
    }
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value, field: &str) -> Vec<String> {
    list(value, field).map(text).collect()
}

fn read_resource(group: &str, version: &str, resource: &Value) -> Resource {
    let kind = text(&resource["responseKind"]["kind"]);
    let plural = text(&resource["resource"]);
    let subresources = list(resource, "subresources").map(|subresource| {
        let kind = &subresource["responseKind"];
        let (mut kind_group, mut kind_version) = (text(&kind["group"]), text(&kind["version"]));
        if kind_group == group && kind_version == version {
            (kind_group, kind_version) = (String::new(), String::new());
        }
        Subresource {
            name: text(&subresource["subresource"]),
            kind: (kind_group, kind_version, text(&kind["kind"])),
            verbs: texts(subresource, "verbs"),
        }
    });
    Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        singular: text(&resource["singularResource"]),
        list_kind: format!("{kind}List"),
        namespaced: resource["scope"] == "Namespaced",
        verbs: texts(resource, "verbs"),
        short_names: texts(resource, "shortNames"),
        categories: texts(resource, "categories"),
        subresources: subresources.collect(),
        stored_as: kept_as(group, &plural),
        plural,
        kind,
        custom: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packed_data_names_the_built_in_resources() {
        let all = Resources::builtin();
        assert_eq!(all.groups()[0], Group { name: String::new(), versions: vec!["v1".to_owned()] });
        let pods = all.find("", "v1", "pods").unwrap();
        assert!(pods.namespaced && pods.has_status() && pods.has_generation());
        assert_eq!(
            pods.subresource("eviction").unwrap().kind,
            ("policy".into(), "v1".into(), "Eviction".into())
        );
        assert!(!all.find("", "v1", "nodes").unwrap().namespaced);
        assert_eq!(all.of_kind("apps", "v1", "Deployment").unwrap().qualified(), "deployments.apps");
        assert!(all.find("resource.k8s.io", "v1beta1", "resourceslices").is_none());
        assert!(all.all().count() > 60);
        for (group, plural) in GENERATION {
            assert!(all.all().any(|resource| resource.is(group, plural)), "{plural}");
        }
        for (group, plural, _) in FIELDS {
            assert!(all.all().any(|resource| resource.is(group, plural)), "{plural}");
        }
    }
}
