//! Who owns what: `metadata.managedFields`, read and written.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::set::FieldSet;

/// More updaters than this are folded into one entry per version.
const MAX_UPDATERS: usize = 10;
const OLD_UPDATERS: &str = "ancient-changes";

/// How a manager writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// What makes a manager itself. An applier is the same whatever version it applies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Manager {
    pub name: String,
    pub operation: Operation,
    /// Empty for appliers.
    pub api_version: String,
    pub subresource: String,
}

impl Manager {
    pub fn applier(name: &str, subresource: &str) -> Manager {
        Manager {
            name: named(name).to_owned(),
            operation: Operation::Apply,
            api_version: String::new(),
            subresource: subresource.to_owned(),
        }
    }

    pub fn updater(name: &str, api_version: &str, subresource: &str) -> Manager {
        Manager {
            name: named(name).to_owned(),
            operation: Operation::Update,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }

    /// As a conflict names it.
    pub fn display(&self, time: Option<&str>) -> String {
        let mut text = format!("{:?}", self.name);
        if !self.subresource.is_empty() {
            text += &format!(" with subresource {:?}", self.subresource);
        }
        match time {
            _ if self.operation == Operation::Apply => {}
            None => text += &format!(" using {}", self.api_version),
            Some(time) => text += &format!(" using {} at {time}", self.api_version),
        }
        text
    }
}

/// `metadata.managedFields`
fn record(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// Nobody is without a name.
pub(super) fn named(name: &str) -> &str {
    if name.is_empty() { "unknown" } else { name }
}

/// The fields of one manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owned {
    pub set: FieldSet,
    pub api_version: String,
    pub time: Option<String>,
}

/// All managers of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Managers(pub BTreeMap<Manager, Owned>);

impl Managers {
    /// Reads `metadata.managedFields`; none if they cannot be read.
    pub fn of(object: &Value) -> Option<Managers> {
        let mut managers = Managers::default();
        let Some(entries) = record(object) else { return Some(managers) };
        if entries.is_null() {
            return Some(managers);
        }
        for entry in entries.as_array()? {
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            let manager = match text("operation") {
                "Apply" => Manager::applier(text("manager"), text("subresource")),
                "Update" => Manager::updater(text("manager"), text("apiVersion"), text("subresource")),
                _ => return None,
            };
            let owned = Owned {
                set: FieldSet::from_fields_v1(entry.get("fieldsV1").unwrap_or(&Value::Null)),
                api_version: text("apiVersion").to_owned(),
                time: entry.get("time").and_then(Value::as_str).map(str::to_owned),
            };
            managers.0.insert(manager, owned);
        }
        Some(managers)
    }

    /// Whether an object asks to forget its managers: an empty list, or one empty entry.
    pub fn are_reset_by(object: &Value) -> bool {
        match record(object).and_then(Value::as_array).map(Vec::as_slice) {
            Some([]) => true,
            Some([only]) => only.as_object().is_some_and(Map::is_empty),
            _ => false,
        }
    }

    /// Writes `metadata.managedFields`: appliers first, then by time, then by name.
    pub fn store_in(&self, object: &mut Value) {
        let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
            if !self.0.is_empty()
                && let Some(object) = object.as_object_mut()
            {
                object.insert("metadata".to_owned(), json!({"managedFields": self.entries()}));
            }
            return;
        };
        if self.0.is_empty() {
            meta.remove("managedFields");
        } else {
            meta.insert("managedFields".to_owned(), self.entries());
        }
    }

    fn entries(&self) -> Value {
        let mut managers: Vec<(&Manager, &Owned)> = self.0.iter().collect();
        managers.sort_by_key(|(manager, owned)| {
            (manager.operation, &owned.time, &manager.name, &owned.api_version, &manager.subresource)
        });
        managers.into_iter().map(|(manager, owned)| entry(manager, owned)).collect()
    }

    /// Folds the oldest updaters together when there are too many.
    pub fn cap(&mut self) {
        let mut updaters: Vec<Manager> =
            self.0.keys().filter(|manager| manager.operation == Operation::Update).cloned().collect();
        let mut count = updaters.len();
        if count <= MAX_UPDATERS {
            return;
        }
        updaters.sort_by_key(|manager| {
            (self.0.get(manager).and_then(|owned| owned.time.clone()), manager.clone())
        });
        let mut first: BTreeMap<String, Manager> = BTreeMap::new();
        for manager in updaters {
            if count <= MAX_UPDATERS {
                break;
            }
            let version = manager.api_version.clone();
            let Some(kept) = first.get(&version).cloned() else {
                first.insert(version, manager);
                continue;
            };
            let bucket = Manager::updater(OLD_UPDATERS, &version, "");
            if !self.0.contains_key(&bucket)
                && let Some(owned) = self.0.remove(&kept)
            {
                self.0.insert(bucket.clone(), owned);
            }
            let Some(merged) = self.0.remove(&manager) else { continue };
            if let Some(owned) = self.0.get_mut(&bucket) {
                owned.set = owned.set.union(&merged.set);
                owned.time = merged.time;
            }
            count -= 1;
        }
    }
}

fn entry(manager: &Manager, owned: &Owned) -> Value {
    let mut entry = Map::new();
    entry.insert("manager".to_owned(), manager.name.clone().into());
    entry.insert("operation".to_owned(), format!("{:?}", manager.operation).into());
    entry.insert("apiVersion".to_owned(), owned.api_version.clone().into());
    if let Some(time) = &owned.time {
        entry.insert("time".to_owned(), time.clone().into());
    }
    entry.insert("fieldsType".to_owned(), "FieldsV1".into());
    entry.insert("fieldsV1".to_owned(), owned.set.to_fields_v1());
    if !manager.subresource.is_empty() {
        entry.insert("subresource".to_owned(), manager.subresource.clone().into());
    }
    Value::Object(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back() {
        let object = json!({"metadata": {"managedFields": [
            {"manager": "a", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
             "fieldsV1": {"f:data": {"f:k": {}}}},
            {"manager": "k", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
             "fieldsV1": {"f:status": {"f:x": {}}}, "subresource": "status"}]}});
        let managers = Managers::of(&object).unwrap();
        let mut copy = json!({"metadata": {}});
        managers.store_in(&mut copy);
        assert_eq!(copy, object);
    }

    #[test]
    fn many_updaters_become_one() {
        let mut managers = Managers::default();
        for number in 0..13 {
            let mut set = FieldSet::default();
            set.insert(&[format!("f:{number}")]);
            let owned = Owned {
                set,
                api_version: "v1".to_owned(),
                time: Some(format!("2026-01-01T00:00:{number:02}Z")),
            };
            managers.0.insert(Manager::updater(&format!("m{number}"), "v1", ""), owned);
        }
        managers.cap();
        assert_eq!(managers.0.len(), 10);
        let bucket = &managers.0[&Manager::updater(OLD_UPDATERS, "v1", "")];
        assert_eq!(bucket.set.paths(), [["f:0"], ["f:1"], ["f:2"], ["f:3"]]);
        assert_eq!(bucket.time.as_deref(), Some("2026-01-01T00:00:03Z"));
    }
}
