//! The paths of printer columns: `.spec.name`, `.items[0]`, `.status.conditions[?(@.type=="Ready")].status`.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(i64),
    Every,
    Where { path: Vec<String>, equal: bool, value: String },
}

/// A path that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    steps: Vec<Step>,
}

impl Path {
    /// Reads a path; nothing for one that is not understood.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut steps = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            if let Some(tail) = rest.strip_prefix('[') {
                let (inside, tail) = bracket(tail)?;
                steps.push(bracket_step(inside)?);
                rest = tail;
            } else {
                rest = rest.strip_prefix('.').unwrap_or(rest);
                let (name, tail) = field(rest);
                if name == "*" {
                    steps.push(Step::Every);
                } else if !name.is_empty() {
                    steps.push(Step::Field(name));
                } else if !tail.starts_with('[') {
                    return None;
                }
                rest = tail;
            }
        }
        Some(Self { steps })
    }

    /// The first value that the path leads to.
    pub(crate) fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        let mut found = vec![object];
        for step in &self.steps {
            found = found.into_iter().flat_map(|place| follow(step, place)).collect();
        }
        found.first().copied()
    }
}

fn follow<'a>(step: &Step, place: &'a Value) -> Vec<&'a Value> {
    let items = place.as_array();
    match step {
        Step::Field(name) => place.get(name).into_iter().collect(),
        Step::Index(index) => {
            let index = if *index < 0 { items.map_or(0, Vec::len) as i64 + index } else { *index };
            usize::try_from(index).ok().and_then(|index| items?.get(index)).into_iter().collect()
        }
        Step::Every => match place {
            Value::Array(items) => items.iter().collect(),
            Value::Object(fields) => fields.values().collect(),
            _ => Vec::new(),
        },
        Step::Where { path, equal, value } => {
            let holds = |item: &&Value| {
                let found = path.iter().try_fold(*item, |place, part| place.get(part));
                let text = found.map(|found| found.as_str().map_or_else(|| found.to_string(), str::to_owned));
                text.is_some_and(|text| (text == *value) == *equal)
            };
            items.into_iter().flatten().filter(holds).collect()
        }
    }
}

/// A name up to the next separator; a backslash takes the next letter as it is.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => name.extend(letters.next().map(|(_, letter)| letter)),
            '.' | '[' => return (name, &text[at..]),
            other => name.push(other),
        }
    }
    (name, "")
}

/// What stands up to the closing bracket, quotes respected, and what follows.
fn bracket(text: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (None, ']') => return Some((&text[..at], &text[at + 1..])),
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            _ => {}
        }
    }
    None
}

fn bracket_step(inside: &str) -> Option<Step> {
    let inside = inside.trim();
    if inside == "*" {
        return Some(Step::Every);
    }
    if let Some(name) = unquoted(inside) {
        return Some(Step::Field(name.to_owned()));
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|filter| filter.strip_suffix(')')) {
        let (left, equal, right) = match filter.split_once("==") {
            Some((left, right)) => (left, true, right),
            None => filter.split_once("!=").map(|(left, right)| (left, false, right))?,
        };
        let path = left.trim().strip_prefix("@.")?.split('.').map(str::to_owned).collect();
        let right = right.trim();
        return Some(Step::Where { path, equal, value: unquoted(right).unwrap_or(right).to_owned() });
    }
    inside.parse().ok().map(Step::Index)
}

fn unquoted(text: &str) -> Option<&str> {
    ['\'', '"'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_lead_to_values() {
        let object = json!({
            "spec": {"name": "x", "list": [1, 2, 3], "a.b": {"c/d": true}},
            "status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]},
        });
        let first = |path: &str| Path::parse(path).and_then(|path| path.first(&object).cloned());
        assert_eq!(first(".spec.name"), Some(json!("x")));
        assert_eq!(first(".spec.list[1]"), Some(json!(2)));
        assert_eq!(first(".spec.list[-1]"), Some(json!(3)));
        assert_eq!(first(".spec.list[*]"), Some(json!(1)));
        assert_eq!(first(r".spec.a\.b['c/d']"), Some(json!(true)));
        assert_eq!(first(".status.conditions[?(@.type==\"Ready\")].status"), Some(json!("True")));
        assert_eq!(first(".status.conditions[?(@.type != 'Other')].type"), Some(json!("Ready")));
        assert_eq!(first(".nope.name"), None);
        assert_eq!(Path::parse(".a[?(x"), None);
        assert_eq!(Path::parse(".a[b]"), None);
    }
}
