//! Annotations that tell a simulated kubelet what to do with one pod or node.

use jiff::SignedDuration;
use joiner_api::duration::Duration;
use serde_json::Value;

use super::Span;
use crate::object::Fields;

/// `fake` on nodes that KWOK manages; `real` keeps our kubelets away.
pub const KWOK_NODE: &str = "kwok.x-k8s.io/node";

/// Node: from its creation until it is ready.
pub const BOOT_TIME: &str = "joiner.sh/boot-time";

/// Node: `never` for one that does not register.
pub const REGISTRATION: &str = "joiner.sh/registration";

/// Node: how long after it is ready its kubelet takes off the taints named in [`STARTUP_TAINTS`].
pub const STARTUP_TAINTS_TIME: &str = joiner_api::names::STARTUP_TAINTS_TIME_ANNOTATION;

/// Node: taints that go when the node has started, by `KEY` or `KEY:EFFECT`, separated by commas.
pub const STARTUP_TAINTS: &str = joiner_api::names::STARTUP_TAINTS_ANNOTATION;

/// Node: `stopped` when its kubelet no longer reports, and nothing on it changes any more.
pub const KUBELET: &str = joiner_api::names::KUBELET_ANNOTATION;

/// Pod: from its binding until it is ready.
pub const START_TIME: &str = "joiner.sh/pod-start-time";

/// Pod: from its start until its containers end; any pod with it ends.
pub const DURATION: &str = "joiner.sh/duration";

/// Pod: the exit code with which its containers end, 0 unless given.
pub const EXIT_CODE: &str = "joiner.sh/exit-code";

/// Pod: from the wish to delete it until it is gone, but never longer than its grace.
pub const TERMINATION_TIME: &str = "joiner.sh/termination-time";

/// A duration in an annotation: `90s`, `1m30s`, `500ms`.
pub(crate) fn duration(object: &Value, annotation: &str) -> Option<SignedDuration> {
    parse(object.annotation(annotation)?)
}

/// What annotations of KWOK say about one of its stages.
pub(crate) fn stage_delay(object: &Value, stage: &str, usual: Span) -> Span {
    let read = |suffix: &str| duration(object, &format!("{stage}.stage.kwok.x-k8s.io/{suffix}"));
    let (delay, jitter) = (read("delay"), read("jitter-delay"));
    if delay.is_none() && jitter.is_none() {
        return usual;
    }
    let least = delay.unwrap_or(usual.least);
    // A jitter below the delay stands alone.
    match jitter {
        Some(jitter) if jitter < least => Span::exactly(jitter),
        Some(jitter) => Span { least, most: jitter },
        None => Span { least, most: least.max(usual.most) },
    }
}

/// Go's form of a duration, never a negative one.
pub(crate) fn parse(text: &str) -> Option<SignedDuration> {
    let length = Duration::parse(text.trim()).ok()?.to_signed_duration();
    (!length.is_negative()).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        assert_eq!(parse("1m30s"), Some(SignedDuration::from_secs(90)));
        assert_eq!(parse("250ms"), Some(SignedDuration::from_millis(250)));
        assert_eq!(parse("1.5h"), Some(SignedDuration::from_secs(5400)));
        assert_eq!(parse("0"), Some(SignedDuration::ZERO));
        for wrong in ["", "5", "s", "5x", "1m2", "-1s"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_stage_is_tuned_by_its_annotations() {
        let pod = json!({"metadata": {"annotations": {
            "pod-ready.stage.kwok.x-k8s.io/delay": "10s", "pod-ready.stage.kwok.x-k8s.io/jitter-delay": "20s",
            "pod-create.stage.kwok.x-k8s.io/delay": "10s", "pod-create.stage.kwok.x-k8s.io/jitter-delay": "2s",
        }}});
        assert_eq!(stage_delay(&pod, "pod-ready", Span::NOTHING), Span::seconds(10, 20));
        assert_eq!(stage_delay(&pod, "pod-create", Span::NOTHING), Span::seconds(2, 2));
        assert_eq!(stage_delay(&pod, "pod-delete", Span::seconds(1, 5)), Span::seconds(1, 5));
    }
}
