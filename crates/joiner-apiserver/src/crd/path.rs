//! Where in an object a walk is. Written out only when there is something to say of the place, which in a good object there never is.

use std::fmt;

/// A place, by the way to it.
#[derive(Clone, Copy)]
pub(super) enum Path<'a> {
    /// The object itself.
    Root,
    /// A field of an object, or a key of a map.
    Field(&'a Path<'a>, &'a str),
    /// An item of a list.
    Item(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(above, name) => write!(f, "{above}.{name}"),
            Self::Item(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_users_write_it() {
        let spec = Path::Field(&Path::Root, "spec");
        let taints = Path::Field(&spec, "taints");
        let second = Path::Item(&taints, 1);
        assert_eq!(Path::Field(&second, "key").to_string(), "spec.taints[1].key");
        assert_eq!(Path::Root.to_string(), "");
    }
}
