//! Changes to the instance types: no spot, a zone that is out, other prices.

use joiner_api::names::{CAPACITY_TYPES, SPOT};
use joiner_core::explain::nearest;

use super::WhatIfArgs;
use super::objects::wrong;
use crate::commands::catalogues::Catalogues;
use crate::report::InputError;

/// The catalogues after the changes, and what was done.
pub fn apply(arguments: &WhatIfArgs, before: &Catalogues) -> Result<(Catalogues, Vec<String>), InputError> {
    let mut catalogue = before.clone();
    let mut done = Vec::new();
    if arguments.no_spot {
        let out = close(&mut catalogue, |_, capacity| capacity == Some(SPOT));
        done.push(format!("no spot: {out} offerings out"));
    }
    for written in &arguments.zone_out {
        let zone = zone_meant(written, before)?;
        let out = close(&mut catalogue, |of, _| of == Some(zone));
        done.push(format!("zone {zone} out: {out} offerings out"));
    }
    for text in &arguments.price {
        done.push(price(&mut catalogue, text)?);
    }
    Ok((catalogue, done))
}

/// The zone of a name, or the one zone that ends so: in `-NAME`, or in a letter after a number, as AWS names them.
fn zone_meant<'c>(written: &str, catalogues: &'c Catalogues) -> Result<&'c str, InputError> {
    let mut known: Vec<&str> = catalogues.all().flat_map(|of| &of.types).flat_map(|of| of.zones()).collect();
    known.sort_unstable();
    known.dedup();
    if let Some(zone) = known.iter().find(|zone| **zone == written) {
        return Ok(zone);
    }
    let is_letter = written.len() == 1 && written.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_end = |zone: &&str| {
        zone.strip_suffix(written).is_some_and(|start| {
            start.ends_with('-') || is_letter && start.ends_with(|last: char| last.is_ascii_digit())
        })
    };
    let ends: Vec<&str> = known.iter().copied().filter(is_end).filter(|_| !written.is_empty()).collect();
    match ends.as_slice() {
        [zone] => return Ok(zone),
        [] => {}
        several => {
            let message = format!("{} zones end so: {}", several.len(), several.join(", "));
            return Err(wrong(
                "--zone-out",
                written,
                message,
                "give the whole name, or the flag several times",
            ));
        }
    }
    let remedy = match nearest(written, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("zones of the instance types: {}", known.join(", ")),
    };
    Err(wrong("--zone-out", written, "nothing is offered in this zone", remedy))
}

/// Makes offerings unavailable; how many were available before.
fn close(catalogues: &mut Catalogues, is_out: impl Fn(Option<&str>, Option<&str>) -> bool) -> usize {
    let mut out = 0;
    for offering in catalogues.all_mut().flat_map(|of| &mut of.types).flat_map(|of| &mut of.offerings) {
        if is_out(offering.zone(), offering.capacity_type()) && offering.available {
            offering.available = false;
            out += 1;
        }
    }
    out
}

fn price(catalogues: &mut Catalogues, text: &str) -> Result<String, InputError> {
    let syntax = "write FACTOR or TYPE=FACTOR, e.g. `0.9` or `m5.*=0.8`";
    let (of, factor) = match text.rsplit_once('=') {
        Some((of, factor)) => (Some(of.trim()).filter(|of| !of.is_empty()), factor),
        None => (None, text),
    };
    if text.contains('=') && of.is_none() {
        return Err(wrong("--price", text, "there is no type before the `=`", syntax));
    }
    let factor: f64 = factor
        .trim()
        .parse()
        .ok()
        .filter(|factor: &f64| factor.is_finite() && *factor >= 0.0)
        .ok_or_else(|| wrong("--price", text, format!("`{factor}` is not a factor"), syntax))?;
    let is_meant = |name: &str, capacity: Option<&str>| match of {
        None => true,
        Some(of) if CAPACITY_TYPES.contains(&of) => capacity == Some(of),
        Some(of) => match of.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == of,
        },
    };
    let mut changed = 0;
    for instance_type in catalogues.all_mut().flat_map(|of| &mut of.types) {
        for offering in &mut instance_type.offerings {
            if is_meant(&instance_type.name, offering.capacity_type()) {
                offering.price *= factor;
                changed += 1;
            }
        }
    }
    if changed == 0 {
        let names = catalogues.all().flat_map(|of| &of.types).map(|of| of.name.as_str());
        let remedy = match nearest(of.unwrap_or_default(), names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`joiner instance-types list` names all types".to_owned(),
        };
        return Err(wrong("--price", text, "there is no such instance type", remedy));
    }
    Ok(format!("price of {} times {factor}", of.unwrap_or("everything")))
}
