//! The checks: what was seen in, findings out. Nothing here asks anybody.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use joiner_api::names::{self, KWOK_GROUP};
use serde_json::Value;

use super::report::{Finding, Report};
use super::seen::{Answer, Seen};
use crate::autoscalers;

/// Minor versions of Kubernetes 1 that joiner says it runs on.
const KUBERNETES: std::ops::RangeInclusive<u32> = 29..=36;
/// The server's answers carry whole seconds, and were on their way for a while.
const SKEW: SignedDuration = SignedDuration::from_secs(5);
/// A KWOK node that is not ready after so long has nobody who plays it.
const UNPLAYED: SignedDuration = SignedDuration::from_secs(120);
/// An object that is being deleted for so long is stuck if nobody is there to let it go.
const STUCK: SignedDuration = SignedDuration::from_mins(5);
/// What KWOK must be able to do to Nodes and pods.
const STAGES: [(&str, &str); 3] =
    [("Node", "becomes ready"), ("Pod", "begins to run"), ("Pod", "goes when it is deleted")];

type Outcome = Result<Vec<Finding>, String>;

/// Makes all checks.
pub fn make(seen: &Seen, now: Timestamp, report: &mut Report) {
    report.add("KubernetesVersion", version(seen));
    report.add("Clock", clock(seen));
    report.add("Definitions", definitions(seen, now));
    report.add("Autoscalers", other_autoscalers(seen));
    report.add("Installation", installation(seen));
    report.add("Rights", rights(seen));
    report.add("NodeClasses", node_classes(seen));
    report.add("KwokStages", stages(seen, now));
    report.add("Webhooks", webhooks(seen));
    report.add("Finalizers", finalizers(seen, now));
}

fn finding(check: &'static str, object: String, message: String, remedy: String) -> Finding {
    Finding { check, object, message, remedy }
}

fn items<'s>(seen: &'s Seen, plural: &str) -> Result<&'s [Value], String> {
    match seen.lists.get(plural) {
        Some(Answer::Forbidden(why)) => Err(why.replace('\n', " ")),
        Some(answer) => Ok(answer.items()),
        None => Ok(&[]),
    }
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

fn moment(object: &Value, field: &str) -> Option<Timestamp> {
    object["metadata"][field].as_str()?.parse().ok()
}

fn version(seen: &Seen) -> Outcome {
    let git = text(&seen.version, "/gitVersion");
    let digits = |field: &str| -> Option<u32> {
        let text = text(&seen.version, field);
        text.trim_end_matches(|letter: char| !letter.is_ascii_digit()).parse().ok()
    };
    let (Some(major), Some(minor)) = (digits("/major"), digits("/minor")) else {
        return Err(format!("the server says no version (`{git}`)"));
    };
    if major == 1 && KUBERNETES.contains(&minor) {
        return Ok(Vec::new());
    }
    Ok(vec![finding(
        "KubernetesVersion",
        "server".to_owned(),
        format!("Kubernetes is {git}; joiner is made for 1.{} to 1.{}", KUBERNETES.start(), KUBERNETES.end()),
        "kubectl version".to_owned(),
    )])
}

fn clock(seen: &Seen) -> Outcome {
    let Some((server, here)) = seen.clocks else {
        return Err("the server does not say what time it is".to_owned());
    };
    let skew = here.duration_since(server);
    if skew.abs() <= SKEW {
        return Ok(Vec::new());
    }
    let side = if skew.is_positive() { "ahead of" } else { "behind" };
    Ok(vec![finding(
        "Clock",
        "this machine".to_owned(),
        format!(
            "its clock is {} s {side} the API server's: what joiner shows and writes as times is off by that much if it runs on clocks like this one",
            skew.abs().as_secs()
        ),
        "timedatectl set-ntp true".to_owned(),
    )])
}

/// All property names of a schema, as paths.
fn paths(schema: &Value, at: &str, found: &mut BTreeSet<String>) {
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{at}.{name}");
        paths(inner, &path, found);
        found.insert(path);
    }
    for inner in [&schema["items"], &schema["additionalProperties"]] {
        if inner.is_object() {
            paths(inner, &format!("{at}[]"), found);
        }
    }
}

fn schema_paths(definition: &Value, version: &str) -> Option<BTreeSet<String>> {
    let versions = definition["spec"]["versions"].as_array()?;
    let found = versions.iter().find(|of| of["name"] == version && of["served"] == true)?;
    let mut all = BTreeSet::new();
    paths(&found["schema"]["openAPIV3Schema"], "", &mut all);
    Some(all)
}

/// Who keeps a definition, and how old it is.
fn keeper(definition: &Value, now: Timestamp) -> String {
    let release = text(definition, "/metadata/annotations/meta.helm.sh~1release-name");
    let manager = definition["metadata"]["managedFields"].as_array();
    let manager = manager.and_then(|list| {
        let mut of_spec = list.iter().filter(|of| !of["fieldsV1"]["f:spec"].is_null());
        of_spec.find_map(|of| of["manager"].as_str())
    });
    let whose = match (release, manager) {
        ("", None) => "nobody says whose".to_owned(),
        ("", Some(manager)) => format!("written by {manager}"),
        (release, _) => format!("of the helm release {release}"),
    };
    match moment(definition, "creationTimestamp") {
        Some(made) => format!("{whose}, {} days old", now.duration_since(made).as_hours() / 24),
        None => whose,
    }
}

fn definitions(seen: &Seen, now: Timestamp) -> Outcome {
    let there = items(seen, "customresourcedefinitions")?;
    let apply = "joiner crds | kubectl apply --server-side -f -";
    let mut found = Vec::new();
    for ours in joiner_api::crd::all() {
        let Ok(ours) = serde_json::to_value(&ours) else { continue };
        let object = format!("customresourcedefinition/{}", name(&ours));
        let Some(theirs) = there.iter().find(|of| name(of) == name(&ours)) else {
            let message = "it is missing: joiner cannot see objects of this kind".to_owned();
            found.push(finding("Definitions", object, message, apply.to_owned()));
            continue;
        };
        if !theirs["metadata"]["deletionTimestamp"].is_null() {
            let message = "it is being deleted, and all its objects with it".to_owned();
            found.push(finding(
                "Definitions",
                object.clone(),
                message,
                format!("kubectl get {object} -o yaml"),
            ));
            continue;
        }
        for version in ours["spec"]["versions"].as_array().into_iter().flatten() {
            let version = text(version, "/name");
            let Some(wanted) = schema_paths(&ours, version) else { continue };
            let Some(known) = schema_paths(theirs, version) else {
                let message = format!("it does not serve `{version}` ({})", keeper(theirs, now));
                found.push(finding("Definitions", object.clone(), message, apply.to_owned()));
                continue;
            };
            let lacks: Vec<&String> = wanted.difference(&known).collect();
            if let Some(first) = lacks.first() {
                let more = match lacks.len() {
                    1 => String::new(),
                    many => format!(" and {} more fields", many - 1),
                };
                let message = format!(
                    "its `{version}` lacks `{}`{more}: the server drops them from objects ({})",
                    first.trim_start_matches('.'),
                    keeper(theirs, now)
                );
                found.push(finding("Definitions", object.clone(), message, apply.to_owned()));
            }
        }
        if text(theirs, "/spec/conversion/strategy") == "Webhook" {
            let message = format!(
                "its objects are converted by a webhook, which joiner does not serve ({})",
                keeper(theirs, now)
            );
            let patch = r#"{"spec":{"conversion":{"strategy":"None","webhook":null}}}"#;
            found.push(finding(
                "Webhooks",
                object.clone(),
                message,
                format!("kubectl patch {object} --type=merge -p '{patch}'"),
            ));
        }
    }
    Ok(found)
}

/// Deployments that want pods.
fn deployments(seen: &Seen) -> Result<impl Iterator<Item = &Value>, String> {
    Ok(items(seen, "deployments")?.iter().filter(|of| of["spec"]["replicas"] != 0))
}

fn place(object: &Value) -> String {
    format!("{}/{}", text(object, "/metadata/namespace"), name(object))
}

/// Joiner's own.
fn is_joiner(deployment: &Value) -> bool {
    text(deployment, "/metadata/labels/helm.sh~1chart").starts_with("joiner-")
}

fn other_autoscalers(seen: &Seen) -> Outcome {
    let mut found = Vec::new();
    for deployment in deployments(seen)?.filter(|of| !is_joiner(of)) {
        let Some(what) = autoscalers::of_pod_spec(&deployment["spec"]["template"]["spec"]) else { continue };
        let space = text(deployment, "/metadata/namespace");
        found.push(finding(
            "Autoscalers",
            format!("deployment/{}", place(deployment)),
            format!("it runs {what}: two autoscalers buy machines for the same pods; joiner waits for its end, unless it is told to take over"),
            format!("kubectl -n {space} scale deployment {} --replicas=0", name(deployment)),
        ));
    }
    Ok(found)
}

fn installation(seen: &Seen) -> Outcome {
    let ours: Vec<&Value> = deployments(seen)?.filter(|of| is_joiner(of)).collect();
    let mut found = Vec::new();
    if let [first, rest @ ..] = ours.as_slice() {
        for other in rest {
            found.push(finding(
                "Installation",
                format!("deployment/{}", place(other)),
                format!("joiner is installed a second time: deployment/{} is there, too", place(first)),
                format!(
                    "helm -n {} uninstall {}",
                    text(other, "/metadata/namespace"),
                    text(other, "/metadata/labels/app.kubernetes.io~1instance")
                ),
            ));
        }
    }
    let going = |of: &&Value| {
        text(of, "/status/phase") == "Terminating" || !of["metadata"]["deletionTimestamp"].is_null()
    };
    for namespace in items(seen, "namespaces")?.iter().filter(going) {
        if ours.iter().any(|of| text(of, "/metadata/namespace") == name(namespace)) {
            found.push(finding(
                "Installation",
                format!("namespace/{}", name(namespace)),
                "joiner is installed in it, and it is being deleted".to_owned(),
                "helm -n kube-system install joiner charts/joiner".to_owned(),
            ));
        }
    }
    Ok(found)
}

/// A verb on a kind.
type Right = (String, String, String);

fn rules_of(role: &Value) -> impl Iterator<Item = Right> {
    let list = |rule: &Value, field: &str| -> Vec<String> {
        rule[field].as_array().into_iter().flatten().filter_map(|of| of.as_str().map(str::to_owned)).collect()
    };
    let rules = role["rules"].as_array().cloned().unwrap_or_default();
    rules.into_iter().flat_map(move |rule| {
        let (groups, resources, verbs) =
            (list(&rule, "apiGroups"), list(&rule, "resources"), list(&rule, "verbs"));
        let mut all = Vec::new();
        for group in &groups {
            for resource in &resources {
                all.extend(verbs.iter().map(|verb| (group.clone(), resource.clone(), verb.clone())));
            }
        }
        all
    })
}

/// Whether one of the rights covers another.
fn covers(granted: &BTreeSet<Right>, (group, resource, verb): &Right) -> bool {
    let fits = |have: &str, want: &str| have == "*" || have == want;
    granted.iter().any(|(of_group, of_resource, of_verb)| {
        fits(of_group, group) && fits(of_resource, resource) && fits(of_verb, verb)
    })
}

/// What the chart of this version grants is what joiner of this version uses: the chart is the list.
fn rights(seen: &Seen) -> Outcome {
    let ours = deployments(seen)?.find(|of| is_joiner(of));
    let Some(deployment) = ours else { return Err("joiner is not installed in this cluster".to_owned()) };
    let space = text(deployment, "/metadata/namespace");
    let pod = &deployment["spec"]["template"]["spec"];
    let account = match text(pod, "/serviceAccountName") {
        "" => "default",
        named => named,
    };
    let is_ours = |binding: &&Value| {
        binding["subjects"].as_array().into_iter().flatten().any(|subject| match text(subject, "/kind") {
            "ServiceAccount" => text(subject, "/namespace") == space && text(subject, "/name") == account,
            "Group" => [
                format!("system:serviceaccounts:{space}"),
                "system:serviceaccounts".to_owned(),
                "system:authenticated".to_owned(),
            ]
            .iter()
            .any(|group| text(subject, "/name") == group),
            _ => false,
        })
    };
    let (cluster_roles, roles) = (items(seen, "clusterroles")?, items(seen, "roles")?);
    let role = |binding: &Value| match text(binding, "/roleRef/kind") {
        "ClusterRole" => cluster_roles.iter().find(|role| name(role) == text(binding, "/roleRef/name")),
        _ => roles.iter().find(|role| {
            name(role) == text(binding, "/roleRef/name")
                && text(role, "/metadata/namespace") == text(binding, "/metadata/namespace")
        }),
    };
    let everywhere: BTreeSet<Right> = items(seen, "clusterrolebindings")?
        .iter()
        .filter(is_ours)
        .filter_map(role)
        .flat_map(rules_of)
        .collect();
    let at_home: BTreeSet<Right> = items(seen, "rolebindings")?
        .iter()
        .filter(|binding| text(binding, "/metadata/namespace") == space)
        .filter(is_ours)
        .filter_map(role)
        .flat_map(rules_of)
        .chain(everywhere.iter().cloned())
        .collect();
    let mut missing: Vec<String> = Vec::new();
    for role in super::roles_of_the_chart(space)? {
        let granted = if text(&role, "/kind") == "ClusterRole" { &everywhere } else { &at_home };
        for right in rules_of(&role).filter(|right| !covers(granted, right)) {
            let (group, resource, verb) = right;
            let dot = if group.is_empty() { "" } else { "." };
            missing.push(format!("{verb} {resource}{dot}{group}"));
        }
    }
    missing.sort();
    missing.dedup();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let message = format!("joiner's account may not: {}", missing.join(", "));
    let remedy = format!(
        "joiner manifests -n {space} --release {} | kubectl apply -f -",
        text(deployment, "/metadata/labels/app.kubernetes.io~1instance")
    );
    Ok(vec![finding("Rights", format!("serviceaccount/{space}/{account}"), message, remedy)])
}

fn is_true(object: &Value, condition: &str) -> Option<bool> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|of| of["type"] == condition).map(|of| of["status"] == "True")
}

fn node_classes(seen: &Seen) -> Outcome {
    let mut found = Vec::new();
    for pool in items(seen, "nodepools")? {
        let class = &pool["spec"]["template"]["spec"]["nodeClassRef"];
        let plural = match text(class, "/group") {
            KWOK_GROUP => "kwoknodeclasses",
            names::AWS_GROUP => "ec2nodeclasses",
            // Classes of other providers are none of ours.
            _ => continue,
        };
        let object = format!("nodepool/{}", name(pool));
        let wanted = text(class, "/name");
        let of_class = format!("{} {wanted}", text(class, "/kind"));
        match items(seen, plural)?.iter().find(|of| name(of) == wanted) {
            None => found.push(finding(
                "NodeClasses",
                object,
                format!("its node class, {of_class}, is not there: the pool launches nothing"),
                format!("kubectl get {plural}"),
            )),
            Some(class) if is_true(class, "Ready") == Some(false) => found.push(finding(
                "NodeClasses",
                object,
                format!("its node class, {of_class}, is not ready: the pool launches nothing"),
                format!("kubectl describe {plural} {wanted}"),
            )),
            Some(_) => {}
        }
    }
    Ok(found)
}

/// What a stage is for, by what it waits for and what it does.
fn does(stage: &Value, kind: &str, what: &str) -> bool {
    let spec = &stage["spec"];
    if text(spec, "/resourceRef/kind") != kind {
        return false;
    }
    let next = spec["next"].to_string();
    match what {
        "becomes ready" => next.contains("Ready"),
        "begins to run" => next.contains("Running") || next.contains("Ready"),
        _ => spec["next"]["delete"] == true,
    }
}

fn stages(seen: &Seen, now: Timestamp) -> Outcome {
    let served = !matches!(seen.lists.get("kwoknodeclasses"), Some(Answer::Absent) | None);
    let has_pool = items(seen, "nodepools")?
        .iter()
        .any(|pool| text(pool, "/spec/template/spec/nodeClassRef/group") == KWOK_GROUP);
    if !served || !has_pool {
        return Err("no pool is served by KWOK".to_owned());
    }
    let mut found = Vec::new();
    if let Some(Answer::Got(stages)) = seen.lists.get("stages") {
        for (kind, what) in STAGES {
            if !stages.iter().any(|stage| does(stage, kind, what)) {
                found.push(finding(
                    "KwokStages",
                    "stages.kwok.x-k8s.io".to_owned(),
                    format!("KWOK has no stage by which a {kind} {what}"),
                    "make install-kwok".to_owned(),
                ));
            }
        }
    }
    let old = |node: &Value| {
        moment(node, "creationTimestamp").is_some_and(|made| now.duration_since(made) > UNPLAYED)
    };
    let unplayed: Vec<&Value> = items(seen, "nodes")?
        .iter()
        .filter(|node| text(node, "/metadata/annotations/kwok.x-k8s.io~1node") == "fake")
        .filter(|node| old(node) && is_true(node, "Ready") != Some(true))
        .collect();
    if let Some(first) = unplayed.first() {
        found.push(finding(
            "KwokStages",
            format!("node/{}", name(first)),
            format!(
                "{} of KWOK are not ready after {} s: nobody plays their kubelets",
                crate::show::plural(unplayed.len(), "node"),
                UNPLAYED.as_secs()
            ),
            "make install-kwok".to_owned(),
        ));
    }
    Ok(found)
}

fn webhooks(seen: &Seen) -> Outcome {
    let services = items(seen, "services")?;
    let mut found = Vec::new();
    for plural in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
        for configuration in items(seen, plural)? {
            let is_karpenters =
                [".karpenter.sh", ".karpenter.k8s.aws"].iter().any(|end| name(configuration).ends_with(end));
            let lost = configuration["webhooks"].as_array().into_iter().flatten().find_map(|webhook| {
                let service = &webhook["clientConfig"]["service"];
                let there = |of: &&Value| {
                    name(of) == text(service, "/name")
                        && text(of, "/metadata/namespace") == text(service, "/namespace")
                };
                (service.is_object() && !services.iter().any(|of| there(&of)))
                    .then(|| format!("{}/{}", text(service, "/namespace"), text(service, "/name")))
            });
            if let Some(service) = lost.filter(|_| is_karpenters) {
                found.push(finding(
                    "Webhooks",
                    format!("{}/{}", plural.trim_end_matches('s'), name(configuration)),
                    format!("it was left by an older Karpenter: its service {service} is not there, and what it is asked about is refused"),
                    format!("kubectl delete {} {}", plural.trim_end_matches('s'), name(configuration)),
                ));
            }
        }
    }
    Ok(found)
}

/// Objects that wait for an autoscaler that is not there.
fn finalizers(seen: &Seen, now: Timestamp) -> Outcome {
    let somebody = deployments(seen)?
        .any(|of| is_joiner(of) || autoscalers::of_pod_spec(&of["spec"]["template"]["spec"]).is_some());
    if somebody {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for (plural, kind) in [("nodeclaims", "nodeclaim"), ("nodes", "node")] {
        for object in items(seen, plural)? {
            let ours = object["metadata"]["finalizers"].as_array().into_iter().flatten();
            let held = ours.clone().any(|of| of.as_str() == Some(names::TERMINATION_FINALIZER));
            let since = moment(object, "deletionTimestamp").map(|since| now.duration_since(since));
            if let Some(since) = since.filter(|since| held && *since > STUCK) {
                found.push(finding(
                    "Finalizers",
                    format!("{kind}/{}", name(object)),
                    format!(
                        "it is being deleted for {} min and waits for an autoscaler to end its machine; no Deployment in this cluster runs one",
                        since.as_mins()
                    ),
                    "joiner manifests | kubectl apply -f -".to_owned(),
                ));
            }
        }
    }
    Ok(found)
}
