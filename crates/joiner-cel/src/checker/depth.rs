//! How deep a rule goes: everything that walks a rule steps down once for each part that stands in another.

use kube_cel::cel::common::ast::{Expr, IdedExpr};

use super::literals::{parts_of, visit};

/// How deep expressions may stand in one another in a text, and how many parts a chain may have. Kubernetes goes no deeper.
pub(super) const DEEPEST: usize = 250;

/// How deep a tree may be. Kubernetes has about the same limit; of some trees it takes one part less.
const DEEPEST_TREE: usize = DEEPEST + 2;

/// How deep the library that runs rules may go. It takes about 10 kB for each step down.
const DEEPEST_RUN: usize = 2_000;

/// From here on it gets a stack of its own.
const DEEP_RUN: usize = 50;

/// How long a rule may be, in letters.
pub(super) const LONGEST: usize = 100_000;

/// What Kubernetes says of a text that goes too deep, and of a tree.
pub(super) const TEXT_TOO_DEEP: &str = "expression recursion limit exceeded: 250";
pub(super) const TREE_TOO_DEEP: &str = "max recursion depth exceeded";

/// What a rule needs to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Room {
    /// The stack of any thread.
    Usual,
    /// A stack of its own.
    Deep,
}

/// Whether a tree is too deep for Kubernetes. Macros are left alone: written out they go deeper than Kubernetes counts.
pub(super) fn is_too_deep(root: &IdedExpr) -> bool {
    let mut loops = false;
    visit(root, false, &mut |part, _| loops |= matches!(part.expr, Expr::Comprehension(_)));
    !loops && depth(root) > DEEPEST_TREE
}

/// How much room the library needs to run a rule; nothing if it would go too deep.
pub(crate) fn room_to_run(root: &IdedExpr) -> Option<Room> {
    match depth(root) {
        0..DEEP_RUN => Some(Room::Usual),
        DEEP_RUN..=DEEPEST_RUN => Some(Room::Deep),
        _ => None,
    }
}

/// How many parts stand in one another at most.
fn depth(part: &IdedExpr) -> usize {
    1 + parts_of(part).into_iter().map(depth).max().unwrap_or(0)
}
