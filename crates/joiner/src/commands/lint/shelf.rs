//! The catalogues, ready for the question every rule asks: which offerings does this requirement leave?
//!
//! For each label key the offerings fall into a few groups that say the same about it; a requirement is held against the groups,
//! not against thousands of offerings.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use joiner_api::instance_type::{InstanceType, Operator, TypeRequirement};
use joiner_api::names;
use joiner_core::model::{KeyId, Names, Operator as CoreOperator, Requirement};
use joiner_provider_kwok::Catalogue;

/// Which offerings are left, by number.
pub type Offers = Vec<bool>;

/// A requirement on one label, with its key under its stable name.
#[derive(Debug, Clone)]
pub struct Clause {
    /// The field it stands in.
    pub path: String,
    /// The key as written.
    pub written_key: String,
    /// The key.
    pub key: KeyId,
    /// What it allows.
    pub requirement: Requirement,
    /// The values as written.
    pub values: Vec<String>,
    /// The operator as written.
    pub operator: String,
}

impl Clause {
    /// The clause as people write it: `key In [a b]`.
    pub fn text(&self) -> String {
        let values = match self.values.as_slice() {
            [] => String::new(),
            values => {
                let shown = values.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(" ");
                let more = values.len().saturating_sub(5);
                if more > 0 { format!(" [{shown} and {more} others]") } else { format!(" [{shown}]") }
            }
        };
        format!("{} {}{values}", self.written_key, self.operator)
    }

    /// Whether the clause lists the values it wants.
    pub fn lists_values(&self) -> bool {
        self.operator == "In"
    }
}

/// What offerings say about one key.
#[derive(Debug)]
struct Column {
    views: Vec<View>,
    /// By offering.
    view_of: Vec<u32>,
}

/// What a type and its offering say about a key.
#[derive(Debug)]
struct View {
    of_type: Option<Requirement>,
    own: Option<Requirement>,
}

impl View {
    fn overlaps(&self, wanted: &Requirement, names: &Names, key: KeyId) -> bool {
        [&self.of_type, &self.own]
            .into_iter()
            .flatten()
            .all(|said| !said.intersect(wanted, names, key).is_empty())
    }

    /// The offering's own word first, else its type's.
    fn word(&self) -> Option<&Requirement> {
        self.own.as_ref().or(self.of_type.as_ref())
    }
}

/// Instance types and their offerings.
#[derive(Debug)]
pub struct Shelf {
    /// Label keys and values.
    pub names: Names,
    /// The types.
    pub types: Vec<InstanceType>,
    /// By offering: its type.
    pub type_of: Vec<usize>,
    /// There may be types and zones that this list does not know.
    pub is_incomplete: bool,
    columns: BTreeMap<KeyId, Column>,
    well_known: BTreeSet<String>,
    /// By catalogue: its offerings.
    parts: Vec<Range<usize>>,
}

impl Shelf {
    /// Over the types of these catalogues, one after the other.
    pub fn new<'c>(catalogues: impl Iterator<Item = &'c Catalogue>, is_incomplete: bool) -> Self {
        let (mut types, mut well_known, mut parts, mut end) = (Vec::new(), BTreeSet::new(), Vec::new(), 0);
        for catalogue in catalogues {
            types.extend(catalogue.types.iter().cloned());
            well_known.extend(catalogue.well_known.iter().cloned());
            let start = end;
            end += catalogue.types.iter().map(|of| of.offerings.len()).sum::<usize>();
            parts.push(start..end);
        }
        let mut shelf = Self {
            names: Names::default(),
            type_of: types
                .iter()
                .enumerate()
                .flat_map(|(at, of): (usize, &InstanceType)| of.offerings.iter().map(move |_| at))
                .collect(),
            types,
            is_incomplete,
            columns: BTreeMap::new(),
            well_known,
            parts,
        };
        let mut keys: BTreeSet<&str> = BTreeSet::new();
        for of in &shelf.types {
            let own = of.offerings.iter().flat_map(|offering| offering.requirements.iter());
            keys.extend(of.requirements.iter().chain(own).map(|requirement| requirement.key.as_str()));
        }
        for key in keys {
            let id = shelf.names.key(stable_key(key));
            let column = column(&shelf.types, key, id, &mut shelf.names);
            shelf.columns.insert(id, column);
        }
        shelf
    }

    /// Reads a requirement on a label.
    pub fn clause(&mut self, path: String, key: &str, operator: &str, values: &[String]) -> Clause {
        let id = self.names.key(stable_key(key));
        let texts: Vec<&str> = values.iter().map(String::as_str).collect();
        let requirement = match CoreOperator::parse(operator) {
            Some(operator) => Requirement::from_expression(&mut self.names, id, operator, &texts),
            None => Requirement::nothing(),
        };
        Clause {
            path,
            written_key: key.to_owned(),
            key: id,
            requirement,
            values: values.to_vec(),
            operator: operator.to_owned(),
        }
    }

    /// All offerings.
    pub fn all(&self) -> Offers {
        vec![true; self.type_of.len()]
    }

    /// The offerings a requirement leaves.
    pub fn leaves(&self, key: KeyId, requirement: &Requirement) -> Offers {
        let Some(column) = self.columns.get(&key) else { return self.all() };
        let fits: Vec<bool> =
            column.views.iter().map(|view| view.overlaps(requirement, &self.names, key)).collect();
        column.view_of.iter().map(|view| fits[*view as usize]).collect()
    }

    /// The offerings of one catalogue, by its number.
    pub fn part(&self, number: Option<usize>) -> Offers {
        let mut offers = vec![false; self.type_of.len()];
        let part = number.and_then(|number| self.parts.get(number)).cloned().unwrap_or_default();
        if let Some(part) = offers.get_mut(part) {
            part.fill(true);
        }
        offers
    }

    /// Takes out of a set what a requirement does not leave.
    pub fn narrow(&self, offers: &mut Offers, key: KeyId, requirement: &Requirement) {
        and_into(offers, &self.leaves(key, requirement));
    }

    /// The values of a key that some offerings give, sorted; whole numbers by size.
    pub fn values(&self, key: KeyId, offers: Option<&Offers>) -> Vec<&str> {
        let Some(column) = self.columns.get(&key) else { return Vec::new() };
        let mut asked = vec![offers.is_none(); column.views.len()];
        for (at, view) in column.view_of.iter().enumerate() {
            if offers.is_some_and(|offers| offers[at]) {
                asked[*view as usize] = true;
            }
        }
        let views = column.views.iter().zip(asked).filter(|(_, asked)| *asked);
        let words = views.filter_map(|(view, _)| view.word()).filter(|word| !word.complement);
        let values: BTreeSet<&str> =
            words.flat_map(|word| &word.values).map(|value| self.names.value_text(key, *value)).collect();
        let mut values: Vec<&str> = values.into_iter().collect();
        values.sort_by_key(|text| (text.parse::<i64>().ok(), *text));
        values
    }

    /// How many values within a requirement some offerings give a key.
    pub fn count_values(&self, key: KeyId, requirement: &Requirement, offers: &Offers) -> usize {
        let values = self.values(key, Some(offers));
        values.into_iter().filter(|value| requirement.allows_text(&self.names, key, value)).count()
    }

    /// Whether some of these offerings say anything about a key.
    pub fn speaks_of(&self, key: KeyId, offers: &Offers) -> bool {
        let Some(column) = self.columns.get(&key) else { return false };
        let says: Vec<bool> = column.views.iter().map(|view| view.word().is_some()).collect();
        column.view_of.iter().zip(offers).any(|(view, asked)| *asked && says[*view as usize])
    }

    /// Whether a template that does not define the key leaves it open.
    pub fn is_well_known(&self, key: KeyId) -> bool {
        let text = self.names.key_text(key);
        names::is_well_known(text, &self.well_known)
            || names::KWOK_WELL_KNOWN_LABELS.contains(&text)
            || names::AWS_WELL_KNOWN_LABELS.contains(&text)
    }

    /// Whether pods and pools are kept from naming a key.
    pub fn is_restricted(&self, key: KeyId) -> bool {
        names::restriction(self.names.key_text(key), &self.well_known).is_some()
    }

    /// The types some offerings belong to.
    pub fn types_in<'s>(&'s self, offers: &Offers) -> Vec<&'s InstanceType> {
        let chosen: BTreeSet<usize> =
            self.type_of.iter().zip(offers).filter(|(_, left)| **left).map(|(at, _)| *at).collect();
        chosen.into_iter().map(|at| &self.types[at]).collect()
    }
}

/// Whether nothing is left.
pub fn is_empty(offers: &Offers) -> bool {
    !offers.iter().any(|left| *left)
}

/// Keeps what both have.
pub fn and_into(offers: &mut Offers, other: &Offers) {
    for (left, also) in offers.iter_mut().zip(other) {
        *left &= *also;
    }
}

/// The stable name of a label key.
pub fn stable_key(key: &str) -> &str {
    let key = names::normalized_key(key);
    names::paper_alias(key).unwrap_or(key)
}

fn column(types: &[InstanceType], key: &str, id: KeyId, names: &mut Names) -> Column {
    type Said<'t> = Option<(Operator, &'t [String])>;
    let mut known: BTreeMap<(Said, Said), u32> = BTreeMap::new();
    let mut column = Column { views: Vec::new(), view_of: Vec::new() };
    for of in types {
        let of_type = of.requirements.iter().find(|requirement| requirement.key == key);
        for offering in &of.offerings {
            let own = offering.requirements.iter().find(|requirement| requirement.key == key);
            let view_key: (Said, Said) = (
                of_type.map(|r| (r.operator, r.values.as_slice())),
                own.map(|r| (r.operator, r.values.as_slice())),
            );
            let next = column.views.len() as u32;
            let view = *known.entry(view_key).or_insert(next);
            if view == next {
                let mut read = |r: Option<&TypeRequirement>| r.map(|r| read_requirement(r, id, names));
                column.views.push(View { of_type: read(of_type), own: read(own) });
            }
            column.view_of.push(view);
        }
    }
    column
}

fn read_requirement(requirement: &TypeRequirement, key: KeyId, names: &mut Names) -> Requirement {
    let values: Vec<&str> = requirement.values.iter().map(String::as_str).collect();
    match CoreOperator::parse(requirement.operator.as_str()) {
        Some(operator) => Requirement::from_expression(names, key, operator, &values),
        None => Requirement::nothing(),
    }
}
