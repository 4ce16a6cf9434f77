//! Admission of new pods: service account, priority, tolerations, runtime class.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::quality;
use crate::resources::Resource;
use crate::rest::{Core, Failure, child_mut, meta_text};
use crate::store::{Listed, ResourceName, Session, Stored};

static SERVICE_ACCOUNTS: LazyLock<ResourceName> = LazyLock::new(|| ResourceName::new("", "serviceaccounts"));
static PRIORITY_CLASSES: LazyLock<ResourceName> =
    LazyLock::new(|| ResourceName::new("scheduling.k8s.io", "priorityclasses"));

static RUNTIME_CLASSES: LazyLock<ResourceName> =
    LazyLock::new(|| ResourceName::new("node.k8s.io", "runtimeclasses"));

/// What of the cluster counts for a pod.
#[derive(Default)]
pub(super) struct Around {
    account: Option<Stored>,
    /// The one it names, or all.
    priority_classes: Listed,
    runtime_class: Option<Stored>,
}

impl Around {
    pub(super) fn look(session: &Session<'_>, pod: &Value) -> Self {
        let spec = &pod["spec"];
        let priority_classes = match named(spec, "priorityClassName") {
            Some(name) => {
                let found = session.get(&PRIORITY_CLASSES, "", name);
                found.into_iter().map(|class| (name.into(), class)).collect()
            }
            None => session.list(&PRIORITY_CLASSES, None, None),
        };
        Self {
            account: session.get(&SERVICE_ACCOUNTS, meta_text(pod, "namespace"), account_of(spec)),
            priority_classes,
            runtime_class: named(spec, "runtimeClassName")
                .and_then(|name| session.get(&RUNTIME_CLASSES, "", name)),
        }
    }
}

fn named<'a>(spec: &'a Value, field: &str) -> Option<&'a str> {
    spec.get(field).and_then(Value::as_str).filter(|name| !name.is_empty())
}

fn account_of(spec: &Value) -> &str {
    named(spec, "serviceAccountName").unwrap_or("default")
}

pub(super) fn on_create(
    core: &Core,
    around: &Around,
    resource: &Resource,
    pod: &mut Value,
) -> Result<(), Failure> {
    service_account(core, around, resource, pod)?;
    priority(around, resource, pod)?;
    tolerations(child_mut(pod, "spec"));
    overhead(around, resource, pod)?;
    match_label_keys(pod);
    pod["status"] = json!({"phase": "Pending", "qosClass": quality::class(&pod["spec"])});
    gated(core, pod);
    Ok(())
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn service_account(
    core: &Core,
    around: &Around,
    resource: &Resource,
    pod: &mut Value,
) -> Result<(), Failure> {
    let account = account_of(&pod["spec"]).to_owned();
    let Some(found) = &around.account else {
        let namespace = meta_text(pod, "namespace");
        let message = format!(
            "error looking up service account {namespace}/{account}: serviceaccount {account:?} not found"
        );
        return Err(Failure::forbidden(resource, meta_text(pod, "name"), &message));
    };
    let spec = child_mut(pod, "spec");
    spec.insert("serviceAccountName".to_owned(), account.clone().into());
    spec.insert("serviceAccount".to_owned(), account.into());
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
fn mount_token(core: &Core, spec: &mut Map<String, Value>) {
    const LISTS: [&str; 2] = ["initContainers", "containers"];
    let lacks = |container: &Map<String, Value>| {
        let mounts = container.get("volumeMounts").and_then(Value::as_array);
        !mounts.is_some_and(|mounts| mounts.iter().any(|mount| mount["mountPath"] == TOKEN_PATH))
    };
    let mut name = None;
    for list in LISTS {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for container in containers.filter_map(Value::as_object_mut).filter(|container| lacks(container)) {
            let name = name.get_or_insert_with(|| format!("kube-api-access-{}", core.chance.suffix()));
            push(container, "volumeMounts", json!({"name": name, "readOnly": true, "mountPath": TOKEN_PATH}));
        }
    }
    if let Some(name) = name {
        let mut volume = TOKEN_VOLUME.clone();
        volume["name"] = name.into();
        push(spec, "volumes", volume);
    }
}

/// The volume with the token, still without its name. Nearly every pod gets a copy.
static TOKEN_VOLUME: LazyLock<Value> = LazyLock::new(|| {
    json!({"name": "", "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}})
});

fn push(fields: &mut Map<String, Value>, list: &str, item: Value) {
    match fields.get_mut(list) {
        Some(Value::Array(items)) => items.push(item),
        _ => {
            fields.insert(list.to_owned(), Value::Array(vec![item]));
        }
    }
}

fn priority(around: &Around, resource: &Resource, pod: &mut Value) -> Result<(), Failure> {
    let refuse =
        |pod: &Value, message: &str| Err(Failure::forbidden(resource, meta_text(pod, "name"), message));
    let spec = &pod["spec"];
    let wanted = named(spec, "priorityClassName");
    let mut classes = around.priority_classes.iter().map(|(_, class)| class);
    let class = match wanted {
        None => classes
            .filter(|class| class["globalDefault"] == true)
            .min_by_key(|class| class["value"].as_i64().unwrap_or(0)),
        Some(wanted) => {
            let Some(class) = classes.next() else {
                return refuse(pod, &format!("no PriorityClass with name {wanted} was found"));
            };
            Some(class)
        }
    };
    let value = class.and_then(|class| class["value"].as_i64()).unwrap_or(0);
    let policy = class.and_then(|class| class["preemptionPolicy"].as_str());
    let policy = policy.unwrap_or("PreemptLowerPriority");
    if let Some(given) = spec.get("priority").and_then(Value::as_i64)
        && given != value
    {
        let message = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed \
             {value} from the given PriorityClass name"
        );
        return refuse(pod, &message);
    }
    if let Some(given) = spec.get("preemptionPolicy").and_then(Value::as_str)
        && given != policy
    {
        let message = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller \
             computed {policy} from the given PriorityClass name"
        );
        return refuse(pod, &message);
    }
    let by_default = wanted.is_none();
    let spec = child_mut(pod, "spec");
    if let (true, Some(class)) = (by_default, class) {
        spec.insert("priorityClassName".to_owned(), meta_text(class, "name").into());
    }
    spec.insert("priority".to_owned(), value.into());
    spec.insert("preemptionPolicy".to_owned(), policy.into());
    Ok(())
}

/// A runtime class may say what its pods need beyond their containers, and where they run.
fn overhead(around: &Around, resource: &Resource, pod: &mut Value) -> Result<(), Failure> {
    let Some(wanted) = named(&pod["spec"], "runtimeClassName") else { return Ok(()) };
    let Some(class) = &around.runtime_class else {
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
        push(child_mut(pod, "spec"), "tolerations", toleration.clone());
    }
    Ok(())
}

/// A pod stays for five minutes on a node that is in trouble, unless it says otherwise.
fn tolerations(spec: &mut Map<String, Value>) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let present = spec.get("tolerations").and_then(Value::as_array).into_iter().flatten();
        let tolerated = present.filter_map(Value::as_object).any(|toleration| {
            let (of, effect) = (text(toleration, "key"), text(toleration, "effect"));
            (of == key || of.is_empty()) && matches!(effect, "NoExecute" | "")
        });
        if !tolerated {
            let toleration =
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
            push(spec, "tolerations", toleration);
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
            if let (Some(value), Some(selector)) = (labels.get(key), selector.as_object_mut()) {
                let expression = json!({"key": key, "operator": operator, "values": [value]});
                push(selector, "matchExpressions", expression);
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
