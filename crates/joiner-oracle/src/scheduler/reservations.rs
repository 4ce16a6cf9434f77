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
    let units = run
        .choices
        .iter()
        .filter_map(|choice| choice.offering.reservation.as_ref())
        .filter(|(other, _)| other == id)
        .map(|(_, units)| *units as usize)
        .min()
        .unwrap_or(0);
    state.machines.iter().filter(|machine| machine.held.contains(id)).count() < units
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
