//! Admission of new pods: service account, priority, tolerations, runtime class.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::quality;
use crate::resources::Resource;
use crate::rest::{Core, Failure, meta_text};
use crate::store::{ResourceName, Session};

pub(super) fn on_create(
    core: &Core,
    session: &Session<'_>,
    resource: &Resource,
    pod: &mut Value,
) -> Result<(), Failure> {
    service_account(core, session, resource, pod)?;
    priority(session, resource, pod)?;
    tolerations(pod);
    overhead(session, resource, pod)?;
    match_label_keys(pod);
    pod["status"] = json!({"phase": "Pending", "qosClass": quality::class(&pod["spec"])});
    gated(core, pod);
    Ok(())
}

fn service_account(
    core: &Core,
    session: &Session<'_>,
    resource: &Resource,
    pod: &mut Value,
) -> Result<(), Failure> {
    let namespace = meta_text(pod, "namespace").to_owned();
    let spec = &mut pod["spec"];
    let account =
        spec["serviceAccountName"].as_str().filter(|name| !name.is_empty()).unwrap_or("default").to_owned();
    let Some(found) = session.get(&ResourceName::new("", "serviceaccounts"), &namespace, &account) else {
        let message = format!(
            "error looking up service account {namespace}/{account}: serviceaccount {account:?} not found"
        );
        return Err(Failure::forbidden(resource, meta_text(pod, "name"), &message));
    };
    spec["serviceAccountName"] = account.clone().into();
    spec["serviceAccount"] = account.into();
    let automount = match spec.get("automountServiceAccountToken") {
        Some(wanted) => wanted != false,
        None => found.get("automountServiceAccountToken").is_none_or(|wanted| wanted != false),
    };
    if automount {
        mount_token(core, spec);
    }
    Ok(())
}

const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Containers find the token of their account in a volume, unless they mount something else there.
fn mount_token(core: &Core, spec: &mut Value) {
    let lacks = |container: &Value| {
        let mounts = container["volumeMounts"].as_array();
        !mounts.is_some_and(|mounts| mounts.iter().any(|mount| mount["mountPath"] == TOKEN_PATH))
    };
    let lists = ["initContainers", "containers"];
    let wanted = lists
        .iter()
        .any(|list| spec[*list].as_array().is_some_and(|containers| containers.iter().any(lacks)));
    if !wanted {
        return;
    }
    let name = format!("kube-api-access-{}", core.chance.suffix());
    for list in lists {
        for container in spec[list].as_array_mut().into_iter().flatten().filter(|container| lacks(container))
        {
            push(
                &mut container["volumeMounts"],
                json!({"name": name, "readOnly": true, "mountPath": TOKEN_PATH}),
            );
        }
        // Reading a missing list has put a null in its place.
        if spec[list].is_null()
            && let Some(fields) = spec.as_object_mut()
        {
            fields.remove(list);
        }
    }
    let mut volume = TOKEN_VOLUME.clone();
    volume["name"] = name.into();
    push(&mut spec["volumes"], volume);
}

/// The volume with the token, still without its name. Nearly every pod gets a copy.
static TOKEN_VOLUME: LazyLock<Value> = LazyLock::new(|| {
    json!({"name": "", "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}})
});

fn push(list: &mut Value, item: Value) {
    if !list.is_array() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut() {
        list.push(item);
    }
}

fn priority(session: &Session<'_>, resource: &Resource, pod: &mut Value) -> Result<(), Failure> {
    let name = meta_text(pod, "name").to_owned();
    let classes = ResourceName::new("scheduling.k8s.io", "priorityclasses");
    let wanted = pod["spec"]["priorityClassName"].as_str().unwrap_or_default().to_owned();
    let class = if wanted.is_empty() {
        let all = session.list(&classes, None, None);
        let defaults = all.into_iter().map(|(_, class)| class).filter(|class| class["globalDefault"] == true);
        defaults.min_by_key(|class| class["value"].as_i64().unwrap_or(0))
    } else {
        let Some(class) = session.get(&classes, "", &wanted) else {
            return Err(Failure::forbidden(
                resource,
                &name,
                &format!("no PriorityClass with name {wanted} was found"),
            ));
        };
        Some(class)
    };
    let value = class.as_ref().and_then(|class| class["value"].as_i64()).unwrap_or(0);
    let policy = class
        .as_ref()
        .and_then(|class| class["preemptionPolicy"].as_str())
        .unwrap_or("PreemptLowerPriority")
        .to_owned();
    let spec = &mut pod["spec"];
    if let Some(given) = spec.get("priority").and_then(Value::as_i64)
        && given != value
    {
        let message = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed \
             {value} from the given PriorityClass name"
        );
        return Err(Failure::forbidden(resource, &name, &message));
    }
    if let Some(given) = spec.get("preemptionPolicy").and_then(Value::as_str)
        && given != policy
    {
        let message = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller \
             computed {policy} from the given PriorityClass name"
        );
        return Err(Failure::forbidden(resource, &name, &message));
    }
    if let (true, Some(class)) = (wanted.is_empty(), &class) {
        spec["priorityClassName"] = meta_text(class, "name").into();
    }
    spec["priority"] = value.into();
    spec["preemptionPolicy"] = policy.into();
    Ok(())
}

/// A runtime class may say what its pods need beyond their containers, and where they run.
fn overhead(session: &Session<'_>, resource: &Resource, pod: &mut Value) -> Result<(), Failure> {
    let Some(wanted) =
        pod["spec"].get("runtimeClassName").and_then(Value::as_str).filter(|name| !name.is_empty())
    else {
        return Ok(());
    };
    let Some(class) = session.get(&ResourceName::new("node.k8s.io", "runtimeclasses"), "", wanted) else {
        let message = format!("pod rejected: RuntimeClass {wanted:?} not found");
        return Err(Failure::forbidden(resource, meta_text(pod, "name"), &message));
    };
    if let Some(fixed) = class["overhead"].get("podFixed") {
        pod["spec"]["overhead"] = fixed.clone();
    }
    if let Some(selector) = class["scheduling"].get("nodeSelector").and_then(Value::as_object) {
        let present = &mut pod["spec"]["nodeSelector"];
        if !present.is_object() {
            *present = json!({});
        }
        for (key, value) in selector {
            present[key] = value.clone();
        }
    }
    for toleration in class["scheduling"]["tolerations"].as_array().into_iter().flatten() {
        push(&mut pod["spec"]["tolerations"], toleration.clone());
    }
    Ok(())
}

/// A pod stays for five minutes on a node that is in trouble, unless it says otherwise.
fn tolerations(pod: &mut Value) {
    let tolerations = &mut pod["spec"]["tolerations"];
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = tolerations.as_array().into_iter().flatten().any(|toleration| {
            let of = |field: &str| toleration[field].as_str().unwrap_or_default();
            (of("key") == key || of("key").is_empty()) && matches!(of("effect"), "NoExecute" | "")
        });
        if !tolerated {
            push(
                tolerations,
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}),
            );
        }
    }
}

/// Keys whose values a selector takes from the pod's own labels.
fn match_label_keys(pod: &mut Value) {
    if ["affinity", "topologySpreadConstraints"].iter().all(|field| pod["spec"].get(field).is_none()) {
        return;
    }
    let labels = pod["metadata"]["labels"].clone();
    let add = |selector: &mut Value, keys: &Value, operator: &str| {
        for key in keys.as_array().into_iter().flatten().filter_map(Value::as_str) {
            if let (Some(value), true) = (labels.get(key), selector.is_object()) {
                push(
                    &mut selector["matchExpressions"],
                    json!({"key": key, "operator": operator, "values": [value]}),
                );
            }
        }
    };
    for constraint in pod["spec"]["topologySpreadConstraints"].as_array_mut().into_iter().flatten() {
        let keys = constraint["matchLabelKeys"].clone();
        if keys.is_array() {
            add(&mut constraint["labelSelector"], &keys, "In");
        }
        drop_null(constraint, "matchLabelKeys");
    }
    let mut each_term = |term: &mut Value| {
        for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
            let keys = term[field].clone();
            if keys.is_array() {
                add(&mut term["labelSelector"], &keys, operator);
            }
            drop_null(term, field);
        }
    };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = pod["spec"].get_mut("affinity").and_then(|affinity| affinity.get_mut(kind))
        else {
            continue;
        };
        if let Some(terms) =
            affinity.get_mut("requiredDuringSchedulingIgnoredDuringExecution").and_then(Value::as_array_mut)
        {
            terms.iter_mut().for_each(&mut each_term);
        }
        if let Some(terms) =
            affinity.get_mut("preferredDuringSchedulingIgnoredDuringExecution").and_then(Value::as_array_mut)
        {
            terms.iter_mut().filter_map(|term| term.get_mut("podAffinityTerm")).for_each(&mut each_term);
        }
    }
    drop_null(&mut pod["spec"], "topologySpreadConstraints");
    drop_null(&mut pod["metadata"], "labels");
}

/// Indexing a value mutably puts a null where nothing was.
fn drop_null(value: &mut Value, field: &str) {
    if value.get(field).is_some_and(Value::is_null)
        && let Some(fields) = value.as_object_mut()
    {
        fields.remove(field);
    }
}

/// A pod with gates says from the start why it is not scheduled.
fn gated(core: &Core, pod: &mut Value) {
    let gated =
        pod["spec"].get("schedulingGates").and_then(Value::as_array).is_some_and(|gates| !gates.is_empty());
    if gated {
        pod["status"]["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "lastProbeTime": null, "lastTransitionTime": core.now(),
            "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
}
