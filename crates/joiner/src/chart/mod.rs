//! The charts, rendered without helm.
//!
//! What is installed stands once: in the templates under `charts/`. They are part of this program ([`files`]), and [`render`] reads them the way helm
//! does, as far as they go: [`template`] parses, [`evaluate`] runs, [`functions`] are those that the templates call, [`go_yaml`] writes YAML as Go's
//! library does, [`values`] merges and checks what was given. A function that a template calls and that is not here is an error, never left out.
//!
//! Rejected: the default output kept beside the templates and patched by values (every value would be a second rule of what it does), and objects made in
//! Rust (helm's users would get another thing). The price is this reader of templates; `tests/charts` holds its output to helm's, byte for byte.

mod evaluate;
pub mod files;
mod functions;
mod go_yaml;
mod template;
pub mod values;

use serde_json::{Value, json};

use self::files::Chart;
use self::template::Templates;

/// Kinds in the order in which helm installs them; others come last.
const ORDER: [&str; 13] = [
    "NetworkPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "ConfigMap",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Deployment",
    "Job",
];

/// What a release is called, and where it goes.
#[derive(Debug, Clone)]
pub struct Release {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
}

/// The text that `helm template` prints for these values.
///
/// # Errors
/// A template says that the values make no sense.
pub fn render(chart: &Chart, release: &Release, values: &Value) -> Result<String, String> {
    let root = json!({
        "Values": values,
        "Chart": {"Name": chart.name, "Version": chart.version, "AppVersion": chart.version},
        "Release": {"Name": release.name, "Namespace": release.namespace, "Service": "Helm"},
    });
    let mut templates = Templates::default();
    let mut bodies = Vec::new();
    for (path, text) in chart.templates {
        bodies.push((path, templates.parse(path, text)?));
    }
    let mut manifests: Vec<(usize, &str, String)> = Vec::new();
    for (path, body) in &bodies {
        if path.starts_with('_') || path.ends_with(".txt") {
            continue;
        }
        let text = evaluate::run(&templates, body, &root).map_err(|error| format!("{path}: {error}"))?;
        manifests.extend(documents(&text).into_iter().map(|text| (rank(&text), **path, text)));
    }
    // Stable, as helm's: within a kind, files by name, and their documents in order.
    manifests.sort_by_key(|(rank, ..)| *rank);
    let text: String = manifests
        .into_iter()
        .map(|(_, path, text)| format!("---\n# Source: {}/templates/{path}\n{text}\n", chart.name))
        .collect();
    Ok(text)
}

fn rank(document: &str) -> usize {
    let kind = document.lines().find_map(|line| line.strip_prefix("kind: ")).unwrap_or_default();
    ORDER.iter().position(|known| *known == kind).unwrap_or(ORDER.len())
}

/// The documents of a file, without blanks around them.
fn documents(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for line in text.lines() {
        match (line.strip_prefix("---"), found.last_mut()) {
            (Some(_), _) => found.push(String::new()),
            (None, Some(last)) => {
                last.push_str(line);
                last.push('\n');
            }
            (None, None) => {}
        }
    }
    found.iter().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect()
}
