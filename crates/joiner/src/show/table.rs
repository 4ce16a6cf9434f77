//! A plain table as kubectl prints it: no lines, an upper-case heading, two blanks between columns.
//!
//! Cells may carry colours. The layout underneath measures text and would count escapes as letters, so each coloured
//! letter travels through it with an invisible mark of no width, and the marks become escapes again in the
//! finished lines. A cell that is folded thus stays coloured on all its lines and colours nothing else.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement};

/// Blanks between columns.
const GAP: usize = 2;
/// A column that must be folded keeps at least this width; where there is less, the terminal may fold the line.
const FOLDED_MIN: usize = 12;
/// The marks are variation selectors: part of the letter before them, no width, of no other use in names and numbers.
const FIRST_MARK: u32 = 0xE0100;
const MARKS: usize = 240;

/// A table under construction.
#[derive(Debug, Clone, Default)]
pub struct Table {
    heading: Vec<String>,
    right: Vec<usize>,
    rows: Vec<Vec<String>>,
    indent: usize,
    without_heading: bool,
    escapes: Vec<String>,
}

impl Table {
    /// A table with these columns.
    pub fn new(heading: &[&str]) -> Self {
        Self { heading: heading.iter().map(|name| (*name).to_owned()).collect(), ..Self::default() }
    }

    /// Aligns these columns (from 0) to the right: numbers.
    pub fn right(mut self, columns: &[usize]) -> Self {
        self.right.extend_from_slice(columns);
        self
    }

    /// Puts so many blanks before each line.
    pub fn indent(mut self, blanks: usize) -> Self {
        self.indent = blanks;
        self
    }

    /// Leaves the heading out.
    pub fn without_heading(mut self) -> Self {
        self.without_heading = true;
        self
    }

    /// Adds a row; missing cells are blank.
    pub fn row(mut self, cells: Vec<String>) -> Self {
        self.push(cells);
        self
    }

    /// Adds a row in place.
    pub fn push(&mut self, cells: Vec<String>) {
        let cells = cells.into_iter().map(|cell| self.marked(&cell)).collect();
        self.rows.push(cells);
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as lines, each with its end. Text is folded only where the width forces it, and never in the first
    /// column (names are copied) or in numbers.
    pub fn render(&self, width: usize) -> String {
        let columns = self.heading.len();
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING);
        table.set_content_arrangement(ContentArrangement::Disabled);
        if !self.without_heading {
            table.set_header(self.heading.iter().map(Cell::new));
        }
        for row in &self.rows {
            table.add_row((0..columns).map(|at| Cell::new(row.get(at).map_or("", String::as_str))));
        }
        let natural: Vec<usize> = table.column_max_content_widths().into_iter().map(usize::from).collect();
        for (at, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, if at + 1 == columns { 0 } else { GAP as u16 }));
            if self.right.contains(&at) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for (at, folded) in self.folded(&natural, width.saturating_sub(self.indent)) {
            let gap = if at + 1 == columns { 0 } else { GAP };
            if let Some(column) = table.column_mut(at) {
                let total = u16::try_from(folded + gap).unwrap_or(u16::MAX);
                column.set_constraint(ColumnConstraint::Absolute(comfy_table::Width::Fixed(total)));
            }
        }
        let mut text = String::new();
        for line in table.lines() {
            let line = format!("{}{}", " ".repeat(self.indent), self.unmarked(&line));
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Which columns must be narrower than their text, and how wide they get. The widest give way first.
    fn folded(&self, natural: &[usize], width: usize) -> Vec<(usize, usize)> {
        let gaps = GAP * natural.len().saturating_sub(1);
        let mut excess = (natural.iter().sum::<usize>() + gaps).saturating_sub(width);
        let mut widths = natural.to_vec();
        let mut foldable: Vec<usize> = (1..natural.len()).filter(|at| !self.right.contains(at)).collect();
        foldable.retain(|at| natural[*at] > FOLDED_MIN);
        if foldable.iter().map(|at| natural[*at] - FOLDED_MIN).sum::<usize>() < excess {
            return Vec::new();
        }
        while excess > 0 {
            // The last among the widest: what stands further right matters less.
            let Some(&widest) = foldable.iter().max_by_key(|at| widths[**at]) else { break };
            widths[widest] -= 1;
            excess -= 1;
        }
        foldable.into_iter().filter(|at| widths[*at] < natural[*at]).map(|at| (at, widths[at])).collect()
    }

    /// Colours become marks; anything else a terminal would act on becomes visible.
    fn marked(&mut self, cell: &str) -> String {
        let mut out = String::with_capacity(cell.len());
        let mut mark = None;
        let mut rest = cell;
        while let Some(letter) = rest.chars().next() {
            if let Some((escape, after)) = colour_at(rest) {
                mark = self.mark_for(escape);
                rest = after;
                continue;
            }
            rest = &rest[letter.len_utf8()..];
            if letter.is_control() {
                out.extend(letter.escape_debug());
            } else if index_of(letter).is_none() {
                out.push(letter);
                if let Some(mark) = mark.filter(|_| letter != ' ') {
                    out.push(mark);
                }
            }
        }
        out
    }

    fn mark_for(&mut self, escape: &str) -> Option<char> {
        if is_reset(escape) {
            return None;
        }
        let at = self.escapes.iter().position(|known| known == escape).unwrap_or_else(|| {
            self.escapes.push(escape.to_owned());
            self.escapes.len() - 1
        });
        (at < MARKS).then(|| char::from_u32(FIRST_MARK + at as u32)).flatten()
    }

    /// Marks become colours, one pair of escapes per stretch of letters.
    fn unmarked(&self, line: &str) -> String {
        let mut out = String::with_capacity(line.len());
        let mut blanks = 0;
        let mut current: Option<usize> = None;
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            if letter == ' ' {
                blanks += 1;
                continue;
            }
            let here = letters.next_if(|next| index_of(*next).is_some()).and_then(index_of);
            // Blanks between words of one colour are inside; those between cells of one colour may be too: nobody sees it.
            if here != current && current.is_some() {
                out.push_str("\x1b[0m");
            }
            out.extend(std::iter::repeat_n(' ', blanks));
            blanks = 0;
            if here != current
                && let Some(escape) = here.and_then(|at| self.escapes.get(at))
            {
                out.push_str(escape);
            }
            current = here;
            out.push(letter);
        }
        if current.is_some() {
            out.push_str("\x1b[0m");
        }
        out
    }
}

/// The number of a mark.
fn index_of(letter: char) -> Option<usize> {
    (letter as u32).checked_sub(FIRST_MARK).map(|at| at as usize).filter(|at| *at < MARKS)
}

/// The colour escape a text begins with, and what follows it.
fn colour_at(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix("\x1b[")?;
    let end = inner.find(|letter: char| !letter.is_ascii_digit() && letter != ';')?;
    inner[end..].starts_with('m').then(|| text.split_at(2 + end + 1))
}

fn is_reset(escape: &str) -> bool {
    escape == "\x1b[m" || escape == "\x1b[0m"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::{BOLD, GREEN};

    fn cells(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn columns_are_two_blanks_apart_and_numbers_right() {
        let table = Table::new(&["NODE", "TYPE", "PODS"]).right(&[2]);
        let table = table.row(cells(&["default-1", "c-16x-amd64", "41"])).row(cells(&["b", "m", "110"]));
        assert_eq!(
            table.render(80),
            "NODE       TYPE         PODS\ndefault-1  c-16x-amd64    41\nb          m             110\n"
        );
        assert_eq!(
            table.clone().indent(2).without_heading().render(80),
            "  default-1  c-16x-amd64   41\n  b          m            110\n"
        );
    }

    #[test]
    fn no_line_ends_in_blanks() {
        let text = Table::new(&["A", "LONG"]).row(cells(&["x"])).row(cells(&["y", "something"])).render(80);
        assert_eq!(text, "A  LONG\nx\ny  something\n");
    }

    #[test]
    fn no_rows_leave_the_heading() {
        assert_eq!(Table::new(&["A", "B"]).render(80), "A  B\n");
        assert!(Table::new(&["A"]).is_empty());
        assert_eq!(Table::new(&["A", "B"]).without_heading().render(80), "");
    }

    #[test]
    fn only_long_text_is_folded() {
        let table = Table::new(&["NAME", "ZONES", "PRICE"]).right(&[2]);
        let table =
            table.row(cells(&["a-rather-long-name-of-a-node", "zone-a zone-b zone-c zone-d", "0.512"]));
        for (width, lines) in [(200, 2), (64, 2), (55, 3), (20, 2)] {
            let text = table.render(width);
            assert_eq!(text.lines().count(), lines, "{width}:\n{text}");
            assert!(text.contains("a-rather-long-name-of-a-node"), "{text}");
            if lines > 2 {
                assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
            }
        }
    }

    #[test]
    fn colours_take_no_room_and_reset() {
        let table = Table::new(&["NODE", "PODS"]).right(&[1]);
        let table = table.row(vec![format!("{GREEN}+ new{GREEN:#} one"), format!("{BOLD}7{BOLD:#}")]);
        assert_eq!(table.render(80), "NODE       PODS\n\x1b[32m+ new\x1b[0m one     \x1b[1m7\x1b[0m\n");
    }

    #[test]
    fn a_folded_cell_stays_coloured_and_colours_nothing_else() {
        let table = Table::new(&["N", "TEXT", "LAST"]);
        let table = table.row(vec![
            "x".into(),
            format!("{GREEN}several words to be folded{GREEN:#}"),
            "plain".into(),
        ]);
        let text = table.render(24);
        assert!(text.lines().count() > 2, "{text}");
        for line in text.lines().skip(1) {
            assert_eq!(line.matches("\x1b[32m").count(), 1, "{line:?}");
            assert_eq!(line.matches("\x1b[0m").count(), 1, "{line:?}");
        }
        assert!(text.contains("  plain"), "{text}");
    }

    #[test]
    fn what_a_terminal_would_act_on_is_shown_instead() {
        let text = Table::new(&["A"]).row(cells(&["x\ny\x1b[2Jz\t"])).render(80);
        assert_eq!(text, "A\nx\\ny\\u{1b}[2Jz\\t\n");
    }
}
