//! What the README and the pages of documentation show is what the program prints: every console block of a `joiner plan` on an example is
//! run again.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use joiner::{BAD_INPUT, FINDINGS, FINE, Streams};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Exit code, and both streams as they would show on a terminal, notes first.
fn run(line: &str) -> (u8, String) {
    let words = line.split(' ').map(|word| match word.strip_prefix("examples/") {
        Some(file) => root().join("examples").join(file).into_os_string(),
        None => OsString::from(word),
    });
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = joiner::run(words, &mut Streams { out: &mut out, err: &mut err, width: 200, unicode: true });
    // Colours are for terminals.
    let (mut plain, mut text) = (String::new(), String::from_utf8(err).expect("text"));
    text.push_str(&String::from_utf8(out).expect("text"));
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    plain.push_str(rest);
    (code, plain)
}

/// Without times and blanks at line ends.
fn settled(text: &str) -> Vec<String> {
    let lines = text.trim_end().lines();
    lines.map(|line| line.split("solved in").next().unwrap_or_default().trim_end().to_owned()).collect()
}

/// The README and all pages of documentation.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of documentation") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// Whether what is shown is what is printed, as far as it is shown: a line `…` stands for any number of lines.
fn agrees(printed: &[String], shown: &[String]) -> bool {
    let mut rest = printed;
    for (at, part) in shown.split(|line| line == "…").enumerate() {
        let found = if at == 0 {
            rest.starts_with(part).then_some(0)
        } else {
            (0..=rest.len().saturating_sub(part.len())).find(|from| rest[*from..].starts_with(part))
        };
        let Some(from) = found else { return false };
        rest = &rest[from + part.len()..];
    }
    rest.is_empty() || shown.last().is_some_and(|last| last == "…")
}

/// `UPDATE_DOCS=1` writes what is printed now into the pages, where nothing is left out.
#[test]
fn console_blocks_are_what_is_printed() {
    let mut checked = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("the page is there");
        let mut now = text.clone();
        for block in text.split("```console\n").skip(1) {
            let block = block.split("\n```").next().expect("a block ends");
            let (command, shown) = block.split_once('\n').unwrap_or((block, ""));
            let line = command.trim_start_matches("$ ").replace("cargo run --release -- ", "joiner ");
            if !line.starts_with("joiner plan -f examples/") {
                continue;
            }
            checked += 1;
            let (code, printed) = run(&line);
            assert!(code == FINE || code == FINDINGS, "{}: {printed}", page.display());
            if agrees(&settled(&printed), &settled(shown)) {
                continue;
            }
            let whole = !shown.lines().any(|line| line == "…");
            assert!(
                whole && std::env::var_os("UPDATE_DOCS").is_some(),
                "{}: `{command}` prints something else (UPDATE_DOCS=1 rewrites whole blocks):\n{printed}",
                page.display()
            );
            now = now.replace(block, &format!("{command}\n{}", printed.trim_end()));
        }
        if now != text {
            std::fs::write(&page, now).expect("writable");
        }
    }
    assert!(checked >= 6, "only {checked} blocks");
}

#[test]
fn a_cost_model_holds_costs_only() {
    let (code, text) = run("joiner plan -f examples/inflate.yaml --cost-model examples/buffers.yaml");
    assert_eq!(code, BAD_INPUT);
    assert!(
        text.contains("Namespace shop: `kind` is `Namespace`: a cost model holds NodeOverlay and CostModel objects only; give other objects with `-f`"),
        "{text}"
    );
}

#[test]
fn a_cost_model_may_hold_overlays() {
    let (code, text) = run("joiner plan -f examples/inflate.yaml --cost-model examples/overlays.yaml");
    assert_eq!(code, BAD_INPUT, "the example also holds a pool: {text}");
    let folder = std::env::temp_dir().join(format!("joiner-costs-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let file = folder.join("overlay.yaml");
    let overlay = "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: free}\nspec: {requirements: [], price: '0'}\n";
    std::fs::write(&file, overlay).expect("writable");
    let (code, text) = run(&format!("joiner plan -f examples/inflate.yaml --cost-model {}", file.display()));
    let _ = std::fs::remove_dir_all(folder);
    assert_eq!(code, FINE, "{text}");
    assert!(text.contains("$0/h"), "{text}");
}

#[test]
fn a_virtual_pod_can_be_explained() {
    let (code, text) = run("joiner plan -f examples/buffers.yaml --explain ci/buffer:builds-0");
    assert_eq!(code, FINE);
    assert!(text.contains("Pod ci/buffer:builds-0 goes onto the new node buffered-1"), "{text}");
    assert!(text.contains("queue          1 of 6"), "{text}");
}
