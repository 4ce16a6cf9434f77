//! Types of CEL, and which of them fit where.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// The type of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type<'a> {
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Null,
    Duration,
    Timestamp,
    /// Known when the rule runs.
    Dyn,
    /// The type of something that is wrong already; it fits everywhere.
    Wrong,
    List(Arc<Type<'a>>),
    Map(Arc<(Type<'a>, Type<'a>)>),
    Optional(Arc<Type<'a>>),
    /// The type of a type.
    Kind(Option<Arc<Type<'a>>>),
    /// Stands for a type that is found out by what it meets.
    Variable(Variable),
    /// A type of a library that cannot be looked into.
    Opaque(&'static str),
    /// A type with fields.
    Object(Arc<Object<'a>>),
}

/// A place for a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Variable {
    /// One of a signature.
    Letter(char),
    /// One that was made for a use.
    Made(usize),
}

/// A type with fields: its name, and the schema that has them.
#[derive(Clone, Debug)]
pub(crate) struct Object<'a> {
    pub name: String,
    /// The schema, and whether it is of a whole object with metadata. Types of libraries have none.
    pub schema: Option<(&'a Value, bool)>,
}

impl PartialEq for Object<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl<'a> Type<'a> {
    pub fn list(of: Type<'a>) -> Self {
        Type::List(Arc::new(of))
    }

    pub fn map(key: Type<'a>, value: Type<'a>) -> Self {
        Type::Map(Arc::new((key, value)))
    }

    pub fn optional(of: Type<'a>) -> Self {
        Type::Optional(Arc::new(of))
    }

    /// The type inside an optional, and whether there is one.
    pub fn unwrapped(&self) -> (Type<'a>, bool) {
        match self {
            Type::Optional(inner) => (inner.as_ref().clone(), true),
            other => (other.clone(), false),
        }
    }

    pub fn is_open(&self) -> bool {
        matches!(self, Type::Dyn | Type::Wrong)
    }

    /// The same type but for the names of variables.
    pub fn is_like(&self, other: &Type<'a>) -> bool {
        match (self, other) {
            (Type::Variable(_), Type::Variable(_)) => true,
            (Type::List(one), Type::List(other)) | (Type::Optional(one), Type::Optional(other)) => {
                one.is_like(other)
            }
            (Type::Map(one), Type::Map(other)) => one.0.is_like(&other.0) && one.1.is_like(&other.1),
            (Type::Kind(Some(one)), Type::Kind(Some(other))) => one.is_like(other),
            _ => self == other,
        }
    }

    /// The name without parameters.
    pub fn name(&self) -> String {
        match self {
            Type::List(_) => "list".to_owned(),
            Type::Map(_) => "map".to_owned(),
            Type::Optional(_) => "optional_type".to_owned(),
            Type::Kind(_) => "type".to_owned(),
            Type::Null => "null_type".to_owned(),
            Type::Duration => "google.protobuf.Duration".to_owned(),
            Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
            other => other.to_string(),
        }
    }

    fn may_be_null(&self) -> bool {
        matches!(
            self,
            Type::Null
                | Type::Optional(_)
                | Type::Opaque(_)
                | Type::Object(_)
                | Type::Duration
                | Type::Timestamp
        )
    }

    /// Whether the type says no more than another one does.
    fn is_as_general_as(&self, other: &Type<'a>) -> bool {
        match (self, other) {
            (Type::Dyn | Type::Variable(_), _) => true,
            (_, Type::Dyn | Type::Variable(_)) => false,
            (Type::List(one), Type::List(other)) | (Type::Optional(one), Type::Optional(other)) => {
                one.is_as_general_as(other)
            }
            (Type::Map(one), Type::Map(other)) => {
                one.0.is_as_general_as(&other.0) && one.1.is_as_general_as(&other.1)
            }
            (Type::Kind(_), Type::Kind(_)) => true,
            _ => self == other,
        }
    }

    /// The one of two fitting types that says less.
    pub fn more_general(self, other: Type<'a>) -> Type<'a> {
        if self.is_as_general_as(&other) { self } else { other }
    }
}

impl fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Uint => f.write_str("uint"),
            Type::Double => f.write_str("double"),
            Type::Text => f.write_str("string"),
            Type::Bytes => f.write_str("bytes"),
            Type::Null => f.write_str("null"),
            Type::Duration => f.write_str("duration"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::Dyn => f.write_str("dyn"),
            Type::Wrong => f.write_str("!error!"),
            Type::List(of) => write!(f, "list({of})"),
            Type::Map(of) => write!(f, "map({}, {})", of.0, of.1),
            Type::Optional(of) => write!(f, "optional_type({of})"),
            Type::Kind(None) => f.write_str("type"),
            Type::Kind(Some(of)) => write!(f, "type({of})"),
            Type::Variable(Variable::Letter(letter)) => write!(f, "{letter}"),
            Type::Variable(Variable::Made(number)) => write!(f, "_var{number}"),
            Type::Opaque(name) => f.write_str(name),
            Type::Object(object) => f.write_str(&object.name),
        }
    }
}

/// What is known of variables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bindings<'a>(BTreeMap<Variable, Type<'a>>);

impl<'a> Bindings<'a> {
    pub fn bind(&mut self, variable: Variable, to: Type<'a>) {
        self.0.insert(variable, to);
    }

    /// A type with what is known put in. `to_the_end`: what is not known is anything.
    pub fn applied(&self, of: &Type<'a>, to_the_end: bool) -> Type<'a> {
        match of {
            Type::Variable(variable) => match self.0.get(variable) {
                Some(known) => self.applied(known, to_the_end),
                None if to_the_end => Type::Dyn,
                None => of.clone(),
            },
            Type::List(of) => Type::list(self.applied(of, to_the_end)),
            Type::Optional(of) => Type::optional(self.applied(of, to_the_end)),
            Type::Map(of) => Type::map(self.applied(&of.0, to_the_end), self.applied(&of.1, to_the_end)),
            Type::Kind(Some(of)) => Type::Kind(Some(Arc::new(self.applied(of, to_the_end)))),
            other => other.clone(),
        }
    }

    /// Whether values of one type fit where another is wanted, all of a list of pairs at once. What that says about variables is
    /// kept, if they do.
    pub fn fit_all<'t>(&mut self, pairs: impl IntoIterator<Item = (&'t Type<'a>, &'t Type<'a>)>) -> bool
    where
        'a: 't,
    {
        let mut tried = self.clone();
        let fits = pairs.into_iter().all(|(from, to)| tried.fit(from, to));
        if fits {
            *self = tried;
        }
        fits
    }

    /// As [`Bindings::fit_all`], for one pair.
    pub fn fits(&mut self, from: &Type<'a>, to: &Type<'a>) -> bool {
        self.fit_all([(from, to)])
    }

    fn fit(&mut self, from: &Type<'a>, to: &Type<'a>) -> bool {
        if let Type::Variable(variable) = to {
            match self.stand_for(from, *variable) {
                Stood::Yes => return true,
                Stood::KnownOtherwise => return false,
                Stood::Circular => {}
            }
        }
        if let Type::Variable(variable) = from {
            return matches!(self.stand_for(to, *variable), Stood::Yes);
        }
        if from.is_open() || to.is_open() {
            return true;
        }
        match (from, to) {
            (Type::Null, other) | (other, Type::Null) => other.may_be_null(),
            (Type::Kind(_), Type::Kind(_)) => true,
            (Type::List(from), Type::List(to)) | (Type::Optional(from), Type::Optional(to)) => {
                self.fit(from, to)
            }
            (Type::Map(from), Type::Map(to)) => self.fit(&from.0, &to.0) && self.fit(&from.1, &to.1),
            _ => from == to,
        }
    }

    /// Lets a variable stand for a type, if what is known of it allows that.
    fn stand_for(&mut self, of: &Type<'a>, variable: Variable) -> Stood {
        if *of == Type::Variable(variable) {
            return Stood::Yes;
        }
        if let Some(known) = self.0.get(&variable).cloned() {
            if *of == known {
                return Stood::Yes;
            }
            if !self.fit(of, &known) {
                return Stood::KnownOtherwise;
            }
            let wider = of.clone().more_general(known);
            if !self.occurs(variable, &wider) {
                self.bind(variable, wider);
            }
            return Stood::Yes;
        }
        if self.occurs(variable, of) {
            return Stood::Circular;
        }
        self.bind(variable, of.clone());
        Stood::Yes
    }

    /// Whether a type is made of a variable.
    fn occurs(&self, variable: Variable, within: &Type<'a>) -> bool {
        match within {
            Type::Variable(other) => {
                *other == variable || self.0.get(other).is_some_and(|known| self.occurs(variable, known))
            }
            Type::List(of) | Type::Optional(of) | Type::Kind(Some(of)) => self.occurs(variable, of),
            Type::Map(of) => self.occurs(variable, &of.0) || self.occurs(variable, &of.1),
            _ => false,
        }
    }
}

/// What came of letting a variable stand for a type.
enum Stood {
    Yes,
    /// It stands for something else.
    KnownOtherwise,
    /// The type is made of the variable.
    Circular,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(number: usize) -> Type<'static> {
        Type::Variable(Variable::Made(number))
    }

    #[test]
    fn variables_are_found_out() {
        let mut known = Bindings::default();
        assert!(known.fits(&Type::list(Type::Int), &Type::list(made(0))));
        assert_eq!(known.applied(&Type::optional(made(0)), true).to_string(), "optional_type(int)");
        assert!(!known.fits(&Type::Text, &made(0)), "it is an int");
        assert!(known.fits(&Type::Dyn, &made(0)));
        assert_eq!(known.applied(&made(0), true), Type::Dyn, "the wider type stays");
        assert_eq!(known.applied(&made(7), true), Type::Dyn);
        assert_eq!(known.applied(&made(7), false), made(7));
    }

    #[test]
    fn a_type_is_not_made_of_itself() {
        let mut known = Bindings::default();
        assert!(!known.fits(&Type::list(made(0)), &made(0)));
        assert!(known.fits(&made(1), &made(0)));
        assert!(!known.fits(&Type::map(Type::Text, made(0)), &made(1)));
    }

    #[test]
    fn null_fits_what_has_no_other_absence() {
        let mut known = Bindings::default();
        for of in [Type::Timestamp, Type::Opaque("net.IP"), Type::Null] {
            assert!(known.fits(&Type::Null, &of) && known.fits(&of, &Type::Null), "{of}");
        }
        for of in [Type::Text, Type::list(Type::Int), Type::Bool] {
            assert!(!known.fits(&Type::Null, &of), "{of}");
        }
    }
}
