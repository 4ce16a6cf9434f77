//! What is wrong with a manifest.

/// One thing wrong with one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fault {
    /// Kind and name; empty if unknown.
    pub object: String,
    /// Where the object is in the value that was read, if that is a list: `items[3]`.
    pub within: String,
    /// The field; empty for the object as a whole.
    pub path: String,
    /// What stands there.
    pub value: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub remedy: String,
}
