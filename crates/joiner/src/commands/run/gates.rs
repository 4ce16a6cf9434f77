//! Feature gates: `Name=true,Other=false`.

use joiner_core::explain::nearest;

/// Karpenter's gates, with what they are without being named, and whether joiner acts on them.
const KNOWN: [(&str, bool, bool); 6] = [
    ("NodeRepair", false, false),
    ("ReservedCapacity", true, true),
    ("SpotToSpotConsolidation", false, false),
    ("NodeOverlay", false, true),
    ("StaticCapacity", false, true),
    ("CapacityBuffer", false, false),
];

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub struct Gates {
    /// Prices and capacity of NodeOverlays count.
    pub node_overlay: bool,
    /// Machines are launched into reserved capacity.
    pub reserved_capacity: bool,
    /// Pools of a fixed size are kept.
    pub static_capacity: bool,
    /// Gates that are not as they are by default, and have no effect here.
    pub ignored: Vec<String>,
    /// Sentences about gates that nobody knows.
    pub notes: Vec<String>,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            node_overlay: false,
            reserved_capacity: true,
            static_capacity: false,
            ignored: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// Reads a list of gates.
///
/// # Errors
/// A sentence about the first part that is no gate with a value.
pub fn read(text: &str) -> Result<Gates, String> {
    let mut gates = Gates::default();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let Some((name, value)) = part.split_once('=') else {
            return Err(format!("`{part}` is no gate with a value; write `{part}=true` or `{part}=false`"));
        };
        let (name, value) = (name.trim(), value.trim());
        let Some(on) = boolean(value) else {
            return Err(format!("the value `{value}` of gate `{name}` is neither `true` nor `false`"));
        };
        match KNOWN.iter().find(|(known, ..)| *known == name) {
            Some(("NodeOverlay", ..)) => gates.node_overlay = on,
            Some(("ReservedCapacity", ..)) => gates.reserved_capacity = on,
            Some(("StaticCapacity", ..)) => gates.static_capacity = on,
            Some((_, usual, _)) => {
                gates.ignored.retain(|gate| !gate.starts_with(&format!("{name}=")));
                if on != *usual {
                    gates.ignored.push(format!("{name}={on}"));
                }
            }
            None => {
                let meant = nearest(name, KNOWN.iter().map(|(known, ..)| *known));
                let meant = meant.map_or(String::new(), |known| format!("; did you mean `{known}`?"));
                gates.notes.push(format!("feature gate `{name}` is not known and ignored{meant}"));
            }
        }
    }
    Ok(gates)
}

/// The forms in which Go reads a boolean.
pub fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_read_as_karpenter_reads_them() {
        assert_eq!(read(""), Ok(Gates::default()));
        let gates = read("NodeOverlay=true, ReservedCapacity=true,StaticCapacity=t,NodeRepair=t,").unwrap();
        assert!(gates.node_overlay && gates.static_capacity && gates.reserved_capacity);
        assert_eq!(gates.ignored, ["NodeRepair=true"]);
        assert_eq!(
            read("NodeOverlay=true,NodeOverlay=false").unwrap(),
            Gates::default(),
            "the last one counts"
        );
        assert!(!read("ReservedCapacity=false").unwrap().reserved_capacity);
        assert_eq!(read("NodeRepair=true,NodeRepair=false").unwrap(), Gates::default());
        let notes = read("NodeRepairs=true,Drift=true").unwrap().notes;
        assert!(notes[0].ends_with("did you mean `NodeRepair`?"), "{notes:?}");
        assert_eq!(notes.len(), 2);
        assert!(read("StaticCapacity=").unwrap_err().contains("neither `true` nor `false`"));
        assert!(read("StaticCapacity").unwrap_err().contains("is no gate with a value"));
    }
}
