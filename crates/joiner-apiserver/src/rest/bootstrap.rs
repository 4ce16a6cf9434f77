//! What every new cluster has.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    Core, Failure, FieldValidation, UpdateContext, WriteOptions, create, definitions, typed, update_object,
};
use crate::resources::{Resource, Resources};
use crate::store::{ResourceName, Stored};

/// Creates the first namespaces with their service accounts, the service of the server, and the two system priorities.
pub(crate) fn bootstrap(core: &Core) {
    let mut objects = Vec::new();
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        objects.push((
            ("", "namespaces"),
            "",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        ));
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        objects.push((("", "serviceaccounts"), name, account));
    }
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "clusterIP": "10.96.0.1",
            "ports": [{"name": "https", "port": 443, "targetPort": 6443, "protocol": "TCP"}],
        },
    });
    objects.push((("", "services"), "default", service));
    for (name, value) in [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)]
    {
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
        });
        objects.push((("scheduling.k8s.io", "priorityclasses"), "", class));
    }
    for ((group, plural), namespace, object) in objects {
        let created = create_directly(core, group, plural, namespace, object);
        debug_assert!(created.is_ok(), "objects of a new cluster are valid");
    }
}

/// Registers what the definitions in the store define.
pub(crate) fn learn_definitions(core: &Core) {
    let stored_as = ResourceName::new("apiextensions.k8s.io", "customresourcedefinitions");
    definitions::refresh(core, &core.store.open(), &stored_as);
}

/// Creates an object of a built-in kind without a request.
pub(crate) fn create_directly(
    core: &Core,
    group: &str,
    plural: &str,
    namespace: &str,
    object: Value,
) -> Result<Stored, Failure> {
    let resource = builtin(group, plural)?;
    typed::check_value(resource, &object)?;
    let object = typed::clean(resource, object);
    create::create_new(core, resource, namespace, object, &options())
}

/// Creates an object of a built-in kind, or brings the one that is there into this form.
pub(crate) fn ensure_directly(
    core: &Core,
    group: &str,
    plural: &str,
    namespace: &str,
    object: Value,
) -> Result<Stored, Failure> {
    let resource = builtin(group, plural)?;
    let old = core.store.open().get(&resource.stored_as, namespace, super::meta_text(&object, "name"));
    let Some(old) = old else { return create_directly(core, group, plural, namespace, object) };
    typed::check_value(resource, &object)?;
    let object = typed::clean(resource, object);
    let mut session = core.open_to_change()?;
    let options = options();
    let context = UpdateContext { options: &options, subresource: "", tracked: true };
    let stored = update_object(core, &mut session, resource, &old, object, &context)?;
    core.settle(&mut session);
    Ok(stored)
}

/// A built-in resource in its first version.
fn builtin(group: &str, plural: &str) -> Result<&'static Arc<Resource>, Failure> {
    let groups = Resources::builtin().groups().iter();
    let versions = groups.filter(|known| known.name == group).flat_map(|known| &known.versions);
    let mut found = versions.filter_map(|version| Resources::builtin().find(group, version, plural));
    found.next().ok_or_else(Failure::unknown_resource)
}

fn options() -> WriteOptions {
    WriteOptions {
        dry_run: false,
        manager: "kube-apiserver".to_owned(),
        validation: FieldValidation::Ignore,
        force: false,
    }
}
