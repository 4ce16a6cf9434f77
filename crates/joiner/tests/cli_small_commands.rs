//! Whole runs of the small commands, as a user sees them, and the reference page made of their help.
//!
//! Most runs stay in this process: arguments in, exit code and text out, compared with a snapshot. Colours and pipes
//! belong to the process and are tried on the program itself. `UPDATE_DOCS=1` rewrites the reference page.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::CommandFactory;
use joiner::{BAD_INPUT, FINE, Streams};
use serde_json::Value;

const CONVERT: &str = "tests/data/small_commands/convert";
const TYPES: &str = "tests/data/small_commands/types";

/// What a run gave.
struct Run {
    line: String,
    code: u8,
    out: String,
    err: String,
}

/// Runs a command line in process. `CONVERT/` and `TYPES/` stand for the folders of test data.
fn joiner(line: &str) -> Run {
    let full = line.replace("CONVERT/", &format!("{CONVERT}/")).replace("TYPES/", &format!("{TYPES}/"));
    let arguments = std::iter::once("joiner").chain(full.split_whitespace()).map(OsString::from);
    let mut out = anstream::StripStream::new(Vec::new());
    let mut err = anstream::StripStream::new(Vec::new());
    let code =
        joiner::run(arguments, &mut Streams { out: &mut out, err: &mut err, width: 100, unicode: true });
    let text = |stream: anstream::StripStream<Vec<u8>>| {
        String::from_utf8(stream.into_inner()).expect("output is text")
    };
    Run { line: line.to_owned(), code, out: text(out), err: text(err) }
}

impl Run {
    /// Exit code, notes and data under the command line.
    fn shown(&self) -> String {
        let mut text = format!("$ joiner {}\nexit code {}\n", self.line, self.code);
        for (name, stream) in [("standard error", &self.err), ("standard output", &self.out)] {
            if !stream.is_empty() {
                text.push_str(&format!("--- {name}\n{stream}"));
            }
        }
        text
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{}: {error}\n{}", self.line, self.out))
    }
}

/// Several short runs in one snapshot.
fn shown(lines: &[&str]) -> String {
    lines.iter().map(|line| joiner(line).shown()).collect::<Vec<_>>().join("\n")
}

fn yaml_documents(text: &str) -> Vec<Value> {
    text.split("---\n").map(|part| serde_saphyr::from_str(part).expect("own output is YAML")).collect()
}

#[test]
fn welcome_and_version() {
    insta::assert_snapshot!(shown(&["", "version", "version -o json", "version -o yaml", "--version"]));
}

#[test]
fn usage_mistakes_name_what_was_meant() {
    insta::assert_snapshot!(shown(&[
        "pln",
        "crdz",
        "convert",
        "convert --file x.yaml",
        "instance-types lst",
        "instance-types list --catalog gcp",
        "instance-types list --catalog aws -f x.json",
        "version -o xml",
        "--color purple version",
        "completion tcsh",
    ]));
}

#[test]
fn the_readme_has_a_row_for_every_command() {
    let readme = std::fs::read_to_string("../../README.md").expect("the README is there");
    let table = readme.split("## Commands").nth(1).and_then(|rest| rest.split("\n## ").next());
    let rows = table.expect("a table of commands").lines().filter(|line| line.starts_with("| `joiner "));
    let mut listed: Vec<&str> = rows
        .filter_map(|row| row.split('|').nth(1))
        .flat_map(|cell| cell.split('`').filter_map(|code| code.strip_prefix("joiner ")))
        .collect();
    let program = joiner::cli::Cli::command();
    let mut known: Vec<&str> =
        program.get_subcommands().filter(|of| !of.is_hide_set()).map(clap::Command::get_name).collect();
    listed.sort_unstable();
    known.sort_unstable();
    assert_eq!(listed, known, "the table of commands in README.md and `joiner --help` differ");
}

#[test]
fn completion_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = joiner(&format!("completion {shell}"));
        assert_eq!((run.code, run.err.as_str()), (FINE, ""), "{shell}");
        for word in ["joiner", "instance-types", "skip-aws-defaults"] {
            assert!(run.out.contains(word), "{shell} completes no `{word}`");
        }
    }
}

// ---- crds ----

#[test]
fn a_definition_as_yaml() {
    insta::assert_snapshot!(joiner("crds kwoknodeclasses").shown());
}

#[test]
fn definitions_read_back_as_they_are() {
    let mut expected = serde_json::to_value(joiner_api::crd::all()).expect("definitions are values");
    for crd in expected.as_array_mut().expect("a list") {
        crd.as_object_mut().expect("an object").remove("status");
    }
    let yaml = joiner("crds");
    assert_eq!((yaml.code, Value::from(yaml_documents(&yaml.out))), (FINE, expected.clone()));
    let json = joiner("crds -o json").json();
    assert_eq!(
        (&json["apiVersion"], &json["kind"], &json["items"]),
        (&"v1".into(), &"List".into(), &expected)
    );
}

#[test]
fn definitions_answer_to_all_their_names() {
    let names = |line: &str| -> Vec<String> {
        let run = joiner(line);
        assert_eq!((run.code, run.err.as_str()), (FINE, ""), "{line}");
        let name = |crd: Value| crd["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        yaml_documents(&run.out).into_iter().map(name).collect()
    };
    for name in ["nodepools", "nodepool", "NodePool", "nodepools.karpenter.sh"] {
        assert_eq!(names(&format!("crds {name}")), ["nodepools.karpenter.sh"], "{name}");
    }
    assert_eq!(names("crds kwoknc"), ["kwoknodeclasses.karpenter.kwok.sh"]);
    // Each once, in the order they are best applied.
    assert_eq!(
        names("crds nodeclaims nodepools NodeClaim"),
        ["nodepools.karpenter.sh", "nodeclaims.karpenter.sh"]
    );
    assert_eq!(joiner("crds nodepools -o json").json()["kind"], "CustomResourceDefinition");
    insta::assert_snapshot!(shown(&["crds nodepol", "crds nodepools pods"]));
}

// ---- convert ----

#[test]
fn older_pools_are_converted() {
    insta::assert_snapshot!("convert_provisioner", joiner("convert -f CONVERT/provisioner.yaml").shown());
    insta::assert_snapshot!("convert_v1beta1", joiner("convert -f CONVERT/nodepool-v1beta1.yaml").shown());
    insta::assert_snapshot!(
        "convert_json_list",
        joiner("convert -f CONVERT/nodepools-v1beta1.json -o json").shown()
    );
}

#[test]
fn words_that_exist_on_paper_only_are_replaced() {
    insta::assert_snapshot!(joiner("convert -f CONVERT/nodepool-paper-words.yaml").shown());
}

#[test]
fn one_object_as_json_is_no_list_and_several_files_are() {
    let one = joiner("convert -o json -f CONVERT/nodepool-v1beta1.yaml").json();
    assert_eq!((&one["apiVersion"], &one["kind"]), (&"karpenter.sh/v1".into(), &"NodePool".into()));
    let several =
        joiner("convert -o json -f CONVERT/nodepool-v1beta1.yaml -f CONVERT/provisioner.yaml").json();
    let kinds: Vec<_> =
        several["items"].as_array().expect("a list").iter().map(|item| item["kind"].clone()).collect();
    assert_eq!(kinds, ["NodePool", "NodePool", "Deployment"]);
}

/// Settings of the kubelet go from pool to class across files; what the server wrote is left out, of what is current as well as before.
#[test]
fn a_pool_and_its_class_are_converted_together() {
    const CLASS: &str = "CONVERT/ec2nodeclass-v1beta1.yaml";
    insta::assert_snapshot!(
        "convert_with_class",
        joiner(&format!("convert -f CONVERT/nodepool-aws-v1beta1.yaml -f {CLASS}")).shown()
    );
    let alone = joiner("convert -o json -f CONVERT/nodepool-aws-v1beta1.yaml").json();
    let kept = &alone["metadata"]["annotations"]["compatibility.karpenter.sh/v1beta1-kubelet-conversion"];
    assert_eq!(kept, r#"{"maxPods":20}"#);
    let class = joiner(&format!("convert -o json -f {CLASS}")).json();
    assert_eq!(class["metadata"], serde_json::json!({"name": "default", "labels": {"team": "shop"}}));
}

/// Lint says to convert, and then has nothing more to say about it.
#[test]
fn lint_does_not_send_back_what_was_converted() {
    let files = ["provisioner.yaml", "nodepool-aws-v1beta1.yaml", "ec2nodeclass-v1beta1.yaml"];
    for file in files {
        let before = joiner(&format!("lint -f CONVERT/{file}"));
        assert!(before.out.contains("joiner convert"), "{file}: {}", before.shown());
        let path = std::env::temp_dir().join(format!("joiner-converted-{}-{file}", std::process::id()));
        std::fs::write(&path, joiner(&format!("convert -f CONVERT/{file}")).out).expect("a temporary file");
        let after = joiner(&format!("lint -f {}", path.display()));
        std::fs::remove_file(&path).expect("a temporary file");
        assert!(!after.out.contains("joiner convert"), "{file}: {}", after.shown());
    }
    // What cannot be converted is no finding that sends there: both say why.
    for command in ["lint", "convert"] {
        let hopeless = joiner(&format!("{command} -f CONVERT/ec2nodeclass-custom-v1beta1.yaml"));
        assert_eq!(hopeless.code, BAD_INPUT);
        assert!(hopeless.err.contains(":5: EC2NodeClass"), "{}", hopeless.shown());
        assert!(hopeless.err.contains("select images by id, name or tags first"), "{}", hopeless.shown());
    }
}

#[test]
fn the_definition_of_aws_is_printed_when_it_is_named() {
    for name in ["ec2nodeclasses", "EC2NodeClass", "ec2nc", "ec2nodeclasses.karpenter.k8s.aws"] {
        let json = joiner(&format!("crds {name} -o json")).json();
        assert_eq!(json["metadata"]["name"], "ec2nodeclasses.karpenter.k8s.aws");
        // Only a simulated cluster calls it ready from the start.
        let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status";
        assert_eq!(json.pointer(status).and_then(|status| status.get("default")), None);
    }
    assert!(!joiner("crds").out.contains("ec2nodeclasses"));
}

#[test]
fn converting_again_changes_nothing() {
    for file in [
        "provisioner.yaml",
        "nodepool-v1beta1.yaml",
        "nodepool-paper-words.yaml",
        "ec2nodeclass-v1beta1.yaml",
    ] {
        let first = joiner(&format!("convert -f CONVERT/{file}"));
        let folder = std::env::temp_dir().join(format!("joiner-convert-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let path = folder.join(file);
        std::fs::write(&path, &first.out).expect("a temporary file");
        let second = joiner(&format!("convert -f {}", path.display()));
        std::fs::remove_dir_all(&folder).expect("a temporary folder");
        assert_eq!((second.code, second.err.as_str(), &second.out), (FINE, "", &first.out), "{file}");
    }
}

#[test]
fn what_cannot_be_converted_is_named_and_nothing_is_printed() {
    let lines = [
        "convert -f CONVERT/without-class.yaml --skip-aws-defaults",
        "convert -f CONVERT/wrong-shape.yaml",
        "convert -f CONVERT/broken.yaml",
        "convert -f CONVERT/no-kind.yaml",
        "convert -f CONVERT/nodepool-v1beta1.yaml -f CONVERT/no-kind.yaml",
        "convert -f CONVERT/missing.yaml",
        "convert -f /dev/null",
    ];
    for line in lines {
        let run = joiner(line);
        assert_eq!((run.code, run.out.as_str()), (BAD_INPUT, ""), "{line}");
    }
    insta::assert_snapshot!(shown(&lines));
}

// ---- instance-types ----

#[test]
fn lists_of_types() {
    insta::assert_snapshot!(
        "list_tables",
        shown(&[
            "instance-types list --name c-1 --os linux",
            "instance-types list --catalog aws --name m5.",
            "instance-types list --catalog aws --region us-west-2 --name m5. --no-headers --zone us-west-2d --capacity-type spot",
            "instance-types list -f TYPES/good.yaml",
            "instance-types list -f TYPES/good.yaml -o wide",
        ])
    );
    insta::assert_snapshot!("list_yaml", joiner("instance-types list -f TYPES/good.yaml -o yaml").shown());
}

#[test]
fn all_types_are_listed() {
    for (catalog, count) in [("kwok", 144), ("aws", 1366)] {
        let json = joiner(&format!("instance-types list --catalog {catalog} -o json")).json();
        assert_eq!(json.as_array().map(Vec::len), Some(count), "{catalog}");
        let table = joiner(&format!("instance-types list --catalog {catalog} --no-headers"));
        assert_eq!(table.out.lines().count(), count, "{catalog}");
    }
}

#[test]
fn empty_lists_say_why() {
    insta::assert_snapshot!(shown(&[
        "instance-types list --arch amd46",
        "instance-types list --zone mars",
        "instance-types list --name zzz",
        "instance-types list --name c-1x-amd64 --arch arm64",
        "instance-types list --os linus -o json",
    ]));
}

#[test]
fn lists_that_do_not_load() {
    insta::assert_snapshot!(shown(&[
        "instance-types list -f TYPES/bad.json",
        "instance-types list -f TYPES/broken.json",
        "instance-types list -f TYPES/missing.json",
        "instance-types list -f tests/data",
    ]));
}

#[test]
fn generated_lists_load_again() {
    insta::assert_snapshot!(
        joiner("instance-types generate --cpus 4 --memory-factors 4 --os linux --arch arm64 --zones a,b --zone-skew 0.1 --gpu g:8:64:1:0.9 -o yaml").shown()
    );
    let path = std::env::temp_dir().join(format!("joiner-generated-{}.json", std::process::id()));
    for (line, types) in [("", 144), ("--memory-factors 2,6,16 --cpus 1,2", 24)] {
        let run = joiner(&format!("instance-types generate {line}"));
        std::fs::write(&path, &run.out).expect("a temporary file");
        let check = joiner(&format!("instance-types check {}", path.display()));
        assert_eq!(check.code, FINE, "{}", check.shown());
        assert!(
            check.out.contains(&format!(": {types} types, {} offerings, fine", types * 8)),
            "{}",
            check.out
        );
    }
    std::fs::remove_file(&path).expect("a temporary file");
}

#[test]
fn lists_that_cannot_be_generated() {
    insta::assert_snapshot!(shown(&[
        "instance-types generate --cpus 0",
        "instance-types generate --cpus four",
        "instance-types generate --zones a,b,a",
        "instance-types generate --os lin/ux",
        "instance-types generate --spot-factor=-0.5",
        "instance-types generate --gpu g:8:64",
        "instance-types generate --gpu g:8:64:one:0.9",
        "instance-types generate --cpus 1,1",
    ]));
}

#[test]
fn checks_list_everything_wrong_with_all_files() {
    insta::assert_snapshot!(
        "check_table",
        shown(&[
            "instance-types check TYPES/good.yaml",
            "instance-types check TYPES/good.yaml -o wide",
            "instance-types check TYPES/bad.json TYPES/good.yaml TYPES/missing.json TYPES/broken.json",
        ])
    );
    insta::assert_snapshot!(
        "check_json",
        joiner("instance-types check TYPES/bad.json TYPES/good.yaml -o json").shown()
    );
    // A folder is all its lists.
    let folder = joiner(&format!("instance-types check {TYPES}"));
    assert_eq!((folder.code, folder.out.matches("fine").count()), (BAD_INPUT, 1), "{}", folder.out);
}

// ---- The process ----

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_joiner"));
    command.args(arguments).stdin(Stdio::null());
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI", "COLUMNS"] {
        command.env_remove(name);
    }
    command.env("TERM", "xterm-256color");
    command
}

#[test]
fn colours_follow_the_flag_and_the_environment() {
    let good = format!("{TYPES}/good.yaml");
    let check: [&str; 3] = ["instance-types", "check", &good];
    for (flags, environment, coloured) in [
        (&[][..], None, false),
        (&["--color", "always"][..], None, true),
        (&["--color=always"][..], Some(("NO_COLOR", "1")), true),
        (&["--color", "never"][..], Some(("CLICOLOR_FORCE", "1")), false),
        (&[][..], Some(("CLICOLOR_FORCE", "1")), true),
        (&["--color=auto"][..], Some(("CLICOLOR_FORCE", "1")), true),
        (&[][..], Some(("NO_COLOR", "1")), false),
    ] {
        let mut command = program(&[flags, &check].concat());
        command.envs(environment);
        let output = command.output().expect("the program runs");
        let text = String::from_utf8(output.stdout).expect("output is text");
        assert!(output.status.success(), "{text}");
        assert!(text.contains("fine"), "{text}");
        assert_eq!(text.contains("\x1b[32m"), coloured, "{flags:?} {environment:?}: {text:?}");
    }
    // The complaint about a flag is coloured by the same rule.
    let output = program(&["--color=always", "pln"]).output().expect("the program runs");
    assert!(String::from_utf8_lossy(&output.stderr).contains("\x1b["));
}

#[test]
fn a_closed_pipe_ends_the_program_quietly() {
    for arguments in [&["crds"][..], &["completion", "zsh"], &["instance-types", "generate"]] {
        let mut child = program(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("the program ends");
        assert_eq!(
            (output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()),
            (Some(0), ""),
            "{arguments:?}"
        );
    }
}

#[test]
fn standard_input_is_read() {
    let text = std::fs::read(Path::new(CONVERT).join("nodepool-v1beta1.yaml")).expect("test data");
    let mut child = program(&["convert", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    child.stdin.take().expect("a pipe").write_all(&text).expect("the program reads");
    let output = child.wait_with_output().expect("the program ends");
    assert!(output.status.success());
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        joiner("convert -f CONVERT/nodepool-v1beta1.yaml").out
    );
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("standard input:"));
}

// ---- The reference page ----

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");

const PAGE_HEAD: &str = "\
# Commands

<!-- Made from the program's own help. To renew: UPDATE_DOCS=1 cargo test -p joiner --test cli_small_commands -->

Standard output is data, standard error is notes. Exit codes: 0 fine, 1 error, 2 bad usage or bad input, 3 findings (pods refused).
`NO_COLOR`, `CLICOLOR_FORCE` and `--color` decide about colours; `COLUMNS` sets the width of tables. As `kubectl-joiner` on the
path, the program is the kubectl plugin `kubectl joiner`. Every command also takes `--color`, `--help` and `--version`.
";

fn section(command: &clap::Command, name: &str, page: &mut String) {
    // Neither the terminal nor the environment of whoever makes the page may show in it.
    let inner = name != "joiner";
    let mut help = command.clone().bin_name(name).term_width(110).mut_args(|argument| {
        // Named once for all commands.
        let everywhere = ["color", "help", "version"].contains(&argument.get_id().as_str());
        let is_hidden = argument.is_hide_set() || inner && everywhere;
        argument.hide_env_values(true).hide(is_hidden)
    });
    let help = help.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    page.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim_end()));
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        section(inner, &format!("{name} {}", inner.get_name()), page);
    }
}

#[test]
fn the_reference_page_is_fresh() {
    let mut command = joiner::cli::Cli::command();
    command.build();
    let mut page = PAGE_HEAD.to_owned();
    section(&command, "joiner", &mut page);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, &page).expect("the page can be written");
    }
    let stored = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        stored == page,
        "docs/reference/cli.md is out of date: UPDATE_DOCS=1 cargo test -p joiner --test cli_small_commands"
    );
}
