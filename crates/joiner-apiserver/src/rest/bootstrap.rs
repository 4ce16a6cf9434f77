//! What every new cluster has.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Core, Failure, FieldValidation, WriteOptions, create, typed};
use crate::resources::Resources;

/// Creates the first namespaces with their service accounts, and the two system priorities.
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

/// Creates an object of a built-in kind without a request.
pub(crate) fn create_directly(
    core: &Core,
    group: &str,
    plural: &str,
    namespace: &str,
    object: Value,
) -> Result<Arc<Value>, Failure> {
    let groups = Resources::builtin().groups().iter();
    let versions = groups.filter(|known| known.name == group).flat_map(|known| &known.versions);
    let mut found = versions.filter_map(|version| Resources::builtin().find(group, version, plural));
    let resource = found.next().ok_or_else(Failure::unknown_resource)?;
    typed::check_value(resource, &object)?;
    let object = typed::clean(resource, object);
    let options = WriteOptions {
        dry_run: false,
        manager: "kube-apiserver".to_owned(),
        validation: FieldValidation::Ignore,
        force: false,
    };
    let mut session = core.store.open();
    let stored = create::create_object(core, &mut session, resource, namespace, object, &options, true)?;
    core.settle(&mut session);
    Ok(stored)
}
