//! Scripts: read from YAML, with `$ns` standing for the namespace in which they are played.

use std::path::Path;

use serde_json::Value;

/// One script.
pub struct Script {
    /// The name of its file, also the name of its namespace.
    pub name: String,
    /// Names of nodes that KWOK looks after.
    pub nodes: Vec<String>,
    /// What is looked at after each step.
    pub observe: Vec<String>,
    /// What is done.
    pub steps: Vec<Value>,
    /// Whether the order in which pods come and go is looked at too.
    pub sequence: bool,
}

impl Script {
    pub fn read(path: &Path) -> Self {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(path).unwrap().replace("$ns", &name);
        let script: Value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let known = ["about", "nodes", "observe", "steps", "sequence"];
        for field in script.as_object().unwrap().keys() {
            assert!(known.contains(&field.as_str()), "{name}: a script has no `{field}`");
        }
        assert!(!script["about"].as_str().unwrap_or_default().is_empty(), "{name}: say what it is about");
        let texts = |field: &str| -> Vec<String> {
            let list = script[field].as_array().into_iter().flatten();
            list.map(|item| item.as_str().unwrap().to_owned()).collect()
        };
        Self {
            nodes: texts("nodes"),
            observe: texts("observe"),
            steps: script["steps"].as_array().unwrap().clone(),
            sequence: script["sequence"] == true,
            name,
        }
    }
}

/// How long a step is given, in seconds: `within`, or three.
pub fn seconds(step: &Value) -> u64 {
    step["within"].as_u64().unwrap_or(3)
}
