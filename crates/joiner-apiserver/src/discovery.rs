//! How clients learn what resources exist: one document per group and version, or everything in one.

use serde_json::{Map, Value, json};

use crate::resources::{Group, Resource, Resources, Subresource, group_version};

/// `GET /api`.
pub fn core_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `GET /apis`.
pub fn groups(all: &[&Resources]) -> Value {
    let groups: Vec<Value> = named_groups(all).map(group_entry).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `GET /apis/GROUP`.
pub fn group(all: &[&Resources], name: &str) -> Option<Value> {
    let group = named_groups(all).find(|group| group.name == name)?;
    let mut entry = group_entry(group);
    entry["kind"] = "APIGroup".into();
    entry["apiVersion"] = "v1".into();
    Some(entry)
}

fn named_groups<'a>(all: &'a [&'a Resources]) -> impl Iterator<Item = &'a Group> {
    all.iter().flat_map(|resources| resources.groups()).filter(|group| !group.name.is_empty())
}

fn group_entry(group: &Group) -> Value {
    let entry =
        |version: &String| json!({"groupVersion": group_version(&group.name, version), "version": version});
    let versions: Vec<Value> = group.versions.iter().map(entry).collect();
    json!({"name": group.name, "versions": versions, "preferredVersion": versions.first()})
}

/// `GET /api/v1` and `GET /apis/GROUP/VERSION`.
pub fn resources(all: &[&Resources], group: &str, version: &str) -> Option<Value> {
    let resources = all.iter().find_map(|resources| resources.of(group, version))?;
    let mut entries = Vec::new();
    for resource in resources {
        entries.push(resource_entry(resource));
        entries
            .extend(resource.subresources.iter().map(|subresource| subresource_entry(resource, subresource)));
    }
    let mut document = json!({"kind": "APIResourceList", "groupVersion": group_version(group, version), "resources": entries});
    if !group.is_empty() {
        document["apiVersion"] = "v1".into();
    }
    Some(document)
}

fn resource_entry(resource: &Resource) -> Value {
    let mut entry = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = resource.short_names.clone().into();
    }
    if !resource.categories.is_empty() {
        entry["categories"] = resource.categories.clone().into();
    }
    if resource.verbs.iter().any(|verb| verb == "list") {
        entry["storageVersionHash"] = storage_hash(resource).into();
    }
    entry
}

fn subresource_entry(resource: &Resource, subresource: &Subresource) -> Value {
    let (group, version, kind) = &subresource.kind;
    let mut entry = json!({
        "name": format!("{}/{}", resource.plural, subresource.name),
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": kind,
        "verbs": subresource.verbs,
    });
    if !group.is_empty() || !version.is_empty() {
        entry["group"] = group.clone().into();
        entry["version"] = version.clone().into();
    }
    entry
}

fn storage_hash(resource: &Resource) -> String {
    use base64::Engine as _;
    let name = format!("{}/{}/{}", resource.group, resource.version, resource.kind);
    let hash = xxhash_rust::xxh3::xxh3_64(name.as_bytes()).to_be_bytes();
    base64::engine::general_purpose::STANDARD.encode(hash)
}

/// The aggregated form: of the core group, or of all others.
pub fn aggregated(all: &[&Resources], core: bool) -> Value {
    let groups =
        all.iter().flat_map(|resources| resources.groups().iter().map(move |group| (resources, group)));
    let items: Vec<Value> = groups
        .filter(|(_, group)| group.name.is_empty() == core)
        .map(|(resources, group)| {
            let versions: Vec<Value> = group
                .versions
                .iter()
                .map(|version| {
                    let resources = resources.of(&group.name, version).unwrap_or_default();
                    let entries: Vec<Value> =
                        resources.iter().map(|resource| aggregated_entry(resource)).collect();
                    json!({"version": version, "resources": entries, "freshness": "Current"})
                })
                .collect();
            let metadata = if core { json!({}) } else { json!({"name": group.name}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_entry(resource: &Resource) -> Value {
    let mut entry = Map::new();
    entry.insert("resource".to_owned(), resource.plural.clone().into());
    // Group and version are left empty where they are those of the place.
    entry.insert("responseKind".to_owned(), response_kind(resource, ("", "", &resource.kind)));
    entry.insert("scope".to_owned(), if resource.namespaced { "Namespaced" } else { "Cluster" }.into());
    entry.insert("singularResource".to_owned(), resource.singular.clone().into());
    entry.insert("verbs".to_owned(), resource.verbs.clone().into());
    if !resource.short_names.is_empty() {
        entry.insert("shortNames".to_owned(), resource.short_names.clone().into());
    }
    if !resource.categories.is_empty() {
        entry.insert("categories".to_owned(), resource.categories.clone().into());
    }
    if !resource.subresources.is_empty() {
        let subresources = resource.subresources.iter().map(|subresource| {
            let (group, version, kind) = &subresource.kind;
            json!({
                "subresource": subresource.name,
                "responseKind": response_kind(resource, (group, version, kind)),
                "verbs": subresource.verbs,
            })
        });
        entry.insert("subresources".to_owned(), subresources.collect());
    }
    Value::Object(entry)
}

fn response_kind(resource: &Resource, kind: (&str, &str, &str)) -> Value {
    let (group, version, kind) = kind;
    // Definitions state the group and version of their kinds; built-in kinds leave them to the place.
    if resource.custom.is_some() && group.is_empty() && version.is_empty() {
        return json!({"group": resource.group, "version": resource.version, "kind": kind});
    }
    json!({"group": group, "version": version, "kind": kind})
}
