//! Rule book §7, "Reservations": a machine holds one unit of every reservation it might use.

use std::collections::BTreeSet;

use super::machine_types::Choice;
use super::state::{OpenMachine, Run, State};

/// The reservations the machine would hold with these offerings remaining, or why the pod may not come.
pub(super) fn hold(
    run: &Run<'_>,
    state: &State<'_>,
    machine: &OpenMachine<'_>,
    remaining: &[&Choice<'_>],
) -> Result<BTreeSet<String>, String> {
    let usable: BTreeSet<String> = remaining
        .iter()
        .filter_map(|choice| choice.offering.reservation.as_ref())
        .map(|(id, _)| id.clone())
        .collect();
    let held: BTreeSet<String> = usable
        .iter()
        .filter(|id| machine.held.contains(*id) || has_free_unit(run, state, id))
        .cloned()
        .collect();
    if run.options.reserved_fallback {
        return Ok(held);
    }
    if held.is_empty() && !usable.is_empty() {
        return Err("every reservation it could use is taken".to_owned());
    }
    if held.is_empty() && !machine.held.is_empty() {
        return Err("the machine would lose its reservations".to_owned());
    }
    Ok(held)
}

/// Whether fewer machines hold the reservation than it has units (the smallest number any offering names).
fn has_free_unit(run: &Run<'_>, state: &State<'_>, id: &str) -> bool {
    let units = super::static_pools::units(run.world, id) as usize;
    state.machines.iter().filter(|machine| machine.held.contains(id)).count() < units
}

/// Whether an offering draws from nothing finite, or from something that the machine can hold.
pub(super) fn can_be_had(
    run: &Run<'_>,
    state: &State<'_>,
    machine: &OpenMachine<'_>,
    choice: &Choice<'_>,
) -> bool {
    let reservation = choice.offering.reservation.as_ref();
    reservation.is_none_or(|(id, _)| machine.held.contains(id) || has_free_unit(run, state, id))
}

/// Fallback: "offerings of reservations that cannot be held are gone from the machine".
pub(super) fn without_untaken<'r>(
    run: &Run<'_>,
    mut choices: Vec<&'r Choice<'r>>,
    held: &BTreeSet<String>,
) -> Vec<&'r Choice<'r>> {
    if run.options.reserved_fallback {
        choices.retain(|choice| choice.offering.reservation.as_ref().is_none_or(|(id, _)| held.contains(id)));
    }
    choices
}

/// "A machine that holds reservations ends narrowed to them".
pub(super) fn narrow_to_held(machine: &mut OpenMachine<'_>) {
    if machine.held.is_empty() {
        return;
    }
    machine.choices.retain(|choice| {
        choice.offering.reservation.as_ref().is_some_and(|(id, _)| machine.held.contains(id))
    });
}
