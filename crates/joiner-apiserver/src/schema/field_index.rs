//! Finds the field of a struct by its name. Every write does so some hundred times, and large structs have forty fields.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::types::NodeId;

/// A field that a struct lists.
#[derive(Debug)]
pub(super) struct ListedField {
    pub name: String,
    /// The name of the field in sets of owned fields.
    pub element: Arc<str>,
    pub node: NodeId,
}

/// The fields of a struct in a hash table: each has its slot, or one of the next that was free.
#[derive(Debug, Default)]
pub(super) struct FieldIndex {
    fields: Vec<ListedField>,
    /// Numbers of fields, counted from 1; 0 is a free slot. At least half of them are free.
    slots: Vec<u32>,
}

impl FieldIndex {
    pub(super) fn new<'n>(fields: impl Iterator<Item = (&'n String, NodeId)>) -> Self {
        let fields: Vec<ListedField> = fields
            .map(|(name, node)| ListedField { name: name.clone(), element: format!("f:{name}").into(), node })
            .collect();
        let mut slots = vec![0; (fields.len() * 2).next_power_of_two().max(2)];
        for (number, field) in (1..).zip(&fields) {
            let mut place = slot_of(&field.name, slots.len());
            while slots[place] != 0 {
                place = (place + 1) % slots.len();
            }
            slots[place] = number;
        }
        Self { fields, slots }
    }

    pub(super) fn find(&self, name: &str) -> Option<&ListedField> {
        if self.slots.is_empty() {
            return None;
        }
        let mut place = slot_of(name, self.slots.len());
        loop {
            let number = self.slots[place] as usize;
            let field = self.fields.get(number.checked_sub(1)?)?;
            if field.name == name {
                return Some(field);
            }
            place = (place + 1) % self.slots.len();
        }
    }
}

fn slot_of(name: &str, slots: usize) -> usize {
    // Only the lowest bits count, and any will do.
    (xxh3_64(name.as_bytes()) as usize) % slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_found_and_no_other() {
        for count in [0, 1, 2, 3, 40, 200] {
            let names: Vec<String> = (0..count).map(|number| format!("field{number}")).collect();
            let nodes = (0..).map(NodeId);
            let index = FieldIndex::new(names.iter().zip(nodes));
            for (number, name) in (0..).zip(&names) {
                let found = index.find(name).unwrap();
                assert_eq!((found.node, &*found.element), (NodeId(number), format!("f:{name}").as_str()));
            }
            assert!(index.find("other").is_none() && index.find("").is_none());
        }
        assert!(FieldIndex::default().find("a").is_none());
    }
}
