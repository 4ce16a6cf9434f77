//! What is to be reconciled, and when: each key once, at its earliest due time, in the order of time and then of asking.

use std::collections::BTreeMap;
use std::fmt;

use joiner_provider::Monotonic;

/// Something to reconcile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A claim, by name.
    Claim(String),
    /// A node, by name.
    Node(String),
    /// A pool, by name.
    Pool(String),
    /// A pool of a fixed size and its machines, by name.
    StaticPool(String),
    /// Pods without a place.
    Provision,
    /// Pods whose planned places others may have taken.
    Displaced,
    /// Nodes that may go.
    Disruption,
    /// Instances and claims that lost each other.
    Collect,
    /// Node groups: their targets and members.
    NodeGroups,
    /// A machine by its provider id: one of which nobody knows whether it is still there, or one that leaves its group.
    Machine(String),
    /// Machines that the provider does not know of yet.
    Adoption,
    /// An event to write, by its own name.
    Event(String),
    /// The record of decisions to write.
    Record,
}

impl Key {
    /// The controller of the original that does the same, as metrics name it.
    pub fn controller(&self) -> &'static str {
        match self {
            Self::Claim(_) => "nodeclaim.lifecycle",
            Self::Node(_) => "node.termination",
            Self::Pool(_) => "nodepool.counter",
            Self::StaticPool(_) => "static.provisioning",
            Self::Provision | Self::Displaced => "provisioner",
            Self::Disruption => "disruption",
            Self::Collect | Self::Machine(_) => "nodeclaim.garbagecollection",
            Self::NodeGroups => "nodegroup",
            Self::Adoption => "nodeclaim.adoption",
            Self::Event(_) => "events",
            Self::Record => "record",
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim(name) => write!(out, "nodeclaim/{name}"),
            Self::Node(name) => write!(out, "node/{name}"),
            Self::Pool(name) => write!(out, "nodepool/{name}"),
            Self::StaticPool(name) => write!(out, "staticpool/{name}"),
            Self::Provision => out.write_str("provisioning"),
            Self::Displaced => out.write_str("displaced pods"),
            Self::Disruption => out.write_str("disruption"),
            Self::Collect => out.write_str("collection"),
            Self::NodeGroups => out.write_str("node groups"),
            Self::Machine(id) => write!(out, "machine/{id}"),
            Self::Adoption => out.write_str("adoption"),
            Self::Event(name) => write!(out, "event/{name}"),
            Self::Record => out.write_str("record"),
        }
    }
}

/// Keys with their due times.
#[derive(Debug, Default)]
pub struct Queue {
    order: BTreeMap<(Monotonic, u64), Key>,
    due: BTreeMap<Key, (Monotonic, u64)>,
    sequence: u64,
}

impl Queue {
    /// Asks for a key to be reconciled; what was to happen earlier stays.
    pub fn add(&mut self, key: Key, due: Monotonic) {
        if let Some(have) = self.due.get(&key) {
            if have.0 <= due {
                return;
            }
            self.order.remove(have);
        }
        self.sequence += 1;
        self.order.insert((due, self.sequence), key.clone());
        self.due.insert(key, (due, self.sequence));
    }

    /// When something is due next.
    pub fn next_due(&self) -> Option<Monotonic> {
        self.order.first_key_value().map(|((due, _), _)| *due)
    }

    /// How many keys of each controller are waiting.
    pub fn by_controller(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for key in self.due.keys() {
            *counts.entry(key.controller()).or_default() += 1;
        }
        counts
    }

    /// How many keys are waiting.
    pub fn len(&self) -> usize {
        self.due.len()
    }

    /// Whether no key is waiting.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// The first key whose time has come.
    pub fn pop(&mut self, now: Monotonic) -> Option<Key> {
        let first = self.order.first_entry().filter(|entry| entry.key().0 <= now)?;
        let key = first.remove();
        self.due.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Monotonic {
        Monotonic::new(std::time::Duration::from_secs(second))
    }

    #[test]
    fn keys_come_by_time_then_by_order_of_asking() {
        let mut queue = Queue::default();
        queue.add(Key::Pool("b".to_owned()), at(5));
        queue.add(Key::Claim("a".to_owned()), at(5));
        queue.add(Key::Provision, at(3));
        assert_eq!(queue.next_due(), Some(at(3)));
        assert_eq!(queue.pop(at(2)), None);
        assert_eq!(queue.pop(at(9)), Some(Key::Provision));
        assert_eq!(queue.pop(at(9)), Some(Key::Pool("b".to_owned())));
        assert_eq!(queue.pop(at(9)), Some(Key::Claim("a".to_owned())));
        assert_eq!((queue.pop(at(9)), queue.next_due()), (None, None));
    }

    #[test]
    fn a_key_is_there_once_at_its_earliest_time() {
        let mut queue = Queue::default();
        queue.add(Key::Provision, at(5));
        queue.add(Key::Provision, at(7));
        queue.add(Key::Provision, at(4));
        assert_eq!(queue.pop(at(4)), Some(Key::Provision));
        assert_eq!(queue.pop(at(99)), None);
    }
}
