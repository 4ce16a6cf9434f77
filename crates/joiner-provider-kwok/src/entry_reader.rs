//! From the tree of one list entry to the entry: what each key must hold, and what it means.

use std::sync::Arc;

use joiner_api::instance_type::{
    Offering, Operator, PriceSource, Reservation, ResourceList, TypeRequirement,
};
use joiner_api::names::{CAPACITY_TYPE_LABEL, CAPACITY_TYPES, RESERVED, ZONE_LABEL, normalized_key};

use crate::entry::{DEFAULT_PODS, Entry, constant};
use crate::file::Availability;
use crate::labels;
use crate::problem::shown;
use crate::reader::{Field, Path, Reader, join, quoted};
use crate::tally::Tally;
use crate::tree::Tree;

/// End of the offering key whose value names the reservation, whatever the provider.
const RESERVATION_KEY_END: &str = "reservation-id";

/// Reads one entry of a list into an [`Entry`], noting problems and remarks on the way.
pub(crate) struct EntryReader<'a, 'b> {
    pub reader: Reader<'a>,
    pub tally: &'b mut Tally,
    pub availability: Availability,
}

impl EntryReader<'_, '_> {
    /// The entry, unless something about it is wrong; then the problems are noted.
    pub fn entry(&mut self, tree: &Tree) -> Option<Entry> {
        const KEYS: [&str; 6] =
            ["name", "architecture", "operatingSystems", "resources", "offerings", "volumeLimits"];
        let found = self.reader.table("", tree, KEYS)?;
        for (key, field) in KEYS.iter().zip(&found) {
            if field.is_none() && *key != "volumeLimits" {
                self.reader.report(*key, None, "missing; every instance type needs it");
            }
        }
        let [name, architecture, operating_systems, resources, offerings, volume_limits] = found;
        let name = name.and_then(|field| self.reader.word(field.key, field.value));
        let architecture = architecture.and_then(|field| self.reader.word(field.key, field.value));
        let operating_systems = operating_systems.and_then(|field| self.reader.words("", field));
        let resources = resources.and_then(|field| self.capacity(field));
        let offerings =
            offerings.and_then(|field| self.offerings(field, name.as_deref().unwrap_or_default()));
        let volume_limits = match volume_limits {
            Some(field) => self.reader.driver_counts("", field),
            None => Some(Default::default()),
        };
        Some(Entry {
            name: name?,
            architecture: architecture?,
            operating_systems: operating_systems?,
            resources: resources?,
            offerings: offerings?,
            volume_limits: volume_limits?,
        })
    }

    /// The capacity: without CPU or memory nothing ever fits, so their absence is a slip.
    fn capacity(&mut self, field: Field<'_>) -> Option<ResourceList> {
        let mut resources = self.reader.resources("", field)?;
        let mut complete = true;
        for resource in ["cpu", "memory"] {
            let message = match resources.get(resource) {
                None => "missing: no pod would ever fit; give the machine's amount",
                Some(amount) if amount.is_zero() => "zero: no pod would ever fit; give the machine's amount",
                // The amount becomes a label, and there are machines for less.
                Some(amount) if !labels::is_label_value(&amount.to_string()) => {
                    "too large to be written as a label"
                }
                Some(_) => continue,
            };
            self.reader.report(join(field.key, resource), None, message);
            complete = false;
        }
        resources.entry("pods".to_owned()).or_insert_with(|| constant(DEFAULT_PODS));
        complete.then_some(resources)
    }

    fn offerings(&mut self, field: Field<'_>, type_name: &str) -> Option<Vec<Offering>> {
        let items = self.reader.list("", field)?;
        if items.is_empty() {
            self.reader.report(
                field.key,
                None,
                "empty: the type could never be chosen; give at least one offering",
            );
            return None;
        }
        let mut offerings = Vec::with_capacity(items.len());
        let mut complete = true;
        for (index, item) in items.iter().enumerate() {
            match self.offering(format_args!("{}[{index}]", field.key), item, type_name) {
                Some(offering) => self.add_expanded(offering, type_name, &mut offerings),
                None => complete = false,
            }
        }
        complete.then_some(offerings)
    }

    fn offering(&mut self, path: impl Path, tree: &Tree, type_name: &str) -> Option<Offering> {
        const KEYS: [&str; 7] = [
            "Price",
            "Available",
            "Requirements",
            "ReservationCapacity",
            "capacityType",
            "zone",
            "capacityOverride",
        ];
        let problems_before = self.reader.problems.len();
        let [price, available, requirements, reservation_capacity, capacity_type, zone, capacity_override] =
            self.reader.table(path, tree, KEYS)?;
        let price = match price {
            Some(field) => self.reader.price(path, field),
            None => {
                self.reader.report(join(path, "Price"), None, "missing; give the price per hour");
                None
            }
        };
        let available = available.is_none_or(|field| self.reader.truth(path, field).unwrap_or(true));
        let mut requirements = match requirements {
            Some(field) => self.requirements(path, field),
            None => Vec::new(),
        };
        let is_flat = capacity_type.is_some() || zone.is_some();
        for (key, field) in [(CAPACITY_TYPE_LABEL, capacity_type), (ZONE_LABEL, zone)] {
            if let Some(field) = field {
                self.lift(path, field, key, &mut requirements);
            }
        }
        let reservation_capacity = reservation_capacity.and_then(|field| self.reader.count(path, field));
        let capacity_override = capacity_override
            .map_or_else(ResourceList::new, |field| self.reader.resources(path, field).unwrap_or_default());
        if self.reader.problems.len() > problems_before {
            return None;
        }

        let names = |key: &str| requirements.iter().any(|requirement| requirement.key == key);
        let is_reserved = requirements.iter().any(|requirement| {
            requirement.key == CAPACITY_TYPE_LABEL && requirement.values.iter().any(|value| value == RESERVED)
        });
        for (count, applies) in [
            (&mut self.tally.flat, is_flat),
            (&mut self.tally.unavailable, !available),
            (&mut self.tally.without_zone, !names(ZONE_LABEL)),
            (&mut self.tally.without_capacity_type, !names(CAPACITY_TYPE_LABEL)),
            (
                &mut self.tally.reserved_without_capacity,
                is_reserved && reservation_capacity.unwrap_or(0) == 0,
            ),
            (&mut self.tally.reservation_ignored, !is_reserved && reservation_capacity.unwrap_or(0) > 0),
            (&mut self.tally.free, price == Some(0.0)),
        ] {
            if applies {
                count.add(type_name);
            }
        }
        let reservation = is_reserved.then(|| Reservation {
            id: reservation_id(&requirements, type_name),
            capacity: reservation_capacity.unwrap_or(0),
        });
        let available = available || self.availability == Availability::Always;
        Some(Offering {
            requirements: requirements.into(),
            price: price?,
            available,
            reservation,
            capacity_override,
            price_source: PriceSource::default(),
        })
    }

    /// Turns a flat `zone` or `capacityType` into the requirement it stands for.
    fn lift(
        &mut self,
        path: impl Path,
        field: Field<'_>,
        key: &str,
        requirements: &mut Vec<TypeRequirement>,
    ) {
        let place = join(path, field.key);
        let Some(value) = self.reader.word(place, field.value) else { return };
        if requirements.iter().any(|requirement| requirement.key == key) {
            let message = format!("`Requirements` names `{key}` as well; keep one of the two");
            self.reader.report(place, Some(field.value), message);
            return;
        }
        let requirement = TypeRequirement::one_of(key, [value]);
        self.check_requirement(place, &requirement);
        requirements.push(requirement);
    }

    fn requirements(&mut self, path: impl Path, field: Field<'_>) -> Vec<TypeRequirement> {
        let items = self.reader.list(path, field).unwrap_or_default();
        let mut requirements: Vec<TypeRequirement> = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let place = format_args!("{path}.{}[{index}]", field.key);
            let Some(requirement) = self.requirement(place, item) else { continue };
            if requirements.iter().any(|earlier| earlier.key == requirement.key) {
                let message = format!("`{}` is required twice in one offering; keep one", requirement.key);
                self.reader.report(place, None, message);
            } else {
                self.check_requirement(place, &requirement);
                requirements.push(requirement);
            }
        }
        requirements
    }

    fn requirement(&mut self, path: impl Path, tree: &Tree) -> Option<TypeRequirement> {
        const KEYS: [&str; 3] = ["key", "operator", "values"];
        let [key, operator, values] = self.reader.table(path, tree, KEYS)?;
        for (name, field) in KEYS.iter().zip([key, operator]) {
            if field.is_none() {
                self.reader.report(join(path, name), None, "missing; every requirement needs it");
            }
        }
        let (key, operator) = (key?, operator?);
        let parsed_key = match key.value {
            Tree::Text(text) if labels::is_label_key(text) => Some(normalized_key(text).to_owned()),
            other => {
                self.reader.report(join(path, key.key), Some(other), "not a label key");
                None
            }
        };
        let parsed_operator = match operator.value {
            Tree::Text(text) => Operator::parse(text),
            _ => None,
        };
        if parsed_operator.is_none() {
            let known = quoted(&Operator::ALL.map(Operator::as_str));
            let message = format!("unknown operator; use one of {known}");
            self.reader.report(join(path, operator.key), Some(operator.value), message);
        }
        let values = match values {
            // An empty list is what some writers put beside `Exists`; the operator decides whether it is allowed.
            Some(field) if *field.value == Tree::List(Vec::new()) => Some(Vec::new()),
            Some(field) => self.reader.words(path, field),
            None => Some(Vec::new()),
        };
        Some(TypeRequirement { key: parsed_key?, operator: parsed_operator?, values: values? })
    }

    /// Operator and values must fit each other; zone and capacity type must be named outright.
    fn check_requirement(&mut self, path: impl Path, requirement: &TypeRequirement) {
        let values = &requirement.values;
        let is_number = |value: &String| value.parse::<u64>().is_ok();
        let message = match requirement.operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                format!("operator `{}` needs at least one value", requirement.operator)
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                format!("operator `{}` takes no values", requirement.operator)
            }
            Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte
                if values.len() != 1 || !values.iter().all(is_number) =>
            {
                format!("operator `{}` needs exactly one value, a whole number from 0", requirement.operator)
            }
            operator
                if operator != Operator::In
                    && [ZONE_LABEL, CAPACITY_TYPE_LABEL].contains(&requirement.key.as_str()) =>
            {
                format!("an offering must name its `{}` with operator `In`", requirement.key)
            }
            _ if requirement.key == CAPACITY_TYPE_LABEL => {
                match values.iter().find(|value| !CAPACITY_TYPES.contains(&value.as_str())) {
                    Some(unknown) => {
                        format!(
                            "unknown capacity type `{}`; use one of {}",
                            shown(unknown),
                            quoted(&CAPACITY_TYPES)
                        )
                    }
                    None => return,
                }
            }
            _ => return,
        };
        self.reader.report(path, None, message);
    }

    /// Adds an offering; one that names several zones or capacity types becomes one for each combination, since a
    /// machine is in one zone and paid for in one way.
    fn add_expanded(&mut self, offering: Offering, type_name: &str, offerings: &mut Vec<Offering>) {
        let is_wide = |requirement: &TypeRequirement| {
            requirement.values.len() > 1
                && [ZONE_LABEL, CAPACITY_TYPE_LABEL].contains(&requirement.key.as_str())
        };
        if !offering.requirements.iter().any(is_wide) {
            offerings.push(offering);
            return;
        }
        self.tally.expanded.add(type_name);
        let mut pending = vec![offering];
        while let Some(wide) = pending.pop() {
            let Some(position) = wide.requirements.iter().position(is_wide) else {
                offerings.push(narrowed(wide, type_name));
                continue;
            };
            // Last value first: the stack gives them back in the order of the file.
            for value in wide.requirements[position].values.iter().rev() {
                let mut narrow = wide.clone();
                Arc::make_mut(&mut narrow.requirements)[position].values = vec![value.clone()];
                pending.push(narrow);
            }
        }
    }
}

/// Settles what depended on values that expansion has fixed since.
fn narrowed(mut offering: Offering, type_name: &str) -> Offering {
    let reservation = offering.reservation.take();
    if offering.capacity_type() == Some(RESERVED) {
        let id = reservation_id(&offering.requirements, type_name);
        offering.reservation = reservation.map(|of| Reservation { id, ..of });
    }
    offering
}

/// The reservation an offering names, or else one of its own for the type and zone.
fn reservation_id(requirements: &[TypeRequirement], type_name: &str) -> String {
    let named = requirements.iter().find(|requirement| requirement.key.ends_with(RESERVATION_KEY_END));
    if let Some(id) = named.and_then(TypeRequirement::single_value) {
        return id.to_owned();
    }
    let zone = requirements.iter().find(|requirement| requirement.key == ZONE_LABEL);
    match zone.and_then(TypeRequirement::single_value) {
        Some(zone) => format!("{type_name}/{zone}"),
        None => type_name.to_owned(),
    }
}
