//! Reading the values of one list entry: keys in any case, each at most once, none unknown, every value of its type.
//!
//! A [`Reader`] notes problems and goes on, so that one run over a file reports all of them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use joiner_api::instance_type::ResourceList;
use joiner_api::quantity::Quantity;

use crate::labels;
use crate::problem::{EntryPlace, Problem, shown};
use crate::tree::Tree;

/// Collects what is wrong with one entry.
pub(crate) struct Reader<'a> {
    pub place: Option<EntryPlace>,
    pub problems: &'a mut Vec<Problem>,
}

/// A value of a table, with its key as the file spells it.
#[derive(Clone, Copy)]
pub(crate) struct Field<'t> {
    pub key: &'t str,
    pub value: &'t Tree<'t>,
}

/// The way to a value, spelt out only if there is something to report: a long list has a hundred thousand values.
pub(crate) trait Path: fmt::Display + Copy {}

impl<P: fmt::Display + Copy> Path for P {}

/// The way to a key: `offerings[0]` and `Price` make `offerings[0].Price`.
pub(crate) fn join<P: Path>(path: P, key: &str) -> Joined<'_, P> {
    Joined { path, key }
}

/// See [`join`].
#[derive(Clone, Copy)]
pub(crate) struct Joined<'k, P> {
    path: P,
    key: &'k str,
}

impl<P: Path> fmt::Display for Joined<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.to_string() {
            path if path.is_empty() => f.write_str(self.key),
            path => write!(f, "{path}.{}", self.key),
        }
    }
}

impl Reader<'_> {
    /// Notes a problem.
    pub fn report(&mut self, key: impl fmt::Display, value: Option<&Tree>, message: impl Into<String>) {
        self.problems.push(Problem {
            entry: self.place.clone(),
            key: key.to_string(),
            value: value.map(shown),
            message: message.into(),
        });
    }

    /// Sorts the fields of a table by the known keys; `null` counts as absent.
    pub fn table<'t, const N: usize>(
        &mut self,
        path: impl Path,
        tree: &'t Tree<'t>,
        known: [&str; N],
    ) -> Option<[Option<Field<'t>>; N]> {
        let Tree::Table(fields) = tree else {
            self.report(path, Some(tree), format!("expected a table with the keys {}", quoted(&known)));
            return None;
        };
        let mut found = [None; N];
        for (key, value) in fields {
            let Some(position) = known.iter().position(|known| known.eq_ignore_ascii_case(key)) else {
                let message = format!("unknown key; known here are {}", quoted(&known));
                self.report(join(path, &shown(key)), None, message);
                continue;
            };
            let slot: &mut Option<Field<'t>> = &mut found[position];
            match slot {
                Some(earlier) => {
                    let message = format!("the same key was given before as `{}`; keep one", earlier.key);
                    self.report(join(path, key), Some(value), message);
                }
                None if *value == Tree::Null => {}
                None => *slot = Some(Field { key, value }),
            }
        }
        Some(found)
    }

    /// A list; anything else is a problem.
    pub fn list<'t>(&mut self, path: impl Path, field: Field<'t>) -> Option<&'t [Tree<'t>]> {
        match field.value {
            Tree::List(items) => Some(items),
            other => {
                self.report(join(path, field.key), Some(other), "expected a list");
                None
            }
        }
    }

    /// Text that can stand as a label value.
    pub fn word(&mut self, key: impl Path, value: &Tree) -> Option<String> {
        let message = match value {
            Tree::Text(text) if text.is_empty() => "must not be empty",
            Tree::Text(text) if labels::is_label_value(text) => return Some(text.to_string()),
            Tree::Text(_) => {
                "cannot be a label value: use at most 63 letters, digits, `-`, `_`, `.`, alphanumeric at both ends"
            }
            Tree::Bool(_) | Tree::Integer(_) | Tree::Float(_) => "expected text; put it in quotes",
            Tree::Null | Tree::List(_) | Tree::Table(_) => "expected text",
        };
        self.report(key, Some(value), message);
        None
    }

    /// A list of at least one word, none twice.
    pub fn words(&mut self, path: impl Path, field: Field<'_>) -> Option<Vec<String>> {
        let items = self.list(path, field)?;
        let key = join(path, field.key);
        if items.is_empty() {
            self.report(key, None, "must not be empty; name at least one value");
            return None;
        }
        let mut words: Vec<String> = Vec::with_capacity(items.len());
        let mut complete = true;
        for (index, item) in items.iter().enumerate() {
            match self.word(format_args!("{key}[{index}]"), item) {
                Some(word) if words.contains(&word) => {
                    self.report(
                        format_args!("{key}[{index}]"),
                        Some(item),
                        "the value stands in the list before",
                    );
                    complete = false;
                }
                Some(word) => words.push(word),
                None => complete = false,
            }
        }
        complete.then_some(words)
    }

    /// `true` or `false`.
    pub fn truth(&mut self, path: impl Path, field: Field<'_>) -> Option<bool> {
        match field.value {
            Tree::Bool(value) => Some(*value),
            other => {
                self.report(join(path, field.key), Some(other), "expected `true` or `false`");
                None
            }
        }
    }

    /// A whole number from 0.
    pub fn count(&mut self, path: impl Path, field: Field<'_>) -> Option<u32> {
        if let Tree::Integer(value) = field.value
            && let Ok(count) = u32::try_from(*value)
        {
            return Some(count);
        }
        self.report(join(path, field.key), Some(field.value), "expected a whole number from 0 to 4294967295");
        None
    }

    /// A price per hour: a finite number from 0.
    pub fn price(&mut self, path: impl Path, field: Field<'_>) -> Option<f64> {
        let message = match field.value {
            Tree::Integer(value) if *value >= 0 => return Some(*value as f64),
            Tree::Float(value) if value.is_finite() && *value >= 0.0 => return Some(*value),
            Tree::Float(value) if value.is_nan() => "not a number; give the price per hour",
            Tree::Float(value) if value.is_infinite() => "not finite; give the price per hour",
            Tree::Integer(_) | Tree::Float(_) => "negative; give a price per hour of 0 or more",
            Tree::Text(_) => "expected a number; write the price without quotes",
            _ => "expected a number, the price per hour",
        };
        self.report(join(path, field.key), Some(field.value), message);
        None
    }

    /// A table of quantities, none negative.
    pub fn resources(&mut self, path: impl Path, field: Field<'_>) -> Option<ResourceList> {
        let key = join(path, field.key);
        let Tree::Table(fields) = field.value else {
            self.report(key, Some(field.value), "expected a table of resource names and quantities");
            return None;
        };
        let mut resources = ResourceList::new();
        let mut complete = true;
        for (name, value) in fields {
            let place = ResourcePlace { key, name };
            if !labels::is_label_key(name) {
                self.report(
                    place,
                    Some(value),
                    "not a resource name; use a form like `cpu` or `example.com/gpu`",
                );
                complete = false;
                continue;
            }
            let Some(quantity) = self.quantity(place, value) else {
                complete = false;
                continue;
            };
            if resources.insert(name.to_string(), quantity).is_some() {
                self.report(place, Some(value), "the resource was given before; keep one");
                complete = false;
            }
        }
        complete.then_some(resources)
    }

    /// A table of CSI drivers and whole numbers from 0.
    pub fn driver_counts(&mut self, path: &str, field: Field<'_>) -> Option<BTreeMap<String, u32>> {
        let key = join(path, field.key);
        let Tree::Table(fields) = field.value else {
            let message = "expected a table of CSI drivers and numbers, such as `{ebs.csi.aws.com: 25}`";
            self.report(key, Some(field.value), message);
            return None;
        };
        let mut counts = BTreeMap::new();
        let mut complete = true;
        for (driver, value) in fields {
            let place = format!("{key}[{}]", shown(driver));
            let message = match value {
                _ if driver.is_empty() || !labels::is_label_value(driver) => {
                    "not the name of a CSI driver; use a form like `ebs.csi.aws.com`"
                }
                Tree::Integer(number) => match u32::try_from(*number) {
                    Ok(count) if counts.insert(driver.to_string(), count).is_none() => continue,
                    Ok(_) => "the driver was given before; keep one",
                    Err(_) => "expected a whole number from 0 to 4294967295",
                },
                Tree::Text(_) => "expected a whole number; write it without quotes",
                _ => "expected a whole number, how many volumes the driver attaches to one machine",
            };
            self.report(place, Some(value), message);
            complete = false;
        }
        complete.then_some(counts)
    }

    /// Unquoted numbers pass as well: `cpu: 8`.
    fn quantity(&mut self, key: impl Path, value: &Tree) -> Option<Quantity> {
        let text = match value {
            Tree::Text(text) => Cow::Borrowed(&**text),
            Tree::Integer(_) | Tree::Float(_) => Cow::Owned(value.to_string()),
            _ => {
                self.report(key, Some(value), "expected a quantity such as `4`, `500m` or `16Gi`");
                return None;
            }
        };
        match Quantity::parse(&text) {
            Ok(quantity) if quantity.signum() < 0 => {
                self.report(key, Some(value), "a machine cannot have a negative amount");
                None
            }
            Ok(quantity) => Some(quantity),
            Err(_) => {
                self.report(key, Some(value), "not a quantity; write a form like `4`, `500m` or `16Gi`");
                None
            }
        }
    }
}

/// A resource of a table, shortened as values are: nothing says that its name is one.
#[derive(Clone, Copy)]
struct ResourcePlace<'k, P> {
    key: P,
    name: &'k str,
}

impl<P: Path> fmt::Display for ResourcePlace<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.key, shown(self.name))
    }
}

/// `` `a`, `b`, `c` ``
pub(crate) fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
