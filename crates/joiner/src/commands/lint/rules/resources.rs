//! Requests and limits of containers that say something else than was meant.

use std::collections::BTreeMap;

use joiner_api::quantity::Quantity;
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

use crate::commands::lint::finding::Hit;
use crate::commands::lint::pods::PodView;
use crate::commands::lint::subject::Subject;

type Amounts = BTreeMap<String, Text>;

/// The resources of a pod and of its containers, each with its field.
fn resources<'p>(pod: &'p PodView) -> Vec<(String, &'p ResourceRequirements)> {
    let of_pod = pod.spec.resources.iter().map(|of| (format!("{}.resources", pod.path), of));
    let init = pod.spec.init_containers.as_deref().unwrap_or_default();
    let lists = [("containers", pod.spec.containers.as_slice()), ("initContainers", init)];
    let of_containers = lists.into_iter().flat_map(|(list, containers)| {
        containers.iter().enumerate().filter_map(move |(at, container)| {
            let path = format!("{}.{list}[{at}].resources", pod.path);
            container.resources.as_ref().map(|of| (path, of))
        })
    });
    of_pod.chain(of_containers).collect()
}

fn amounts(of: &ResourceRequirements) -> [(&'static str, Option<&Amounts>); 2] {
    [("requests", of.requests.as_ref()), ("limits", of.limits.as_ref())]
}

fn is_in_bytes(resource: &str) -> bool {
    matches!(resource, "memory" | "ephemeral-storage") || resource.starts_with("hugepages-")
}

/// Bytes that are written in thousandths.
pub fn in_thousandths(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for pod in &subject.pods {
        for (path, of) in resources(pod) {
            for (list, amounts) in amounts(of) {
                let odd = amounts.into_iter().flatten().filter(|(resource, _)| is_in_bytes(resource));
                for (resource, text) in odd {
                    let Some(number) = text.0.strip_suffix('m') else { continue };
                    hits.push(Hit::new(
                        pod.object,
                        format!("{path}.{list}[{resource}]"),
                        format!(
                            "`{}` of {resource} is {number} thousandths of a byte, not megabytes{}",
                            text.0,
                            pod.and_more()
                        ),
                        format!("write `{number}Mi` (or `{number}M`)"),
                    ));
                }
            }
        }
    }
    hits
}

/// Limits below the requests of the same container.
pub fn limit_below_request(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for pod in &subject.pods {
        for (path, of) in resources(pod) {
            for (resource, limit) in of.limits.iter().flatten() {
                let Some(request) = of.requests.as_ref().and_then(|requests| requests.get(resource)) else {
                    continue;
                };
                // What can't be read was refused before.
                let (Ok(most), Ok(wanted)) = (Quantity::parse(&limit.0), Quantity::parse(&request.0)) else {
                    continue;
                };
                if most < wanted {
                    hits.push(Hit::new(
                        pod.object,
                        format!("{path}.limits[{resource}]"),
                        format!(
                            "the limit of {} {resource} is below the request of {}: the API refuses the pod{}",
                            limit.0,
                            request.0,
                            pod.and_more()
                        ),
                        "raise the limit, lower the request, or leave the limit out",
                    ));
                }
            }
        }
    }
    hits
}
