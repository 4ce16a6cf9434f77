//! A parsed JSON or YAML document that forgets nothing.
//!
//! Text is borrowed from the file where it stands there as it is. The list of a JSON file is handed out entry by entry: as a
//! whole its tree would be many times the size of the file.
//!
//! The usual value types merge keys that occur twice. A list of machine types is read with key case ignored, so
//! `Price` and `price` in one offering are the same key given twice, and the reader must see both to refuse them.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// YAML lists may be as long as the longest real ones (some 1,700 types, 50 nodes per offering), with room to grow.
const YAML_NODES_MAX: usize = 20_000_000;

/// One node of a document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tree<'t> {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(Cow<'t, str>),
    List(Vec<Tree<'t>>),
    Table(Vec<(Cow<'t, str>, Tree<'t>)>),
}

/// Reads all documents of a text: one if it is JSON, any number if it is YAML. A JSON document that is a list goes to
/// `each_item` instead, item by item; where the text turns out broken later on, some items were handed out already.
///
/// The file name decides where it can (`.json`, `.yaml`, `.yml`). Any other name: JSON if it reads as such, else
/// YAML; the complaint is then the one of the format the text looks like.
pub(crate) fn parse<'t>(
    file_name: &str,
    text: &'t str,
    each_item: &mut dyn FnMut(Tree<'t>),
) -> Result<Vec<Tree<'t>>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let ends_with = |extension: &str| {
        file_name
            .get(file_name.len().wrapping_sub(extension.len())..)
            .is_some_and(|end| end.eq_ignore_ascii_case(extension))
    };
    if text.trim().is_empty() {
        return Err("there is nothing in it".to_owned());
    }
    if ends_with(".json") {
        return parse_json(text, each_item);
    }
    if ends_with(".yaml") || ends_with(".yml") {
        return parse_yaml(text);
    }
    // Read once to see whether it is JSON: what was handed out cannot be taken back.
    let Err(json_error) = parse_json(text, &mut |_| {}) else { return parse_json(text, each_item) };
    let looks_like_json = text.trim_start().starts_with(['[', '{']);
    parse_yaml(text).map_err(|error| if looks_like_json { json_error } else { error })
}

fn parse_json<'t>(text: &'t str, each_item: &mut dyn FnMut(Tree<'t>)) -> Result<Vec<Tree<'t>>, String> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let mut read = || {
        let documents = if text.trim_start().starts_with('[') {
            deserializer.deserialize_seq(Items(each_item))?;
            Vec::new()
        } else {
            vec![Tree::deserialize(&mut deserializer)?]
        };
        deserializer.end().map(|()| documents)
    };
    read().map_err(|error: serde_json::Error| format!("not JSON: {error}"))
}

fn parse_yaml(text: &str) -> Result<Vec<Tree<'_>>, String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: YAML_NODES_MAX, max_events: 2 * YAML_NODES_MAX },
        strict_booleans: true,
        // Let through so that the reader can say which price it is.
        non_finite_float_policy: serde_saphyr::NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        let message = error.to_string();
        format!("not YAML: {}", message.lines().next().unwrap_or("no reason given"))
    })
}

impl fmt::Display for Tree<'_> {
    /// A short rendering for messages, not a format to be read back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tree::Null => f.write_str("null"),
            Tree::Bool(value) => value.fmt(f),
            Tree::Integer(value) => value.fmt(f),
            Tree::Float(value) => value.fmt(f),
            Tree::Text(value) => f.write_str(value),
            Tree::List(items) => write!(f, "[… {} items]", items.len()),
            Tree::Table(fields) => write!(f, "{{… {} keys}}", fields.len()),
        }
    }
}

impl<'de> Deserialize<'de> for Tree<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON or YAML value")
    }

    fn visit_unit<E>(self) -> Result<Tree<'de>, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree<'de>, E> {
        Ok(Tree::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree<'de>, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree<'de>, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree<'de>, E> {
        Ok(Tree::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree<'de>, E> {
        Ok(Tree::Integer(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Tree<'de>, E> {
        Ok(Tree::Integer(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree<'de>, E> {
        Ok(Tree::Float(value))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Tree<'de>, E> {
        Ok(Tree::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree<'de>, E> {
        Ok(Tree::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_string<E>(self, value: String) -> Result<Tree<'de>, E> {
        Ok(Tree::Text(Cow::Owned(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Tree<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Tree<'de>, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = access.next_entry_seed(Key, std::marker::PhantomData)? {
            fields.push(field);
        }
        Ok(Tree::Table(fields))
    }
}

/// A key, borrowed where it can be.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        // As `String` asks for its text: readers tell what may be a key by that.
        deserializer.deserialize_string(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(value))
    }
}

/// The items of a list, handed out one by one.
struct Items<'a, 't>(&'a mut dyn FnMut(Tree<'t>));

impl<'de> Visitor<'de> for Items<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        while let Some(item) = access.next_element()? {
            (self.0)(item);
        }
        Ok(())
    }
}
