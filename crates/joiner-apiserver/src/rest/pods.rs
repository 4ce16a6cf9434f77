//! What can be asked of a pod beyond reading and writing it: binding, eviction, logs.

use serde_json::{Value, json};

use super::delete::{DeleteOptions, Outcome, delete_object};
use super::metadata::{generation, is_deleting, map_of, meta, meta_mut, meta_text, text_at};
use super::options::{WriteOptions, dry_run};
use super::status::{self, Failure};
use super::update::check_preconditions;
use super::{Answer, Call, Core, Payload, Target, body};
use crate::selector::LabelSelector;
use crate::store::{ResourceName, Session, Stored};

/// The scheduler decides: `POST bindings`, the old form, whose body names the pod.
pub(crate) fn bind_by_name(call: &Call<'_>) -> Result<Answer, Failure> {
    let binding = body::document(call, "Binding")?.to_value();
    let resource = call.core.find("", "v1", "pods").ok_or_else(Failure::unknown_resource)?;
    let call = Call {
        core: call.core,
        incoming: call.incoming,
        resource,
        namespace: call.namespace.clone(),
        everywhere: false,
        name: meta_text(&binding, "name").to_owned(),
        subresource: Some("binding".to_owned()),
        accepted: call.accepted,
    };
    bind(&call)
}

/// The scheduler decides: `POST pods/NAME/binding`.
pub(crate) fn bind(call: &Call<'_>) -> Result<Answer, Failure> {
    let options = call.write_options("CreateOptions")?;
    let binding = body::document(call, "Binding")?.to_value();
    bind_pod(&call.target(), &binding, &options)?;
    Ok(Answer::new(201, Payload::Document(status::success(Some(201), None))))
}

/// Gives a pod its node.
pub(crate) fn bind_pod(target: &Target<'_>, binding: &Value, options: &WriteOptions) -> Result<(), Failure> {
    let Target { core, resource, namespace, name, .. } = *target;
    let node = text_at(binding, "target.name").to_owned();
    if node.is_empty() {
        return Err(Failure::internal("target.name: Required value"));
    }
    let kind = text_at(binding, "target.kind");
    if !kind.is_empty() && kind != "Node" {
        return Err(Failure::internal(format!(
            "target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\""
        )));
    }
    let mut session = core.open_to_change()?;
    let mut pod = target.stored(&session)?.into_value();
    let refuse = |detail: String| {
        let message = format!("Operation cannot be fulfilled on pods/binding {name:?}: {detail}");
        let details = json!({"name": name, "kind": "pods/binding"});
        Failure::new(409, "Conflict", message).with_details(details)
    };
    check_preconditions(resource, &pod, binding)?;
    if is_deleting(&pod) {
        return Err(refuse(format!("pod {name} is being deleted, cannot be assigned to a host")));
    }
    let bound = text_at(&pod, "spec.nodeName");
    if !bound.is_empty() {
        return Err(refuse(format!("pod {name} is already assigned to node {bound:?}")));
    }
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return Err(refuse(format!("pod {name} has non-empty .spec.schedulingGates")));
    }
    pod["spec"]["nodeName"] = node.clone().into();
    merge_metadata(&mut pod, binding, "annotations");
    merge_metadata(&mut pod, binding, "labels");
    copy_topology(&session, &mut pod, &node);
    let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": core.now()});
    set_condition(&mut pod, condition);
    // A pod that has its node waits for none.
    map_of(&mut pod["status"]).remove("nominatedNodeName");
    if !options.dry_run {
        session.put(&resource.stored_as, namespace, name, pod);
    }
    Ok(())
}

fn merge_metadata(pod: &mut Value, binding: &Value, field: &str) {
    let Some(given) = meta(binding).and_then(|metadata| metadata.get(field)).and_then(Value::as_object)
    else {
        return;
    };
    if !given.is_empty() {
        let present = map_of(meta_mut(pod).entry(field).or_insert(Value::Null));
        present.extend(given.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}

/// A pod carries the zone and region of its node.
fn copy_topology(session: &Session<'_>, pod: &mut Value, node: &str) {
    let Some(node) = session.get(&ResourceName::new("", "nodes"), "", node) else { return };
    for label in ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"] {
        if let Some(value) = node.object().label(label) {
            let labels = map_of(meta_mut(pod).entry("labels").or_insert(Value::Null));
            labels.insert(label.to_owned(), value.into());
        }
    }
}

fn set_condition(pod: &mut Value, condition: Value) {
    let conditions = &mut map_of(&mut pod["status"]).entry("conditions").or_insert(Value::Null);
    if !conditions.is_array() {
        **conditions = json!([]);
    }
    if let Some(list) = conditions.as_array_mut() {
        match list.iter_mut().find(|present| present["type"] == condition["type"]) {
            Some(present) => *present = condition,
            None => list.push(condition),
        }
    }
}

/// Deletes a pod if its disruption budget allows: `POST pods/NAME/eviction`.
pub(crate) fn evict(call: &Call<'_>) -> Result<Answer, Failure> {
    let eviction = body::document(call, "Eviction")?.to_value();
    let name = meta_text(&eviction, "name");
    if !name.is_empty() && name != call.name {
        return Err(Failure::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut options = DeleteOptions::from_value(&eviction["deleteOptions"])?;
    options.dry_run |= dry_run(call.query().all("dryRun").map(str::to_owned).collect(), "CreateOptions")?;
    evict_pod(&call.target(), &options)?;
    Ok(Answer::new(201, Payload::Document(status::success(Some(201), None))))
}

/// Deletes a pod if its disruption budget allows.
pub(crate) fn evict_pod(target: &Target<'_>, options: &DeleteOptions) -> Result<(), Failure> {
    let mut session = target.core.open_to_change()?;
    let pod = target.stored(&session)?;
    let phase = text_at(&pod, "status.phase");
    let ends_anyway = matches!(phase, "Succeeded" | "Failed" | "Pending") || is_deleting(&pod);
    if !ends_anyway && let Some(budget) = budget_of(&session, &pod)? {
        let charged = charge(target.core, &pod, &budget)?;
        if let (Some(charged), false) = (charged, options.dry_run) {
            session.put(&budgets(), target.namespace, meta_text(&budget, "name"), charged);
        }
    }
    let pod = if options.dry_run { pod } else { note_eviction(target, &mut session, pod) };
    match delete_object(target.core, &mut session, target.resource, &pod, options)? {
        Outcome::Gone(_) | Outcome::Held(_) => {}
    }
    target.core.settle(&mut session);
    Ok(())
}

/// A pod that lives on for its grace carries the reason of its end.
fn note_eviction(target: &Target<'_>, session: &mut Session<'_>, pod: Stored) -> Stored {
    if text_at(&pod, "spec.nodeName").is_empty()
        || matches!(text_at(&pod, "status.phase"), "Succeeded" | "Failed")
    {
        return pod;
    }
    let mut new = pod.into_value();
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "lastProbeTime": null, "lastTransitionTime": target.core.now(),
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
    });
    set_condition(&mut new, condition);
    session.put(&target.resource.stored_as, target.namespace, target.name, new)
}

fn budgets() -> ResourceName {
    ResourceName::new("policy", "poddisruptionbudgets")
}

fn budget_of(session: &Session<'_>, pod: &Value) -> Result<Option<Stored>, Failure> {
    let all = session.list(&budgets(), Some(meta_text(pod, "namespace")), None);
    let mut matching = all.into_iter().map(|(_, budget)| budget).filter(|budget| {
        LabelSelector::from_object(&budget["spec"]["selector"]).is_some_and(|selector| selector.matches(pod))
    });
    let first = matching.next();
    if matching.next().is_some() {
        let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(Failure::internal(message));
    }
    Ok(first)
}

/// The budget after the eviction; nothing when the eviction is free.
fn charge(core: &Core, pod: &Value, budget: &Value) -> Result<Option<Value>, Failure> {
    let status = &budget["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    let ready = status_of(pod, "Ready") == Some("True");
    let (healthy, desired) = (number("currentHealthy"), number("desiredHealthy"));
    if !ready {
        let always = text_at(budget, "spec.unhealthyPodEvictionPolicy") == "AlwaysAllow";
        if always || (healthy >= desired && desired > 0) {
            return Ok(None);
        }
    }
    let name = meta_text(budget, "name");
    let refuse = |cause: String, retry_after: Option<u32>| {
        let mut details = json!({"causes": [{"reason": "DisruptionBudget", "message": cause}]});
        if let Some(seconds) = retry_after {
            details["retryAfterSeconds"] = seconds.into();
        }
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        let mut failure = Failure::new(429, "TooManyRequests", message).with_details(details);
        failure.retry_after = retry_after;
        failure
    };
    if number("observedGeneration") < generation(budget) {
        return Err(refuse(
            format!("The disruption budget {name} is still being processed by the server."),
            Some(10),
        ));
    }
    let allowed = number("disruptionsAllowed");
    if allowed <= 0 {
        let cause =
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently");
        return Err(refuse(cause, None));
    }
    let mut charged = budget.clone();
    let status = map_of(&mut charged["status"]);
    status.insert("disruptionsAllowed".to_owned(), (allowed - 1).into());
    let disrupted = map_of(status.entry("disruptedPods").or_insert(Value::Null));
    disrupted.insert(meta_text(pod, "name").to_owned(), core.now().into());
    if allowed == 1 {
        let condition = json!({
            "type": "DisruptionAllowed", "status": "False", "observedGeneration": generation(budget),
            "lastTransitionTime": core.now(), "reason": "InsufficientPods", "message": "",
        });
        set_condition(&mut charged, condition);
    }
    Ok(Some(charged))
}

fn status_of<'a>(pod: &'a Value, condition: &str) -> Option<&'a str> {
    let list = pod["status"]["conditions"].as_array()?;
    list.iter().find(|present| present["type"] == condition)?["status"].as_str()
}

/// Nothing runs here, so there is nothing to read.
pub(crate) fn log(call: &Call<'_>) -> Result<Answer, Failure> {
    let pod = call.stored(&call.core.store.open())?;
    if text_at(&pod, "spec.nodeName").is_empty() {
        return Ok(Answer::new(204, Payload::Nothing));
    }
    Err(Failure::new(501, "NotImplemented", format!("logs of pod `{}` are not simulated", call.name)))
}
