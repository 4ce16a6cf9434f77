//! Quotas: a new object must fit into what is left of each that counts it, and what is used stands in their status.
//!
//! On a real cluster admission adds to the status and a controller counts anew. Here the status follows every write at once, where
//! controllers are played (see [`crate::gc`]): by the difference that the write makes, or counted anew where the quota itself has changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::amounts::{self, Amount, Amounts, containers};
use super::quality;
use crate::resources::{Resource, Resources};
use crate::rest::{Core, Failure, FieldValidation, UpdateContext, WriteOptions, meta_text, update_object};
use crate::store::{Change, ChangeKind, Object, ResourceName, Session, Stored};

fn quotas() -> ResourceName {
    ResourceName::new("", "resourcequotas")
}

/// Whether a new object fits into the quotas of its namespace.
///
/// # Errors
/// It does not, or a quota cannot tell yet.
pub(crate) fn check(
    session: &Session<'_>,
    resource: &Resource,
    namespace: &str,
    object: &Value,
) -> Result<(), Failure> {
    // Events are counted by nobody.
    if namespace.is_empty() || matches!(resource.plural.as_str(), "events") {
        return Ok(());
    }
    for (_, quota) in session.list(&quotas(), Some(namespace), None) {
        let refuse = |message: String| Err(Failure::forbidden(resource, meta_text(object, "name"), &message));
        let name = meta_text(&quota, "name");
        let (hard, used) =
            (amounts::read(quota.pointer("/status/hard")), amounts::read(quota.pointer("/status/used")));
        let stored_as = &resource.stored_as;
        let counted: BTreeSet<&String> = hard.keys().filter(|name| counts(stored_as, name)).collect();
        if counted.is_empty() || !in_scope(stored_as, &quota, object) {
            continue;
        }
        if resource.is("", "pods")
            && let Some(missing) = missing_in_pod(&counted, object)
        {
            return refuse(format!("failed quota: {name}: must specify {missing}"));
        }
        if counted.iter().any(|name| !used.contains_key(*name)) {
            let counted: Vec<&str> = counted.into_iter().map(String::as_str).collect();
            return refuse(format!("status unknown for quota: {name}, resources: {}", counted.join(",")));
        }
        let asked = usage(stored_as, object);
        let exceeded = |name: &&String| {
            let (Some(asked), Some(used), Some(hard)) = (asked.get(*name), used.get(*name), hard.get(*name))
            else {
                return false;
            };
            asked.nanos > 0 && asked.nanos.saturating_add(used.nanos) > hard.nanos
        };
        let exceeded: Vec<&String> = counted.iter().copied().filter(exceeded).collect();
        if !exceeded.is_empty() {
            let told = |amounts: &Amounts| {
                let told = exceeded
                    .iter()
                    .filter_map(|name| Some(format!("{name}={}", amounts.get(*name)?.written())));
                told.collect::<Vec<_>>().join(",")
            };
            let (asked, used, hard) = (told(&asked), told(&used), told(&hard));
            return refuse(format!(
                "exceeded quota: {name}, requested: {asked}, used: {used}, limited: {hard}"
            ));
        }
    }
    Ok(())
}

/// Brings the status of quotas up to date after changes. The store must be as these changes have left it.
pub(crate) fn follow(core: &Core, session: &mut Session<'_>, changes: &[(ResourceName, Arc<Change>)]) {
    let namespaces = changes.iter().filter_map(|(_, change)| change.key.split_once('/'));
    let namespaces: BTreeSet<&str> = namespaces.map(|(namespace, _)| namespace).collect();
    for namespace in namespaces {
        for (_, quota) in session.list(&quotas(), Some(namespace), None) {
            let hard = amounts::read(quota.pointer("/spec/hard"));
            let known = hard == amounts::read(quota.pointer("/status/hard"));
            let mut used = amounts::read(quota.pointer("/status/used"));
            if known && used.len() == hard.len() {
                let here = |key: &str| key.split_once('/').is_some_and(|(of, _)| of == namespace);
                let changes = changes.iter().filter(|(_, change)| here(&change.key));
                let before = used.clone();
                changes.for_each(|(resource, change)| apply(&quota, resource, change, &mut used));
                if used == before {
                    continue;
                }
            } else {
                used = count(session, &quota, namespace, &hard);
            }
            write(core, session, &quota, &hard, &used);
        }
    }
}

/// What a change makes of the use of a quota.
fn apply(quota: &Value, resource: &ResourceName, change: &Change, used: &mut Amounts) {
    if !used.keys().any(|name| counts(resource, name)) {
        return;
    }
    let of = |object: Option<&Arc<Object>>| match object.map(Stored::from) {
        Some(object) if in_scope(resource, quota, &object) => usage(resource, &object),
        _ => Amounts::new(),
    };
    let before = of(change.previous.as_ref());
    let now = of((change.kind != ChangeKind::Deleted).then_some(&change.object));
    for (name, used) in used {
        let part = |usage: &Amounts| usage.get(name).copied().unwrap_or_default();
        *used = used.plus(part(&now)).minus(part(&before));
    }
}

/// Counts everything in a namespace.
fn count(session: &Session<'_>, quota: &Value, namespace: &str, hard: &Amounts) -> Amounts {
    let mut sum: Amounts = hard.keys().map(|name| (name.clone(), Amount::default())).collect();
    for resource in session.resources() {
        if !hard.keys().any(|name| counts(&resource, name)) {
            continue;
        }
        for (_, object) in session.list(&resource, Some(namespace), None) {
            if in_scope(&resource, quota, &object) {
                amounts::add(&mut sum, &usage(&resource, &object));
            }
        }
    }
    sum.retain(|name, _| hard.contains_key(name));
    sum
}

fn write(core: &Core, session: &mut Session<'_>, quota: &Stored, hard: &Amounts, used: &Amounts) {
    let Some(resource) = Resources::builtin().find("", "v1", "resourcequotas") else { return };
    let mut new = Value::clone(quota);
    new["status"] = json!({"hard": amounts::written(hard), "used": amounts::written(used)});
    let options = WriteOptions {
        dry_run: false,
        manager: "kube-controller-manager".to_owned(),
        validation: FieldValidation::Ignore,
        force: false,
    };
    let context = UpdateContext { options: &options, subresource: "status", tracked: false };
    // A refusal leaves the quota as it is, which is what a controller that fails does too.
    let _ = update_object(core, session, resource, quota, new, &context);
}

/// Whether objects of a resource use what a quota bounds by this name.
fn counts(resource: &ResourceName, name: &str) -> bool {
    if let Some(counted) = name.strip_prefix("count/") {
        let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
        return plural == &*resource.plural && group == &*resource.group;
    }
    if !resource.group.is_empty() {
        return false;
    }
    match &*resource.plural {
        "pods" => {
            let request = name.strip_prefix("requests.");
            let compute = |name: &str| {
                matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
            };
            name == "pods"
                || compute(name)
                || request.is_some_and(|name| compute(name) || is_extended(name))
                || name.strip_prefix("limits.").is_some_and(compute)
        }
        "services" => matches!(name, "services" | "services.loadbalancers" | "services.nodeports"),
        "persistentvolumeclaims" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        plural => {
            plural == name
                && matches!(plural, "configmaps" | "resourcequotas" | "replicationcontrollers" | "secrets")
        }
    }
}

/// Resources of nodes that Kubernetes does not know have a domain.
fn is_extended(name: &str) -> bool {
    name.split_once('/')
        .is_some_and(|(domain, _)| domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io"))
}

/// What an object uses.
fn usage(resource: &ResourceName, object: &Value) -> Amounts {
    let one = Amount::count(1);
    let name = match &*resource.group {
        "" => format!("count/{}", resource.plural),
        group => format!("count/{}.{group}", resource.plural),
    };
    let mut usage = Amounts::from([(name, one)]);
    if !resource.group.is_empty() {
        return usage;
    }
    match &*resource.plural {
        "pods" => {
            let phase = object.pointer("/status/phase").and_then(Value::as_str);
            if !matches!(phase, Some("Failed" | "Succeeded")) {
                usage.extend(usage_of_pod(object));
            }
        }
        "services" => {
            usage.insert("services".to_owned(), one);
            let kind = object.pointer("/spec/type").and_then(Value::as_str).unwrap_or_default();
            let ports = object.pointer("/spec/ports").and_then(Value::as_array).map_or(0, Vec::len);
            if kind == "LoadBalancer" {
                usage.insert("services.loadbalancers".to_owned(), one);
            }
            if matches!(kind, "NodePort" | "LoadBalancer") {
                let ports = Amount::count(i128::try_from(ports).unwrap_or(0));
                usage.insert("services.nodeports".to_owned(), ports);
            }
        }
        "persistentvolumeclaims" => {
            usage.insert("persistentvolumeclaims".to_owned(), one);
            let storage = object.pointer("/spec/resources/requests/storage").and_then(Amount::read);
            usage.extend(storage.map(|storage| ("requests.storage".to_owned(), storage)));
        }
        plural => {
            usage.insert(plural.to_owned(), one);
        }
    }
    usage
}

fn usage_of_pod(pod: &Value) -> Amounts {
    let mut requests = amounts::of_pod(pod, "requests");
    amounts::add(&mut requests, &amounts::read(pod.pointer("/spec/overhead")));
    computed(&requests, &amounts::of_pod(pod, "limits"))
}

/// Requests and limits by the names that quotas have for them.
fn computed(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::from([("pods".to_owned(), Amount::count(1))]);
    for (name, amount) in requests {
        if !is_extended(name) {
            usage.insert(name.clone(), *amount);
        }
        usage.insert(format!("requests.{name}"), *amount);
    }
    usage.extend(limits.iter().map(|(name, amount)| (format!("limits.{name}"), *amount)));
    usage
}

/// What a quota counts every container of a pod must say, if the pod does not say it as a whole.
fn missing_in_pod(counted: &BTreeSet<&String>, pod: &Value) -> Option<String> {
    const MUST_BE_SAID: [&str; 6] =
        ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
    let whole = pod.pointer("/spec/resources").and_then(Value::as_object);
    if whole.is_some_and(|whole| !whole.is_empty()) {
        return None;
    }
    let mut told = Vec::new();
    for name in MUST_BE_SAID.into_iter().filter(|name| counted.iter().any(|counted| counted == name)) {
        let lacks = |container: &&Value| {
            let side = |side: &str| amounts::read(container["resources"].get(side));
            !computed(&side("requests"), &side("limits")).contains_key(name)
        };
        let all = containers(pod, "containers").chain(containers(pod, "initContainers"));
        let names: BTreeSet<&str> =
            all.filter(lacks).filter_map(|container| container["name"].as_str()).collect();
        if !names.is_empty() {
            told.push(format!("{name} for: {}", names.into_iter().collect::<Vec<_>>().join(",")));
        }
    }
    (!told.is_empty()).then(|| told.join("; "))
}

/// Whether a quota is about such an object at all. Only pods have scopes.
fn in_scope(resource: &ResourceName, quota: &Value, object: &Value) -> bool {
    let list = |pointer: &str| quota.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let is_pod = resource.group.is_empty() && &*resource.plural == "pods";
    let plain =
        list("/spec/scopes").map(|scope| (scope.as_str().unwrap_or_default(), "Exists", &Value::Null));
    let selected = list("/spec/scopeSelector/matchExpressions").map(|term| {
        let text = |name: &str| term.get(name).and_then(Value::as_str).unwrap_or_default();
        (text("scopeName"), text("operator"), &term["values"])
    });
    plain
        .chain(selected)
        .all(|(scope, operator, values)| is_pod && pod_in_scope(object, scope, operator, values))
}

fn pod_in_scope(pod: &Value, scope: &str, operator: &str, values: &Value) -> bool {
    let spec = &pod["spec"];
    let best_effort = || quality::class(spec) == "BestEffort";
    let terminating = || spec["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0);
    match scope {
        "Terminating" => terminating(),
        "NotTerminating" => !terminating(),
        "BestEffort" => best_effort(),
        "NotBestEffort" => !best_effort(),
        "PriorityClass" => {
            let class = spec["priorityClassName"].as_str().filter(|class| !class.is_empty());
            let named = || {
                class.is_some_and(|class| {
                    values.as_array().is_some_and(|all| all.iter().any(|value| value == class))
                })
            };
            match operator {
                "Exists" => class.is_some(),
                "DoesNotExist" => class.is_none(),
                "In" => named(),
                _ => !named(),
            }
        }
        "CrossNamespacePodAffinity" => ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
            let affinity = &spec["affinity"][*kind];
            let list = |field: &str| affinity[field].as_array().into_iter().flatten();
            let required = list("requiredDuringSchedulingIgnoredDuringExecution");
            let preferred =
                list("preferredDuringSchedulingIgnoredDuringExecution").map(|term| &term["podAffinityTerm"]);
            required.chain(preferred).any(|term| {
                let namespaces = term["namespaces"].as_array().is_some_and(|all| !all.is_empty());
                namespaces || term.get("namespaceSelector").is_some()
            })
        }),
        _ => false,
    }
}
