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
    let folder = Folder::new(&format!("{}-{file_name}", place.line()));
    let path = folder.write(file_name, content).display().to_string();
    let mut arguments = vec!["plan", "-f", path.as_str()];
    arguments.extend(extra);
    let told = complaint(&arguments).replace(&path, "FILE");
    if expected == "?" {
        println!("@@{}@@{told}", place.line());
        return;
    }
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
    refused("late.yaml", &late, &[], "FILE:11: this is not text: neither YAML nor JSON; give a manifest file in UTF-8");
    refused("junk.json", b"{\"kind\": \"\xff\"}", &[], "?");
    refused("words.yaml", "just some words\n", &[], "?");
    refused("number.json", "[5]", &[], "?");
}

#[test]
fn broken_yaml() {
    yaml("kind: Pod\nmetadata: {name: a\nspec: 1\n", "?");
    yaml("apiVersion: v1\nkind: Pod\nmetadata:\n\tname: a\n", "?");
    yaml(&format!("{POD}---\n{POD}---\nkind: Pod\n  name: a\n"), "?");
    yaml("kind: 'Pod\n", "?");
    yaml(&POD.replace("    image: pause\n", "    image: pause\n    image: other\n"), "?");
    yaml("kind: *nobody\n", "?");
}

#[test]
fn broken_json() {
    json("{\n  \"kind\": \"Pod\",\n  \"metadata\": {\n}\n", "?");
    json("{\"kind\": \"Pod\",\n\"spec\": }\n", "?");
    json("{\"kind\": \"Pod\"}\n]\n", "?");
    json("\n\n{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n{},\n{]]", "?");
    json("{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": 5}", "?");
    json("{\"kind\": \"Pod\", \"kind\": \"Node\"}", "?");
}

// ---- kinds ----

#[test]
fn kinds_nobody_knows() {
    yaml(&POD.replace("kind: Pod", "kind: Podd"), "?");
    yaml(&DEPLOYMENT.replace("kind: Deployment", "kind: Deploymnet"), "?");
    yaml(&POOL.replace("kind: NodePool", "kind: NodePools"), "?");
    yaml(&POD.replace("kind: Pod", "kind: Something"), "?");
    yaml(&DEPLOYMENT.replace("apps/v1", "apps/v1beta1"), "?");
    yaml(&DEPLOYMENT.replace("apps/v1", "v1"), "?");
    yaml(&POD.replace("apiVersion: v1", "apiVersion: apps/v1"), "?");
    yaml(&POOL.replace("karpenter.sh/v1", "karpenter.sh/v2"), "?");
    yaml("apiVersion: storage.k8s.io/v1beta1\nkind: StorageClass\nmetadata: {name: a}\nprovisioner: x\n", "?");
    yaml("metadata: {name: a}\n", "?");
    yaml("kind: Pod\nmetadata: {name: a}\n", "?");
    yaml("kind: 5\napiVersion: v1\nmetadata: {name: a}\n", "?");
    yaml(&format!("{POD}---\n- {{}}\n"), "?");
}

// ---- fields ----

#[test]
fn unknown_fields() {
    yaml(&POD.replace("    image: pause\n", "    image: pause\n    imagePullPolicey: Always\n"), "?");
    yaml(&DEPLOYMENT.replace("          requests:", "          request:"), "?");
    yaml(&DEPLOYMENT.replace("  replicas: 2\n", "  replica: 2\n"), "?");
    yaml(&POOL.replace("      requirements:\n", "      requirement:\n"), "?");
    yaml(&POOL.replace("  limits:", "  limit:"), "?");
    yaml(&format!("{POD}---\n{}", POD.replace("  containers:", "  nodeSelectors: {a.b/c: d}\n  containers:")), "?");
    let list = format!("apiVersion: v1\nkind: List\nitems:\n{}", indented(&POD.replace("image:", "imagee:")));
    yaml(&list, "?");
    json(
        "{\n \"apiVersion\": \"v1\", \"kind\": \"Pod\",\n \"metadata\": {\"name\": \"a\"},\n \"spec\": {\n  \"containers\": [],\n  \"nodename\": \"x\"}}",
        "?",
    );
    json(
        "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n{\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": \"a\"}},\n{\"apiVersion\": \"v1\", \"kind\": \"Namespace\",\n \"metadata\": {\"name\": \"a\",\n \"label\": {\"b\": \"c\"}}}\n]}",
        "?",
    );
}

/// As one item of a YAML list.
fn indented(text: &str) -> String {
    text.lines().enumerate().map(|(at, line)| format!("{} {line}\n", if at == 0 { "-" } else { " " })).collect()
}

#[test]
fn wrong_types() {
    yaml(&POD.replace("image: pause", "image: [a, b]"), "?");
    yaml(&DEPLOYMENT.replace("replicas: 2", "replicas: two"), "?");
    yaml(&DEPLOYMENT.replace("replicas: 2", "replicas: 99999999999"), "?");
    yaml(&DEPLOYMENT.replace("replicas: 2", "replicas: 1.5"), "?");
    yaml(&POD.replace("  containers:\n", "  hostNetwork: \"yes\"\n  containers:\n"), "?");
    yaml(&POD.replace("  name: web\n", "  name: web\n  labels: {app: {b: c}}\n"), "?");
    yaml(&POD.replace("spec:\n", "spec:\n  terminationGracePeriodSeconds: soon\n"), "?");
    yaml(&POD.replace("metadata:\n  name: web\n", "metadata: web\n"), "?");
    yaml(&POD.replace("  name: web\n", "  name: web\n  creationTimestamp: yesterday\n"), "?");
    yaml(&POOL.replace("values: [amd64]", "values: amd64"), "?");
    yaml(&POOL.replace("spec:\n  limits", "spec:\n  weight: heavy\n  limits"), "?");
    yaml("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{image: x}]}\n", "?");
    json(
        "{\"apiVersion\": \"v1\", \"kind\": \"Pod\",\n \"metadata\": {\"name\": \"a\"},\n \"spec\": {\"containers\": [\n  {\"name\": \"x\",\n   \"image\": 7}]}}",
        "?",
    );
}

#[test]
fn wrong_quantities() {
    yaml(&POD.replace("cpu: 500m", "cpu: half"), "?");
    yaml(&POD.replace("memory: 512Mi", "memory: 512MB"), "?");
    yaml(&POD.replace("cpu: 500m", "cpu: -1"), "?");
    yaml(&POD.replace("cpu: 500m", "cpu: [1]"), "?");
    yaml(&POD.replace("cpu: 500m", "cpu: true"), "?");
    yaml(&NODE.replace("allocatable: {cpu: 4", "allocatable: {cpu: four"), "?");
    yaml(&POOL.replace("limits: {cpu: 100}", "limits: {cpu: lots}"), "?");
    yaml(&POOL.replace("limits: {cpu: 100}", "limits:\n    memory: 5\n    cpu: 1e\n"), "?");
}

#[test]
fn pools_that_are_not_valid() {
    yaml(&POOL.replace("operator: In", "operator: Is"), "?");
    yaml(&POOL.replace("key: kubernetes.io/arch", "key: karpenter.sh/nodepool"), "?");
    yaml(&POOL.replace("spec:\n  limits", "spec:\n  weight: 101\n  limits"), "?");
    yaml(&POOL.replace("values: [amd64]", "values: []"), "?");
    yaml(&POOL.replace("      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}\n", ""), "?");
}

#[test]
fn numbers_of_pods() {
    yaml(&DEPLOYMENT.replace("replicas: 2", "replicas: 3000000"), "?");
    yaml(&DEPLOYMENT.replace("replicas: 2", "replicas: -1"), "?");
    refused("two.yaml", format!("{POD}---\n{}", POD.replace("name: web", "name: api")), &["--max-pods", "1"], "?");
    yaml("apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec:\n  parallelism: 2147483647\n  completions: 2147483647\n  template: {spec: {restartPolicy: Never, containers: [{name: a}]}}\n", "?");
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
        let errors: Vec<String> = err.lines().filter(|line| !line.starts_with("note: ")).map(str::to_owned).collect();
        assert_eq!(errors.len(), 1, "{err}");
        errors[0].replace(&folder.0.display().to_string(), "FOLDER")
    };
    assert_eq!(shown(&["--explain", "wev"]), "?");
    assert_eq!(shown(&["--explain", "shop/web-7"]), "?");
    assert_eq!(shown(&["--explain", "nothing-like-it"]), "?");
    assert_eq!(shown(&["--instance-types", "no/such/types.json"]), "?");
    let types = folder.write("types.json", "[{\"name\": \"a\", \"offerings\": []}]").display().to_string();
    assert_eq!(shown(&["--instance-types", &types]), "?");
    let types = folder.write("broken.json", "[{\"name\": \"a\",\n ]").display().to_string();
    assert_eq!(shown(&["--instance-types", &types]), "?");
}

// ---- size and depth ----

#[track_caller]
fn refused_in_time(file_name: &str, content: impl AsRef<[u8]>, expected: &str) {
    let start = Instant::now();
    refused(file_name, content, &[], expected);
    assert!(start.elapsed() < Duration::from_secs(2), "{file_name} took {:?}", start.elapsed());
}

#[test]
fn documents_larger_than_16_mib() {
    let filler = "x".repeat(1 << 20);
    let annotations: String = (0..17).map(|at| format!("    a{at}: {filler}\n")).collect();
    let text = POD.replace("  name: web\n", &format!("  name: web\n  annotations:\n{annotations}"));
    refused_in_time("large.yaml", format!("{POD}---\n{text}"), "?");
    let pairs: Vec<String> = (0..17).map(|at| format!("\"a{at}\": \"{filler}\"")).collect();
    let text = format!("{{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {{\"annotations\": {{{}}}}}}}", pairs.join(","));
    refused_in_time("large.json", text, "?");
}

#[test]
fn a_line_of_five_megabytes() {
    let text = POD.replace("image: pause", &format!("image: {}", "x".repeat(5 << 20)));
    let folder = Folder::new("long-line");
    let file = folder.write("long.yaml", &text).display().to_string();
    let (code, _, err) = run(&["plan", "-f", &file]);
    assert_eq!(code, FINE, "{err:.300}");
    refused_in_time("long.yaml", text.replace("image:", "imagee:"), "?");
    refused_in_time("words.yaml", "word ".repeat(1 << 20), "?");
    refused_in_time("list.json", format!("[{}]", "1,".repeat(5 << 19)), "?");
}

#[test]
fn an_alias_bomb() {
    let mut text = String::from("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for at in 1..12 {
        let many = vec![format!("*a{}", at - 1); 10].join(", ");
        text.push_str(&format!("  a{at}: &a{at} [{many}]\n"));
    }
    refused_in_time("bomb.yaml", text, "?");
    refused_in_time("loop.yaml", "a: &a [*a]\n", "?");
}

#[test]
fn ten_thousand_levels() {
    let deep = 10_000;
    refused_in_time("deep.json", "[".repeat(deep), "?");
    refused_in_time("deep.json", "{\"a\":".repeat(deep), "?");
    let mut closed = String::from("{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"data\": ");
    closed.push_str(&"[".repeat(deep));
    closed.push_str(&"]".repeat(deep));
    closed.push('}');
    refused_in_time("deep.json", closed, "?");
    refused_in_time("deep.yaml", format!("a: {}{}", "[".repeat(deep), "]".repeat(deep)), "?");
    refused_in_time("deep.yaml", format!("a: {}", "{b: ".repeat(deep)), "?");
    refused_in_time("deep.yaml", "- ".repeat(deep), "?");
    let steps: String = (0..2000).map(|at| format!("{}a:\n", " ".repeat(at))).collect();
    refused_in_time("steps.yaml", steps, "?");
}
