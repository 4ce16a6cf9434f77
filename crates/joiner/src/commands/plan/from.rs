//! A whole cluster to plan for, out of files.

use super::Intake;
use crate::cli::{PlanArgs, Validate};
use crate::import::{self, FromMode, Import};
use crate::load::Reading;
use crate::report::InputError;

/// The cluster that `--from` names, with what the user should know of it; nothing without `--from`.
pub fn cluster(arguments: &PlanArgs) -> Result<Option<Import>, InputError> {
    if arguments.from.is_empty() {
        return Ok(None);
    }
    let mut cluster = import::read(&arguments.from)?;
    if arguments.from_mode == FromMode::Intent {
        cluster.leave_intent();
    }
    if !cluster.changes.is_empty() {
        let count = cluster.changes.len();
        let note = format!("{count} recorded changes are not planned for: this is the state before them");
        cluster.notes.push(note);
    }
    Ok(Some(cluster))
}

impl Intake {
    /// Takes in what `--from` names. Objects that come later under the same name take its place, as always. Returns what the user
    /// should know.
    pub(super) fn read_cluster(&mut self, arguments: &PlanArgs) -> Result<Vec<String>, InputError> {
        let Some(cluster) = cluster(arguments)? else { return Ok(Vec::new()) };
        let name = arguments.from.first().map(|path| path.display().to_string()).unwrap_or_default();
        let strict = self.forgive_unknown_fields();
        let done = self.read_values(&name, cluster.objects);
        *self.reading_mut() = strict;
        done.map(|()| cluster.notes)
    }

    /// An API server wrote the fields of a cluster's objects: those that nobody knows here are newer than this program. Returns how documents were
    /// read so far.
    pub fn forgive_unknown_fields(&mut self) -> Reading {
        std::mem::replace(self.reading_mut(), Reading::new(Validate::Ignore))
    }
}
