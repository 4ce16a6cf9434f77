//! Rows of pods: one word for what is the matter with each.

use jiff::Timestamp;
use serde_json::Value;

use super::{Layout, age, age_column, age_of, layout, name, name_column, number, or, text, wide};
use crate::rest::meta_text;

pub(super) fn pods() -> Layout {
    let columns = vec![
        name_column(),
        text("Ready", "How many containers are ready, of how many."),
        text("Status", "The phase, or what is the matter."),
        text("Restarts", "How often containers were started again."),
        age_column(),
        wide("IP", "The address of the pod."),
        wide("Node", "The node that runs the pod."),
        wide("Nominated Node", "The node on which room is being made for the pod."),
        wide("Readiness Gates", "How many readiness gates have passed, of how many."),
    ];
    layout(columns, cells)
}

fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let containers = list(&pod["spec"]["containers"]);
    let state = State::of(pod);
    let restarts = match (state.restarts, state.last_restart) {
        (restarts, Some(moment)) if restarts > 0 => format!("{restarts} ({} ago)", age_of(&moment, now)),
        (restarts, _) => restarts.to_string(),
    };
    vec![
        name(pod),
        format!("{}/{}", state.ready, containers.len() + state.sidecars).into(),
        state.reason.into(),
        restarts.into(),
        age(pod, now),
        or(&pod["status"]["podIP"], "<none>"),
        or(&pod["spec"]["nodeName"], "<none>"),
        or(&pod["status"]["nominatedNodeName"], "<none>"),
        gates(pod).into(),
    ]
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    list(&pod["status"]["conditions"]).iter().find(|condition| condition["type"] == kind)
}

fn gates(pod: &Value) -> String {
    let gates = list(&pod["spec"]["readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let passed = gates
        .iter()
        .filter_map(|gate| condition(pod, gate["conditionType"].as_str()?))
        .filter(|condition| condition["status"] == "True")
        .count();
    format!("{passed}/{}", gates.len())
}

struct State {
    reason: String,
    ready: usize,
    restarts: i64,
    last_restart: Option<String>,
    sidecars: usize,
}

impl State {
    fn of(pod: &Value) -> Self {
        let status = &pod["status"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut reason = text(&status["phase"]);
        if !text(&status["reason"]).is_empty() {
            reason = text(&status["reason"]);
        }
        if condition(pod, "PodScheduled").is_some_and(|condition| condition["reason"] == "SchedulingGated") {
            reason = "SchedulingGated".to_owned();
        }
        let mut state = Self { reason, ready: 0, restarts: 0, last_restart: None, sidecars: 0 };
        let initializing = state.read_init_containers(pod);
        if !initializing {
            state.read_containers(pod);
        }
        if !meta_text(pod, "deletionTimestamp").is_empty() {
            state.reason =
                if text(&status["reason"]) == "NodeLost" { "Unknown" } else { "Terminating" }.to_owned();
        }
        state
    }

    fn note_restart(&mut self, container: &Value) {
        self.restarts += number(&container["restartCount"]);
        let finished = container["lastState"]["terminated"]["finishedAt"].as_str();
        if let Some(finished) = finished
            && self.last_restart.as_deref().is_none_or(|latest| latest < finished)
        {
            self.last_restart = Some(finished.to_owned());
        }
    }

    /// Whether the pod is still held up by an init container.
    fn read_init_containers(&mut self, pod: &Value) -> bool {
        let specs = list(&pod["spec"]["initContainers"]);
        let is_sidecar = |name: &Value| {
            specs.iter().any(|spec| spec["name"] == *name && spec["restartPolicy"] == "Always")
        };
        self.sidecars = specs.iter().filter(|spec| spec["restartPolicy"] == "Always").count();
        for (index, container) in list(&pod["status"]["initContainerStatuses"]).iter().enumerate() {
            self.note_restart(container);
            let state = &container["state"];
            if state["terminated"].is_object() && number(&state["terminated"]["exitCode"]) == 0 {
                continue;
            }
            if is_sidecar(&container["name"]) && container["started"] == true {
                self.ready += usize::from(container["ready"] == true);
                continue;
            }
            self.reason = if state["terminated"].is_object() {
                format!("Init:{}", end_reason(&state["terminated"]))
            } else {
                match state["waiting"]["reason"].as_str() {
                    Some(reason) if !reason.is_empty() && reason != "PodInitializing" => {
                        format!("Init:{reason}")
                    }
                    _ => format!("Init:{index}/{}", specs.len()),
                }
            };
            return true;
        }
        false
    }

    fn read_containers(&mut self, pod: &Value) {
        let mut running = false;
        for container in list(&pod["status"]["containerStatuses"]).iter().rev() {
            self.note_restart(container);
            let state = &container["state"];
            match (state["waiting"]["reason"].as_str(), &state["terminated"]) {
                (Some(reason), _) if !reason.is_empty() => self.reason = reason.to_owned(),
                (_, terminated) if terminated.is_object() => self.reason = end_reason(terminated),
                _ if container["ready"] == true && state["running"].is_object() => {
                    running = true;
                    self.ready += 1;
                }
                _ => {}
            }
        }
        if self.reason == "Completed" && running {
            let ready = condition(pod, "Ready").is_some_and(|condition| condition["status"] == "True");
            self.reason = if ready { "Running" } else { "NotReady" }.to_owned();
        }
    }
}

fn end_reason(terminated: &Value) -> String {
    if let Some(reason) = terminated["reason"].as_str().filter(|reason| !reason.is_empty()) {
        return reason.to_owned();
    }
    match number(&terminated["signal"]) {
        0 => format!("ExitCode:{}", number(&terminated["exitCode"])),
        signal => format!("Signal:{signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(pod: Value) -> String {
        State::of(&pod).reason
    }

    #[test]
    fn one_word_says_what_is_the_matter() {
        let waiting = json!({"status": {"phase": "Running", "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}});
        assert_eq!(status(waiting), "CrashLoopBackOff");
        let done = json!({"status": {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}});
        assert_eq!(status(done), "Completed");
        let init = json!({"spec": {"initContainers": [{"name": "i"}, {"name": "j"}]}, "status": {"phase": "Pending",
            "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}, {"name": "j", "state": {"running": {}}}]}});
        assert_eq!(status(init), "Init:1/2");
        assert_eq!(status(json!({"status": {"phase": "Failed", "reason": "Evicted"}})), "Evicted");
    }
}
