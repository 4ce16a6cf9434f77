//! What was written lately stays parsed for a while: whoever patches, binds or deletes an object usually does so soon after another write.
//!
//! Bounded by the length of the texts (parsed, objects take ten times that) and by number. Of one object only the latest state counts.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use super::Object;

/// Texts of so many bytes together.
const MOST_BYTES: usize = 4 << 20;
/// So many states, those included that another has replaced since.
const MOST: usize = 8192;

/// The states written last, the latest at the end.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    states: VecDeque<Arc<Object>>,
    /// Of those that are parsed.
    bytes: usize,
    /// What is not kept any more. To drop an object takes long: whoever holds the store does it after letting go of it.
    pub discarded: Vec<Arc<Value>>,
}

impl Fresh {
    /// A state that is parsed.
    pub fn keep(&mut self, state: Arc<Object>) {
        self.bytes += state.text().len();
        self.states.push_back(state);
        while self.bytes > MOST_BYTES || self.states.len() > MOST {
            let Some(oldest) = self.states.pop_front() else { break };
            self.forget(&oldest);
        }
    }

    /// A state that is no longer the latest.
    pub fn forget(&mut self, state: &Object) {
        if let Some(value) = state.cool() {
            self.bytes -= state.text().len();
            self.discarded.push(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ResourceName, Store};
    use super::*;
    use serde_json::json;

    #[test]
    fn only_the_latest_states_stay_parsed() {
        let store = Store::new(10);
        let maps = ResourceName::new("", "configmaps");
        let put = |name: &str, length: usize| {
            let value = json!({"metadata": {"name": name}, "data": {"text": "x".repeat(length)}});
            store.open().put(&maps, "a", name, value).object().clone()
        };
        let first = put("one", 10);
        assert!(first.fresh().is_some());
        let second = put("one", 11);
        assert!(first.fresh().is_none() && second.fresh().is_some());
        assert_eq!(store.open().inner.fresh.bytes, second.text().len());
        let quarter: Vec<_> = (0..4).map(|number| put(&format!("large-{number}"), MOST_BYTES / 4)).collect();
        assert!(second.fresh().is_none() && quarter[0].fresh().is_none());
        assert!(quarter[1..].iter().all(|state| state.fresh().is_some()));
        store.open().remove(&maps, "a", "large-3");
        assert!(quarter[3].fresh().is_none());
        let whole = put("whole", MOST_BYTES);
        assert!(whole.fresh().is_none() && quarter[2].fresh().is_none());
        assert_eq!(store.open().inner.fresh.bytes, 0);
        for number in 0..2 * MOST {
            put("often", number % 7);
        }
        assert_eq!(store.open().inner.fresh.states.len(), MOST);
    }
}
