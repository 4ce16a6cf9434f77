//! Amounts of resources, as limit ranges and quotas add them up and compare them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::fields::{quantity_from_nanos, quantity_nanos};

/// A quantity, and how it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub nanos: i128,
    binary: bool,
}

impl Amount {
    /// So many whole ones.
    pub fn count(count: i128) -> Self {
        Self { nanos: count.saturating_mul(1_000_000_000), binary: false }
    }

    pub fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self { nanos: quantity_nanos(text)?, binary: text.ends_with('i') }),
            Value::Number(number) => {
                Some(Self { nanos: quantity_nanos(&number.to_string())?, binary: false })
            }
            _ => None,
        }
    }

    /// In thousandths, the next one up.
    pub fn milli(self) -> i128 {
        -(-self.nanos).div_euclid(1_000_000)
    }

    pub fn written(self) -> String {
        quantity_from_nanos(self.nanos, self.binary)
    }

    /// A sum is written as its first part that is not zero.
    pub fn plus(self, other: Self) -> Self {
        let binary = if self.nanos == 0 { other.binary } else { self.binary };
        Self { nanos: self.nanos.saturating_add(other.nanos), binary }
    }

    pub fn minus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos), binary: self.binary }
    }
}

/// Amounts by name of the resource.
pub(super) type Amounts = BTreeMap<String, Amount>;

/// Reads a map of quantities. What is none counts as absent: fields are checked elsewhere.
pub(super) fn read(map: Option<&Value>) -> Amounts {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), Amount::read(value)?))).collect()
}

pub(super) fn written(amounts: &Amounts) -> Value {
    amounts.iter().map(|(name, amount)| (name.clone(), Value::from(amount.written()))).collect()
}

/// Adds to a sum.
pub(super) fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = sum.entry(name.clone()).or_default();
        *sum = sum.plus(*amount);
    }
}

fn raise(most: &mut Amounts, others: &Amounts) {
    for (name, amount) in others {
        let most = most.entry(name.clone()).or_insert(*amount);
        if amount.nanos > most.nanos {
            *most = *amount;
        }
    }
}

/// The containers of a list in the spec of a pod.
pub(super) fn containers<'p>(pod: &'p Value, list: &str) -> impl Iterator<Item = &'p Value> {
    pod.get("spec").and_then(|spec| spec.get(list)?.as_array()).into_iter().flatten()
}

/// What all of a pod requests, or what it is limited to (`side`): what runs together is added up, what runs before others counts where it
/// is more. What the pod says as a whole goes before that.
pub(super) fn of_pod(pod: &Value, side: &str) -> Amounts {
    let own = |container: &Value| read(container.get("resources").and_then(|resources| resources.get(side)));
    let mut sum = Amounts::new();
    for container in containers(pod, "containers") {
        add(&mut sum, &own(container));
    }
    let (mut sidecars, mut most) = (Amounts::new(), Amounts::new());
    for container in containers(pod, "initContainers") {
        let mut running = own(container);
        if container.get("restartPolicy").is_some_and(|policy| policy == "Always") {
            add(&mut sum, &running);
            add(&mut sidecars, &running);
            running = sidecars.clone();
        } else {
            add(&mut running, &sidecars);
        }
        raise(&mut most, &running);
    }
    raise(&mut sum, &most);
    let whole = read(pod.pointer("/spec/resources").and_then(|resources| resources.get(side)));
    sum.extend(whole.into_iter().filter(|(name, _)| name == "cpu" || name == "memory"));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sums_keep_the_way_of_writing() {
        let mut sum = read(Some(&json!({"cpu": "0", "memory": "512Mi"})));
        add(&mut sum, &read(Some(&json!({"cpu": "1500m", "memory": "512Mi", "pods": 1}))));
        assert_eq!(written(&sum), json!({"cpu": "1500m", "memory": "1Gi", "pods": "1"}));
    }

    #[test]
    fn init_containers_run_one_by_one_and_sidecars_beside_all() {
        let one = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let mut sidecar = one("300m");
        sidecar["restartPolicy"] = json!("Always");
        let pod = json!({"spec": {"containers": [one("100m"), one("100m")], "initContainers": [one("400m"), sidecar, one("700m")]}});
        assert_eq!(written(&of_pod(&pod, "requests")), json!({"cpu": "1"}));
        assert_eq!(written(&of_pod(&pod, "limits")), json!({}));
    }

    #[test]
    fn thousandths_are_rounded_up() {
        let milli = |text: &str| Amount::read(&json!(text)).unwrap().milli();
        assert_eq!((milli("1u"), milli("100m"), milli("-1"), milli("0")), (1, 100, -1000, 0));
    }
}
