//! `instance-types`: the machines joiner can choose from.

mod check;
mod generate;
mod list;

use std::io::Read;

use crate::Streams;
use crate::cli::InstanceTypesCommand;
use crate::load::Source;
use crate::report::InputError;

/// The largest list read, in bytes; the largest real ones have a few million.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Does what was asked.
pub fn run(command: &InstanceTypesCommand, streams: &mut Streams) -> anyhow::Result<u8> {
    match command {
        InstanceTypesCommand::List(arguments) => list::run(arguments, streams),
        InstanceTypesCommand::Generate(arguments) => generate::run(arguments, streams),
        InstanceTypesCommand::Check(arguments) => check::run(arguments, streams),
    }
}

/// The catalogue in a file; what is wrong with it is bad input, all of it told at once.
pub fn load(path: &std::path::Path) -> Result<joiner_provider_kwok::Catalogue, InputError> {
    let source = Source::File(path.to_owned());
    joiner_provider_kwok::Catalogue::from_text(&source.name(), &text_of(&source, "--instance-types")?)
        .map_err(|refused| {
            let problems: Vec<String> = refused.problems.iter().take(20).map(ToString::to_string).collect();
            let remedy = format!("`joiner instance-types check {}` lists every problem", path.display());
            InputError::of_file(&refused.file_name, problems.join("; "), remedy)
        })
}

/// The text of a file; `flag` is what the user named it with.
pub(crate) fn text_of(source: &Source, flag: &str) -> Result<String, InputError> {
    let name = source.name();
    // In one piece: a buffer that grows leaves its smaller selves behind.
    let size = source.size_hint().min(FILE_BYTES_MAX) as usize;
    let mut bytes = Vec::with_capacity(size + 1);
    source.open_for(flag)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| {
        InputError::of_file(&name, format!("it can't be read: {error}"), "check the file")
    })?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let message = format!("it is larger than {} MiB", FILE_BYTES_MAX >> 20);
        return Err(InputError::of_file(&name, message, "give a list of instance types"));
    }
    String::from_utf8(bytes).map_err(|_| {
        InputError::of_file(
            &name,
            "this is not text: neither JSON nor YAML",
            "give a list of instance types in UTF-8",
        )
    })
}
