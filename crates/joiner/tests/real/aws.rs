//! Node classes of AWS on a real API server: our definition judges as recorded, and what `joiner convert` prints is applied, also where the
//! original's definitions are in force.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use http::Method;
use joiner_testbed::client::Client;
use joiner_testbed::plane::Parts;
use serde_json::{Value, json};

use crate::custom::{ORIGINAL, fetched_definitions, install, remove};
use crate::kubectl::Terminal;

/// Where the original keeps the definition of its node class for AWS.
const AWS: &str = "github.com/aws/karpenter-provider-aws@v1.14.1";
const CLASSES: &str = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses";
/// Recorded verdicts; see the README beside them.
const VERDICTS: &str = include_str!("../../../joiner-api/tests/data/ec2nodeclass/verdicts.jsonl");
/// Objects of older versions, relative to the workspace.
const OLD: [&str; 3] = [
    "crates/joiner-api/tests/data/ec2nodeclass/v1beta1.yaml",
    "examples/old/provisioner-v1alpha5.yaml",
    "crates/joiner-api/tests/data/convert/provisioner-addon.yaml",
];

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// What `joiner` prints.
fn joiner(arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_joiner")).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The class that a spec is laid over.
fn class(laid_over: &Value) -> Value {
    let tags = json!([{ "tags": { "a": "b" } }]);
    let mut spec = json!({
        "amiSelectorTerms": [{ "alias": "al2023@latest" }], "role": "role",
        "securityGroupSelectorTerms": tags, "subnetSelectorTerms": tags,
    });
    for (field, value) in laid_over.as_object().unwrap() {
        match value {
            Value::Null => drop(spec.as_object_mut().unwrap().remove(field)),
            value => spec[field] = value.clone(),
        }
    }
    json!({ "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": { "name": "a" }, "spec": spec })
}

/// Fields at fault of each recorded spec; none where it is taken.
async fn faults(client: &Client) -> Vec<(Value, Vec<String>, BTreeSet<String>)> {
    let mut all = Vec::new();
    for line in VERDICTS.lines() {
        let verdict: Value = serde_json::from_str(line).unwrap();
        let object = class(&verdict["spec"]);
        let (status, answer) =
            client.call(Method::POST, &format!("{CLASSES}?dryRun=All"), Some(&object)).await.unwrap();
        let causes = answer["details"]["causes"].as_array().cloned().unwrap_or_default();
        let fields = causes.iter().filter_map(|cause| cause["field"].as_str());
        // Not a field: rules were left out because of another fault.
        let fields: BTreeSet<String> =
            fields.filter(|field| !field.is_empty() && *field != "<nil>").map(str::to_owned).collect();
        assert_eq!(status < 300, fields.is_empty(), "{answer}");
        let wanted = verdict["fields"].as_array().into_iter().flatten().filter_map(Value::as_str);
        all.push((verdict["spec"].clone(), wanted.map(str::to_owned).collect(), fields));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn node_classes_of_aws_are_judged_and_converted_ones_applied() {
    let test = "node_classes_of_aws_are_judged_and_converted_ones_applied";
    let Some(programs) = joiner_testbed::programs_for(test).unwrap() else { return };
    let Some(bed) = joiner_testbed::plane_for(test, Parts::BARE).await.unwrap() else { return };
    let kubectl = Terminal::new(&programs.path("kubectl"), &bed.kubeconfig);
    kubectl.run("config set-context --current --namespace=default", None);
    let of = |text: String| -> Vec<Value> { serde_saphyr::from_multiple(&text).unwrap() };
    let mut ours = of(joiner(&["crds"]));
    ours.extend(of(joiner(&["crds", "ec2nodeclasses"])));
    install(&bed.client, &ours).await;
    let mut wrong = Vec::new();
    let judged = faults(&bed.client).await;
    for (spec, wanted, found) in &judged {
        if !found.iter().eq(wanted) {
            wrong.push(format!("{spec}: wanted {wanted:?}, found {found:?}"));
        }
    }
    assert_eq!(judged.len(), 143);
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    apply_converted(&kubectl);

    remove(&bed.client, &ours).await;
    let core = fetched_definitions(test, ORIGINAL, &["pkg/apis/crds"]);
    let (Some(mut originals), Some(aws)) = (core, fetched_definitions(test, AWS, &["pkg/apis/crds"])) else {
        return;
    };
    // Both have definitions of the core.
    originals.extend(aws.into_iter().filter(|definition| definition["spec"]["group"] == "karpenter.k8s.aws"));
    install(&bed.client, &originals).await;
    apply_converted(&kubectl);
}

/// Converts and applies, and does both again with what the server has then.
fn apply_converted(kubectl: &Terminal) {
    for file in OLD {
        let converted = joiner(&["convert", "-f", file]);
        let (code, said) = kubectl.run("apply -f -", Some(&converted));
        assert_eq!(code, Some(0), "{file}: {said}");
        let (code, said) = kubectl.run("apply -f -", Some(&converted));
        assert_eq!(code, Some(0), "{file}, a second time: {said}");
        // What convert prints is no finding of lint that would send back to it.
        let file = root().join(format!("target/converted-{}.yaml", std::process::id()));
        std::fs::write(&file, &converted).unwrap();
        let output =
            Command::new(env!("CARGO_BIN_EXE_joiner")).args(["lint", "-f"]).arg(&file).output().unwrap();
        let _ = std::fs::remove_file(&file);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!said.contains("joiner convert"), "{said}");
    }
}
