//! Whole runs on machines of AWS: each pool with the machines its class and region make, prices marked as what they are.

use std::ffi::OsString;
use std::path::PathBuf;

use joiner::{BAD_INPUT, FINE, Streams};
use serde_json::Value;

struct Run {
    code: u8,
    out: String,
    err: String,
}

fn joiner(arguments: &[&str]) -> Run {
    let arguments = ["joiner"].iter().chain(arguments).map(OsString::from);
    let mut out = anstream::StripStream::new(Vec::new());
    let mut err = anstream::StripStream::new(Vec::new());
    let code =
        joiner::run(arguments, &mut Streams { out: &mut out, err: &mut err, width: 120, unicode: true });
    let text = |stream: anstream::StripStream<Vec<u8>>| String::from_utf8(stream.into_inner()).expect("text");
    Run { code, out: text(out), err: text(err) }
}

impl Run {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}\n{}{}", self.err, self.out))
    }

    fn says(&self, part: &str) {
        assert!(self.err.contains(part), "`{part}` is not in:\n{}", self.err);
    }
}

fn data(name: &str) -> String {
    format!("{}/tests/data/aws/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A file with this text, in a folder of its own.
fn file_of(name: &str, text: &str) -> String {
    let folder = std::env::temp_dir().join(format!("joiner-aws-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for files");
    let file: PathBuf = folder.join(name);
    std::fs::write(&file, text).expect("writable");
    file.display().to_string()
}

fn nodes(plan: &Value) -> &[Value] {
    plan["nodes"].as_array().expect("a list")
}

/// A pool of AWS with these requirements, of the class `default`.
fn pool(name: &str, requirements: &str) -> String {
    format!(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec:\n  template:\n    spec:\n      \
         nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}\n      requirements: {requirements}\n---\n"
    )
}

fn class(spec: &str) -> String {
    format!(
        "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {{name: default}}\nspec:\n  amiSelectorTerms: [{{alias: al2023@latest}}]\n{spec}---\n"
    )
}

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: c, resources: {requests: {cpu: 100m}}}]}\n---\n";

#[test]
fn settings_of_the_kubelet_count() {
    let run = joiner(&["plan", "-f", &data("kubelet-settings.yaml"), "-o", "json", "--packing", "upstream"]);
    let plan = run.json();
    // The large pod asks for 3700Mi; 3788 less 1024, 500 and 100 is 2164.
    let refused = plan["unschedulable"].as_array().expect("a list");
    assert_eq!(refused.len(), 1, "{plan}");
    assert_eq!(refused[0]["pod"], "default/fat-0");
    assert_eq!(nodes(&plan).len(), 8, "30 pods, 4 a node");
    assert!(nodes(&plan).iter().all(|node| node["pods"].as_array().is_some_and(|pods| pods.len() <= 4)));
    assert!(nodes(&plan).iter().all(|node| node["pricePerHour"] == 0.0765 && node["priceSource"] == "list"));
    run.says("AWS machines are those of us-east-1 (no zone is named: --region for another)");
}

#[test]
fn pools_in_ireland_get_machines_there() {
    let files = ["-f", &data("eu-west-1.yaml"), "-f", &data("web-stack/10-web.yaml")];
    let run = joiner(&[&["plan"][..], &files, &["-o", "json"]].concat());
    let plan = run.json();
    assert_eq!(
        (run.code, plan["unschedulable"].as_array().map(Vec::len)),
        (FINE, Some(0)),
        "{}{plan}",
        run.err
    );
    assert!(nodes(&plan).iter().all(|node| {
        node["zone"].as_str().is_some_and(|zone| zone.starts_with("eu-west-1"))
            && node["priceSource"] == "estimate"
    }));
    run.says("AWS machines are those of eu-west-1 (where pools have their zones); on-demand prices are estimates (1.115 times the list of us-east-1)");
    let table = joiner(&[&["plan"][..], &files].concat()).out;
    assert!(table.lines().next().is_some_and(|line| line.contains("~$")), "{table}");
}

#[test]
fn the_root_volume_counts() {
    let files = ["-f", &data("web-stack/00-pools.yaml"), "-f", &data("large-disk.yaml")];
    let run = joiner(&[&["plan"][..], &files, &["-o", "json"]].concat());
    assert_eq!(
        (run.code, run.json()["totals"]["unschedulable"].as_u64()),
        (FINE, Some(0)),
        "{}{}",
        run.err,
        run.out
    );
}

#[test]
fn a_pool_of_an_older_version_brings_its_kubelet() {
    let text = format!(
        "{POD}apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {{name: default}}\nspec:\n  template:\n    spec:\n      \
         nodeClassRef: {{apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, name: default}}\n      kubelet: {{maxPods: 1}}\n      \
         requirements: [{{key: node.kubernetes.io/instance-type, operator: In, values: [c6a.large]}}]\n---\n{}",
        POD.replace("name: p", "name: q")
    );
    let run = joiner(&["plan", "-f", &file_of("older.yaml", &text), "-o", "json"]);
    assert_eq!(nodes(&run.json()).len(), 2, "one pod a node: {}{}", run.err, run.out);
}

#[test]
fn pools_of_two_providers_stand_side_by_side() {
    let text = format!(
        "{}{POD}apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: other}}\nspec:\n  template:\n    spec:\n      \
         nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}\n      requirements: []\n      \
         taints: [{{key: other, effect: NoSchedule}}]\n---\n{}---\n{}",
        pool("aws", "[{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}]"),
        POD.replace("name: p", "name: q").replace(
            "spec: {",
            "spec: {tolerations: [{key: other}], nodeSelector: {karpenter.sh/nodepool: other}, "
        ),
        // A label of AWS leads to no machine of KWOK.
        POD.replace("name: p", "name: r").replace(
            "spec: {",
            "spec: {tolerations: [{key: other}], nodeSelector: {karpenter.sh/nodepool: other, karpenter.k8s.aws/instance-category: c}, "
        ),
    );
    let file = file_of("two.yaml", &text);
    let run = joiner(&["plan", "-f", &file, "-o", "json"]);
    let plan = run.json();
    let of =
        |pool: &str| nodes(&plan).iter().find(|node| node["nodePool"] == pool).cloned().unwrap_or_default();
    assert_eq!(
        (of("aws")["instanceType"].as_str(), of("aws")["zone"].as_str()),
        (Some("m5.large"), Some("us-east-1a"))
    );
    assert!(of("other")["zone"].as_str().is_some_and(|zone| zone.starts_with("test-zone-")), "{plan}");
    assert!(of("other").get("priceSource").is_none());
    assert_eq!(plan["unschedulable"][0]["pod"], "default/r", "{plan}");
    assert!(!run.err.contains("apart"), "{}", run.err);
    let lint = joiner(&["lint", "-f", &file, "-o", "json"]);
    assert!(!lint.err.contains("apart"), "{}", lint.err);
    assert!(lint.json()["findings"].as_array().is_some_and(|findings| {
        !findings.iter().any(|finding| finding["rule"] == "pool-matches-no-type")
    }));
}

#[test]
fn without_a_pool_the_usual_families_are_taken() {
    let run = joiner(&[
        "plan",
        "-f",
        &file_of("pod.yaml", POD),
        "--catalog",
        "aws",
        "--region",
        "eu-central-1",
        "--packing",
        "upstream",
        "-o",
        "json",
    ]);
    run.says("generation 5 and newer of the families c, m and r");
    let plan = run.json();
    let node = &nodes(&plan)[0];
    assert!(node["zone"].as_str().is_some_and(|zone| zone.starts_with("eu-central-1")), "{plan}");
    assert!(node["instanceTypeOptions"].as_array().is_some_and(|options| {
        options.len() > 100
            && options.iter().all(|of| of.as_str().is_some_and(|of| of.starts_with(['c', 'm', 'r'])))
    }));
}

#[test]
fn volumes_and_nodes_tell_the_region() {
    let volume = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\nspec:\n  capacity: {storage: 1Gi}\n  accessModes: [ReadWriteOnce]\n  \
                  csi: {driver: ebs.csi.aws.com, volumeHandle: v}\n  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.ebs.csi.aws.com/zone, operator: In, values: [ap-south-1a]}]}]}}\n---\n";
    let text = format!("{}{POD}{volume}", pool("a", "[]"));
    joiner(&["plan", "-f", &file_of("volume.yaml", &text)])
        .says("AWS machines are those of ap-south-1 (where volumes are)");
    joiner(&["plan", "-f", &file_of("volume.yaml", &text), "--region", "sa-east-1"])
        .says("AWS machines are those of sa-east-1 (as --region says)");
}

#[test]
fn prices_of_files_count() {
    let text = format!(
        "{}{POD}",
        pool("a", "[{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}]")
    );
    let file = file_of("prices.yaml", &text);
    let spot = r#"{"SpotPriceHistory": [{"AvailabilityZone": "us-east-1c", "InstanceType": "m5.large", "ProductDescription": "Linux/UNIX",
        "SpotPrice": "0.0123", "Timestamp": "2026-11-19T02:00:00+00:00"}, {"AvailabilityZone": "us-east-1c", "InstanceType": "zz9.large",
        "ProductDescription": "Linux/UNIX", "SpotPrice": "0.0123", "Timestamp": "2026-11-19T02:00:00+00:00"}]}"#;
    let run = joiner(&["plan", "-f", &file, "--prices", &file_of("spot.json", spot), "-o", "json"]);
    let plan = run.json();
    let node = &nodes(&plan)[0];
    assert_eq!(
        (node["zone"].as_str(), node["pricePerHour"].as_f64()),
        (Some("us-east-1c"), Some(0.0123)),
        "{plan}"
    );
    assert_eq!(node["priceSource"], "file");
    run.says("1 type in it are not in the catalogue, first `zz9.large`");
}

#[test]
fn bad_input_is_told_in_one_sentence() {
    let two_regions =
        pool("a", "[{key: topology.kubernetes.io/zone, operator: In, values: [eu-west-1a, us-east-1a]}]");
    let nowhere = pool("a", "[{key: topology.kubernetes.io/zone, operator: In, values: [eu-west-9a]}]");
    let small = pool("a", "[{key: node.kubernetes.io/instance-type, operator: In, values: [c6a.large]}]");
    let no_pods = format!("{small}{}", class("  kubelet:\n    maxPods: 0\n"));
    let too_much = format!("{small}{}", class("  kubelet:\n    kubeReserved:\n      memory: 8Gi\n"));
    for (name, text, line, parts) in [
        ("two-regions.yaml", two_regions, 8, ["values[1]` is `us-east-1a`", "make a pool for each region"]),
        ("nowhere.yaml", nowhere, 8, ["nobody knows the region `eu-west-9`", "did you mean `eu-west-1`"]),
        ("no-pods.yaml", no_pods, 16, ["`spec.kubelet.maxPods` is `0`", "at least 1"]),
        ("too-much.yaml", too_much, 17, ["`spec.kubelet.kubeReserved.memory` is `8Gi`", "keep less back"]),
    ] {
        let file = file_of(name, &text);
        for command in ["plan", "lint"] {
            let run = joiner(&[command, "-f", &file]);
            assert_eq!(
                (run.code, run.err.lines().count()),
                (BAD_INPUT, 1),
                "{command} {name}: {}{}",
                run.err,
                run.out
            );
            run.says(&format!("{file}:{line}: "));
            parts.iter().for_each(|part| run.says(part));
        }
    }
    let good = file_of("good.yaml", &format!("{}{POD}", pool("a", "[]")));
    for (name, text, parts) in [
        (
            "negative.csv",
            "type,price\nm5.large,-1\n",
            ["negative.csv:2: `price` is `-1`: ", "cannot be negative"],
        ),
        (
            "missing.csv",
            "type,price\nm5.large,\n",
            ["missing.csv:2: `price`: the price of `m5.large` is missing", "drop the entry"],
        ),
        (
            "twice.csv",
            "type,price\nm5.large,1\nm5.large,2\n",
            ["twice.csv:3: ", "there twice, first in line 2"],
        ),
        (
            "negative.json",
            "[\n {\"type\": \"m5.large\", \"price\": -1}\n]\n",
            ["negative.json:2: `[0].price` is `-1`", "negative"],
        ),
    ] {
        let run = joiner(&["plan", "-f", &good, "--prices", &file_of(name, text)]);
        assert_eq!((run.code, run.err.lines().count()), (BAD_INPUT, 1), "{name}: {}", run.err);
        parts.iter().for_each(|part| run.says(part));
    }
    let run = joiner(&["plan", "-f", &good, "--region", "eu-west"]);
    assert_eq!(run.code, BAD_INPUT, "{}", run.err);
    run.says("`--region` is `eu-west`: nobody knows this region");
}

#[test]
fn four_regions_are_planned_for() {
    for (region, price, source) in [
        ("us-east-1", 0.085, "list"),
        ("us-west-2", 0.085, "estimate"),
        ("eu-west-1", 0.085 * 1.115, "estimate"),
        ("us-gov-west-1", 0.102, "list"),
    ] {
        let text = format!(
            "{}{POD}",
            pool(
                "a",
                "[{key: node.kubernetes.io/instance-type, operator: In, values: [c5.large]}, {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]"
            )
        );
        let plan = joiner(&[
            "plan",
            "-f",
            &file_of(&format!("{region}.yaml"), &text),
            "--region",
            region,
            "-o",
            "json",
        ])
        .json();
        let node = &nodes(&plan)[0];
        let found = node["pricePerHour"].as_f64().unwrap_or_default();
        assert!((found - price).abs() < 1e-9 && node["priceSource"] == source, "{region}: {node}");
    }
}
