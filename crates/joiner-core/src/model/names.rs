//! The interner: strings are touched when lowering and when rendering, never in between.

use hashbrown::HashMap;

use super::ids::{KeyId, ValueId};
use super::{FixedState, fixed_state};

/// Label keys with their known values, and resource names with their lanes.
#[derive(Debug, Clone)]
pub struct Names {
    keys: Vec<Key>,
    key_ids: HashMap<Box<str>, KeyId, FixedState>,
    lanes: Vec<Box<str>>,
    lane_ids: HashMap<Box<str>, usize, FixedState>,
}

#[derive(Debug, Clone)]
struct Key {
    name: Box<str>,
    values: Vec<Value>,
    value_ids: HashMap<Box<str>, ValueId, FixedState>,
}

#[derive(Debug, Clone)]
struct Value {
    text: Box<str>,
    integer: Option<i64>,
}

/// Lane of CPU, in millicores.
pub const CPU: usize = 0;
/// Lane of memory, in bytes.
pub const MEMORY: usize = 1;
/// Lane of ephemeral storage, in bytes.
pub const EPHEMERAL_STORAGE: usize = 2;
/// Lane of the pod count.
pub const PODS: usize = 3;

impl Default for Names {
    fn default() -> Self {
        let mut names = Names {
            keys: Vec::new(),
            key_ids: HashMap::with_hasher(fixed_state()),
            lanes: Vec::new(),
            lane_ids: HashMap::with_hasher(fixed_state()),
        };
        for lane in ["cpu", "memory", "ephemeral-storage", "pods"] {
            names.lane(lane);
        }
        names
    }
}

impl Names {
    /// The id of a label key, made on first use.
    pub fn key(&mut self, name: &str) -> KeyId {
        if let Some(id) = self.key_ids.get(name) {
            return *id;
        }
        let id = KeyId::new(self.keys.len());
        self.keys.push(Key {
            name: name.into(),
            values: Vec::new(),
            value_ids: HashMap::with_hasher(fixed_state()),
        });
        self.key_ids.insert(name.into(), id);
        id
    }

    /// The id of a label key that was seen before.
    pub fn known_key(&self, name: &str) -> Option<KeyId> {
        self.key_ids.get(name).copied()
    }

    /// The id of a value of a key, made on first use.
    pub fn value(&mut self, key: KeyId, text: &str) -> ValueId {
        let key = &mut self.keys[key.at()];
        if let Some(id) = key.value_ids.get(text) {
            return *id;
        }
        let id = ValueId::new(key.values.len());
        key.values.push(Value { text: text.into(), integer: atoi(text) });
        key.value_ids.insert(text.into(), id);
        id
    }

    /// The id of a value that was seen before on this key.
    pub fn known_value(&self, key: KeyId, text: &str) -> Option<ValueId> {
        self.keys[key.at()].value_ids.get(text).copied()
    }

    /// A key's text.
    pub fn key_text(&self, key: KeyId) -> &str {
        &self.keys[key.at()].name
    }

    /// A value's text.
    pub fn value_text(&self, key: KeyId, value: ValueId) -> &str {
        &self.keys[key.at()].values[value.at()].text
    }

    /// The integer a value spells, if it spells one.
    pub fn value_integer(&self, key: KeyId, value: ValueId) -> Option<i64> {
        self.keys[key.at()].values[value.at()].integer
    }

    /// How many values of a key are known.
    pub fn value_count(&self, key: KeyId) -> usize {
        self.keys[key.at()].values.len()
    }

    /// How many keys are known.
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// The lane of a resource, made on first use.
    pub fn lane(&mut self, resource: &str) -> usize {
        if let Some(lane) = self.lane_ids.get(resource) {
            return *lane;
        }
        let lane = self.lanes.len();
        self.lanes.push(resource.into());
        self.lane_ids.insert(resource.into(), lane);
        lane
    }

    /// The lane of a resource that some pod or limit names.
    pub fn known_lane(&self, resource: &str) -> Option<usize> {
        self.lane_ids.get(resource).copied()
    }

    /// A lane's resource name.
    pub fn lane_text(&self, lane: usize) -> &str {
        &self.lanes[lane]
    }

    /// How many lanes there are.
    pub fn lane_count(&self) -> usize {
        self.lanes.len()
    }
}

/// Reads an integer as Go's `strconv.Atoi` does: an optional sign, decimal digits, nothing else, within 64 bits.
pub fn atoi(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_go_reads_them() {
        for (text, expected) in [
            ("5", Some(5)),
            ("05", Some(5)),
            ("+5", Some(5)),
            ("-1", Some(-1)),
            ("", None),
            ("+", None),
            ("1_0", None),
        ] {
            assert_eq!(atoi(text), expected, "{text:?}");
        }
        assert_eq!(atoi("9223372036854775808"), None);
    }

    #[test]
    fn values_are_dense_per_key() {
        let mut names = Names::default();
        let (a, b) = (names.key("a"), names.key("b"));
        assert_eq!(names.value(a, "x"), ValueId(0));
        assert_eq!(names.value(b, "y"), ValueId(0));
        assert_eq!(names.value(a, "x"), ValueId(0));
        assert_eq!(names.value_text(b, ValueId(0)), "y");
        assert_eq!(names.known_value(a, "y"), None);
    }
}
