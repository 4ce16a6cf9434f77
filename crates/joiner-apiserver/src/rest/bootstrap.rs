//! What every new cluster has.

use serde_json::{Value, json};

use super::{Core, FieldValidation, WriteOptions, create};
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
        write(core, group, plural, namespace, object);
    }
}

fn write(core: &Core, group: &str, plural: &str, namespace: &str, object: Value) {
    let options = WriteOptions {
        dry_run: false,
        manager: "kube-apiserver".to_owned(),
        validation: FieldValidation::Ignore,
        force: false,
    };
    let Some(resource) = Resources::builtin().find(group, "v1", plural) else { return };
    let mut session = core.store.open();
    let created = create::create_object(core, &mut session, resource, namespace, object, &options, true);
    debug_assert!(created.is_ok(), "objects of a new cluster are valid");
}
