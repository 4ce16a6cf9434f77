//! Rows of what is set up beside workloads: autoscalers, quotas, bindings of roles, storage and runtimes.

use serde_json::Value;

use super::{Layout, age, age_column, integer, layout, name, name_column, number, string, text, wide};
use crate::selector::format_selector;

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn autoscalers() -> Layout {
    let columns = vec![
        name_column(),
        text("Reference", "What is scaled."),
        text("Targets", "What is measured, and what it should be."),
        text("MinPods", "How few replicas there may be."),
        text("MaxPods", "How many replicas there may be."),
        text("Replicas", "How many replicas there are."),
        age_column(),
    ];
    layout(columns, |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let of = |field: &str| spec["scaleTargetRef"][field].as_str().unwrap_or_default();
        let least = spec["minReplicas"].as_i64().map_or("<unset>".to_owned(), |least| least.to_string());
        vec![
            name(object),
            format!("{}/{}", of("kind"), of("name")).into(),
            targets(list(&spec["metrics"]), list(&status["currentMetrics"])).into(),
            least.into(),
            number(&spec["maxReplicas"]).into(),
            number(&status["currentReplicas"]).into(),
            age(object, now),
        ]
    })
}

/// The first two metrics, as `cpu: 30%/50%`.
fn targets(metrics: &[Value], present: &[Value]) -> String {
    if metrics.is_empty() {
        return "<none>".to_owned();
    }
    let shown: Vec<String> =
        metrics.iter().enumerate().map(|(index, metric)| target(metric, present.get(index))).collect();
    match shown.len() {
        0..=2 => shown.join(", "),
        count => format!("{} + {} more...", shown[..2].join(", "), count - 2),
    }
}

fn target(metric: &Value, present: Option<&Value>) -> String {
    let kind = metric["type"].as_str().unwrap_or_default();
    let field = match kind {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (target, now) = (&metric[field]["target"], present.map(|present| &present[field]["current"]));
    let amount = |value: Option<&Value>| match value {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let current =
        |name: &str| amount(now.and_then(|now| now.get(name))).unwrap_or_else(|| "<unknown>".to_owned());
    let average = amount(target.get("averageValue"));
    match field {
        "resource" | "containerResource" => {
            let name = metric[field]["name"].as_str().unwrap_or_default();
            if let Some(average) = average {
                return format!("{name}: {}/{average}", current("averageValue"));
            }
            let percent = |value: Option<&Value>, none: &str| {
                value.and_then(Value::as_i64).map_or(none.to_owned(), |share| format!("{share}%"))
            };
            let share = percent(now.and_then(|now| now.get("averageUtilization")), "<unknown>");
            format!("{name}: {share}/{}", percent(target.get("averageUtilization"), "<auto>"))
        }
        "pods" => format!("{}/{}", current("averageValue"), average.unwrap_or_default()),
        _ => match average {
            Some(average) => format!("{}/{average} (avg)", current("averageValue")),
            None => format!("{}/{}", current("value"), amount(target.get("value")).unwrap_or_default()),
        },
    }
}

pub(super) fn quotas() -> Layout {
    let columns = vec![
        name_column(),
        text("Request", "What may be asked for, and how much of it is."),
        text("Limit", "What limits may add up to, and what they do."),
        age_column(),
    ];
    layout(columns, |object, now| {
        let status = &object["status"];
        let shown = |limits: bool| -> String {
            let hard = status["hard"].as_object().into_iter().flatten();
            let parts: Vec<String> = hard
                .filter(|(name, _)| name.starts_with("limits.") == limits)
                .map(|(name, most)| {
                    let used = status["used"][name].as_str().unwrap_or("0");
                    format!("{name}: {used}/{}", most.as_str().unwrap_or("0"))
                })
                .collect();
            parts.join(", ")
        };
        vec![name(object), shown(false).into(), shown(true).into(), age(object, now)]
    })
}

pub(super) fn role_bindings() -> Layout {
    let columns = vec![
        name_column(),
        text("Role", "The role that is given."),
        age_column(),
        wide("Users", "Users it is given to."),
        wide("Groups", "Groups it is given to."),
        wide("ServiceAccounts", "Service accounts it is given to."),
    ];
    layout(columns, |object, now| {
        let of = |field: &str| object["roleRef"][field].as_str().unwrap_or_default();
        let subjects = |kind: &str| -> String {
            let subjects = list(&object["subjects"]).iter().filter(|subject| subject["kind"] == kind);
            let names: Vec<String> = subjects
                .map(|subject| {
                    let of = |field: &str| subject[field].as_str().unwrap_or_default();
                    match kind {
                        "ServiceAccount" => format!("{}/{}", of("namespace"), of("name")),
                        _ => of("name").to_owned(),
                    }
                })
                .collect();
            names.join(", ")
        };
        vec![
            name(object),
            format!("{}/{}", of("kind"), of("name")).into(),
            age(object, now),
            subjects("User").into(),
            subjects("Group").into(),
            subjects("ServiceAccount").into(),
        ]
    })
}

pub(super) fn csi_nodes() -> Layout {
    let columns = vec![name_column(), integer("Drivers", "How many drivers the node has."), age_column()];
    layout(columns, |object, now| {
        vec![name(object), list(&object["spec"]["drivers"]).len().into(), age(object, now)]
    })
}

pub(super) fn runtime_classes() -> Layout {
    let columns = vec![name_column(), text("Handler", "What runs the containers."), age_column()];
    layout(columns, |object, now| vec![name(object), string(&object["handler"]), age(object, now)])
}

pub(super) fn network_policies() -> Layout {
    let columns = vec![name_column(), text("Pod-Selector", "Which pods it is about."), age_column()];
    layout(columns, |object, now| {
        vec![name(object), format_selector(object["spec"].get("podSelector")).into(), age(object, now)]
    })
}

pub(super) fn controller_revisions() -> Layout {
    let columns = vec![
        name_column(),
        text("Controller", "Whose revision it is."),
        integer("Revision", "The number of the revision."),
        age_column(),
    ];
    layout(columns, |object, now| {
        let owners = list(&object["metadata"]["ownerReferences"]);
        let controller = owners.iter().find(|owner| owner["controller"] == true);
        let controller = controller.map_or("<none>".to_owned(), |owner| {
            let of = |field: &str| owner[field].as_str().unwrap_or_default();
            let group =
                of("apiVersion").rsplit_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
            format!("{}{group}/{}", of("kind").to_lowercase(), of("name"))
        });
        vec![name(object), controller.into(), number(&object["revision"]).into(), age(object, now)]
    })
}
