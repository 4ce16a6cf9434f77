//! The commands of the page about Karpenter's KWOK provider, in their order, on a real control plane.
//!
//! There are no containers here: the two programs whose Deployments the commands apply run beside the cluster, with the arguments, files and accounts of
//! those Deployments. Everything else is as on the page.

use std::path::Path;
use std::process::Command;

use joiner_testbed::plane::{Parts, scratch};
use joiner_testbed::process::Kept;
use serde_json::Value;

use crate::charts;
use crate::rights::{NAMESPACE, Running, count};
use crate::server::run;

/// As the page has it, with the older name of a policy.
const AS_WRITTEN: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: default
spec:
  template:
    spec:
      requirements:
        - key: kubernetes.io/arch
          operator: In
          values: [\"amd64\"]
        - key: kubernetes.io/os
          operator: In
          values: [\"linux\"]
        - key: karpenter.sh/capacity-type
          operator: In
          values: [\"spot\"]
      nodeClassRef:
        name: default
        kind: KWOKNodeClass
        group: karpenter.kwok.sh
      expireAfter: 720h # 30 * 24h = 720h
  limits:
    cpu: 1000
  disruption:
    consolidationPolicy: WhenUnderutilized
---
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata:
  name: default
";
const PODS: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: inflate, namespace: default}
spec:
  replicas: 5
  selector: {matchLabels: {app: inflate}}
  template:
    metadata: {labels: {app: inflate}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: pause, resources: {requests: {cpu: 1}}}]
";

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_kwok_page_work_in_order() {
    let test = "the_commands_of_the_kwok_page_work_in_order";
    let Some(programs) = joiner_testbed::programs_for(test).unwrap() else { return };
    let parts = Parts { kwok: false, ..Parts::ALL };
    let Some(bed) = joiner_testbed::plane_for(test, parts).await.unwrap() else { return };
    let Some(plane) = &bed.plane else {
        joiner_testbed::not_run(test, "it gives out tokens of a server of its own");
        return;
    };
    let kubectl = programs.path("kubectl");
    let folder = scratch("kwok-commands").unwrap();
    let told = |arguments: &[&str], input: &str| {
        let (fine, said) = run(&kubectl, &bed.kubeconfig, arguments, input);
        assert!(fine, "kubectl {}: {said}", arguments.join(" "));
        said
    };
    let types = folder.join("instance_types.json");
    let make = |target: &str| {
        let root = charts().join("..");
        let variables = [
            format!("JOINER={}", env!("CARGO_BIN_EXE_joiner")),
            format!("KUBECTL={}", kubectl.display()),
            format!("INSTANCE_TYPES={}", types.display()),
            format!("NAMESPACE={NAMESPACE}"),
            "SET=replicas=0".to_owned(),
        ];
        let fixed: Vec<&str> =
            ["-C", root.to_str().unwrap()].into_iter().chain(variables.iter().map(String::as_str)).collect();
        let (fine, said) = run(Path::new("make"), &bed.kubeconfig, &[&fixed[..], &[target]].concat(), "");
        assert!(fine, "make {target}: {said}");
        said
    };

    make("install-kwok");
    let token = told(&["create", "token", "kwok-controller", "-n", "kube-system", "--duration=1h"], "");
    let of_kwok = plane.kubeconfig_for("kwok", token.trim()).unwrap();
    let stages =
        told(&["get", "configmap", "kwok", "-n", "kube-system", "-o", r"jsonpath={.data.kwok\.yaml}"], "");
    std::fs::write(folder.join("kwok.yaml"), stages).unwrap();
    let path = "/apis/apps/v1/namespaces/kube-system/deployments/kwok-controller";
    let (_, deployment) = bed.client.get(path).await.unwrap();
    let arguments =
        deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap().iter();
    let mut arguments: Vec<String> = arguments
        .map(|of| {
            of.as_str()
                .unwrap()
                .replace("/etc/kwok", folder.to_str().unwrap())
                .replace("$(POD_IP)", "10.0.0.1")
        })
        .collect();
    arguments.push(format!("--kubeconfig={}", of_kwok.display()));
    let mut kwok = Kept::start("kwok", &programs.path("kwok"), &arguments, &folder.join("kwok.log")).unwrap();

    make("apply");
    let (_, deployment) = bed.client.get("/apis/apps/v1/namespaces/joiner/deployments/joiner").await.unwrap();
    let token = told(&["create", "token", "joiner", "-n", NAMESPACE, "--duration=1h"], "");
    let mut running = Running::start(&plane.kubeconfig_for("account", token.trim()).unwrap(), &deployment);

    told(&["apply", "-f", "-"], AS_WRITTEN);
    told(&["apply", "-f", "-"], PODS);
    let is_running = |pod: &Value| pod["status"]["phase"] == "Running";
    running
        .until("all pods run", async || {
            kwok.check().unwrap();
            count(&bed, "/api/v1/namespaces/default/pods", is_running).await == 5
        })
        .await;

    make("gen_instance_types");
    let check = Command::new(env!("CARGO_BIN_EXE_joiner"))
        .args(["instance-types", "check"])
        .arg(&types)
        .output()
        .unwrap();
    assert!(check.status.success(), "{check:?}");

    let said = make("delete");
    assert!(said.contains("machines stay, with their pools and claims"), "{said}");
    assert_ne!(count(&bed, "/api/v1/nodes", |_| true).await, 0, "machines stay");
    let (status, _) = bed.client.get("/apis/apps/v1/namespaces/joiner/deployments/joiner").await.unwrap();
    assert_eq!(status, 404);
    make("uninstall-kwok");
    assert_eq!(bed.client.get(path).await.unwrap().0, 404);
    // A second time there is nothing to do, and that is no error.
    make("delete");
    make("uninstall-kwok");
    let _ = std::fs::remove_dir_all(folder);
}
