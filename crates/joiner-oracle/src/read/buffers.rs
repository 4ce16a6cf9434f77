//! CapacityBuffers turned into virtual pods (rule book §11).

use serde_json::Value;

use super::field::{at, required, text, whole};
use super::pod::{self, Surroundings};
use super::quantity::resources;
use super::workloads::from_template;
use super::{name_of, pod_requests};
use crate::world::{Buffer, Pod};

/// Reads buffers of the known strategy and makes their pods. `objects` are all objects with their kind.
pub(super) fn read(
    objects: &[(String, Value)],
    around: &Surroundings,
) -> Result<(Vec<Buffer>, Vec<Pod>), String> {
    let mut buffers = Vec::new();
    let mut pods = Vec::new();
    for (_, object) in objects.iter().filter(|(kind, _)| kind == "CapacityBuffer") {
        let strategy = text(object, &["spec", "provisioningStrategy"]);
        if strategy.is_some_and(|strategy| strategy != "buffer.x-k8s.io/active-capacity") {
            continue;
        }
        let namespace = text(object, &["metadata", "namespace"]).unwrap_or("default");
        let name = required(object, &["metadata", "name"])?;
        let explain = |why: String| format!("CapacityBuffer `{namespace}/{name}`: {why}");
        let mut made = 0;
        let copies = resolve(objects, object, namespace).map_err(explain)?;
        if let Some((template, count)) = copies {
            for number in 0..count {
                let mut virtual_pod = from_template(&template, namespace, &format!("buffer:{name}-{number}"))
                    .map_err(explain)?;
                strip(&mut virtual_pod["spec"]);
                let mut pod = pod::pod(&virtual_pod, around)?;
                pod.filler = true;
                pods.push(pod);
                made += 1;
            }
        }
        buffers.push(Buffer { name: format!("{namespace}/{name}"), pods: made });
    }
    buffers.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((buffers, pods))
}

/// The template and how many copies of it; `None` if the buffer is not ready.
fn resolve(
    objects: &[(String, Value)],
    buffer: &Value,
    namespace: &str,
) -> Result<Option<(Value, i128)>, String> {
    let find = |kind: &str, name: &str| {
        objects.iter().map(|(_, object)| object).find(|object| {
            text(object, &["kind"]) == Some(kind)
                && name_of(object) == name
                && text(object, &["metadata", "namespace"]).unwrap_or("default") == namespace
        })
    };
    let number = |field: &str| whole(buffer, &["spec", field]);
    let mut share = None;
    let template = if let Some(name) = text(buffer, &["spec", "podTemplateRef", "name"]) {
        find("PodTemplate", name).and_then(|object| at(object, &["template"]))
    } else {
        let kind = text(buffer, &["spec", "scalableRef", "kind"]).unwrap_or_default();
        let group = text(buffer, &["spec", "scalableRef", "apiGroup"]).unwrap_or("apps");
        let name = text(buffer, &["spec", "scalableRef", "name"]).unwrap_or_default();
        let scalable = group == "apps" && ["Deployment", "StatefulSet", "ReplicaSet"].contains(&kind);
        let workload = if scalable { find(kind, name) } else { None };
        if let Some(workload) = workload {
            let current = i128::from(whole(workload, &["spec", "replicas"])?.unwrap_or(1));
            // Rounded up.
            share = number("percentage")?.map(|percent| (i128::from(percent) * current + 99) / 100);
        }
        workload.and_then(|workload| at(workload, &["spec", "template"]))
    };
    let Some(template) = template.cloned() else { return Ok(None) };
    let as_pod = from_template(&template, namespace, "any")?;
    let requests = pod_requests(&super::requests::with_defaulted_requests(&as_pod))?;
    let limits = resources(at(buffer, &["spec", "limits"]))?;
    let most = limits
        .iter()
        .filter_map(|(name, limit)| {
            requests.get(name).filter(|wanted| **wanted > 0).map(|wanted| limit / wanted)
        })
        .min();
    let wanted = number("replicas")?.map(i128::from).max(share);
    Ok(match (wanted, most) {
        (Some(wanted), Some(most)) => Some((template, wanted.min(most))),
        (Some(count), None) | (None, Some(count)) => Some((template, count)),
        (None, None) => None,
    })
}

/// Claims are left out, and no pod is less important.
fn strip(spec: &mut Value) {
    if let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_array_mut) {
        volumes.retain(|volume| {
            at(volume, &["persistentVolumeClaim"]).is_none() && at(volume, &["ephemeral"]).is_none()
        });
    }
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("priorityClassName");
        fields.insert("priority".to_owned(), i32::MIN.into());
    }
}
