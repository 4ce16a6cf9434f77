//! Fields that a kind does not have.

use joiner_core::explain::distance;
use serde_json::{Value, json};

use crate::field_names::FIELD_NAMES;
use crate::typed::{join, value_at};
use crate::{Fault, name_of};

/// Reads a value as its kind and writes it again; nothing if it can't be read.
type WriteBack<'a> = &'a dyn Fn(&Value) -> Option<Value>;

/// The first field of `given` that its kind does not have; `kept` is what came back of it.
pub fn first_unknown(given: &Value, kept: &Value, write_back: WriteBack) -> Option<Fault> {
    let search = Search { whole: given, write_back };
    let place = search.first_lost(given, kept, &Place::default())?;
    let name = match search.neighbour(&place) {
        Some(near) => format!("name (is `{near}` meant?)"),
        None => "name".to_owned(),
    };
    Some(Fault {
        object: name_of(given),
        value: value_at(given, &place.path),
        path: place.path,
        message: "there is no such field".to_owned(),
        remedy: format!("correct its {name} or place"),
        ..Fault::default()
    })
}

/// A place in a value, as messages name it and as a JSON pointer.
#[derive(Default)]
struct Place {
    path: String,
    pointer: String,
}

impl Place {
    fn field(&self, key: &str) -> Self {
        let token = key.replace('~', "~0").replace('/', "~1");
        Self { path: join(&self.path, key), pointer: format!("{}/{token}", self.pointer) }
    }

    fn item(&self, at: usize) -> Self {
        Self { path: format!("{}[{at}]", self.path), pointer: format!("{}/{at}", self.pointer) }
    }
}

struct Search<'a> {
    whole: &'a Value,
    write_back: WriteBack<'a>,
}

impl Search<'_> {
    /// The first field of `given` that is gone from `kept`.
    fn first_lost(&self, given: &Value, kept: &Value, place: &Place) -> Option<Place> {
        match (given, kept) {
            (Value::Object(given), Value::Object(kept)) => given.iter().find_map(|(key, inner)| {
                let here = place.field(key);
                match kept.get(key) {
                    Some(other) => self.first_lost(inner, other, &here),
                    None if place.path.is_empty() && (key == "apiVersion" || key == "kind") => None,
                    None if is_nothing(inner) => self.unknown_within(inner, here),
                    None => Some(here),
                }
            }),
            (Value::Array(given), Value::Array(kept)) => given
                .iter()
                .zip(kept)
                .enumerate()
                .find_map(|(at, (inner, other))| self.first_lost(inner, other, &place.item(at))),
            _ => None,
        }
    }

    /// The first unknown field of an empty value, itself included: absent and empty are one and the same to the writer.
    fn unknown_within(&self, value: &Value, place: Place) -> Option<Place> {
        if !self.is_known(&place) {
            return Some(place);
        }
        value.as_object()?.iter().find_map(|(key, inner)| self.unknown_within(inner, place.field(key)))
    }

    fn is_known(&self, place: &Place) -> bool {
        let mut trial = self.whole.clone();
        if let Some(part) = trial.pointer_mut(&place.pointer) {
            *part = no_field_takes();
        }
        (self.write_back)(&trial).is_none_or(|back| back.pointer(&place.pointer).is_some())
    }

    /// A field the kind has at this place, a slip of the pen away.
    fn neighbour(&self, place: &Place) -> Option<&'static str> {
        let (parent, token) = place.pointer.rsplit_once('/')?;
        let mut trial = self.whole.clone();
        guesses(token).into_iter().find(|guess| {
            let Some(Value::Object(map)) = trial.pointer_mut(parent) else { return false };
            if map.contains_key(*guess) {
                return false;
            }
            map.insert((*guess).to_owned(), no_field_takes());
            let known = (self.write_back)(&trial).is_none();
            if let Some(Value::Object(map)) = trial.pointer_mut(parent) {
                map.remove(*guess);
            }
            known
        })
    }
}

/// Neither a map, a list, text, a whole number nor true or false.
fn no_field_takes() -> Value {
    json!(0.5)
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_nothing),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Names of fields that look like what was written, the likeliest first.
fn guesses(written: &str) -> Vec<&'static str> {
    let plain = |name: &str| name.replace(['_', '-'], "").to_ascii_lowercase();
    let wanted = plain(written);
    // One letter for another is no likely slip in a short word.
    let limit = (wanted.chars().count() / 4).clamp(1, 3);
    let mut out: Vec<(usize, &str)> = FIELD_NAMES
        .iter()
        .filter(|name| name.len().abs_diff(wanted.len()) <= limit && **name != written)
        .map(|name| (distance(&wanted, &plain(name)), *name))
        .filter(|(distance, _)| *distance <= limit)
        .collect();
    out.sort_unstable();
    out.into_iter().map(|(_, name)| name).collect()
}
