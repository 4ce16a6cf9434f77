//! A real API server takes what the charts render, whatever values users write.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use joiner_testbed::plane::{Parts, scratch};

use crate::{joiner, values};

/// Runs a program with the rights to do everything.
pub fn run(program: &Path, kubeconfig: &Path, arguments: &[&str], input: &str) -> (bool, String) {
    let home = scratch("charts-home").unwrap();
    let mut child = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .env("HOME", &home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let _ = std::fs::remove_dir_all(home);
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.success(), text)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_server_takes_what_is_rendered() {
    let test = "a_real_server_takes_what_is_rendered";
    let Some(programs) = joiner_testbed::programs_for(test).unwrap() else { return };
    let Some(bed) = joiner_testbed::plane_for(test, Parts::BARE).await.unwrap() else { return };
    let kubectl = programs.path("kubectl");
    let apply = |arguments: &[&str], text: &str| {
        let (fine, said) = run(&kubectl, &bed.kubeconfig, &[&["apply", "-f", "-"], arguments].concat(), text);
        assert!(fine, "{said}\n{text}");
        assert!(!said.contains("Warning"), "{said}");
        said
    };
    let (_, definitions, _) = joiner(&["manifests", "--chart", "joiner-crd"]);
    let said = apply(&["--server-side"], &definitions);
    assert_eq!(said.lines().count(), 5, "{said}");
    for (name, file) in values() {
        if name == "monitoring" {
            // The definition of the Prometheus operator is not there: its kind is all that the server does not know.
            let (_, text, _) =
                joiner(&["manifests", "-f", file.to_str().unwrap(), "--set", "serviceMonitor.enabled=false"]);
            apply(&["--dry-run=server"], &text);
            continue;
        }
        let (_, text, _) = joiner(&["manifests", "-f", file.to_str().unwrap()]);
        let said = apply(&["--dry-run=server"], &text);
        assert!(said.contains("deployment.apps/"), "{name}: {said}");
    }
    // Applied, applied again, and away: nothing stays but the definitions.
    let (_, text, _) = joiner(&["manifests"]);
    apply(&[], &text);
    let versions = || {
        let kinds =
            "deployments,services,serviceaccounts,clusterroles,roles,networkpolicies,poddisruptionbudgets";
        let each =
            "jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{\"\\n\"}{end}";
        let mine = ["get", kinds, "-A", "-l", "app.kubernetes.io/instance=joiner", "-o", each];
        run(&kubectl, &bed.kubeconfig, &mine, "")
    };
    let before = versions();
    assert!(before.0 && before.1.lines().count() > 6, "{before:?}");
    apply(&[], &text);
    assert_eq!(versions(), before, "applied a second time, it changes nothing");
    let (fine, said) = run(&kubectl, &bed.kubeconfig, &["delete", "--wait=false", "-f", "-"], &text);
    assert!(fine && said.contains("deployment.apps \"joiner\" deleted"), "{said}");
    let label =
        ["get", "all,clusterroles,clusterrolebindings,roles,rolebindings,sa,netpol,pdb", "-A", "-o", "name"];
    let (_, left) = run(
        &kubectl,
        &bed.kubeconfig,
        &[&label[..], &["-l", "app.kubernetes.io/instance=joiner"]].concat(),
        "",
    );
    assert!(left.contains("No resources found") || left.trim().is_empty(), "{left}");
}
