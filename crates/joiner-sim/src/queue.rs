//! The order of work: by moment, then by how urgent its owner is, then by who asked first.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::object::Key;

/// Which controller, by its place in the list. Those in front come first at the same moment.
pub(crate) type Owner = usize;

/// Keys that wait to be looked at, each at most once per controller.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    order: BTreeMap<(Timestamp, Owner, u64), Key>,
    waiting: BTreeMap<(Owner, Key), (Timestamp, u64)>,
    sequence: u64,
}

impl Queue {
    /// Asks for a look at `time`; an earlier one that was asked for before stays.
    pub fn add(&mut self, owner: Owner, key: Key, time: Timestamp) {
        if let Some((earlier, sequence)) = self.waiting.get(&(owner, key.clone())).copied() {
            if earlier <= time {
                return;
            }
            self.order.remove(&(earlier, owner, sequence));
        }
        self.sequence += 1;
        self.order.insert((time, owner, self.sequence), key.clone());
        self.waiting.insert((owner, key), (time, self.sequence));
    }

    /// The moment of the next look.
    pub fn next_at(&self) -> Option<Timestamp> {
        self.order.first_key_value().map(|((time, ..), _)| *time)
    }

    /// Takes the next look.
    pub fn pop(&mut self) -> Option<(Timestamp, Owner, Key)> {
        let ((time, owner, _), key) = self.order.pop_first()?;
        self.waiting.remove(&(owner, key.clone()));
        Some((time, owner, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Kind;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn moments_then_owners_then_who_came_first() {
        let mut queue = Queue::default();
        let key = |name: &str| Key::new(Kind::Pod, "a", name);
        queue.add(1, key("x"), at(5));
        queue.add(0, key("z"), at(5));
        queue.add(0, key("y"), at(5));
        queue.add(1, key("w"), at(4));
        queue.add(1, key("x"), at(9));
        queue.add(0, key("y"), at(3));
        let mut taken = Vec::new();
        while let Some((time, owner, key)) = queue.pop() {
            taken.push((time.as_second(), owner, key.name.to_string()));
        }
        let expected = [(3, 0, "y"), (4, 1, "w"), (5, 0, "z"), (5, 1, "x")];
        assert_eq!(taken, expected.map(|(time, owner, name)| (time, owner, name.to_owned())));
    }
}
