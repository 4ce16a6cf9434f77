//! The interner: strings are touched when lowering and when rendering, never in between.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};

use super::ids::{KeyId, ValueId};
use super::intern::Interner;

/// Label keys with their known values, and resource names with their lanes.
#[derive(Debug, Clone)]
pub struct Names {
    keys: Interner<Box<str>>,
    /// By key.
    values: Vec<Interner<Value>>,
    lanes: Interner<Box<str>>,
}

#[derive(Debug, Clone)]
struct Value {
    text: Box<str>,
    integer: Option<i64>,
}

/// The text is all there is to a value; the number follows from it.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Borrow<str> for Value {
    fn borrow(&self) -> &str {
        &self.text
    }
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
        let mut names = Names { keys: Interner::default(), values: Vec::new(), lanes: Interner::default() };
        for lane in ["cpu", "memory", "ephemeral-storage", "pods"] {
            names.lane(lane);
        }
        names
    }
}

impl Names {
    /// The id of a label key, made on first use.
    pub fn key(&mut self, name: &str) -> KeyId {
        if let Some(id) = self.keys.find(name) {
            return KeyId(id);
        }
        self.values.push(Interner::default());
        KeyId(self.keys.intern(name.into()))
    }

    /// The id of a label key that was seen before.
    pub fn known_key(&self, name: &str) -> Option<KeyId> {
        self.keys.find(name).map(KeyId)
    }

    /// The id of a value of a key, made on first use.
    pub fn value(&mut self, key: KeyId, text: &str) -> ValueId {
        let values = &mut self.values[key.at()];
        match values.find(text) {
            Some(id) => ValueId(id),
            None => ValueId(values.intern(Value { text: text.into(), integer: atoi(text) })),
        }
    }

    /// The id of a value that was seen before on this key.
    pub fn known_value(&self, key: KeyId, text: &str) -> Option<ValueId> {
        self.values[key.at()].find(text).map(ValueId)
    }

    /// A key's text.
    pub fn key_text(&self, key: KeyId) -> &str {
        self.keys.get(key.0)
    }

    /// A value's text.
    pub fn value_text(&self, key: KeyId, value: ValueId) -> &str {
        &self.values[key.at()].get(value.0).text
    }

    /// The integer a value spells, if it spells one.
    pub fn value_integer(&self, key: KeyId, value: ValueId) -> Option<i64> {
        self.values[key.at()].get(value.0).integer
    }

    /// How many values of a key are known.
    pub fn value_count(&self, key: KeyId) -> usize {
        self.values[key.at()].len()
    }

    /// How many keys are known.
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// The lane of a resource, made on first use.
    pub fn lane(&mut self, resource: &str) -> usize {
        match self.lanes.find(resource) {
            Some(lane) => lane as usize,
            None => self.lanes.intern(resource.into()) as usize,
        }
    }

    /// The lane of a resource that some pod or limit names.
    pub fn known_lane(&self, resource: &str) -> Option<usize> {
        self.lanes.find(resource).map(|lane| lane as usize)
    }

    /// A lane's resource name.
    pub fn lane_text(&self, lane: usize) -> &str {
        self.lanes.get(lane as u32)
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
