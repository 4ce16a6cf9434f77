//! What the planner says about input it can't use: exit code 2, nothing on standard output, and one line on standard error that
//! names file, line, object, field, value, what is wrong and what to do.
//!
//! `FILE` stands for the file given; every message is compared to the letter.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use joiner::{BAD_INPUT, FINE, Streams};

/// A folder of its own, gone when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("joiner-bad-input-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder can be made");
        Self(path)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).expect("the file can be written");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Exit code, standard output, standard error.
fn run(arguments: &[&str]) -> (u8, String, String) {
    let line = std::iter::once("joiner").chain(arguments.iter().copied()).map(OsString::from);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = joiner::run(line, &mut Streams { out: &mut out, err: &mut err, width: 100, unicode: true });
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is text");
    (code, text(out), text(err))
}

/// The complaint about `joiner plan` with these arguments, without `error: `.
#[track_caller]
fn complaint(arguments: &[&str]) -> String {
    let (code, out, err) = run(arguments);
    assert_eq!((code, out.as_str()), (BAD_INPUT, ""), "{err}");
    let line = err.strip_suffix('\n').expect("a whole line");
    assert!(!line.contains('\n'), "more than one line:\n{err}");
    assert!(line.len() < 800, "{} bytes are too many to read: {line:.400}…", line.len());
    line.strip_prefix("error: ").expect("errors are called so").to_owned()
}

/// Checks what is said about one file with this content.
#[track_caller]
fn refused(file_name: &str, content: impl AsRef<[u8]>, extra: &[&str], expected: &str) {
    let place = std::panic::Location::caller();
    let folder = Folder::new(&format!("{}-{}-{file_name}", place.line(), place.column()));
    let path = folder.write(file_name, content).display().to_string();
    let mut arguments = vec!["plan", "-f", path.as_str()];
    arguments.extend(extra);
    let told = complaint(&arguments).replace(&path, "FILE");
    assert_eq!(told, expected);
}

#[track_caller]
fn yaml(content: &str, expected: &str) {
    refused("manifest.yaml", content, &[], expected);
}

#[track_caller]
fn json(content: &str, expected: &str) {
    refused("manifest.json", content, &[], expected);
}

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: main
    image: pause
    resources:
      requests: {cpu: 500m, memory: 512Mi}
";

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
spec:
  replicas: 2
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: main
        image: pause
        resources:
          requests: {cpu: 500m}
";

const POOL: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: default
spec:
  limits: {cpu: 100}
  template:
    spec:
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
";

const NODE: &str = "\
apiVersion: v1
kind: Node
metadata:
  name: n1
status:
  allocatable: {cpu: 4, memory: 16Gi, pods: 110}
  capacity: {cpu: 4, memory: 16Gi, pods: 110}
";

/// The objects the cases are made from are fine themselves.
#[test]
fn unspoilt_objects_are_taken() {
    let folder = Folder::new("unspoilt");
    let file = folder.write("all.yaml", [POD, DEPLOYMENT, POOL, NODE].join("---\n")).display().to_string();
    let (code, out, err) = run(&["plan", "-f", &file, "-o", "json"]);
    assert_eq!(code, FINE, "{err}");
    assert!(out.contains("web-0"), "{out}");
    assert_eq!(err, "");
}

// ---- files ----

#[test]
fn files_that_are_not_there() {
    assert_eq!(
        complaint(&["plan", "-f", "no/such/file.yaml"]),
        "no/such/file.yaml: no such file or folder; check the path after -f"
    );
    let folder = Folder::new("without-manifests");
    folder.write("notes.txt", "hello");
    let path = folder.0.display().to_string();
    assert_eq!(
        complaint(&["plan", "-f", &path]).replace(&path, "FILE"),
        "FILE: the folder holds no .yaml, .yml or .json file; name a folder with manifests (folders inside it are not searched)"
    );
    assert_eq!(
        complaint(&["plan", "-f", "-", "-f", "-"]),
        "-: standard input can be read only once; give `-f -` once"
    );
}

#[test]
fn files_with_nothing_in_them() {
    let expected = "FILE: there is nothing in it; give a file with at least one Kubernetes object";
    yaml("", expected);
    yaml("\n \n\n", expected);
    yaml("# only\n# comments\n---\n# and more\n---\n", expected);
    json("", expected);
    json("  \n", expected);
    json("[]", expected);
    json(r#"{"apiVersion": "v1", "kind": "List", "items": []}"#, expected);
}

#[test]
fn files_that_are_not_text() {
    let junk: Vec<u8> = (0..4096u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8 | 0x80).collect();
    let not_text = "FILE:1: this is not text: neither YAML nor JSON; give a manifest file in UTF-8";
    refused("junk.yaml", &junk, &[], not_text);
    refused("zero.yaml", [0u8; 100], &[], not_text);
    let utf16: Vec<u8> = POD.encode_utf16().flat_map(u16::to_le_bytes).collect();
    refused("utf16.yaml", &utf16, &[], not_text);
    let mut late = POD.as_bytes().to_vec();
    late.extend(b"    args: ['\xff']\n");
    refused(
        "late.yaml",
        &late,
        &[],
        "FILE:11: this is not text: neither YAML nor JSON; give a manifest file in UTF-8",
    );
    refused(
        "junk.json",
        b"{\"kind\": \"\xff\"}",
        &[],
        "FILE:1: this is not valid JSON: invalid unicode code point; check the file at this line",
    );
    refused(
        "words.yaml",
        "just some words\n",
        &[],
        "FILE:1: this is no Kubernetes object; every object names its `apiVersion` and `kind`",
    );
    refused(
        "number.json",
        "[5]",
        &[],
        "FILE:1: this is no Kubernetes object; every object names its `apiVersion` and `kind`",
    );
}

#[test]
fn broken_yaml() {
    yaml(
        "kind: Pod\nmetadata: {name: a\nspec: 1\n",
        "FILE:3: this is not valid YAML: while parsing a flow mapping, did not find expected ',' or '}'; check indentation and quoting at this line",
    );
    yaml(
        "apiVersion: v1\nkind: Pod\nmetadata:\n\tname: a\n",
        "FILE:4: this is not valid YAML: tabs disallowed within this context (block indentation); check indentation and quoting at this line",
    );
    yaml(
        &format!("{POD}---\n{POD}---\nkind: Pod\n  name: a\n"),
        "FILE:24: this is not valid YAML: mapping values are not allowed in this context; check indentation and quoting at this line",
    );
    yaml(
        "kind: 'Pod\n",
        "FILE:2: this is not valid YAML: invalid indentation in multiline quoted scalar; check indentation and quoting at this line",
    );
    yaml(
        &POD.replace("    image: pause\n", "    image: pause\n    image: other\n"),
        "FILE:9: the key `image` is there twice; keep one of them",
    );
    yaml("kind: *nobody\n", "FILE:1: this alias (`*name`) refers to nothing; define it before with `&name`");
}

#[test]
fn broken_json() {
    json(
        "{\n  \"kind\": \"Pod\",\n  \"metadata\": {\n}\n",
        "FILE:5: this is not valid JSON: it ends too early; check whether the file is whole",
    );
    json(
        "{\"kind\": \"Pod\",\n\"spec\": }\n",
        "FILE:2: this is not valid JSON: expected value; check the file at this line",
    );
    json(
        "{\"kind\": \"Pod\"}\n]\n",
        "FILE:2: this is not valid JSON: expected value; check the file at this line",
    );
    json(
        "\n\n{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n{},\n{]]",
        "FILE:5: this is not valid JSON: key must be a string; check the file at this line",
    );
    json(
        "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": 5}",
        "FILE:1: this is no Kubernetes object; every object names its `apiVersion` and `kind`",
    );
    json(
        "{\"kind\": \"Pod\", \"kind\": \"Node\"}",
        "FILE:1: the key `kind` is there twice; keep one of them",
    );
}

// ---- kinds ----

#[test]
fn kinds_nobody_knows() {
    yaml(
        &POD.replace("kind: Pod", "kind: Podd"),
        "FILE:2: Podd web: `kind` is `Podd`: `v1` has no such kind; did you mean `Pod`?",
    );
    yaml(
        &DEPLOYMENT.replace("kind: Deployment", "kind: Deploymnet"),
        "FILE:2: Deploymnet shop/web: `kind` is `Deploymnet`: `apps/v1` has no such kind; did you mean `Deployment`?",
    );
    yaml(
        &POOL.replace("kind: NodePool", "kind: NodePools"),
        "FILE:2: NodePools default: `kind` is `NodePools`: `karpenter.sh/v1` has no such kind; did you mean `NodePool`?",
    );
    yaml(
        &POD.replace("kind: Pod", "kind: Something"),
        "FILE:2: Something web: `kind` is `Something`: `v1` has no such kind; kinds of `v1` that matter here: Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate, ReplicationController, Service",
    );
    yaml(
        &DEPLOYMENT.replace("apps/v1", "apps/v1beta1"),
        "FILE:1: Deployment shop/web: `apiVersion` is `apps/v1beta1`: there is no such version of Deployment; write `apps/v1`",
    );
    yaml(
        &DEPLOYMENT.replace("apps/v1", "v1"),
        "FILE:1: Deployment shop/web: `apiVersion` is `v1`: Deployment is not one of its kinds; write `apps/v1`",
    );
    yaml(
        &POD.replace("apiVersion: v1", "apiVersion: apps/v1"),
        "FILE:1: Pod web: `apiVersion` is `apps/v1`: Pod is not one of its kinds; write `v1`",
    );
    yaml(
        &POOL.replace("karpenter.sh/v1", "karpenter.sh/v2"),
        "FILE:1: NodePool default: `apiVersion` is `karpenter.sh/v2`: there is no such version of NodePool; write `karpenter.sh/v1`",
    );
    yaml(
        "apiVersion: storage.k8s.io/v1beta1\nkind: StorageClass\nmetadata: {name: a}\nprovisioner: x\n",
        "FILE:1: StorageClass a: `apiVersion` is `storage.k8s.io/v1beta1`: there is no such version of StorageClass; write `storage.k8s.io/v1`",
    );
    yaml(
        "metadata: {name: a}\n",
        "FILE:1: object a: this is no Kubernetes object: it has no `kind`; every object names its `apiVersion` and `kind`",
    );
    yaml(
        "kind: Pod\nmetadata: {name: a}\n",
        "FILE:1: Pod a: this is no Kubernetes object: it has no `apiVersion`; every object names its `apiVersion` and `kind`",
    );
    yaml(
        "kind: 5\napiVersion: v1\nmetadata: {name: a}\n",
        "FILE:1: object a: `kind` is `5`: expected text; every object names its `apiVersion` and `kind`",
    );
    yaml(
        &format!("{POD}---\n- {{}}\n"),
        "FILE:12: this is no Kubernetes object: it has no `kind`; every object names its `apiVersion` and `kind`",
    );
}

// ---- fields ----

#[test]
fn unknown_fields() {
    yaml(
        &POD.replace("    image: pause\n", "    image: pause\n    imagePullPolicey: Always\n"),
        "FILE:9: Pod web: `spec.containers[0].imagePullPolicey` is `Always`: there is no such field; correct its name (is `imagePullPolicy` meant?) or place, or pass --validate=warn to go on without it",
    );
    yaml(
        &DEPLOYMENT.replace("          requests:", "          request:"),
        r#"FILE:18: Deployment shop/web: `spec.template.spec.containers[0].resources.request` is `{"cpu":"500m"}`: there is no such field; correct its name (is `requests` meant?) or place, or pass --validate=warn to go on without it"#,
    );
    yaml(
        &DEPLOYMENT.replace("  replicas: 2\n", "  replica: 2\n"),
        "FILE:7: Deployment shop/web: `spec.replica` is `2`: there is no such field; correct its name (is `replicas` meant?) or place, or pass --validate=warn to go on without it",
    );
    yaml(
        &POOL.replace("      requirements:\n", "      requirement:\n"),
        "FILE:8: NodePool default: `spec.template.spec.requirements`: this field is missing; add it; is `requirement` meant to be it?",
    );
    yaml(
        &POOL.replace("  limits:", "  limit:"),
        r#"FILE:6: NodePool default: `spec.limit` is `{"cpu":100}`: there is no such field; correct its name (is `limits` meant?) or place, or pass --validate=warn to go on without it"#,
    );
    yaml(
        &format!("{POD}---\n{}", POD.replace("  containers:", "  nodeSelectors: {a.b/c: d}\n  containers:")),
        r#"FILE:17: Pod web: `spec.nodeSelectors` is `{"a.b/c":"d"}`: there is no such field; correct its name (is `nodeSelector` meant?) or place, or pass --validate=warn to go on without it"#,
    );
    let list = format!("apiVersion: v1\nkind: List\nitems:\n{}", indented(&POD.replace("image:", "imagee:")));
    yaml(
        &list,
        "FILE:11: Pod web: `spec.containers[0].imagee` is `pause`: there is no such field; correct its name (is `image` meant?) or place, or pass --validate=warn to go on without it",
    );
    json(
        "{\n \"apiVersion\": \"v1\", \"kind\": \"Pod\",\n \"metadata\": {\"name\": \"a\"},\n \"spec\": {\n  \"containers\": [],\n  \"nodename\": \"x\"}}",
        "FILE:6: Pod a: `spec.nodename` is `x`: there is no such field; correct its name (is `nodeName` meant?) or place, or pass --validate=warn to go on without it",
    );
    json(
        "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n{\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": \"a\"}},\n{\"apiVersion\": \"v1\", \"kind\": \"Namespace\",\n \"metadata\": {\"name\": \"a\",\n \"label\": {\"b\": \"c\"}}}\n]}",
        r#"FILE:5: Namespace a: `metadata.label` is `{"b":"c"}`: there is no such field; correct its name (is `labels` meant?) or place, or pass --validate=warn to go on without it"#,
    );
}

/// As one item of a YAML list.
fn indented(text: &str) -> String {
    text.lines()
        .enumerate()
        .map(|(at, line)| format!("{} {line}\n", if at == 0 { "-" } else { " " }))
        .collect()
}

#[test]
fn wrong_types() {
    yaml(
        &POD.replace("image: pause", "image: [a, b]"),
        r#"FILE:8: Pod web: `spec.containers[0].image` is `["a","b"]`: expected text; write a value of the type Kubernetes documents for this field"#,
    );
    yaml(
        &DEPLOYMENT.replace("replicas: 2", "replicas: two"),
        "FILE:7: Deployment shop/web: `spec.replicas` is `two`: expected a whole number; write a value of the type Kubernetes documents for this field",
    );
    yaml(
        &DEPLOYMENT.replace("replicas: 2", "replicas: 99999999999"),
        "FILE:7: Deployment shop/web: `spec.replicas` is `99999999999`: expected a whole number from -2147483648 to 2147483647; write a value of the type Kubernetes documents for this field",
    );
    yaml(
        &DEPLOYMENT.replace("replicas: 2", "replicas: 1.5"),
        "FILE:7: Deployment shop/web: `spec.replicas` is `1.5`: expected a whole number; write a value of the type Kubernetes documents for this field",
    );
    yaml(
        &POD.replace("  containers:\n", "  hostNetwork: \"yes\"\n  containers:\n"),
        "FILE:6: Pod web: `spec.hostNetwork` is `yes`: expected `true` or `false`; write a value of the type Kubernetes documents for this field",
    );
    yaml(
        &POD.replace("  name: web\n", "  name: web\n  labels: {app: {b: c}}\n"),
        r#"FILE:5: Pod web: `metadata.labels.app` is `{"b":"c"}`: expected text; write a value of the type Kubernetes documents for this field"#,
    );
    yaml(
        &POD.replace("spec:\n", "spec:\n  terminationGracePeriodSeconds: soon\n"),
        "FILE:6: Pod web: `spec.terminationGracePeriodSeconds` is `soon`: expected a whole number; write a value of the type Kubernetes documents for this field",
    );
    yaml(
        &POD.replace("metadata:\n  name: web\n", "metadata: web\n"),
        "FILE:3: Pod: `metadata` is `web`: expected a map of fields; write a value of the type Kubernetes documents for this field",
    );
    yaml(
        &POD.replace("  name: web\n", "  name: web\n  creationTimestamp: yesterday\n"),
        "FILE:5: Pod web: `metadata.creationTimestamp` is `yesterday`: expected a time such as `2026-01-31T12:00:00Z`; write a value of the type Kubernetes documents for this field",
    );
    yaml(
        &POOL.replace("values: [amd64]", "values: amd64"),
        "FILE:10: NodePool default: `spec.template.spec.requirements[0].values` is `amd64`: expected a list; write a value of the type Kubernetes documents for this field",
    );
    yaml(
        &POOL.replace("spec:\n  limits", "spec:\n  weight: heavy\n  limits"),
        "FILE:6: NodePool default: `spec.weight` is `heavy`: expected a whole number; write a value of the type Kubernetes documents for this field",
    );
    // Two of a kind: the first is told.
    let twice = POD.replace("  - name: main", "  - {name: [first]}\n  - name: [main]");
    yaml(
        &twice,
        r#"FILE:7: Pod web: `spec.containers[0].name` is `["first"]`: expected text; write a value of the type Kubernetes documents for this field"#,
    );
    let list = format!(
        "apiVersion: v1\nkind: List\nitems:\n{}{}",
        indented(NODE),
        indented(&POD.replace("name: main", "name: {}"))
    );
    yaml(
        &list,
        "FILE:17: Pod web: `spec.containers[0].name` is `{}`: expected text; write a value of the type Kubernetes documents for this field",
    );
    let list = format!(
        "apiVersion: v1\nkind: List\nitems:\n{}{}",
        indented(NODE),
        indented(&POD.replace("cpu: 500m", "cpu: much"))
    );
    yaml(
        &list,
        "FILE:20: Pod default/web: `spec.containers[0].resources.requests.cpu` is `much`: not a quantity; write a number with an optional suffix, e.g. `500m`, `2` or `1.5Gi`",
    );
    json(
        "{\"apiVersion\": \"v1\", \"kind\": \"Pod\",\n \"metadata\": {\"name\": \"a\"},\n \"spec\": {\"containers\": [\n  {\"name\": \"x\",\n   \"image\": 7}]}}",
        "FILE:5: Pod a: `spec.containers[0].image` is `7`: expected text; put it in quotes, as in `\"7\"`",
    );
    yaml(
        &POD.replace("image: pause", &format!("image: [{}]", "x".repeat(100_000))),
        r#"FILE:8: Pod web: `spec.containers[0].image` is `["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…`: expected text; write a value of the type Kubernetes documents for this field"#,
    );
    yaml(
        &POOL.replace("key: kubernetes.io/arch, ", ""),
        "FILE:10: NodePool default: `spec.template.spec.requirements[0].key`: this field is missing; add it",
    );
    yaml(
        &POD.replace("name: web", "name: \"a\\nb\"").replace("image: pause", "imagee: \"c\\nd\""),
        "FILE:8: Pod a\\nb: `spec.containers[0].imagee` is `c\\nd`: there is no such field; correct its name (is `image` meant?) or place, or pass --validate=warn to go on without it",
    );
    yaml(
        &POD.replace("apiVersion: v1", "apiVersion: \"v1\\n\""),
        "FILE:1: Pod web: `apiVersion` is `v1\\n`: there is no such version of Pod; write `v1`",
    );
}

#[test]
fn wrong_quantities() {
    yaml(
        &POD.replace("cpu: 500m", "cpu: half"),
        "FILE:10: Pod default/web: `spec.containers[0].resources.requests.cpu` is `half`: not a quantity; write a number with an optional suffix, e.g. `500m`, `2` or `1.5Gi`",
    );
    yaml(
        &POD.replace("memory: 512Mi", "memory: 512MB"),
        "FILE:10: Pod default/web: `spec.containers[0].resources.requests.memory` is `512MB`: not a quantity; write a number with an optional suffix, e.g. `500m`, `2` or `1.5Gi`",
    );
    yaml(
        &POD.replace("cpu: 500m", "cpu: -1"),
        "FILE:10: Pod default/web: `spec.containers[0].resources.requests.cpu` is `-1`: amounts cannot be negative; write zero or more",
    );
    yaml(
        &POD.replace("cpu: 500m", "cpu: [1]"),
        "FILE:10: Pod web: `spec.containers[0].resources.requests.cpu` is `[1]`: expected a quantity such as `500m` or `2Gi`; write a value of the type Kubernetes documents for this field",
    );
    yaml(
        &POD.replace("cpu: 500m", "cpu: true"),
        "FILE:10: Pod web: `spec.containers[0].resources.requests.cpu` is `true`: expected a quantity such as `500m` or `2Gi`; write a value of the type Kubernetes documents for this field",
    );
    yaml(
        &NODE.replace("allocatable: {cpu: 4", "allocatable: {cpu: four"),
        "FILE:6: Node n1: `status.allocatable.cpu` is `four`: not a quantity; write a number with an optional suffix, e.g. `500m`, `2` or `1.5Gi`",
    );
    yaml(
        &POOL.replace("limits: {cpu: 100}", "limits: {cpu: lots}"),
        "FILE:6: NodePool default: `spec.limits.cpu` is `lots`: not a quantity; write a number with an optional suffix, e.g. `100`, `500m` or `64Gi`",
    );
    yaml(
        &POOL.replace("limits: {cpu: 100}", "limits:\n    memory: 5\n    cpu: 1e\n"),
        "FILE:8: NodePool default: `spec.limits.cpu` is `1e`: not a quantity; write a number with an optional suffix, e.g. `100`, `500m` or `64Gi`",
    );
}

#[test]
fn pools_that_are_not_valid() {
    yaml(
        &POOL.replace("operator: In", "operator: Is"),
        "FILE:10: NodePool default: `spec.template.spec.requirements[0].operator` is `Is`: not an operator; use In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte",
    );
    yaml(
        &POOL.replace("key: kubernetes.io/arch", "key: karpenter.sh/nodepool"),
        "FILE:10: NodePool default: `spec.template.spec.requirements[0].key` is `karpenter.sh/nodepool`: label is restricted; remove it; it always carries the name of the pool",
    );
    yaml(
        &POOL.replace("spec:\n  limits", "spec:\n  weight: 101\n  limits"),
        "FILE:6: NodePool default: `spec.weight` is `101`: out of range; use a whole number from 1 to 100",
    );
    yaml(
        &POOL.replace("values: [amd64]", "values: []"),
        "FILE:10: NodePool default: `spec.template.spec.requirements[0].values` is `[]`: operator In needs at least one value; add a value, or use Exists or DoesNotExist",
    );
    yaml(
        &POOL.replace(
            "      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}\n",
            "",
        ),
        "FILE:8: NodePool default: `spec.template.spec.nodeClassRef`: this field is missing; add it",
    );
}

#[test]
fn numbers_of_pods() {
    yaml(
        &DEPLOYMENT.replace("replicas: 2", "replicas: 3000000"),
        "FILE:7: Deployment shop/web: `spec.replicas` is `3000000`: more than 2000000 pods; raise `--max-pods` or give fewer pods",
    );
    yaml(
        &DEPLOYMENT.replace("replicas: 2", "replicas: -1"),
        "FILE:7: Deployment shop/web: `spec.replicas` is `-1`: a number of pods cannot be negative; write zero or more",
    );
    refused(
        "two.yaml",
        format!("{POD}---\n{}", POD.replace("name: web", "name: api")),
        &["--max-pods", "1"],
        "FILE:15: Pod default/api: `metadata.name` is `api`: more than 1 pods; raise `--max-pods` or give fewer pods",
    );
    yaml(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec:\n  parallelism: 2147483647\n  completions: 2147483647\n  template: {spec: {restartPolicy: Never, containers: [{name: a}]}}\n",
        "FILE:5: Job default/a: `spec.parallelism` is `2147483647`: more than 2000000 pods; raise `--max-pods` or give fewer pods",
    );
}

// ---- other arguments ----

#[test]
fn arguments_that_do_not_fit_the_input() {
    let folder = Folder::new("arguments");
    let pods = folder.write("pods.yaml", format!("{POD}---\n{DEPLOYMENT}")).display().to_string();
    let shown = |arguments: &[&str]| {
        let mut line = vec!["plan", "-f", pods.as_str()];
        line.extend(arguments);
        let (code, out, err) = run(&line);
        assert_eq!((code, out.as_str()), (BAD_INPUT, ""));
        let errors: Vec<String> =
            err.lines().filter(|line| !line.starts_with("note: ")).map(str::to_owned).collect();
        assert_eq!(errors.len(), 1, "{err}");
        errors[0].replace(&folder.0.display().to_string(), "FOLDER")
    };
    assert_eq!(
        shown(&["--explain", "wev"]),
        "error: `--explain` is `wev`: there is no such pending pod in the input; did you mean `default/web`?"
    );
    assert_eq!(
        shown(&["--explain", "shop/web-7"]),
        "error: `--explain` is `shop/web-7`: there is no such pending pod in the input; did you mean `shop/web-0`?"
    );
    assert_eq!(
        shown(&["--explain", "nothing-like-it"]),
        "error: `--explain` is `nothing-like-it`: there is no such pending pod in the input; pods of workloads are named \
         NAME-0, NAME-1, …, and only pending pods can be explained"
    );
    assert_eq!(
        shown(&["--explain", "nope"]),
        "error: `--explain` is `nope`: there is no such pending pod in the input; pods of workloads are named \
         NAME-0, NAME-1, …, and only pending pods can be explained"
    );
    assert_eq!(
        shown(&["--cost-model", "no/such/costs.yaml"]),
        "error: no/such/costs.yaml: no such file; check the path after --cost-model"
    );
    let nothing = folder.write("nothing.json", "\n").display().to_string();
    let told = shown(&["--instance-types", &nothing]);
    assert!(told.starts_with("error: FOLDER/nothing.json: there is nothing in it; "), "{told}");
    assert_eq!(
        shown(&["--instance-types", "no/such/types.json"]),
        "error: no/such/types.json: no such file; check the path after --instance-types"
    );
    assert_eq!(
        shown(&["--scheduler-config", "no/such/file.yaml"]),
        "error: no/such/file.yaml: no such file; check the path after --scheduler-config"
    );
    let config = |text: &str| {
        let path = folder.write("scheduler.yaml", text).display().to_string();
        shown(&["--scheduler-config", &path])
    };
    assert_eq!(
        config("---\na: 1\n---\nb: 2\n"),
        "error: FOLDER/scheduler.yaml: a scheduler configuration is one document, neither none nor several; \
         give `podTopologySpread.defaultConstraints`"
    );
    assert_eq!(
        config(
            "podTopologySpread:\n  defaultConstraints:\n    - maxSkew: 0\n      topologyKey: zone\n      whenUnsatisfiable: DoNotSchedule\n"
        ),
        "error: FOLDER/scheduler.yaml:3: `podTopologySpread.defaultConstraints[0].maxSkew` is `0`: \
         the largest difference must be positive; write 1 or more"
    );
    assert!(config("a: {").starts_with("error: FOLDER/scheduler.yaml:"));
    let types = folder.write("types.json", "[{\"name\": \"a\", \"offerings\": []}]").display().to_string();
    let told = shown(&["--instance-types", &types]);
    assert!(
        told.starts_with("error: FOLDER/types.json: entry [0] (`a`): `architecture`: missing; "),
        "{told}"
    );
    assert!(told.contains("`offerings`: empty: the type could never be chosen"), "{told}");
    let types = folder.write("broken.json", "[{\"name\": \"a\",\n ]").display().to_string();
    let told = shown(&["--instance-types", &types]);
    assert!(
        told.starts_with("error: FOLDER/broken.json: not JSON: key must be a string at line 2 column 2; "),
        "{told}"
    );
}

// ---- size and depth ----

#[track_caller]
fn refused_in_time(file_name: &str, content: impl AsRef<[u8]>, expected: &str) {
    let start = Instant::now();
    refused(file_name, content, &[], expected);
    // A fraction of a second on an idle machine; without bounds these would take minutes, or all memory there is.
    assert!(start.elapsed() < Duration::from_secs(30), "{file_name} took {:?}", start.elapsed());
}

#[test]
fn documents_larger_than_16_mib() {
    let filler = "x".repeat(1 << 20);
    let annotations: String = (0..17).map(|at| format!("    a{at}: {filler}\n")).collect();
    let text = POD.replace("  name: web\n", &format!("  name: web\n  annotations:\n{annotations}"));
    refused_in_time(
        "large.yaml",
        format!("{POD}---\n{text}"),
        "FILE:12: a single document is larger than 16 MiB; split it: one object per document",
    );
    let pairs: Vec<String> = (0..17).map(|at| format!("\"a{at}\": \"{filler}\"")).collect();
    let text = format!(
        "{{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {{\"annotations\": {{{}}}}}}}",
        pairs.join(",")
    );
    refused_in_time(
        "large.json",
        text,
        "FILE:1: a single document is larger than 16 MiB; split it: one object per document",
    );
}

#[test]
fn a_line_of_five_megabytes() {
    let text = POD.replace("image: pause", &format!("image: {}", "x".repeat(5 << 20)));
    let folder = Folder::new("long-line");
    let file = folder.write("long.yaml", &text).display().to_string();
    let (code, _, err) = run(&["plan", "-f", &file]);
    assert_eq!(code, FINE, "{err:.300}");
    refused_in_time(
        "long.yaml",
        text.replace("image:", "imagee:"),
        "FILE:8: Pod web: `spec.containers[0].imagee` is `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…`: there is no such field; correct its name (is `image` meant?) or place, or pass --validate=warn to go on without it",
    );
    refused_in_time(
        "words.yaml",
        "word ".repeat(1 << 20),
        "FILE:1: this is no Kubernetes object; every object names its `apiVersion` and `kind`",
    );
    refused_in_time(
        "list.json",
        format!("[{}]", "1,".repeat(5 << 19)),
        "FILE:1: this is no Kubernetes object; every object names its `apiVersion` and `kind`",
    );
}

/// `kubectl get pods -A -o yaml` prints one document however many pods there are.
#[test]
fn a_long_list_is_one_document() {
    let arguments: String = (0..2500).map(|at| format!(" a{at},")).collect();
    let pod = POD.replace("image: pause", &format!("image: pause\n    args: [{arguments}]"));
    let items: String =
        (0..110).map(|at| indented(&pod.replace("name: web", &format!("name: web-{at}")))).collect();
    let folder = Folder::new("long-list");
    let file = folder
        .write("list.yaml", format!("apiVersion: v1\nkind: List\nitems:\n{items}"))
        .display()
        .to_string();
    let (code, out, err) = run(&["plan", "-f", &file, "-o", "json"]);
    assert_eq!(code, FINE, "{err}");
    assert!(out.contains("default/web-109"), "{out:.300}");
}

#[test]
fn an_alias_bomb() {
    let mut text = String::from(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n",
    );
    for at in 1..12 {
        let many = vec![format!("*a{}", at - 1); 10].join(", ");
        text.push_str(&format!("  a{at}: &a{at} [{many}]\n"));
    }
    refused_in_time(
        "bomb.yaml",
        text,
        "FILE:9: its aliases (`*name`) unfold to more than 50000 parts; write out what they stand for",
    );
    refused_in_time(
        "loop.yaml",
        "a: &a [*a]\n",
        "FILE:1: an alias (`*name`) refers to itself; write out what it stands for",
    );
}

#[test]
fn ten_thousand_levels() {
    let deep = 10_000;
    refused_in_time(
        "deep.json",
        "[".repeat(deep),
        "FILE:1: it is nested more than 127 levels deep; no Kubernetes object is: check the file",
    );
    refused_in_time(
        "deep.json",
        "{\"a\":".repeat(deep),
        "FILE:1: it is nested more than 127 levels deep; no Kubernetes object is: check the file",
    );
    let mut closed = String::from("{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"data\": ");
    closed.push_str(&"[".repeat(deep));
    closed.push_str(&"]".repeat(deep));
    closed.push('}');
    refused_in_time(
        "deep.json",
        closed,
        "FILE:1: it is nested more than 127 levels deep; no Kubernetes object is: check the file",
    );
    refused_in_time(
        "deep.yaml",
        format!("a: {}{}", "[".repeat(deep), "]".repeat(deep)),
        "FILE:1: it is nested more than 64 levels deep; no Kubernetes object is: check brackets and dashes",
    );
    refused_in_time(
        "deep.yaml",
        format!("a: {}", "{b: ".repeat(deep)),
        "FILE:1: it is nested more than 64 levels deep; no Kubernetes object is: check brackets and dashes",
    );
    refused_in_time(
        "deep.yaml",
        "- ".repeat(deep),
        "FILE:1: it is nested more than 64 levels deep; no Kubernetes object is: check brackets and dashes",
    );
    let steps: String = (0..2000).map(|at| format!("{}a:\n", " ".repeat(at))).collect();
    refused_in_time(
        "steps.yaml",
        steps,
        "FILE:65: it is nested more than 64 levels deep; no Kubernetes object is: check brackets and dashes",
    );
}
