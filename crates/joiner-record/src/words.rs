//! Decisions in words: the one place that makes sentences of them, for screens, events, logs and pages.

use crate::decision::{Alternative, Decision, Outcome, Reason, Subject, Verb};
use crate::verdict::{GaveUp, Orphan, Verdict};
use crate::watch::{Disabled, Resource, Trouble, WatchTrouble, WatchVerb};

/// An event about one of a decision's subjects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventWords {
    /// One word in CamelCase; Karpenter's where it has one.
    pub reason: &'static str,
    /// Whether somebody should look.
    pub warning: bool,
    /// A sentence whose subject is the object.
    pub message: String,
}

/// A decision in one sentence.
pub fn summary(decision: &Decision) -> String {
    match decision.dry_run {
        true => format!("would: {}", said(decision)),
        false => said(decision),
    }
}

fn said(decision: &Decision) -> String {
    let first = decision.subjects.first();
    let name = first.map_or("?", |subject| subject.name.as_str());
    match &decision.verdict {
        Verdict::Provisioned { types, pods, usd_per_hour, .. } => {
            let machines: u64 = types.values().sum();
            let list: Vec<String> = types.iter().map(|(name, count)| format!("{count} × {name}")).collect();
            format!(
                "{} for {}: {}, ${usd_per_hour:.4}/h",
                plural(machines, "machine"),
                plural(*pods, "pod"),
                list.join(", ")
            )
        }
        Verdict::Nominated { nominations, pods } => match (nominations.first(), pods) {
            (Some(only), 1) => format!("pod {} is to run on {}", only.pod, object(&only.place)),
            (Some(first), pods) => {
                let (pod, place) = (&first.pod, object(&first.place));
                format!(
                    "pod {pod} is to run on {place}, and {} on places that are there",
                    plural(pods - 1, "more pod")
                )
            }
            (None, pods) => format!("{} are to run on places that are there", plural(*pods, "pod")),
        },
        Verdict::Refused { reasons, pods } => {
            let pod = first.map_or_else(String::new, Subject::key);
            match pods {
                0 | 1 => format!("no place for pod {pod}: {}", causes(reasons)),
                pods => format!("no place for pod {pod} and {} more: {}", pods - 1, causes(reasons)),
            }
        }
        Verdict::Launched { instance_type, zone, capacity_type } => {
            let [kind, zone, capacity] =
                [instance_type, zone, capacity_type].map(|text| text.as_deref().unwrap_or("?"));
            format!("{name} is a {kind} in {zone} ({capacity})")
        }
        Verdict::GaveUp { why } => match why {
            GaveUp::NoCapacity { message } => format!("no capacity for {name}: {message}"),
            GaveUp::ClassNotReady { message } => format!("the node class of {name} is not ready: {message}"),
            GaveUp::NotLaunched { within_seconds, message } => {
                format!("{name} was not launched within {} minutes: {message}", within_seconds / 60)
            }
            GaveUp::NotRegistered { within_seconds, message } => {
                format!("{name} did not register within {} minutes: {message}", within_seconds / 60)
            }
        },
        Verdict::Emptied { usd_per_hour } => format!("{name} is empty and goes, ${usd_per_hour:.4}/h saved"),
        Verdict::Expired { expire_after } => format!("{name} is older than {expire_after}"),
        Verdict::Terminated => format!("{name} is gone"),
        Verdict::Collected { orphan: Orphan::Machine } => format!("machine {name} has no claim and is ended"),
        Verdict::Collected { orphan: Orphan::Claim } => format!("{name} is deleted: its machine is gone"),
        Verdict::ListDoubted { missing, known } => format!(
            "provider {name} lists {missing} of {known} known machines no longer: nothing goes for it, each is asked for by itself"
        ),
        Verdict::Failed { verb, message, retry_after_seconds } => {
            let nothing = Subject::default();
            let tried = command(*verb, first.unwrap_or(&nothing));
            format!("cannot {tried}: {message}; tried again in {retry_after_seconds} s")
        }
        Verdict::DisruptionBlocked => {
            format!("empty nodes of nodepool/{name} stay: its budgets allow none to go")
        }
        Verdict::Evicted { reason } => {
            format!("pod {} is evicted: {reason}", first.map_or_else(String::new, Subject::key))
        }
        Verdict::WatchTrouble(trouble) => watch_trouble(trouble),
        Verdict::WatchRecovered { resource, after_seconds } => {
            format!("watch of {resource} works again after {after_seconds} s")
        }
    }
}

/// The event that tells a decision to those who look at one of its subjects, if there is one.
pub fn event(verdict: &Verdict, place: Option<&Subject>) -> Option<EventWords> {
    let words = |reason, warning, message: String| Some(EventWords { reason, warning, message });
    match verdict {
        Verdict::Nominated { .. } | Verdict::Provisioned { .. } => {
            words("Nominated", false, format!("is to run on {}", object(place?)))
        }
        Verdict::Refused { reasons, .. } => {
            words("FailedScheduling", true, format!("no machine would help: {}", causes(reasons)))
        }
        Verdict::GaveUp { why: GaveUp::NoCapacity { message } } => {
            words("InsufficientCapacityError", true, message.clone())
        }
        Verdict::Emptied { .. } => {
            words("DisruptionTerminating", false, "goes because no pod needs it: Empty".to_owned())
        }
        Verdict::DisruptionBlocked => {
            let message = "no node may be removed for being empty now: its budgets allow none";
            words("DisruptionBlocked", false, message.to_owned())
        }
        Verdict::Evicted { reason } => words("Evicted", false, format!("Evicted pod: {reason}")),
        Verdict::WatchTrouble(trouble) => {
            let reason = match trouble.trouble {
                Trouble::Forbidden => "WatchForbidden",
                Trouble::NotServed => "KindNotServed",
                Trouble::Failing { .. } => "WatchFailing",
            };
            words(reason, true, watch_trouble(trouble))
        }
        Verdict::WatchRecovered { resource, after_seconds } => {
            words("WatchRecovered", false, format!("watch of {resource} works again after {after_seconds} s"))
        }
        Verdict::Launched { .. }
        | Verdict::GaveUp { .. }
        | Verdict::Expired { .. }
        | Verdict::Terminated
        | Verdict::Collected { .. }
        | Verdict::ListDoubted { .. }
        | Verdict::Failed { .. } => None,
    }
}

/// Reasons in one line, each with its pool.
pub fn causes(reasons: &[Reason]) -> String {
    let all: Vec<String> = reasons.iter().map(reason).collect();
    all.join("; ")
}

/// A reason with its pool.
pub fn reason(reason: &Reason) -> String {
    match &reason.node_pool {
        Some(pool) => format!("nodepool/{pool}: {}", reason.cause),
        None => reason.cause.to_string(),
    }
}

/// A command as what cannot or could be done.
pub fn command(verb: Verb, subject: &Subject) -> String {
    match verb {
        Verb::Create => format!("create {}", object(subject)),
        Verb::Update | Verb::UpdateStatus => format!("update {}", object(subject)),
        Verb::Delete => format!("delete {}", object(subject)),
        Verb::ListPods => format!("list the pods of {}", object(subject)),
        Verb::Evict => format!("evict {}", object(subject)),
        Verb::Terminate => format!("end machine {}", subject.name),
        Verb::Resize => format!("resize {}", object(subject)),
        Verb::FindMachine => format!("ask for machine {}", subject.name),
        Verb::CancelLaunch => format!("cancel the pending launch {}", subject.name),
        Verb::WriteEvent => "write an event".to_owned(),
        Verb::WriteRecord => format!("write the record of decisions to {}", object(subject)),
        Verb::Launch => format!("launch {}", object(subject)),
        Verb::Adopt => format!("hand machines over to provider {}", subject.name),
        Verb::Reconcile => format!("reconcile {}", object(subject)),
        Verb::List => format!("list the machines of provider {}", subject.name),
    }
}

/// What came of a command.
pub fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done => "done".to_owned(),
        Outcome::Conflict => "somebody else changed the object first".to_owned(),
        Outcome::Gone => "the object was gone".to_owned(),
        Outcome::Postponed { message } => format!("not now: {message}"),
        Outcome::NotEmpty => "pods had come to the node".to_owned(),
        Outcome::Failed { message } => message.clone(),
        Outcome::NotTried => "not tried: what comes before it failed".to_owned(),
    }
}

/// An alternative, and why it lost.
pub fn alternative(alternative: &Alternative) -> String {
    match alternative {
        Alternative::OriginalPacking { machines, usd_per_hour } => {
            format!("Karpenter's packing: {}, ${usd_per_hour:.4}/h", plural(*machines, "machine"))
        }
        Alternative::PreferencesKept { pods, machines, usd_per_hour, dearer_by_share } => {
            let machines = plural(*machines, "machine");
            let dearer = dearer_by_share
                .map_or(String::new(), |share| format!(", {:.1} % dearer", (share * 100.0).max(0.0)));
            format!(
                "all preferences of {} kept: {machines}, ${usd_per_hour:.4}/h{dearer}",
                plural(*pods, "pod")
            )
        }
    }
}

/// A kind that cannot be observed: what is wrong, what is disabled, what to do.
pub fn watch_trouble(trouble: &WatchTrouble) -> String {
    let WatchTrouble { resource, verb, since, .. } = trouble;
    let disabled = disabled(trouble.disables);
    match &trouble.trouble {
        Trouble::Forbidden => {
            format!("{} of {resource} is forbidden: {disabled}; {}", verb.word(), rule(resource))
        }
        Trouble::NotServed => format!("{resource} is not served: {disabled}; {}", definition(resource)),
        Trouble::Failing { failures, message } => {
            let what = match verb {
                WatchVerb::List => "list",
                WatchVerb::Watch => "watch",
            };
            let since = since.strftime("%Y-%m-%dT%H:%M:%SZ");
            format!("{what} of {resource} failing since {since}, {}: {message}", plural(*failures, "time"))
        }
    }
}

/// The rule of RBAC that is missing.
fn rule(resource: &Resource) -> String {
    let Resource { group, plural } = resource;
    format!(
        "add to the ClusterRole of joiner: apiGroups: [\"{group}\"], resources: [\"{plural}\"], verbs: [\"get\", \"list\", \"watch\"]"
    )
}

fn definition(resource: &Resource) -> String {
    match resource.group.as_str() {
        "karpenter.sh" | "karpenter.kwok.sh" => {
            "install its definition: `joiner crds | kubectl apply --server-side -f -`".to_owned()
        }
        _ => format!("install the CustomResourceDefinition `{resource}`, or enable its API"),
    }
}

fn disabled(disabled: Disabled) -> &'static str {
    match disabled {
        Disabled::Decisions => "nothing is decided",
        Disabled::PoolsOfClass => "pools of such classes launch nothing",
        Disabled::Overlays => "prices and capacity of NodeOverlays do not count",
        Disabled::DaemonOverhead => "no room is left for daemons on new machines",
        Disabled::HeldPods => "machines may be bought for pods that budgets keep where they are",
        Disabled::NamespaceSelectors => "namespace selectors of pod affinity select nothing",
        Disabled::Volumes => "pods with volumes are refused",
        Disabled::StorageClasses => "zones of storage classes do not count",
        Disabled::Priorities => "pods that name a priority class are refused",
        Disabled::VolumeLimits => "limits of volumes per node do not count",
        Disabled::Detachment => "machines end without waiting for their volumes to leave",
    }
}

/// `kind/name`, as kubectl takes it; with the namespace for what has one.
pub fn object(subject: &Subject) -> String {
    match subject.kind.as_str() {
        // Pods are known by namespace and name together.
        "Pod" => format!("pod {}", subject.key()),
        "Machine" => format!("machine {}", subject.name),
        // What the loop does for no single object.
        "Key" => subject.name.clone(),
        kind => format!("{}/{}", kind.to_lowercase(), subject.name),
    }
}

fn plural(count: u64, word: &str) -> String {
    match count {
        1 => format!("1 {word}"),
        count => format!("{count} {word}s"),
    }
}
