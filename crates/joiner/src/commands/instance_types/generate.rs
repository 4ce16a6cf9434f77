//! `instance-types generate`: a computed list in KWOK's file format.

use std::collections::BTreeSet;

use joiner_provider_kwok::{Format, GpuRow, MemoryFactor, Parameters, generate, write};

use crate::cli::{self, GenerateArgs};
use crate::report::InputError;
use crate::show::plural;
use crate::{FINE, Streams};

/// The resource of a GPU row that does not name one.
const USUAL_GPU: &str = "nvidia.com/gpu";

/// Prints the list.
pub fn run(arguments: &GenerateArgs, streams: &mut Streams) -> anyhow::Result<u8> {
    let types = generate(&parameters(arguments)?).map_err(|error| complaint(error.to_string()))?;
    let format = match arguments.output {
        cli::Format::Json => Format::Json,
        cli::Format::Yaml => Format::Yaml,
    };
    streams.out.write_all(write(&types, format)?.as_bytes())?;
    Ok(FINE)
}

/// The standard parameters with those that were given in their place.
fn parameters(arguments: &GenerateArgs) -> Result<Parameters, InputError> {
    distinct("--cpus", &arguments.cpus)?;
    distinct("--memory-factors", &arguments.memory_factors)?;
    distinct("--os", &arguments.os)?;
    distinct("--arch", &arguments.arch)?;
    distinct("--zones", &arguments.zones)?;
    let mut parameters = Parameters::default();
    let given = |mine: &mut Vec<String>, theirs: &[String]| {
        if !theirs.is_empty() {
            *mine = theirs.to_vec();
        }
    };
    given(&mut parameters.operating_systems, &arguments.os);
    given(&mut parameters.architectures, &arguments.arch);
    given(&mut parameters.zones, &arguments.zones);
    if !arguments.cpus.is_empty() {
        parameters.cpus.clone_from(&arguments.cpus);
    }
    if !arguments.memory_factors.is_empty() {
        parameters.memory_factors = memory_factors(&arguments.memory_factors);
    }
    let number = |mine: &mut f64, theirs: Option<f64>| *mine = theirs.unwrap_or(*mine);
    number(&mut parameters.price_per_cpu, arguments.price_per_cpu);
    number(&mut parameters.price_per_gb, arguments.price_per_gb);
    number(&mut parameters.spot_factor, arguments.spot_factor);
    number(&mut parameters.zone_skew, arguments.zone_skew);
    parameters.gpu_rows = arguments.gpus.iter().map(|spec| gpu_row(spec)).collect::<Result<_, _>>()?;
    Ok(parameters)
}

/// The same value twice would make two types or offerings of one name.
fn distinct<T: Ord + std::fmt::Display>(flag: &str, values: &[T]) -> Result<(), InputError> {
    let mut seen = BTreeSet::new();
    match values.iter().find(|value| !seen.insert(*value)) {
        Some(twice) => Err(complaint(format!("`{flag}` names `{twice}` twice; name each value once"))),
        None => Ok(()),
    }
}

/// Unusual factors share one letter; where there are several, the number tells them apart.
fn memory_factors(factors: &[u32]) -> Vec<MemoryFactor> {
    let mut named: Vec<MemoryFactor> = factors.iter().map(|factor| MemoryFactor::new(*factor)).collect();
    let unusual = MemoryFactor::new(0).family;
    if named.iter().filter(|factor| factor.family == unusual).count() > 1 {
        for factor in named.iter_mut().filter(|factor| factor.family == unusual) {
            factor.family = format!("{unusual}{}", factor.gib_per_cpu);
        }
    }
    named
}

/// Reads `FAMILY:CPUS:MEMORY_GIB:GPUS:PRICE_PER_GPU[:RESOURCE]`.
fn gpu_row(spec: &str) -> Result<GpuRow, InputError> {
    let wrong = |what: String| {
        let form = "write FAMILY:CPUS:MEMORY_GIB:GPUS:PRICE_PER_GPU[:RESOURCE], as in `--gpu g:8:64:1:0.9`";
        InputError { remedy: Some(form.to_owned()), ..complaint(format!("`--gpu {spec}`: {what}")) }
    };
    let parts: Vec<&str> = spec.split(':').collect();
    let (&[family, cpu, memory, count, price], resource) = (match parts.split_at_checked(5) {
        Some((five, [])) => (five, USUAL_GPU),
        Some((five, [resource])) => (five, *resource),
        _ => return Err(wrong(format!("it has {} instead of 5 or 6", plural(parts.len(), "part")))),
    }) else {
        return Err(wrong("it can't be read".to_owned()));
    };
    let whole = |what: &str, text: &str| {
        text.trim().parse::<u32>().map_err(|_| wrong(format!("{what} is `{text}`, which is no whole number")))
    };
    Ok(GpuRow {
        family: family.to_owned(),
        cpu: whole("CPUS", cpu)?,
        memory_gib: whole("MEMORY_GIB", memory)?,
        count: whole("GPUS", count)?,
        price_per_gpu: price
            .trim()
            .parse()
            .map_err(|_| wrong(format!("PRICE_PER_GPU is `{price}`, which is no number")))?,
        resource: resource.to_owned(),
    })
}

fn complaint(message: String) -> InputError {
    InputError { message, ..InputError::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_rows_are_read() {
        let row = gpu_row("g:8:64:1:0.9").expect("five parts");
        assert_eq!((row.family.as_str(), row.cpu, row.memory_gib, row.count), ("g", 8, 64, 1));
        assert_eq!((row.price_per_gpu, row.resource.as_str()), (0.9, USUAL_GPU));
        assert_eq!(gpu_row("a:1:2:3:4:amd.com/gpu").expect("six parts").resource, "amd.com/gpu");
        for (spec, complaint) in [
            ("g:8:64", "it has 3 parts"),
            ("g:8:64:1:0.9:x:y", "it has 7 parts"),
            ("g:eight:64:1:0.9", "CPUS is `eight`"),
            ("g:8:64:1:cheap", "PRICE_PER_GPU is `cheap`"),
            ("", "it has 1 part "),
        ] {
            let error = gpu_row(spec).expect_err(spec).to_string();
            assert!(error.contains(complaint), "{error}");
        }
    }

    #[test]
    fn several_unusual_factors_keep_apart() {
        let families = |factors: &[u32]| -> Vec<String> {
            memory_factors(factors).into_iter().map(|factor| factor.family).collect()
        };
        assert_eq!(families(&[2, 6]), ["c", "e"]);
        assert_eq!(families(&[2, 6, 16]), ["c", "e6", "e16"]);
    }
}
