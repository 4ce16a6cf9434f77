//! joiner's custom resources: the same verdict on the embedded server, on a real one, and with the original's definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use http::Method;
use joiner_testbed::client::Client;
use joiner_testbed::plane::Parts;
use serde_json::Value;

use crate::embedded::Embedded;
use crate::objects::{Offer, offers};

/// The original whose definitions ours are compared with.
pub(crate) const ORIGINAL: &str = "sigs.k8s.io/karpenter@v1.14.1";
/// Objects that joiner takes and the original refuses, on purpose.
const WIDER: &[(&str, &str)] = &[
    (
        "/spec/disruption/consolidationPolicy = \"WhenUnderutilized\"",
        "an older name that is still found in manifests",
    ),
    ("/spec/disruption = {}", "`consolidateAfter` has a default"),
    ("/spec/disruption/consolidateAfter = null", "`consolidateAfter` has a default"),
];

/// Objects that joiner refuses and the original takes, on purpose.
const STRICTER: &[(&str, &str)] = &[
    ("\"values\":[\"bad value!\"]", "no node can have a label with such a value"),
    ("\"values\":[\"vvv", "no node can have a label with so long a value"),
    ("/spec/nodeRegistrationDelayJitter", "the original drops the field unread"),
    ("/spec/partitions", "the original drops the field unread"),
    ("/spec/chaos", "the original drops the field unread"),
];
/// Objects that both servers refuse, the embedded one in other words.
const WORDING: &[(&str, &str)] = &[
    (
        "\"operator\":\"Gt\",\"values\":[\"x\"]",
        "a failed conversion inside a rule is worded by the library for rules",
    ),
    (
        "/spec/replicas = -1",
        "a wrong number of replicas is named once, not a second time for the `scale` subresource",
    ),
    (
        "/spec/replicas = \"3\"",
        "a wrong number of replicas is named once, not a second time for the `scale` subresource",
    ),
];

/// Status, and the causes of a refusal in order.
async fn verdict(client: &Client, offer: &Offer) -> (u16, Vec<String>, Value) {
    let path = format!("{}?dryRun=All", offer.collection);
    let (status, answer) = client.call(Method::POST, &path, Some(&offer.object)).await.unwrap();
    let causes = answer["details"]["causes"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut causes: Vec<String> = causes
        .iter()
        .map(|cause| {
            format!("{} {} {}", text(&cause["field"]), text(&cause["reason"]), text(&cause["message"]))
        })
        .collect();
    causes.sort();
    if causes.is_empty() && status >= 400 {
        causes.push(text(&answer["message"]));
    }
    (status, causes, answer["spec"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_resources_get_the_same_verdict_on_both_servers() {
    let test = "custom_resources_get_the_same_verdict_on_both_servers";
    let Some(bed) = joiner_testbed::plane_for(test, Parts::BARE).await.unwrap() else { return };
    let embedded = Embedded::start().await;
    let ours = embedded.client();
    let definitions = Command::new(env!("CARGO_BIN_EXE_joiner")).arg("crds").output().unwrap().stdout;
    let definitions: Vec<Value> =
        serde_saphyr::from_multiple(std::str::from_utf8(&definitions).unwrap()).unwrap();
    install(&bed.client, &definitions).await;

    let offers = offers();
    let (mut taken, mut refused, mut problems) = (0, 0, Vec::new());
    let mut verdicts = BTreeMap::new();
    for offer in &offers {
        let (there, here) = (verdict(&bed.client, offer).await, verdict(&ours, offer).await);
        if there.0 < 300 {
            taken += 1;
        } else {
            refused += 1;
        }
        let worded = WORDING.iter().any(|(part, _)| offer.about.contains(part));
        if there.0 != here.0 || (there != here && !worded) {
            problems.push(format!("{}\n    real {there:?}\n    ours {here:?}", offer.about));
        }
        verdicts.insert(offer.about.clone(), there.0);
    }
    assert!(problems.is_empty(), "{} of {} differ:\n{}", problems.len(), offers.len(), problems.join("\n"));
    assert!(taken >= 100 && refused >= 150, "{taken} taken, {refused} refused");

    // The same objects under the original's definitions.
    let Some(originals) = original_definitions(test) else { return };
    remove(&bed.client, &definitions).await;
    install(&bed.client, &originals).await;
    let mut wanted = BTreeSet::new();
    for offer in &offers {
        let (status, causes, _) = verdict(&bed.client, offer).await;
        let ours = verdicts[&offer.about];
        if status == ours {
            continue;
        }
        let known = if status < 300 { STRICTER } else { WIDER };
        match known.iter().find(|(part, _)| offer.about.contains(part)) {
            Some((part, _)) => {
                wanted.insert(*part);
            }
            None => {
                problems.push(format!("{}\n    original {status} {causes:?}\n    joiner {ours}", offer.about))
            }
        }
    }
    for (part, _) in WIDER.iter().chain(STRICTER) {
        assert!(wanted.contains(part), "the list names a difference that is none: {part}");
    }
    assert!(problems.is_empty(), "{} of {} differ:\n{}", problems.len(), offers.len(), problems.join("\n"));
}

/// Takes definitions away, and waits until they are gone.
pub(crate) async fn remove(client: &Client, definitions: &[Value]) {
    for definition in definitions {
        let path = format!(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}",
            definition["metadata"]["name"].as_str().unwrap()
        );
        client.call(Method::DELETE, &path, None).await.unwrap();
        while client.get(&path).await.unwrap().0 != 404 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Creates definitions and waits until their objects can be asked for.
pub(crate) async fn install(client: &Client, definitions: &[Value]) {
    for definition in definitions {
        let collection = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let (status, answer) = client.call(Method::POST, collection, Some(definition)).await.unwrap();
        assert_eq!(status, 201, "{answer}");
    }
    for definition in definitions {
        let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap();
        for version in definition["spec"]["versions"].as_array().unwrap() {
            let path = format!(
                "/apis/{}/{}/{}",
                text("/spec/group"),
                version["name"].as_str().unwrap(),
                text("/spec/names/plural")
            );
            while version["served"] == true && client.get(&path).await.unwrap().0 != 200 {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    // Writes are let in a little after reads.
    tokio::time::sleep(Duration::from_secs(6)).await;
}

/// The definitions in the sources of the original, fetched with Go.
fn original_definitions(test: &str) -> Option<Vec<Value>> {
    fetched_definitions(test, ORIGINAL, &["pkg/apis/crds", "kwok/apis/crds"])
}

/// The definitions in some folders of a module.
pub(crate) fn fetched_definitions(test: &str, module: &str, folders: &[&str]) -> Option<Vec<Value>> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", module])
        .current_dir(std::env::temp_dir())
        .output();
    let answer: Value =
        output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok()).unwrap_or_default();
    let Some(folder) = answer["Dir"].as_str().map(PathBuf::from) else {
        assert!(!joiner_testbed::in_ci(), "cannot fetch {module}: {answer}");
        joiner_testbed::not_run(test, &format!("the part with {module}, which cannot be fetched"));
        return None;
    };
    let mut definitions = Vec::new();
    for part in folders {
        for file in std::fs::read_dir(folder.join(part)).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                let text = std::fs::read_to_string(path).unwrap();
                definitions.extend(serde_saphyr::from_multiple::<Value>(&text).unwrap());
            }
        }
    }
    Some(definitions)
}
