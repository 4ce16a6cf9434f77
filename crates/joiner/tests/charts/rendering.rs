//! Rendered by helm and by joiner: the same bytes; what makes no sense is refused by both.

use std::path::Path;
use std::process::Command;

use crate::{charts, joiner, values};

/// What helm says: whether it is content, and its output or complaint.
fn helm(program: &Path, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(program).args(arguments).env("HELM_NAMESPACE", "kube-system").output().unwrap();
    let text = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8(text).unwrap())
}

fn same(program: &Path, chart: &str, extra: &[&str]) -> String {
    let folder = charts().join(chart);
    let template = ["template", "joiner", folder.to_str().unwrap(), "-n", "kube-system"];
    let (fine, theirs) = helm(program, &[&template[..], extra].concat());
    assert!(fine, "{extra:?}: {theirs}");
    let (code, ours, said) = joiner(&[&["manifests", "--chart", chart], extra].concat());
    assert_eq!((code, said.as_str()), (0, ""), "{extra:?}");
    if ours != theirs {
        let mut lines = ours.lines().zip(theirs.lines()).enumerate();
        let first = lines.find(|(_, (a, b))| a != b);
        panic!("{chart} {extra:?}: first difference at {first:?}; {} and {} bytes", ours.len(), theirs.len());
    }
    ours
}

#[test]
fn joiner_renders_what_helm_renders() {
    let Some(program) = joiner_testbed::helm_for("joiner_renders_what_helm_renders").unwrap() else { return };
    for (_, file) in values() {
        same(&program, "joiner", &["-f", file.to_str().unwrap()]);
    }
    same(&program, "joiner-crd", &[]);
    same(&program, "joiner-crd", &["--set", r"additionalAnnotations.helm\.sh/resource-policy=keep"]);
    // Two files, and single values over them.
    let all = values();
    let file =
        |name: &str| all.iter().find(|(known, _)| known == name).unwrap().1.to_str().unwrap().to_owned();
    let (first, second) = (file("highly-available"), file("bare"));
    same(
        &program,
        "joiner",
        &[
            "-f",
            &first,
            "-f",
            &second,
            "--set",
            "replicas=5,controller.env[0].name=A,controller.env[0].value=b",
        ],
    );
    same(
        &program,
        "joiner",
        &[
            "--set",
            "imagePullSecrets[0].name=registry",
            "--set",
            "providers={kwok}",
            "--set",
            "affinity=null",
        ],
    );
    // As written in the wild: helm takes the quotes for a part of the name.
    let quoted = r#"serviceAccount.annotations."eks.amazonaws.com/role-arn"=arn:aws:iam::012345678901:role/myCluster-karpenter"#;
    let text = same(&program, "joiner", &["--set", quoted]);
    let annotation = r#""eks.amazonaws.com/role-arn": "arn:aws:iam::012345678901:role/myCluster-karpenter""#;
    assert!(text.contains(annotation), "{text}");
    // Every helm line of the founding page, with its values.
    let lines = [
        "settings.clusterName=myCluster",
        "settings.interruptionQueue=myCluster",
        "controller.resources.requests.cpu=1",
        "controller.resources.requests.memory=1Gi",
        "controller.resources.limits.cpu=1",
        "controller.resources.limits.memory=1Gi",
    ];
    let arguments: Vec<&str> = lines.iter().flat_map(|line| ["--set", line]).collect();
    let text = same(&program, "joiner", &arguments);
    assert!(text.contains("memory: 1Gi"), "{text}");
}

#[test]
fn what_users_write_renders_as_it_did() {
    for (name, file) in values() {
        let (code, text, said) = joiner(&["manifests", "-f", file.to_str().unwrap()]);
        assert_eq!((code, said.as_str()), (0, ""), "{name}");
        insta::assert_snapshot!(name, text);
    }
}

#[test]
fn helm_finds_nothing_to_say() {
    let Some(program) = joiner_testbed::helm_for("helm_finds_nothing_to_say").unwrap() else { return };
    for chart in ["joiner", "joiner-crd"] {
        let folder = charts().join(chart);
        let (fine, said) = helm(&program, &["lint", "--strict", "--quiet", folder.to_str().unwrap()]);
        assert!(fine, "{said}");
    }
    for (name, file) in values() {
        let folder = charts().join("joiner");
        let lint = ["lint", "--strict", "--quiet", folder.to_str().unwrap(), "-f", file.to_str().unwrap()];
        let (fine, said) = helm(&program, &lint);
        assert!(fine, "{name}: {said}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_by_both() {
    let helm_program = joiner_testbed::helm_for("what_makes_no_sense_is_refused_by_both").unwrap();
    for (set, sentence) in [
        (
            "settings.clustername=x",
            "error: there is no value `settings.clustername`; did you mean `settings.clusterName`?\n",
        ),
        ("replica=2", "error: there is no value `replica`; did you mean `replicas`?\n"),
        (
            "settings.preferencePolicy=Respct",
            "error: `settings.preferencePolicy` is `Respct`: not one of Respect, Ignore; did you mean `Respect`?\n",
        ),
        ("replicas=two", "error: `replicas` is `two`: not of type integer\n"),
        (
            "providers={aws}",
            "error: clusterrole-providers.yaml: `providers` has `aws`: there is no such provider; there is `kwok`\n",
        ),
    ] {
        let (code, out, said) = joiner(&["manifests", "--set", set]);
        assert_eq!((code, out.as_str(), said.as_str()), (2, "", sentence));
        if let Some(program) = &helm_program {
            let folder = charts().join("joiner");
            let (fine, _) = helm(program, &["template", "joiner", folder.to_str().unwrap(), "--set", set]);
            assert!(!fine, "helm takes `{set}`");
        }
    }
    for (arguments, sentence) in [
        (&["-f", "/nowhere/values.yaml"][..], "/nowhere/values.yaml"),
        (&["--release", "My Release"], "`--release` is `My Release`: no name of an object"),
        (&["--set", "replicas"], "`--set` is `replicas`: has no `=`"),
    ] {
        let (code, out, said) = joiner(&[&["manifests"], arguments].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{said}");
        assert!(said.contains(sentence), "{said}");
    }
}
