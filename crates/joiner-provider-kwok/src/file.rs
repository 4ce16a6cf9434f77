//! Loading a list from the text of a file.
//!
//! The format is the KWOK provider's: an array of `{name, architecture, operatingSystems, resources, offerings}`.
//! Accepted beyond it: `volumeLimits` (CSI driver → volumes a machine attaches), YAML, several documents, an enclosing `{instanceTypes: […]}` or `{items: […]}`, and the older
//! flat offerings `{capacityType, zone, price}`, whose zone and capacity type become requirements. Keys may have any
//! case, as the original's files do.
//!
//! What the original drops without a word is refused here, all of it at once: unknown keys, types of one name,
//! types that can never be chosen, amounts and prices that are none. The one silent rule of the original that is
//! kept by default, that `Available: false` counts for nothing, is reported as a note.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::entry::{Entry, SharedLists};
use crate::entry_reader::EntryReader;
use crate::problem::{EntryPlace, LoadError, Problem, shown};
use crate::reader::Reader;
use crate::tally::Tally;
use crate::tree::{self, Tree};

/// Keys under which a table may hold the list.
const LIST_KEYS: [&str; 2] = ["instanceTypes", "items"];
/// Keys that may stand beside the list.
const WRAPPER_KEYS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// What the offerings' `Available` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Availability {
    /// Nothing: every offering of a list is available, as in the original.
    #[default]
    Always,
    /// What it says; absent means available.
    AsWritten,
}

/// The entries of a list and what its author should know about them.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The entries, in the order of the file.
    pub entries: Vec<Entry>,
    /// Remarks on things that load but may not mean what was meant.
    pub notes: Vec<String>,
}

/// Reads a list. `file_name` picks the format by its end and names the file in messages; nothing is opened.
pub fn load(file_name: &str, text: &str, availability: Availability) -> Result<Loaded, LoadError> {
    let refused = |problems: Vec<Problem>| LoadError { file_name: file_name.to_owned(), problems };
    let whole = |message: String| Problem { entry: None, key: String::new(), value: None, message };
    let mut loading = Loading { availability, ..Loading::default() };
    let documents = tree::parse(file_name, text, &mut |tree| loading.entry(&tree))
        .map_err(|message| refused(vec![whole(message)]))?;
    let mut trees = Vec::new();
    for document in &documents {
        collect_entries(document, &mut trees, &mut loading.problems);
    }
    trees.into_iter().for_each(|tree| loading.entry(tree));

    let Loading { entries, mut problems, tally, seen, .. } = loading;
    if seen == 0 && problems.is_empty() {
        problems.push(whole("no instance types: write a list with at least one entry".to_owned()));
    }
    if !problems.is_empty() {
        return Err(refused(problems));
    }
    Ok(Loaded { entries, notes: tally.notes(availability) })
}

/// What has been read so far.
#[derive(Default)]
struct Loading {
    availability: Availability,
    entries: Vec<Entry>,
    problems: Vec<Problem>,
    tally: Tally,
    /// Entries looked at, good or not.
    seen: usize,
    first_with_name: BTreeMap<String, usize>,
    shared: SharedLists,
}

impl Loading {
    /// Takes one entry in.
    fn entry(&mut self, tree: &Tree) {
        let index = self.seen;
        self.seen += 1;
        let name = name_of(tree);
        let mut reader = EntryReader {
            reader: Reader {
                place: Some(EntryPlace { index, name: name.map(shown) }),
                problems: &mut self.problems,
            },
            tally: &mut self.tally,
            availability: self.availability,
        };
        if let Some(name) = name {
            match self.first_with_name.get(name) {
                Some(first) => {
                    let message = format!("entry [{first}] has the same name; give every type its own");
                    reader.reader.report("name", Some(&Tree::Text(name.into())), message);
                }
                None => {
                    self.first_with_name.insert(name.to_owned(), index);
                }
            }
        }
        let mut entry = reader.entry(tree);
        if let Some(entry) = &mut entry {
            self.shared.share(&mut entry.offerings);
        }
        self.entries.extend(entry);
    }
}

/// Finds the entries of one document, in whichever of the accepted forms it is written.
fn collect_entries<'a, 't>(
    document: &'a Tree<'t>,
    entries: &mut Vec<&'a Tree<'t>>,
    problems: &mut Vec<Problem>,
) {
    let list_of = |fields: &'a [(Cow<'t, str>, Tree<'t>)]| {
        fields.iter().find(|(key, _)| LIST_KEYS.iter().any(|list| list.eq_ignore_ascii_case(key)))
    };
    match document {
        Tree::Null => {}
        Tree::List(items) => entries.extend(items),
        Tree::Table(fields) => match list_of(fields) {
            None => entries.push(document),
            Some((list_key, list)) => {
                let mut reader = Reader { place: None, problems };
                for (key, value) in fields {
                    let is_known = WRAPPER_KEYS.iter().any(|known| known.eq_ignore_ascii_case(key));
                    if key != list_key && !is_known {
                        let message =
                            format!("unknown key beside `{list_key}`; put it into an entry or drop it");
                        reader.report(shown(key), Some(value), message);
                    }
                }
                match list {
                    Tree::List(items) => entries.extend(items),
                    other => reader.report(&**list_key, Some(other), "expected a list of instance types"),
                }
            }
        },
        other => Reader { place: None, problems }.report(
            "document",
            Some(other),
            "expected a list of instance types",
        ),
    }
}

/// The entry's name, for messages, before anything is checked.
fn name_of<'a>(tree: &'a Tree) -> Option<&'a str> {
    let Tree::Table(fields) = tree else { return None };
    fields.iter().find_map(|(key, value)| match value {
        Tree::Text(name) if key.eq_ignore_ascii_case("name") => Some(&**name),
        _ => None,
    })
}
