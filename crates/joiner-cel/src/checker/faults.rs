//! What is wrong with a rule, shown beside the line it is wrong in.

/// Faults beyond these are counted and not told.
const MOST: usize = 100;

/// Longer lines are not shown.
const LONGEST_LINE: usize = 16_384;

/// One fault, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The byte offset in the text.
    pub place: usize,
    pub message: String,
}

/// All faults of a text, in the order in which they stand there.
pub(crate) fn shown(text: &str, faults: &[Fault]) -> String {
    let mut told: Vec<&Fault> = faults.iter().take(MOST).collect();
    told.sort_by_key(|fault| fault.place);
    let mut lines: Vec<String> = told.into_iter().map(|fault| one(text, fault)).collect();
    if faults.len() > MOST {
        lines.push(format!("{} more errors were truncated", faults.len() - MOST));
    }
    lines.join("\n")
}

fn one(text: &str, fault: &Fault) -> String {
    let before = text.get(..fault.place).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = text.get(start..).unwrap_or_default().split('\n').next().unwrap_or_default();
    let ahead = before.get(start..).unwrap_or_default();
    let mut shown = format!(
        "ERROR: <input>:{}:{}: {}",
        before.matches('\n').count() + 1,
        ahead.chars().count() + 1,
        fault.message
    );
    if line.len() <= LONGEST_LINE {
        // Wide letters are underlined by wide signs.
        let dots: String = ahead.chars().map(|letter| if letter.is_ascii() { '.' } else { '．' }).collect();
        let here = line.get(ahead.len()..).and_then(|rest| rest.chars().next());
        let mark = if here.is_none_or(|letter| letter.is_ascii()) { '^' } else { '＾' };
        shown.push_str(&format!("\n | {}\n | {dots}{mark}", line.replace('\t', " ")));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_stand_beside_their_lines() {
        let fault = |place, message: &str| Fault { place, message: message.to_owned() };
        assert_eq!(
            shown("a +\n\t'ä' + b", &[fault(12, "second"), fault(2, "first")]),
            "ERROR: <input>:1:3: first\n | a +\n | ..^\nERROR: <input>:2:8: second\n |  'ä' + b\n | ..．....^"
        );
        assert_eq!(shown("", &[fault(0, "x")]), "ERROR: <input>:1:1: x\n | \n | ^");
        let many: Vec<Fault> = (0..102).map(|_| fault(0, "x")).collect();
        assert!(shown("y", &many).ends_with("^\n2 more errors were truncated"));
    }
}
