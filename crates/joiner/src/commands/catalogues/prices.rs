//! Files of prices.

use std::path::Path;

use joiner_provider_aws::price_file::{self, PriceProblem};
use joiner_provider_aws::prices::Prices;
use joiner_provider_aws::world::world;

use super::AwsArgs;
use crate::commands::instance_types::text_of;
use crate::load::{Source, line_in_json_file};
use crate::report::InputError;

/// What the files say, with a note on types that nobody knows.
pub fn read(arguments: &AwsArgs) -> Result<(Prices, Vec<String>), InputError> {
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for path in &arguments.prices {
        let source = if path == Path::new("-") { Source::Stdin } else { Source::File(path.clone()) };
        let file = source.name();
        let found =
            price_file::read(&text_of(&source, "--prices")?).map_err(|problem| complaint(&file, problem))?;
        let mut unknown: Vec<&str> = found
            .iter()
            .map(|row| row.instance_type.as_str())
            .filter(|name| world().machine(name).is_none())
            .collect();
        unknown.sort_unstable();
        unknown.dedup();
        if let Some(first) = unknown.first() {
            notes.push(format!(
                "{file}: {} in it are not in the catalogue, first `{first}`",
                crate::show::plural(unknown.len(), "type")
            ));
        }
        rows.extend(found);
    }
    Ok((Prices::new(rows), notes))
}

fn complaint(file: &str, problem: PriceProblem) -> InputError {
    let PriceProblem { line, path, value, message, remedy } = problem;
    InputError {
        file: file.to_owned(),
        line: line.or_else(|| line_in_json_file(file, &path)),
        path: Some(path).filter(|path| !path.is_empty()),
        value,
        message,
        remedy: Some(remedy),
        ..InputError::default()
    }
}
