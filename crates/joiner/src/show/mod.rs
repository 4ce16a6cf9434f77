//! What people see: tables, bars, figures, colours.
//!
//! [`Table`] is a plain table as kubectl prints it, [`figures`] turns numbers into words with units, [`style`] holds the colours. All
//! of it makes text; whether a terminal is there is asked once, here, and escapes vanish later, in the stream
//! that carries the text.

mod documents;
pub mod figures;
pub mod style;
mod table;
mod text;

pub use documents::{documents, value};
pub use figures::{amount, bar, bytes, cores, money, percent, plural, signed_percent, whole_percent};
pub use style::{BOLD, DIM, GREEN, RED, YELLOW};
pub use table::Table;
pub use text::folded;

use std::io::IsTerminal;

/// Columns of a terminal that does not say how many it has.
const USUAL_WIDTH: usize = 120;
/// Columns for a pipe or a file: rows are to stay whole for `grep` and `awk`.
const UNBOUNDED_WIDTH: usize = 10_000;

/// Columns that may be filled on standard output.
pub fn terminal_width() -> usize {
    let is_terminal = std::io::stdout().is_terminal();
    let told = || ratatui::crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns));
    let told = if is_terminal { told() } else { None };
    width_from(std::env::var("COLUMNS").ok().as_deref(), is_terminal, told)
}

fn width_from(columns: Option<&str>, is_terminal: bool, told: Option<usize>) -> usize {
    match columns.and_then(|text| text.trim().parse().ok()) {
        Some(width) if (1..=UNBOUNDED_WIDTH).contains(&width) => width,
        _ if is_terminal => told.filter(|width| *width > 0).unwrap_or(USUAL_WIDTH),
        _ => UNBOUNDED_WIDTH,
    }
}

/// Puts the parts of a line side by side, three blanks apart; a part that would pass the width begins a new line, indented.
pub fn flow(parts: &[String], width: usize) -> String {
    const GAP: &str = "   ";
    const INDENT: &str = "  ";
    let mut text = String::new();
    let mut column = 0;
    for part in parts {
        let columns = anstream::adapter::strip_str(part).to_string().chars().count();
        if column == 0 {
            column = columns;
        } else if column + GAP.len() + columns <= width {
            text.push_str(GAP);
            column += GAP.len() + columns;
        } else {
            text.push('\n');
            text.push_str(INDENT);
            column = INDENT.len() + columns;
        }
        text.push_str(part);
    }
    text
}

/// Whether signs beyond ASCII can be shown.
pub fn unicode() -> bool {
    unicode_from(|name| std::env::var(name).ok())
}

fn unicode_from(variable: impl Fn(&str) -> Option<String>) -> bool {
    // The first that is set decides, as in the C library.
    let locale =
        ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(&variable).find(|value| !value.is_empty());
    let speaks_utf8 = locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    });
    speaks_utf8 && variable("TERM").as_deref() != Some("dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_is_what_the_variable_says_or_fits_the_reader() {
        assert_eq!(width_from(Some("80"), true, Some(132)), 80);
        assert_eq!(width_from(Some("80"), false, None), 80);
        assert_eq!(width_from(Some("0"), true, None), USUAL_WIDTH);
        assert_eq!(width_from(Some("wide"), true, Some(0)), USUAL_WIDTH);
        assert_eq!(width_from(None, true, Some(72)), 72);
        assert_eq!(width_from(None, false, None), UNBOUNDED_WIDTH);
    }

    #[test]
    fn parts_of_a_line_flow() {
        let parts = [format!("{GREEN}one{GREEN:#}"), "two".to_owned(), "three".to_owned()];
        assert_eq!(flow(&parts, 17), "\x1b[32mone\x1b[0m   two   three");
        assert_eq!(flow(&parts, 16), "\x1b[32mone\x1b[0m   two\n  three");
        assert_eq!(flow(&parts, 1), "\x1b[32mone\x1b[0m\n  two\n  three");
    }

    #[test]
    fn unicode_needs_the_locale_and_a_real_terminal() {
        let asked = |set: &[(&str, &str)]| {
            let set: Vec<_> =
                set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            unicode_from(move |name| set.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone()))
        };
        assert!(asked(&[("LANG", "en_US.UTF-8")]));
        assert!(asked(&[("LC_CTYPE", "C.utf8"), ("TERM", "xterm")]));
        assert!(asked(&[("LC_ALL", ""), ("LANG", "de_DE.UTF-8")]));
        assert!(!asked(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]));
        assert!(!asked(&[("LANG", "en_US.UTF-8"), ("TERM", "dumb")]));
        assert!(!asked(&[]));
    }
}
