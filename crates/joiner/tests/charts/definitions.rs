//! The chart of definitions is made of those that joiner serves.

use joiner::chart::files::{JOINER, JOINER_CRD};
use joiner::cli::Format;
use joiner::show;
use serde_json::Value;

use crate::charts;

/// The line after which annotations that are given come.
const HOOK: &str = "  {{- with .Values.additionalAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
";

#[test]
fn definitions_are_those_that_joiner_serves() {
    let folder = charts().join("joiner-crd/templates");
    let mut names = Vec::new();
    for definition in joiner_api::crd::all() {
        let mut object = serde_json::to_value(&definition).unwrap();
        object.as_object_mut().unwrap().remove("status");
        assert_eq!(object["metadata"]["annotations"], Value::Null, "two maps of annotations would clash");
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let text = show::documents(std::slice::from_ref(&object), Format::Yaml).unwrap();
        assert!(!text.contains("{{"), "{name} would be taken for a template");
        let line = format!("  name: {name}\n");
        assert!(text.contains(&line), "{text}");
        let text = text.replacen(&line, &format!("{line}{HOOK}"), 1);
        let path = folder.join(format!("{name}.yaml"));
        if std::env::var_os("UPDATE_CHARTS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(there == text, "{} is out of date: UPDATE_CHARTS=1 writes it", path.display());
        names.push(format!("{name}.yaml"));
    }
    names.sort();
    let embedded: Vec<&str> = JOINER_CRD.templates.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, embedded);
}

#[test]
fn all_files_and_versions_of_the_charts_are_in_the_program() {
    for chart in [&JOINER, &JOINER_CRD] {
        let folder = charts().join(chart.name);
        let mut files: Vec<String> = std::fs::read_dir(folder.join("templates"))
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "NOTES.txt")
            .collect();
        files.sort();
        let embedded: Vec<&str> = chart.templates.iter().map(|(name, _)| *name).collect();
        assert_eq!(files, embedded);
        let about = std::fs::read_to_string(folder.join("Chart.yaml")).unwrap();
        for field in ["version", "appVersion"] {
            assert!(about.contains(&format!("\n{field}: {}\n", chart.version)), "{field} of {}", chart.name);
        }
    }
}
