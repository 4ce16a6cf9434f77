//! Runs rules: an expression over `self` and `oldSelf` gives a value, or says why it cannot.
//!
//! The text is read by our own parser, which knows all of CEL that Kubernetes takes; the tree is put into forms that the library runs
//! ([`forms`]), values get the types that their schemas give them ([`values`]), and the functions are those of the library but for a few
//! that differ from Kubernetes ([`functions`], [`choices`], [`conversions`], [`texts`], [`times`], [`lists`], [`loops`]). [`failures`] has the words for what cannot be evaluated.

mod choices;
mod conversions;
mod failures;
mod forms;
mod functions;
mod lists;
mod loops;
mod texts;
mod times;
mod values;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, ExecutionError, Value as Cel};
use serde_json::Value;

use super::checker::{self, Room};
use super::place::Place;

pub(super) use failures::words;

const OLD: &str = "oldSelf";

/// An expression that can run.
pub(super) struct Expression {
    root: IdedExpr,
    /// What it needs to run.
    pub room: Room,
    /// Whether it names the old value.
    pub names_old: bool,
}

impl Expression {
    /// Reads a text that was judged to be right. Nothing if it cannot run: it is too deep, or nobody but Kubernetes reads it.
    pub fn read(text: &str, optional_old: bool) -> Option<Expression> {
        let root = checker::read(text)?;
        let names_old = root.references().has_variable(OLD);
        let root = forms::runnable(root, optional_old)?;
        let room = checker::room_to_run(&root)?;
        Some(Expression { root, room, names_old })
    }

    pub fn run(&self, scope: &Context<'_>) -> Result<Cel, ExecutionError> {
        scope.resolve(&self.root)
    }
}

/// What a rule can see: a value, and the one it replaces.
pub(super) struct Sight {
    own: Cel,
    old: Option<Cel>,
}

impl Sight {
    pub fn new<P: Place>(place: &P, new: &Value, old: Option<&Value>) -> Self {
        Sight { own: values::typed(place, new), old: old.map(|old| values::typed(place, old)) }
    }

    /// Does something where names stand for what is seen. `optional_old`: the old value may be missing, and is seen as an optional.
    pub fn with_scope<T>(&self, optional_old: bool, work: impl FnOnce(&Context<'_>) -> T) -> T {
        thread_local! {
            static FUNCTIONS: Context<'static> = {
                let mut all = Context::default().with_all();
                functions::register(&mut all);
                choices::register(&mut all);
                conversions::register(&mut all);
                lists::register(&mut all);
                loops::register(&mut all);
                texts::register(&mut all);
                times::register(&mut all);
                all
            };
        }
        FUNCTIONS.with(|functions| {
            let mut scope = functions.new_inner_scope();
            scope.add_variable_from_value("self", self.own.clone());
            if optional_old {
                let old = self.old.clone().map_or_else(OptionalValue::none, OptionalValue::of);
                scope.add_variable_from_value(OLD, Cel::Opaque(Arc::new(old)));
            } else if let Some(old) = &self.old {
                scope.add_variable_from_value(OLD, old.clone());
            }
            work(&scope)
        })
    }
}
