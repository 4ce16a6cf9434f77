//! Where somebody looks at the screen: which part of it the keys move, and how far each part was moved.

/// A part of the screen that may hold more than there is room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Part {
    /// The table of nodes.
    #[default]
    Nodes,
    /// Pods that wait, and why.
    Waiting,
    /// What was decided.
    Decisions,
}

impl Part {
    /// All of them, from the top.
    pub const ALL: [Self; 3] = [Self::Nodes, Self::Waiting, Self::Decisions];
}

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// A line up.
    Up,
    /// A line down.
    Down,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// The first line.
    First,
    /// The last line.
    Last,
    /// The next part.
    NextPart,
    /// The part before.
    PreviousPart,
}

/// How far one part was moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scroll {
    /// Lines left out at the top.
    pub above: usize,
    /// Lines there are.
    lines: usize,
    /// Lines there is room for.
    room: usize,
    /// Follows the last line as new ones come.
    at_end: bool,
}

impl Scroll {
    /// Takes note of what there is to show, and where. Gives back how many lines are left out at the top.
    pub fn fit(&mut self, lines: usize, room: usize) -> usize {
        (self.lines, self.room) = (lines, room);
        let most = lines.saturating_sub(room);
        self.above = if self.at_end { most } else { self.above.min(most) };
        self.above
    }

    fn moved(&mut self, to: usize) {
        let most = self.lines.saturating_sub(self.room);
        self.above = to.min(most);
        self.at_end = self.at_end && self.above == most;
    }

    fn go(&mut self, by: Move) {
        // One line of the page before stays in view.
        let page = self.room.saturating_sub(1).max(1);
        match by {
            Move::Up => self.moved(self.above.saturating_sub(1)),
            Move::Down => self.moved(self.above + 1),
            Move::PageUp => self.moved(self.above.saturating_sub(page)),
            Move::PageDown => self.moved(self.above + page),
            Move::First => self.moved(0),
            Move::Last => self.moved(usize::MAX),
            Move::NextPart | Move::PreviousPart => {}
        }
    }
}

/// What somebody looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// The part that keys move.
    pub part: Part,
    /// Of the nodes.
    pub nodes: Scroll,
    /// Of the pods that wait.
    pub waiting: Scroll,
    /// Of the decisions: the newest are last.
    pub decisions: Scroll,
}

impl Default for Look {
    fn default() -> Self {
        let newest = Scroll { at_end: true, ..Scroll::default() };
        Self {
            part: Part::default(),
            nodes: Scroll::default(),
            waiting: Scroll::default(),
            decisions: newest,
        }
    }
}

impl Look {
    /// Moves.
    pub fn go(&mut self, by: Move) {
        let at = Part::ALL.iter().position(|part| *part == self.part).unwrap_or_default();
        match by {
            Move::NextPart => self.part = Part::ALL[(at + 1) % Part::ALL.len()],
            Move::PreviousPart => self.part = Part::ALL[(at + Part::ALL.len() - 1) % Part::ALL.len()],
            by => {
                let is_decisions = self.part == Part::Decisions;
                let scroll = match self.part {
                    Part::Nodes => &mut self.nodes,
                    Part::Waiting => &mut self.waiting,
                    Part::Decisions => &mut self.decisions,
                };
                scroll.go(by);
                // Who is back at the newest sees what comes.
                let most = scroll.lines.saturating_sub(scroll.room);
                scroll.at_end = is_decisions && scroll.above == most;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_pages_stay_within_what_there_is() {
        let mut look = Look::default();
        assert_eq!(look.nodes.fit(41, 10), 0);
        for (by, above) in [
            (Move::Up, 0),
            (Move::Down, 1),
            (Move::PageDown, 10),
            (Move::PageDown, 19),
            (Move::Last, 31),
            (Move::PageDown, 31),
            (Move::PageUp, 22),
            (Move::First, 0),
        ] {
            look.go(by);
            assert_eq!(look.nodes.above, above, "{by:?}");
        }
        // Fewer nodes than before: nothing is left out for nothing.
        look.go(Move::Last);
        assert_eq!(look.nodes.fit(12, 10), 2);
        assert_eq!(look.nodes.fit(3, 10), 0);
    }

    #[test]
    fn decisions_follow_the_newest_unless_somebody_looks_back() {
        let mut look = Look { part: Part::Decisions, ..Look::default() };
        assert_eq!(look.decisions.fit(20, 5), 15);
        assert_eq!(look.decisions.fit(21, 5), 16);
        look.go(Move::Up);
        assert_eq!(look.decisions.fit(22, 5), 15);
        look.go(Move::Last);
        assert_eq!(look.decisions.fit(23, 5), 18);
    }

    #[test]
    fn parts_follow_one_another() {
        let mut look = Look::default();
        let mut seen = Vec::new();
        for _ in 0..3 {
            look.go(Move::NextPart);
            seen.push(look.part);
        }
        assert_eq!(seen, [Part::Waiting, Part::Decisions, Part::Nodes]);
        look.go(Move::PreviousPart);
        assert_eq!(look.part, Part::Decisions);
    }
}
