//! Small tools for JSON: the patch between two states, conditions, moments, hashes and seeded chance.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Letters and digits of generated names: no vowels, nothing that looks like another.
const SAFE: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The merge patch that turns `old` into `new`, nothing when they are equal.
pub fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Some(before), Some(after)) = (old.as_object(), new.as_object()) else { return Some(new.clone()) };
    let mut patch = Map::new();
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in after {
        match before.get(key) {
            Some(old) => {
                if let Some(difference) = merge_patch(old, value) {
                    patch.insert(key.clone(), difference);
                }
            }
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    Some(Value::Object(patch))
}

/// A moment as Kubernetes writes it.
pub fn moment(time: Timestamp) -> Value {
    joiner_apiserver::clock::format_time(time).into()
}

/// Puts a condition into a list; the time of the last change of status stays when the status does. Says whether anything changed.
pub fn set_condition(conditions: &mut Vec<Value>, mut condition: Value, now: Timestamp) -> bool {
    let present = conditions.iter().position(|known| known["type"] == condition["type"]);
    let Some(present) = present else {
        condition["lastTransitionTime"] = moment(now);
        conditions.push(condition);
        return true;
    };
    let old = &conditions[present];
    condition["lastTransitionTime"] = match old["status"] == condition["status"] {
        true => old["lastTransitionTime"].clone(),
        false => moment(now),
    };
    if *old == condition {
        return false;
    }
    conditions[present] = condition;
    true
}

/// Inserts a number unless it is zero, as fields that are left out when empty are written.
pub fn put_nonzero(map: &mut Map<String, Value>, key: &str, number: i64) {
    if number != 0 {
        map.insert(key.to_owned(), number.into());
    }
}

/// A number or a share of `total`, as in `maxSurge`: `3` or `"25%"`.
pub fn share(value: &Value, total: i64, round_up: bool) -> i64 {
    if let Some(number) = value.as_i64() {
        return number;
    }
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')).and_then(|text| text.parse().ok());
    let product = percent.unwrap_or(0_i64).saturating_mul(total);
    if round_up { product.div_euclid(100) + i64::from(product.rem_euclid(100) != 0) } else { product / 100 }
}

/// A number that depends on nothing but its arguments, evenly spread.
pub fn chance(seed: u64, subject: &str, purpose: &str, turn: u64) -> u64 {
    let mut bytes = Vec::with_capacity(subject.len() + purpose.len() + 9);
    bytes.extend(subject.as_bytes());
    bytes.push(0);
    bytes.extend(purpose.as_bytes());
    bytes.extend(turn.to_le_bytes());
    xxh3_64_with_seed(&bytes, seed)
}

/// `length` characters of the safe alphabet from a number.
pub fn safe_text(mut number: u64, length: usize) -> String {
    let base = SAFE.len() as u64;
    (0..length)
        .map(|_| {
            let letter = SAFE[usize::try_from(number % base).unwrap_or(0)];
            number /= base;
            char::from(letter)
        })
        .collect()
}

/// Ten characters that stand for a pod template.
pub fn template_hash(template: &Value, collisions: i64) -> String {
    let text = json!([template, collisions]).to_string();
    safe_text(xxh3_64_with_seed(text.as_bytes(), 0), 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_patch_holds_the_difference_only() {
        let old = json!({"a": 1, "b": {"c": 1, "d": 2}, "e": [1], "f": 1});
        let new = json!({"a": 1, "b": {"c": 3}, "e": [1, 2], "g": {"h": 1}});
        let expected = json!({"b": {"c": 3, "d": null}, "e": [1, 2], "f": null, "g": {"h": 1}});
        assert_eq!(merge_patch(&old, &new), Some(expected));
        assert_eq!(merge_patch(&old, &old.clone()), None);
    }

    #[test]
    fn shares_round_as_they_are_told() {
        assert_eq!(share(&json!("25%"), 10, true), 3);
        assert_eq!(share(&json!("25%"), 10, false), 2);
        assert_eq!(share(&json!(4), 10, false), 4);
        assert_eq!(share(&json!("100%"), 7, true), 7);
        assert_eq!(share(&Value::Null, 7, true), 0);
    }

    #[test]
    fn hashes_are_stable() {
        let template = json!({"metadata": {"labels": {"app": "web"}}});
        assert_eq!(template_hash(&template, 0), template_hash(&template.clone(), 0));
        assert_ne!(template_hash(&template, 0), template_hash(&template, 1));
        assert_eq!(template_hash(&template, 0).len(), 10);
        assert_ne!(chance(1, "a", "b", 0), chance(2, "a", "b", 0));
    }

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let mut list = Vec::new();
        let (one, two) = (Timestamp::from_second(1).unwrap(), Timestamp::from_second(2).unwrap());
        assert!(set_condition(&mut list, json!({"type": "Ready", "status": "True"}), one));
        assert!(!set_condition(&mut list, json!({"type": "Ready", "status": "True"}), two));
        assert!(set_condition(&mut list, json!({"type": "Ready", "status": "True", "reason": "x"}), two));
        assert_eq!(list[0]["lastTransitionTime"], "1970-01-01T00:00:01Z");
        assert!(set_condition(&mut list, json!({"type": "Ready", "status": "False"}), two));
        assert_eq!(list[0]["lastTransitionTime"], "1970-01-01T00:00:02Z");
    }
}
