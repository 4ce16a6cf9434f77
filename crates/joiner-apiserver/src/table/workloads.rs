//! Rows of nodes, workloads, volumes and events.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Column, Layout, age, age_column, age_of, column, human, integer, layout, name, name_column, number, or,
    string, text, wide,
};
use crate::rest::{labels_of, meta_text};
use crate::selector::format_selector;

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn nodes() -> Layout {
    let columns = vec![
        name_column(),
        text("Status", "Whether the node is ready and takes pods."),
        text("Roles", "What the node is for."),
        age_column(),
        text("Version", "The version of its kubelet."),
        wide("Internal-IP", "Its address within the cluster."),
        wide("External-IP", "Its address outside."),
        wide("OS-Image", "Its operating system."),
        wide("Kernel-Version", "The version of its kernel."),
        wide("Container-Runtime", "What runs its containers."),
    ];
    layout(columns, |node, now| {
        let info = &node["status"]["nodeInfo"];
        let address = |kind: &str| {
            let found = list(&node["status"]["addresses"]).iter().find(|address| address["type"] == kind);
            or(found.map_or(&Value::Null, |address| &address["address"]), "<none>")
        };
        vec![
            name(node),
            node_status(node).into(),
            roles(node).into(),
            age(node, now),
            string(&info["kubeletVersion"]),
            address("InternalIP"),
            address("ExternalIP"),
            or(&info["osImage"], "<unknown>"),
            or(&info["kernelVersion"], "<unknown>"),
            or(&info["containerRuntimeVersion"], "<unknown>"),
        ]
    })
}

fn node_status(node: &Value) -> String {
    let ready = list(&node["status"]["conditions"]).iter().find(|condition| condition["type"] == "Ready");
    let mut status = match ready {
        Some(condition) if condition["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn roles(node: &Value) -> String {
    let mut roles: Vec<&str> = labels_of(node)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) if !role.is_empty() => Some(role),
            _ if key == "kubernetes.io/role" => value.as_str().filter(|role| !role.is_empty()),
            _ => None,
        })
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") }
}

fn container_columns(selector: bool) -> Vec<Column> {
    let mut columns = vec![
        wide("Containers", "The names of the containers."),
        wide("Images", "The images of the containers."),
    ];
    if selector {
        columns.push(wide("Selector", "Which pods belong to it."));
    }
    columns
}

fn container_cells(object: &Value, selector: bool) -> Vec<Value> {
    cells_of_spec(&object["spec"], selector)
}

fn cells_of_spec(spec: &Value, selector: bool) -> Vec<Value> {
    let containers = list(&spec["template"]["spec"]["containers"]);
    let join = |field: &str| -> String {
        let texts: Vec<&str> = containers.iter().filter_map(|container| container[field].as_str()).collect();
        texts.join(",")
    };
    let mut cells = vec![join("name").into(), join("image").into()];
    if selector {
        cells.push(format_selector(spec.get("selector")).into());
    }
    cells
}

pub(super) fn deployments() -> Layout {
    let mut columns = vec![
        name_column(),
        text("Ready", "How many pods are ready, of how many."),
        text("Up-to-date", "How many pods have the present template."),
        text("Available", "How many pods can serve."),
        age_column(),
    ];
    columns.extend(container_columns(true));
    layout(columns, |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let mut cells = vec![
            name(object),
            format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"])).into(),
            number(&status["updatedReplicas"]).into(),
            number(&status["availableReplicas"]).into(),
            age(object, now),
        ];
        cells.extend(container_cells(object, true));
        cells
    })
}

pub(super) fn replica_sets() -> Layout {
    let mut columns = vec![
        name_column(),
        integer("Desired", "How many pods are wanted."),
        integer("Current", "How many pods there are."),
        integer("Ready", "How many pods are ready."),
        age_column(),
    ];
    columns.extend(container_columns(true));
    layout(columns, |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let mut cells = vec![
            name(object),
            number(&spec["replicas"]).into(),
            number(&status["replicas"]).into(),
            number(&status["readyReplicas"]).into(),
            age(object, now),
        ];
        cells.extend(container_cells(object, true));
        cells
    })
}

pub(super) fn daemon_sets() -> Layout {
    let mut columns = vec![
        name_column(),
        integer("Desired", "How many nodes should run a pod."),
        integer("Current", "How many nodes run a pod."),
        integer("Ready", "How many pods are ready."),
        integer("Up-to-date", "How many pods have the present template."),
        integer("Available", "How many pods can serve."),
        text("Node Selector", "Which nodes are meant."),
        age_column(),
    ];
    columns.extend(container_columns(true));
    layout(columns, |object, now| {
        let status = &object["status"];
        let labels = object["spec"]["template"]["spec"].get("nodeSelector");
        let selector = format_selector(labels.map(|labels| json!({"matchLabels": labels})).as_ref());
        let mut cells = vec![name(object)];
        let counts = [
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        ];
        cells.extend(counts.map(|field| Value::from(number(&status[field]))));
        cells.extend([selector.into(), age(object, now)]);
        cells.extend(container_cells(object, true));
        cells
    })
}

pub(super) fn stateful_sets() -> Layout {
    let mut columns =
        vec![name_column(), text("Ready", "How many pods are ready, of how many."), age_column()];
    columns.extend(container_columns(false));
    layout(columns, |object, now| {
        let ready =
            format!("{}/{}", number(&object["status"]["readyReplicas"]), number(&object["spec"]["replicas"]));
        let mut cells = vec![name(object), ready.into(), age(object, now)];
        cells.extend(container_cells(object, false));
        cells
    })
}

pub(super) fn jobs() -> Layout {
    let mut columns = vec![
        name_column(),
        text("Status", "Whether the job runs, is suspended or has ended."),
        text("Completions", "How many pods have succeeded, of how many."),
        text("Duration", "How long the job ran."),
        age_column(),
    ];
    columns.extend(container_columns(true));
    layout(columns, |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let succeeded = number(&status["succeeded"]);
        let completions = match spec.get("completions").and_then(Value::as_i64) {
            Some(wanted) => format!("{succeeded}/{wanted}"),
            None => match number(&spec["parallelism"]) {
                many if many > 1 => format!("{succeeded}/1 of {many}"),
                _ => format!("{succeeded}/1"),
            },
        };
        let moment = |field: &str| status[field].as_str().and_then(|text| text.parse::<Timestamp>().ok());
        let duration = match (moment("startTime"), moment("completionTime")) {
            (Some(start), Some(end)) => human(end.as_second() - start.as_second()),
            (Some(start), None) => human(now.as_second() - start.as_second()),
            (None, _) => String::new(),
        };
        let mut cells = vec![
            name(object),
            job_status(object).into(),
            completions.into(),
            duration.into(),
            age(object, now),
        ];
        cells.extend(container_cells(object, true));
        cells
    })
}

fn job_status(job: &Value) -> &'static str {
    let holds = |kind: &str| {
        let conditions = list(&job["status"]["conditions"]);
        conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    if holds("Complete") {
        "Complete"
    } else if holds("Failed") {
        "Failed"
    } else if !meta_text(job, "deletionTimestamp").is_empty() {
        "Terminating"
    } else if holds("Suspended") {
        "Suspended"
    } else if holds("FailureTarget") {
        "FailureTarget"
    } else if holds("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

pub(super) fn cron_jobs() -> Layout {
    let mut columns = vec![
        name_column(),
        text("Schedule", "When it runs."),
        text("Timezone", "The time zone of the schedule."),
        column("Suspend", "boolean", 0, "Whether it rests."),
        integer("Active", "How many of its jobs run now."),
        text("Last Schedule", "The time since it last ran."),
        age_column(),
    ];
    columns.extend(container_columns(true));
    layout(columns, |object, now| {
        let last = match object["status"]["lastScheduleTime"].as_str() {
            Some(moment) => age_of(moment, now),
            None => "<none>".to_owned(),
        };
        let mut cells = vec![
            name(object),
            string(&object["spec"]["schedule"]),
            or(&object["spec"]["timeZone"], "<none>"),
            // The column is declared boolean and holds a word.
            if object["spec"]["suspend"] == true { "True" } else { "False" }.into(),
            list(&object["status"]["active"]).len().into(),
            last.into(),
            age(object, now),
        ];
        cells.extend(cells_of_spec(&object["spec"]["jobTemplate"]["spec"], true));
        cells
    })
}

pub(super) fn budgets() -> Layout {
    let columns = vec![
        name_column(),
        text("Min Available", "How many pods must stay."),
        text("Max Unavailable", "How many pods may go."),
        integer("Allowed Disruptions", "How many pods may go now."),
        age_column(),
    ];
    layout(columns, |object, now| {
        let limit = |field: &str| match object["spec"].get(field) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => "N/A".to_owned(),
        };
        vec![
            name(object),
            limit("minAvailable").into(),
            limit("maxUnavailable").into(),
            number(&object["status"]["disruptionsAllowed"]).into(),
            age(object, now),
        ]
    })
}

fn access_modes(modes: &Value) -> String {
    let short = |mode: &Value| match mode.as_str() {
        Some("ReadWriteOnce") => "RWO",
        Some("ReadOnlyMany") => "ROX",
        Some("ReadWriteMany") => "RWX",
        Some("ReadWriteOncePod") => "RWOP",
        _ => "",
    };
    list(modes).iter().map(short).collect::<Vec<_>>().join(",")
}

pub(super) fn claims() -> Layout {
    let columns = vec![
        name_column(),
        text("Status", "The phase of the claim."),
        text("Volume", "The volume bound to it."),
        text("Capacity", "The size of the volume."),
        text("Access Modes", "How it may be used."),
        text("StorageClass", "The class asked for."),
        text("VolumeAttributesClass", "The class of attributes asked for."),
        age_column(),
        wide("VolumeMode", "Whether it holds files or is a block device."),
    ];
    layout(columns, |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let phase = if meta_text(object, "deletionTimestamp").is_empty() {
            string(&status["phase"])
        } else {
            "Terminating".into()
        };
        let bound = !spec["volumeName"].as_str().unwrap_or_default().is_empty();
        vec![
            name(object),
            phase,
            string(&spec["volumeName"]),
            if bound { string(&status["capacity"]["storage"]) } else { "".into() },
            if bound { access_modes(&status["accessModes"]).into() } else { "".into() },
            string(&spec["storageClassName"]),
            or(&spec["volumeAttributesClassName"], "<unset>"),
            age(object, now),
            or(&spec["volumeMode"], "<unset>"),
        ]
    })
}

pub(super) fn volumes() -> Layout {
    let columns = vec![
        name_column(),
        text("Capacity", "The size of the volume."),
        text("Access Modes", "How it may be used."),
        text("Reclaim Policy", "What becomes of it afterwards."),
        text("Status", "The phase of the volume."),
        text("Claim", "The claim bound to it."),
        text("StorageClass", "Its class."),
        text("VolumeAttributesClass", "Its class of attributes."),
        text("Reason", "Why it is in its phase."),
        age_column(),
        wide("VolumeMode", "Whether it holds files or is a block device."),
    ];
    layout(columns, |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let claim = &spec["claimRef"];
        let claim = match claim["name"].as_str() {
            Some(name) => format!("{}/{name}", claim["namespace"].as_str().unwrap_or_default()),
            None => String::new(),
        };
        vec![
            name(object),
            string(&spec["capacity"]["storage"]),
            access_modes(&spec["accessModes"]).into(),
            string(&spec["persistentVolumeReclaimPolicy"]),
            string(&status["phase"]),
            claim.into(),
            string(&spec["storageClassName"]),
            or(&spec["volumeAttributesClassName"], "<unset>"),
            string(&status["reason"]),
            age(object, now),
            or(&spec["volumeMode"], "<unset>"),
        ]
    })
}

pub(super) fn storage_classes() -> Layout {
    let columns = vec![
        name_column(),
        text("Provisioner", "Who makes the volumes."),
        text("ReclaimPolicy", "What becomes of them afterwards."),
        text("VolumeBindingMode", "When a volume is chosen."),
        text("AllowVolumeExpansion", "Whether volumes may grow."),
        age_column(),
    ];
    layout(columns, |object, now| {
        let is_default =
            object["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true";
        let shown = format!("{}{}", meta_text(object, "name"), if is_default { " (default)" } else { "" });
        vec![
            shown.into(),
            string(&object["provisioner"]),
            or(&object["reclaimPolicy"], "Delete"),
            or(&object["volumeBindingMode"], "Immediate"),
            object["allowVolumeExpansion"].as_bool().unwrap_or(false).into(),
            age(object, now),
        ]
    })
}

pub(super) fn services() -> Layout {
    let columns = vec![
        name_column(),
        text("Type", "How it is reached."),
        text("Cluster-IP", "Its address within the cluster."),
        text("External-IP", "Its addresses outside."),
        text("Port(s)", "Its ports."),
        age_column(),
        wide("Selector", "Which pods serve it."),
    ];
    layout(columns, |object, now| {
        let spec = &object["spec"];
        let ports: Vec<String> = list(&spec["ports"])
            .iter()
            .map(|port| {
                let protocol = port["protocol"].as_str().unwrap_or("TCP");
                match number(&port["nodePort"]) {
                    0 => format!("{}/{protocol}", number(&port["port"])),
                    node_port => format!("{}:{node_port}/{protocol}", number(&port["port"])),
                }
            })
            .collect();
        let selector = spec.get("selector").map(|labels| json!({"matchLabels": labels}));
        vec![
            name(object),
            or(&spec["type"], "ClusterIP"),
            or(&spec["clusterIP"], "<none>"),
            or(&spec["externalName"], "<none>"),
            if ports.is_empty() { "<none>".into() } else { ports.join(",").into() },
            age(object, now),
            format_selector(selector.as_ref()).into(),
        ]
    })
}

pub(super) fn events() -> Layout {
    let columns = vec![
        text("Last Seen", "The time since it last happened."),
        text("Type", "Normal or Warning."),
        text("Reason", "One word for what happened."),
        text("Object", "What it happened to."),
        wide("Subobject", "The part it happened to."),
        wide("Source", "Who saw it."),
        text("Message", "What happened."),
        wide("First Seen", "The time since it first happened."),
        wide("Count", "How often it happened."),
        Column {
            format: "name",
            ..wide("Name", "The name, unique among objects of the kind in a namespace.")
        },
    ];
    layout(columns, |event, now| {
        let moment = |fields: [&str; 2]| {
            let found = fields.iter().find_map(|field| event[*field].as_str());
            Value::from(age_of(found.unwrap_or_default(), now))
        };
        let object = &event["involvedObject"];
        let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
        let source = &event["source"];
        let first = |one: &Value, other: &Value| {
            let texts = [one, other].map(|value| value.as_str().unwrap_or_default().to_owned());
            texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
        };
        let component = first(&source["component"], &event["reportingComponent"]);
        let instance = first(&source["host"], &event["reportingInstance"]);
        let source = if instance.is_empty() { component } else { format!("{component}, {instance}") };
        let count = match number(&event["count"]) {
            0 => 1,
            count => count,
        };
        vec![
            moment(["lastTimestamp", "eventTime"]),
            string(&event["type"]),
            string(&event["reason"]),
            format!("{kind}/{}", object["name"].as_str().unwrap_or_default()).into(),
            string(&object["fieldPath"]),
            source.into(),
            event["message"].as_str().unwrap_or_default().trim().into(),
            moment(["firstTimestamp", "eventTime"]),
            count.into(),
            name(event),
        ]
    })
}
