//! Clusters, each with one thing wrong.

use http::Method;
use jiff::SignedDuration;
use joiner::commands::doctor::Finding;
use serde_json::json;

use crate::cluster::Cluster;

/// The one finding of a check.
async fn only(cluster: &Cluster, check: &str) -> Finding {
    let (report, asked) = cluster.examined().await;
    assert!(asked.iter().all(|(method, _)| method == Method::GET), "{asked:?}");
    let [one] = report.findings.as_slice() else { panic!("{check}: {:#?}", report.findings) };
    assert_eq!(one.check, check, "{one:?}");
    one.clone()
}

fn says(finding: &Finding, object: &str, words: &str, remedy: &str) {
    assert_eq!(finding.object, object, "{finding:?}");
    assert!(finding.message.contains(words), "{finding:?}");
    assert!(finding.remedy.contains(remedy), "{finding:?}");
}

/// A Deployment; joiner's own is known by the label of its chart.
fn deployment(name: &str, image: &str, chart: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  namespace: kube-system
  labels: {{helm.sh/chart: {chart}, app.kubernetes.io/instance: {name}}}
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      serviceAccountName: {name}
      containers: [{{name: controller, image: {image}}}]
"
    )
}

async fn install(cluster: &Cluster) {
    install_in(cluster, "kube-system").await;
}

async fn install_in(cluster: &Cluster, namespace: &str) {
    let release = joiner::chart::Release { name: "joiner".to_owned(), namespace: namespace.to_owned() };
    let text =
        joiner::commands::manifests::rendered(&joiner::chart::files::JOINER, &release, json!({})).unwrap();
    for document in text.split("---\n").filter(|text| !text.trim().is_empty()) {
        let plural = if document.contains("kind: NetworkPolicy") { "networkpolicies" } else { "" };
        cluster.create(plural, document).await;
    }
}

#[tokio::test]
async fn a_healthy_cluster_has_no_findings_and_sees_no_write() {
    let cluster = Cluster::healthy().await;
    let (report, asked) = cluster.examined().await;
    assert_eq!(report.findings, [], "before joiner is installed");
    assert!(asked.len() > 15 && asked.iter().all(|(method, _)| method == Method::GET), "{asked:?}");
    install(&cluster).await;
    let (report, _) = cluster.examined().await;
    assert_eq!(report.findings, [], "after");
    let not_made: Vec<&str> = report.not_made.iter().map(|check| check.check).collect();
    assert_eq!(not_made, [] as [&str; 0], "{report:?}");
    assert_eq!(report.passed.len(), 11, "{report:?}");
}

#[tokio::test]
async fn an_old_kubernetes_is_named() {
    let mut cluster = Cluster::healthy().await;
    for minor in ["29", "36", "35+"] {
        cluster.version = Some(minor);
        assert_eq!(cluster.examined().await.0.findings, []);
    }
    cluster.version = Some("28");
    says(&only(&cluster, "KubernetesVersion").await, "server", "Kubernetes is v1.28.0", "kubectl version");
    cluster.version = Some("37");
    only(&cluster, "KubernetesVersion").await;
}

#[tokio::test]
async fn clocks_that_differ_are_named() {
    let mut cluster = Cluster::healthy().await;
    cluster.skew = SignedDuration::from_secs(3);
    assert_eq!(cluster.examined().await.0.findings, []);
    cluster.skew = SignedDuration::from_secs(90);
    says(&only(&cluster, "Clock").await, "this machine", "s behind the API server's", "timedatectl");
    cluster.skew = SignedDuration::from_secs(-90);
    says(&only(&cluster, "Clock").await, "this machine", "s ahead of the API server's", "timedatectl");
}

#[tokio::test]
async fn definitions_that_are_missing_or_old_are_named() {
    let cluster = Cluster::bare();
    let (report, _) = cluster.examined().await;
    assert_eq!(report.findings.len(), joiner_api::crd::all().len());
    assert!(
        report
            .findings
            .iter()
            .all(|of| of.message.contains("it is missing") && of.remedy.starts_with("joiner crds"))
    );

    let cluster = Cluster::bare();
    for definition in joiner_api::crd::all() {
        let mut definition = serde_json::to_value(definition).unwrap();
        match definition["metadata"]["name"].as_str().unwrap() {
            "nodepools.karpenter.sh" => {
                definition["metadata"]["annotations"] = json!({"meta.helm.sh/release-name": "karpenter-crd"});
                let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
                let template = &mut schema["properties"]["spec"]["properties"]["template"]["properties"];
                let spec = template["spec"]["properties"].as_object_mut().unwrap();
                spec.remove("startupTaints").unwrap();
            }
            "nodeclaims.karpenter.sh" => definition["spec"]["versions"][0]["name"] = json!("v1beta1"),
            _ => {}
        }
        cluster.define(definition);
    }
    let (report, _) = cluster.examined().await;
    let [old, other] = report.findings.as_slice() else { panic!("{:#?}", report.findings) };
    let (old, other) = if old.object.contains("nodepools") { (old, other) } else { (other, old) };
    says(
        old,
        "customresourcedefinition/nodepools.karpenter.sh",
        "lacks `spec.template.spec.startupTaints` and",
        "joiner crds",
    );
    assert!(old.message.contains("of the helm release karpenter-crd, 0 days old"), "{old:?}");
    says(other, "customresourcedefinition/nodeclaims.karpenter.sh", "does not serve `v1`", "joiner crds");
}

#[tokio::test]
async fn other_autoscalers_are_named() {
    for (name, image, what) in [
        (
            "cluster-autoscaler",
            "registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0",
            "the cluster-autoscaler",
        ),
        ("karpenter", "public.ecr.aws/karpenter/controller:1.9.0", "Karpenter"),
    ] {
        let cluster = Cluster::healthy().await;
        cluster.create("", &deployment(name, image, "x-1")).await;
        let found = only(&cluster, "Autoscalers").await;
        says(
            &found,
            &format!("deployment/kube-system/{name}"),
            what,
            &format!("scale deployment {name} --replicas=0"),
        );
    }
    let cluster = Cluster::healthy().await;
    let asleep = deployment("karpenter", "public.ecr.aws/karpenter/controller:1", "x-1")
        .replace("spec:\n  sel", "spec:\n  replicas: 0\n  sel");
    cluster.create("", &asleep).await;
    assert_eq!(cluster.examined().await.0.findings, [], "one without pods does nothing");
}

#[tokio::test]
async fn a_second_joiner_and_missing_rights_are_named() {
    let cluster = Cluster::healthy().await;
    install(&cluster).await;
    let second = deployment("second", "ghcr.io/joiner-sh/joiner:0.1.0", "joiner-0.1.0");
    cluster.create("", &second).await;
    says(
        &only(&cluster, "Installation").await,
        "deployment/kube-system/second",
        "a second time",
        "uninstall second",
    );

    let cluster = Cluster::healthy().await;
    cluster.create("", &deployment("joiner", "ghcr.io/joiner-sh/joiner:0.1.0", "joiner-0.1.0")).await;
    cluster
        .create("", "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: most}, rules: [
            {apiGroups: ['*'], resources: ['*'], verbs: [get, list, watch, create, patch, update]},
            {apiGroups: [''], resources: [nodes], verbs: [delete]}, {apiGroups: [karpenter.sh], resources: [nodeclaims], verbs: [delete]}]}")
        .await;
    cluster
        .create(
            "",
            "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: most},
            roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: most},
            subjects: [{kind: ServiceAccount, name: joiner, namespace: kube-system}]}",
        )
        .await;
    let found = only(&cluster, "Rights").await;
    says(
        &found,
        "serviceaccount/kube-system/joiner",
        "may not: delete pods",
        "joiner manifests -n kube-system --release joiner",
    );
    assert_eq!(found.message, "joiner's account may not: delete pods");
}

#[tokio::test]
async fn classes_that_are_not_there_or_not_ready_are_named() {
    let cluster = Cluster::healthy().await;
    cluster.create("", &crate::cluster::POOL.replace("default", "lost")).await;
    says(
        &only(&cluster, "NodeClasses").await,
        "nodepool/lost",
        "KWOKNodeClass lost, is not there",
        "kubectl get kwoknodeclasses",
    );

    let cluster = Cluster::bare();
    for definition in joiner_api::crd::all() {
        cluster.define(serde_json::to_value(definition).unwrap());
    }
    let class = format!(
        "{}status: {{conditions: [{{type: Ready, status: 'False', reason: X, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}}]}}\n",
        crate::cluster::KWOK_CLASS
    );
    cluster.create("", &class).await;
    cluster.create("", crate::cluster::POOL).await;
    says(
        &only(&cluster, "NodeClasses").await,
        "nodepool/default",
        "is not ready",
        "kubectl describe kwoknodeclasses default",
    );
}

#[tokio::test]
async fn kwok_without_stages_and_nodes_nobody_plays_are_named() {
    let cluster = Cluster::healthy().await;
    cluster.define(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "stages.kwok.x-k8s.io"},
        "spec": {"group": "kwok.x-k8s.io", "scope": "Cluster",
            "names": {"kind": "Stage", "listKind": "StageList", "plural": "stages", "singular": "stage"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}
    }));
    let (report, _) = cluster.examined().await;
    assert_eq!(report.findings.len(), 3, "{:#?}", report.findings);
    assert!(report.findings.iter().all(|of| of.check == "KwokStages" && of.remedy == "make install-kwok"));
    for stage in [
        "{name: node-initialize}\nspec: {resourceRef: {apiGroup: v1, kind: Node}, next: {statusTemplate: '{conditions: [{type: Ready}]}'}}",
        "{name: pod-ready}\nspec: {resourceRef: {apiGroup: v1, kind: Pod}, next: {statusTemplate: 'phase: Running'}}",
        "{name: pod-delete}\nspec: {resourceRef: {apiGroup: v1, kind: Pod}, next: {delete: true}}",
    ] {
        cluster
            .create("", &format!("apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {stage}\n"))
            .await;
    }
    assert_eq!(cluster.examined().await.0.findings, []);
}

#[tokio::test]
async fn webhooks_of_older_versions_are_named() {
    let cluster = Cluster::healthy().await;
    let webhook = "{name: validation.webhook.karpenter.sh, admissionReviewVersions: [v1], sideEffects: None,
        clientConfig: {service: {name: karpenter, namespace: kube-system}},
        rules: [{apiGroups: [nothing.example.com], apiVersions: [v1], operations: [CREATE], resources: [nothings]}]}";
    cluster
        .create(
            "",
            &format!(
                "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\n\
            metadata: {{name: validation.webhook.karpenter.sh}}\nwebhooks: [{webhook}]\n"
            ),
        )
        .await;
    let found = only(&cluster, "Webhooks").await;
    says(
        &found,
        "validatingwebhookconfiguration/validation.webhook.karpenter.sh",
        "its service kube-system/karpenter is not there",
        "kubectl delete validatingwebhookconfiguration validation.webhook.karpenter.sh",
    );
}

#[tokio::test]
async fn a_definition_whose_webhook_converts_is_named() {
    let cluster = Cluster::healthy().await;
    let all = joiner_api::crd::all();
    let pools = all.iter().find(|of| of.spec.names.plural == "nodepools").unwrap();
    let mut definition = serde_json::to_value(pools).unwrap();
    definition["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": "karpenter", "namespace": "kube-system"}}}});
    cluster.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodepools.karpenter.sh").await;
    cluster.define(definition);
    let found = only(&cluster, "Webhooks").await;
    says(
        &found,
        "customresourcedefinition/nodepools.karpenter.sh",
        "converted by a webhook",
        "kubectl patch",
    );
}

#[tokio::test]
async fn objects_nobody_lets_go_are_named() {
    let mut cluster = Cluster::healthy().await;
    let node = "apiVersion: v1
kind: Node
metadata: {name: old, finalizers: [karpenter.sh/termination], labels: {karpenter.sh/nodepool: default}}
";
    cluster.create("", node).await;
    cluster.later = SignedDuration::from_mins(10);
    assert_eq!(cluster.examined().await.0.findings, [], "it is not being deleted");
    cluster.delete("/api/v1/nodes/old").await;
    let found = only(&cluster, "Finalizers").await;
    says(
        &found,
        "node/old",
        "waits for an autoscaler to end its machine",
        "joiner manifests | kubectl apply",
    );
    install(&cluster).await;
    assert_eq!(cluster.examined().await.0.findings, [], "joiner is there to do it");
}

#[tokio::test]
async fn kwok_nodes_that_nobody_plays_are_named() {
    let mut cluster = Cluster::healthy().await;
    let node = "apiVersion: v1
kind: Node
metadata: {name: fake, annotations: {kwok.x-k8s.io/node: fake}, labels: {karpenter.sh/nodepool: default}}
";
    cluster.create("", node).await;
    assert_eq!(cluster.examined().await.0.findings, [], "it has just come");
    cluster.later = SignedDuration::from_mins(10);
    says(&only(&cluster, "KwokStages").await, "node/fake", "1 node of KWOK", "make install-kwok");
}

#[tokio::test]
async fn a_namespace_that_goes_is_named() {
    let cluster = Cluster::healthy().await;
    cluster
        .create(
            "",
            "{apiVersion: v1, kind: Namespace, metadata: {name: going, finalizers: [example.com/hold]}}",
        )
        .await;
    install_in(&cluster, "going").await;
    cluster.delete("/api/v1/namespaces/going").await;
    says(&only(&cluster, "Installation").await, "namespace/going", "being deleted", "helm");
}

#[tokio::test]
async fn pods_that_no_pool_can_serve_are_named() {
    let cluster = Cluster::healthy().await;
    let pod = |name: &str, cpu: &str| {
        format!(
            "apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default}}
spec: {{containers: [{{name: main, image: pause, resources: {{requests: {{cpu: {cpu}}}}}}}]}}
status:
  phase: Pending
  conditions: [{{type: PodScheduled, status: 'False', reason: Unschedulable}}]
"
        )
    };
    cluster.create("", &pod("fits", "1")).await;
    assert_eq!(cluster.examined().await.0.findings, [], "a pool can serve it");
    cluster.create("", &pod("huge", "9000")).await;
    let found = only(&cluster, "Pods").await;
    says(&found, "pod/default/huge", "no pool can serve it: ", "--explain default/huge");
    cluster.create("", &pod("huge-too", "9000")).await;
    let found = only(&cluster, "Pods").await;
    says(&found, "pod/default/huge", "no pool can serve it, nor 1 pod like it: ", "--explain default/huge");
}

#[tokio::test]
async fn what_may_not_be_read_is_said_and_no_finding() {
    let mut cluster = Cluster::healthy().await;
    cluster.forbidden = vec!["/deployments", "/pods"];
    let (report, _) = cluster.examined().await;
    assert_eq!(report.findings, []);
    let not_made: Vec<&str> = report.not_made.iter().map(|check| check.check).collect();
    assert_eq!(not_made, ["Autoscalers", "Installation", "Rights", "Finalizers", "Pods"]);
    assert!(report.not_made[0].why.contains("may not list"), "{:?}", report.not_made);
}
