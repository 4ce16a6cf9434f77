//! The walk over a rule that finds out the type of every part.
//!
//! It goes the way of the checker of Kubernetes, part by part, so that the same faults are found and each is told once. A part that is
//! wrong fits everywhere after that; one that only this checker cannot judge makes the whole rule pass.

use std::collections::HashMap;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, SelectExpr,
    StructExpr,
};

use super::faults::Fault;
use super::library::{self, Signature};
use super::parser::{Places, Tree};
use super::schema::field_of;
use super::types::{Bindings, Type, Variable};

/// What a walk found.
pub(crate) struct Walked<'a> {
    pub faults: Vec<Fault>,
    /// The type of each part, by its number.
    pub types: HashMap<u64, Type<'a>>,
    /// Whether there is something that this checker does not know.
    pub unsure: bool,
    /// Whether the old value is named.
    pub names_old: bool,
}

/// Finds out the types of a rule; `names` are its variables.
pub(crate) fn walk<'a>(tree: &Tree, names: Vec<(String, Type<'a>)>) -> Walked<'a> {
    let mut checker = Checker {
        places: &tree.places,
        names,
        known: Bindings::default(),
        made: 0,
        found: Walked { faults: Vec::new(), types: HashMap::new(), unsure: false, names_old: false },
    };
    checker.check(&tree.root);
    let Checker { known, mut found, .. } = checker;
    for of in found.types.values_mut() {
        *of = known.applied(of, true);
    }
    found
}

struct Checker<'t, 'a> {
    places: &'t Places,
    names: Vec<(String, Type<'a>)>,
    known: Bindings<'a>,
    /// How many variables were made.
    made: usize,
    found: Walked<'a>,
}

impl<'a> Checker<'_, 'a> {
    fn fault(&mut self, id: u64, message: String) {
        self.found.faults.push(Fault { place: self.places.of(id), message });
    }

    fn undeclared(&mut self, id: u64, name: &str) -> Type<'a> {
        self.fault(id, format!("undeclared reference to '{name}' (in container '')"));
        Type::Wrong
    }

    fn mismatch(&mut self, id: u64, wanted: &Type<'a>, found: &Type<'a>) {
        self.fault(id, format!("expected type '{wanted}' but found '{found}'"));
    }

    fn variable(&mut self) -> Type<'a> {
        self.made += 1;
        Type::Variable(Variable::Made(self.made - 1))
    }

    fn check(&mut self, part: &IdedExpr) -> Type<'a> {
        let of = match &part.expr {
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(_) => Type::Bool,
                LiteralValue::Bytes(_) => Type::Bytes,
                LiteralValue::Double(_) => Type::Double,
                LiteralValue::Int(_) => Type::Int,
                LiteralValue::Null => Type::Null,
                LiteralValue::String(_) => Type::Text,
                LiteralValue::UInt(_) => Type::Uint,
            },
            Expr::Ident(name) => self.named(name).unwrap_or_else(|| self.undeclared(part.id, name)),
            Expr::Select(select) => self.select(part, select),
            Expr::Call(call) => self.call(part.id, call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Struct(message) => self.message(part.id, message),
            Expr::Comprehension(loops) => self.comprehension(loops),
            Expr::Unspecified => {
                self.found.unsure = true;
                Type::Wrong
            }
        };
        self.found.types.insert(part.id, of.clone());
        of
    }

    /// The type of a variable, or of a type that is called by its name.
    fn named(&mut self, name: &str) -> Option<Type<'a>> {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some((name, of)) = self.names.iter().rev().find(|(known, _)| known == name) {
            self.found.names_old |= name == "oldSelf";
            return Some(of.clone());
        }
        let letter = |letter| Type::Variable(Variable::Letter(letter));
        let of = match name {
            "bool" => Type::Bool,
            "bytes" => Type::Bytes,
            "double" => Type::Double,
            "int" => Type::Int,
            "list" => Type::list(letter('A')),
            "map" => Type::map(letter('A'), letter('B')),
            "null_type" => Type::Null,
            "string" => Type::Text,
            "type" => return Some(Type::Kind(Some(Type::Kind(None).into()))),
            "uint" => Type::Uint,
            "optional_type" => Type::optional(letter('V')),
            "duration" | "google.protobuf.Duration" => Type::Duration,
            "timestamp" | "google.protobuf.Timestamp" => Type::Timestamp,
            _ => {
                // Messages of protocol buffers are known by their names, and not here.
                let foreign = name.starts_with("google.protobuf.");
                self.found.unsure |= foreign;
                return foreign.then_some(Type::Wrong);
            }
        };
        Some(Type::Kind(Some(of.into())))
    }

    fn select(&mut self, part: &IdedExpr, select: &SelectExpr) -> Type<'a> {
        if !select.test
            && let Some(of) = qualified(part).and_then(|name| self.named(&name))
        {
            return of;
        }
        let of = self.field(part.id, &select.operand, &select.field, false);
        if select.test { Type::Bool } else { self.known.applied(&of, false) }
    }

    fn field(&mut self, id: u64, operand: &IdedExpr, name: &str, optional: bool) -> Type<'a> {
        let operand = self.check(operand);
        let (of, was_optional) = self.known.applied(&operand, false).unwrapped();
        let field = match &of {
            Type::Map(of) => of.1.clone(),
            Type::Object(object) => match object.schema {
                Some((schema, whole)) => match field_of(&object.name, schema, whole, name) {
                    Some(field) => field,
                    None => {
                        self.fault(id, format!("undefined field '{name}'"));
                        Type::Wrong
                    }
                },
                None => {
                    self.fault(id, format!("unexpected failed resolution of '{of}'"));
                    Type::Wrong
                }
            },
            Type::Variable(_) => {
                self.known.fits(&Type::Dyn, &of);
                Type::Dyn
            }
            of if of.is_open() => Type::Dyn,
            of => {
                self.fault(id, format!("type '{of}' does not support field selection"));
                Type::Dyn
            }
        };
        if was_optional || optional { Type::optional(field) } else { field }
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> Type<'a> {
        if call.func_name == "_?._"
            && let [operand, IdedExpr { expr: Expr::Literal(LiteralValue::String(name)), id: field }] =
                call.args.as_slice()
        {
            self.found.types.insert(*field, Type::Text);
            let of = self.field(id, operand, name.inner(), true);
            return self.known.applied(&of, false);
        }
        let mut types: Vec<Type<'a>> = call.args.iter().map(|arg| self.check(arg)).collect();
        let Some(target) = &call.target else {
            let name = call.func_name.strip_prefix('.').unwrap_or(&call.func_name);
            return match library::signatures(name) {
                Some(signatures) => self.resolve(id, name, signatures, &call.args, types, false),
                None => self.undeclared(id, &call.func_name),
            };
        };
        // The function may have a name with dots, and what looks like its receiver is part of that.
        if let Some(prefix) = qualified(target) {
            let name = format!("{}.{}", prefix.strip_prefix('.').unwrap_or(&prefix), call.func_name);
            if let Some(signatures) = library::signatures(&name) {
                return self.resolve(id, &name, signatures, &call.args, types, false);
            }
        }
        types.insert(0, self.check(target));
        match library::signatures(&call.func_name) {
            Some(signatures) => self.resolve(id, &call.func_name, signatures, &call.args, types, true),
            None => self.undeclared(id, &call.func_name),
        }
    }

    /// The type that a function gives for arguments; several signatures may take them, and give different types.
    fn resolve(
        &mut self,
        id: u64,
        name: &str,
        signatures: &'static [Signature],
        args: &[IdedExpr],
        mut types: Vec<Type<'a>>,
        receiver: bool,
    ) -> Type<'a> {
        if matches!(name, "_&&_" | "_||_") {
            return self.logical(args, &types);
        }
        let mut gives: Option<Type<'a>> = None;
        for signature in signatures.iter().filter(|signature| signature.receiver == receiver) {
            let mut fresh = Bindings::default();
            for letter in &signature.letters {
                fresh.bind(Variable::Letter(*letter), self.variable());
            }
            let takes: Vec<Type<'a>> = signature.takes.iter().map(|of| fresh.applied(of, false)).collect();
            if takes.len() != types.len() || !self.known.fit_all(types.iter().zip(&takes)) {
                continue;
            }
            let given = self.known.applied(&fresh.applied(&signature.gives, false), false);
            gives = Some(match gives {
                None => given,
                Some(before) if before == Type::Dyn || before == given => before,
                Some(_) => Type::Dyn,
            });
        }
        if let Some(gives) = gives {
            return gives;
        }
        for of in &mut types {
            *of = self.known.applied(of, true);
        }
        let shown: Vec<String> = types.iter().map(ToString::to_string).collect();
        let shown = match shown.split_first() {
            Some((target, args)) if receiver => format!("{target}.({})", args.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        self.fault(id, format!("found no matching overload for '{name}' applied to '{shown}'"));
        Type::Wrong
    }

    /// Terms of `&&` and `||` are judged one by one.
    fn logical(&mut self, args: &[IdedExpr], types: &[Type<'a>]) -> Type<'a> {
        let mut gives = Type::Bool;
        for (arg, of) in args.iter().zip(types) {
            if !self.known.fits(of, &Type::Bool) {
                self.mismatch(arg.id, &Type::Bool, of);
                gives = Type::Wrong;
            }
        }
        gives
    }

    /// The type of an element or entry that may be left out, and is given as an optional.
    fn entry(&mut self, part: &IdedExpr, optional: bool) -> Type<'a> {
        let of = self.check(part);
        if !optional {
            return of;
        }
        let (inner, was_optional) = of.unwrapped();
        if !was_optional && inner != Type::Dyn {
            self.mismatch(part.id, &Type::optional(inner.clone()), &inner);
        }
        inner
    }

    /// A type that has room for what came before and what comes now.
    fn join(&mut self, before: Option<Type<'a>>, now: Type<'a>) -> Type<'a> {
        match before {
            None => now,
            Some(before) if self.known.fits(&before, &now) => before.more_general(now),
            Some(_) => Type::Dyn,
        }
    }

    fn list(&mut self, list: &ListExpr) -> Type<'a> {
        let mut of = None;
        for (index, element) in list.elements.iter().enumerate() {
            let element = self.entry(element, list.optional_indices.contains(&index));
            of = Some(self.join(of, element));
        }
        Type::list(of.unwrap_or_else(|| self.variable()))
    }

    fn map(&mut self, map: &MapExpr) -> Type<'a> {
        let (mut keys, mut values) = (None, None);
        for entry in &map.entries {
            let EntryExpr::MapEntry(pair) = &entry.expr else { continue };
            let key = self.check(&pair.key);
            keys = Some(self.join(keys, key));
            let value = self.entry(&pair.value, pair.optional);
            values = Some(self.join(values, value));
        }
        let keys = keys.unwrap_or_else(|| self.variable());
        Type::map(keys, values.unwrap_or_else(|| self.variable()))
    }

    fn message(&mut self, id: u64, message: &StructExpr) -> Type<'a> {
        let Some(of) = self.named(&message.type_name) else { return self.undeclared(id, &message.type_name) };
        match &of {
            _ if self.found.unsure => {}
            Type::Kind(Some(of)) if matches!(**of, Type::Duration | Type::Timestamp | Type::Null) => {
                self.found.unsure = true;
            }
            Type::Kind(Some(of)) => self.fault(id, format!("'{}' is not a message type", of.name())),
            other => self.fault(id, format!("'{}' is not a type", other.name())),
        }
        self.found.unsure |= !message.entries.is_empty();
        Type::Wrong
    }

    fn comprehension(&mut self, loops: &ComprehensionExpr) -> Type<'a> {
        let range = self.check(&loops.iter_range);
        let start = self.check(&loops.accu_init);
        let range = self.known.applied(&range, false);
        let depth = self.names.len();
        self.names.push((loops.accu_var.clone(), start.clone()));
        let two = loops.iter_var2.is_some();
        let (first, second) = match &range {
            Type::List(of) if two => (Type::Int, (**of).clone()),
            Type::List(of) => ((**of).clone(), Type::Wrong),
            Type::Map(of) => of.as_ref().clone(),
            Type::Dyn | Type::Wrong | Type::Variable(_) => {
                self.known.fits(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            _ => {
                let message = format!(
                    "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.fault(loops.iter_range.id, message);
                (Type::Wrong, Type::Wrong)
            }
        };
        self.names.push((loops.iter_var.clone(), first));
        if let Some(name) = &loops.iter_var2 {
            self.names.push((name.clone(), second));
        }
        self.must_be(&loops.loop_cond, &Type::Bool);
        self.must_be(&loops.loop_step, &start);
        self.names.truncate(depth + 1);
        let result = self.check(&loops.result);
        self.names.truncate(depth);
        self.known.applied(&result, false)
    }

    fn must_be(&mut self, part: &IdedExpr, wanted: &Type<'a>) {
        let of = self.check(part);
        if !self.known.fits(wanted, &of) {
            self.mismatch(part.id, wanted, &of);
        }
    }
}

/// A part that could be one name with dots in it.
fn qualified(part: &IdedExpr) -> Option<String> {
    match &part.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => {
            qualified(&select.operand).map(|prefix| format!("{prefix}.{}", select.field))
        }
        _ => None,
    }
}
