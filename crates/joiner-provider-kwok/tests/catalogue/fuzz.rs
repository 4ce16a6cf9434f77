//! Arbitrary input: loading may refuse, never panic, and what it accepts is usable and can be printed.

use joiner_provider_kwok::{Availability, Catalogue, Format, write};

fn exercise(file_name: &str, text: &str) {
    match Catalogue::from_text_with(file_name, text, Availability::AsWritten) {
        Err(error) => {
            assert!(!error.problems.is_empty());
            assert!(error.to_string().contains(file_name));
        }
        Ok(catalogue) => {
            assert!(!catalogue.types.is_empty());
            for of in &catalogue.types {
                assert!(!of.offerings.is_empty());
                assert!(of.allocatable().values().all(|amount| amount.signum() >= 0));
                assert!(
                    of.offerings.iter().all(|offering| offering.price.is_finite() && offering.price >= 0.0)
                );
            }
            let text = write(&catalogue.types, Format::Json).expect("a loaded list can be printed");
            let again = Catalogue::from_text_with("again.json", &text, Availability::AsWritten)
                .expect("a printed list can be loaded");
            assert_eq!(again.types, catalogue.types);
        }
    }
}

#[test]
fn arbitrary_bytes() {
    bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        for file_name in ["f.json", "f.yaml", "f"] {
            exercise(file_name, &text);
        }
    });
}

/// A good file with a few bytes changed, cut out or moved gets much further into the reader than noise does.
#[test]
fn damaged_files() {
    let good = [
        include_str!("../data/types-case.json"),
        include_str!("../data/types-flat.json"),
        "- {name: a, architecture: b, operatingSystems: [c], resources: {cpu: 1e3, memory: 0.5Gi, x.y/z: 1n}, \
          offerings: [{price: 1, zone: a, capacityType: reserved, reservationCapacity: 1, capacityOverride: {cpu: 2}}]}",
    ];
    bolero::check!().with_type::<(u8, Vec<(u16, u8, u8)>)>().for_each(|(which, edits)| {
        let mut bytes = good[usize::from(*which) % good.len()].as_bytes().to_vec();
        for (at, action, with) in edits.iter().take(8) {
            let at = usize::from(*at) % bytes.len().max(1);
            match action % 4 {
                _ if bytes.is_empty() => {}
                0 => bytes[at] = *with,
                1 => bytes.insert(at, *with),
                2 => {
                    let end = (at + usize::from(*with)).min(bytes.len());
                    bytes.drain(at..end);
                }
                _ => {
                    let end = (at + usize::from(*with)).min(bytes.len());
                    let copy = bytes[at..end].to_vec();
                    bytes.splice(at..at, copy);
                }
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        for file_name in ["f.json", "f.yaml", "f"] {
            exercise(file_name, &text);
        }
    });
}
