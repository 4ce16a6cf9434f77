//! A picture as a frame of a terminal.
//!
//! Verdict first: the header has the bill and what pods do, then come the nodes with bars, then what waits and why, and the latest
//! decisions. What does not fit is counted, never silently left out, and can be scrolled to.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Row, Table};

use super::columns::{Column, Columns};
use super::look::{Look, Part};
use super::{HOURS_PER_MONTH, NodeRow, NodeState, Picture};
use crate::show::{amount, bar, bytes, cores, folded, money, percent, plural, whole_percent};

/// Warnings that are told.
const WARNINGS: usize = 3;
/// Waiting pods that are told of where there is little room.
const WAITING: usize = 3;
/// When decisions were made: a day and a time.
pub(super) const MOMENT: &str = "%m-%d %H:%M:%S";

/// Draws a picture. Bars are of ASCII signs where others cannot be shown.
pub fn draw(frame: &mut Frame<'_>, picture: &Picture, look: &mut Look, unicode: bool) {
    let area = frame.area();
    let width = usize::from(area.width);
    let whole = Texts::of(picture, width, true);
    let cut = Texts::of(picture, width, false);
    let header_height = 3 + picture.warnings.len().min(WARNINGS) as u16;
    let room = usize::from(area.height.saturating_sub(header_height + 1));
    let heights = Heights::share(room, picture, &whole, &cut, look.part);
    let [header, nodes, pending, recent, footer] = Layout::vertical([
        Constraint::Length(header_height),
        Constraint::Min(3),
        Constraint::Length(heights.waiting as u16),
        Constraint::Length(heights.decisions as u16),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_header(frame, header, picture);
    draw_nodes(frame, nodes, picture, look, unicode);
    if pending.height > 0 {
        let room = lines_in(pending);
        // Whole where there is room for all of it, or where somebody looks; else a line each.
        let texts = match whole.waiting.len() <= room || look.part == Part::Waiting {
            true => whole.waiting,
            false => cut.waiting,
        };
        let above = look.waiting.fit(texts.len(), room);
        let last = texts.iter().skip(above).take(room).next_back().map_or(0, |text| text.pod + 1);
        let title = match picture.pods.pending.saturating_sub(last) {
            0 => "waiting".to_owned(),
            more => format!("waiting ({more} more)"),
        };
        draw_texts(frame, pending, &texts, above, title, look.part == Part::Waiting);
    }
    let room = lines_in(recent);
    let texts = match whole.decisions.len() <= room || look.part == Part::Decisions {
        true => whole.decisions,
        false => cut.decisions,
    };
    let above = look.decisions.fit(texts.len(), room);
    let title = match texts.len().saturating_sub(above + room) {
        0 => "decisions".to_owned(),
        later => format!("decisions ({} below)", plural(later, "line")),
    };
    draw_texts(frame, recent, &texts, above, title, look.part == Part::Decisions);
    let keys = if unicode { "↑↓" } else { "arrows" };
    let mut hint = format!("q ends  {keys} scroll  tab next part");
    if let Some(kubeconfig) = &picture.kubeconfig {
        hint.push_str(&format!("  KUBECONFIG={kubeconfig} kubectl get nodes -w"));
    }
    let hint = Line::styled(hint, Style::new().add_modifier(Modifier::DIM));
    frame.render_widget(Paragraph::new(hint), footer);
}

/// Lines below the rule at the top of a part.
fn lines_in(area: Rect) -> usize {
    usize::from(area.height.saturating_sub(1))
}

/// A line of text, and the pod it is about.
struct Text<'p> {
    pod: usize,
    line: Line<'p>,
}

/// What waits and what was decided, in lines.
struct Texts<'p> {
    waiting: Vec<Text<'p>>,
    decisions: Vec<Text<'p>>,
}

impl<'p> Texts<'p> {
    fn of(picture: &'p Picture, width: usize, whole: bool) -> Self {
        Self {
            waiting: waiting_texts(picture, width, whole),
            decisions: decision_texts(picture, width, whole),
        }
    }

    /// Lines about the first pods.
    fn about_first(&self, pods: usize) -> usize {
        self.waiting.iter().filter(|text| text.pod < pods).count()
    }
}

/// A line that begins with a head and goes on below itself, or is cut.
fn told<'p>(
    out: &mut Vec<Text<'p>>,
    pod: usize,
    head: Span<'p>,
    text: &str,
    style: Style,
    fits: (usize, bool),
) {
    let (width, whole) = fits;
    let indent = head.content.chars().count().min(width / 2);
    let left = width.saturating_sub(head.content.chars().count()).max(1);
    if !whole {
        let mut text: String = text.to_owned();
        if text.chars().count() > left {
            text = text.chars().take(left.saturating_sub(1)).chain(['…']).collect();
        }
        out.push(Text { pod, line: Line::from(vec![head, Span::styled(text, style)]) });
        return;
    }
    let mut lines = folded(text, left).into_iter();
    let first = lines.next().unwrap_or_default();
    let rest: Vec<String> = lines.collect();
    out.push(Text { pod, line: Line::from(vec![head, Span::styled(first, style)]) });
    // What follows has more room if the head was long.
    for line in folded(&rest.join(" "), width.saturating_sub(indent).max(1)) {
        let line = Line::styled(format!("{}{line}", " ".repeat(indent)), style);
        out.push(Text { pod, line });
    }
}

/// A text of the scheduler for each pod; and one of joiner where no machine would help, or one is on its way.
fn waiting_texts(picture: &Picture, width: usize, whole: bool) -> Vec<Text<'_>> {
    let mut out = Vec::new();
    for (at, waiting) in picture.waiting.iter().enumerate() {
        let head = Span::raw(format!("{}  ", waiting.pod));
        told(&mut out, at, head, &waiting.scheduler, Style::new().fg(Color::Yellow), (width, whole));
        let (text, colour) = match (&waiting.joiner, &waiting.awaits) {
            (Some(why), _) => (format!("no machine would help: {why}"), Color::Red),
            (None, Some(what)) => (what.clone(), Color::Cyan),
            (None, None) => continue,
        };
        told(&mut out, at, Span::raw("  "), &text, Style::new().fg(colour), (width, whole));
    }
    out
}

fn decision_texts(picture: &Picture, width: usize, whole: bool) -> Vec<Text<'_>> {
    let mut out = Vec::new();
    for (at, decision) in picture.decisions.iter().enumerate() {
        let moment = format!("{}  ", decision.at.strftime(MOMENT));
        let head = Span::styled(moment, Style::new().add_modifier(Modifier::DIM));
        told(&mut out, at, head, &decision.what, Style::new(), (width, whole));
    }
    out
}

/// Lines of the parts below the nodes, rules included.
struct Heights {
    waiting: usize,
    decisions: usize,
}

impl Heights {
    /// Each part gets a little; what the nodes do not need goes to whole reasons first, then to more decisions. A part that somebody
    /// looks at has half the room.
    fn share(room: usize, picture: &Picture, whole: &Texts, cut: &Texts, part: Part) -> Self {
        let with_rule = |lines: usize| if lines == 0 { 0 } else { lines + 1 };
        let mut waiting = with_rule(cut.about_first(WAITING));
        let few = (room / 4).max(1);
        let mut decisions = cut.decisions.len().clamp(1, few) + 1;
        match part {
            Part::Nodes => {}
            Part::Waiting => waiting = waiting.max(with_rule(whole.waiting.len()).min(room / 2)),
            Part::Decisions => decisions = decisions.max((whole.decisions.len() + 1).min(room / 2)),
        }
        let nodes = (picture.nodes.len() + 2).max(3);
        let mut spare = room.saturating_sub(nodes + waiting + decisions);
        let more = with_rule(whole.waiting.len()).saturating_sub(waiting).min(spare);
        waiting += more;
        spare -= more;
        decisions += (whole.decisions.len() + 1).saturating_sub(decisions).min(spare);
        Self { waiting, decisions }
    }
}

fn draw_texts(
    frame: &mut Frame<'_>,
    area: Rect,
    texts: &[Text],
    above: usize,
    title: String,
    looked_at: bool,
) {
    let lines: Vec<Line<'_>> =
        texts.iter().skip(above).take(lines_in(area)).map(|text| text.line.clone()).collect();
    frame.render_widget(Paragraph::new(lines).block(part(title, above, looked_at)), area);
}

/// The rule above a part, with its title; the one that keys move stands out.
fn part(title: String, above: usize, looked_at: bool) -> Block<'static> {
    let above = if above > 0 { format!(" ({above} above)") } else { String::new() };
    let style = if looked_at { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
    Block::new().borders(Borders::TOP).title(Span::styled(format!("{title}{above}"), style))
}

/// The header: time, counts, the bill.
pub fn verdict(picture: &Picture) -> [String; 2] {
    let pods = picture.pods;
    let (cpu, memory) = picture.requested();
    let mut counts = vec![
        plural(picture.nodes.len(), "node"),
        format!("{} running", plural(pods.running, "pod")),
        format!("{} pending", pods.pending),
    ];
    for (count, word) in [(pods.starting, "starting"), (pods.leaving, "leaving"), (pods.failed, "failed")] {
        if count > 0 {
            counts.push(format!("{count} {word}"));
        }
    }
    let price = picture.price_per_hour();
    let mut bill = vec![format!("{}/h", money(price)), format!("{}/month", money(price * HOURS_PER_MONTH))];
    match picture.nodes_without_price() {
        0 => {}
        count => bill.push(format!("and {} of unknown price", plural(count, "node"))),
    }
    bill.extend([format!("cpu {}", whole_percent(cpu)), format!("memory {}", whole_percent(memory))]);
    if let Some(gap) = picture.gap {
        bill.push(format!("last plan {} above bound", percent(gap)));
    }
    [counts.join("  "), bill.join("  ")]
}

fn draw_header(frame: &mut Frame<'_>, area: Rect, picture: &Picture) {
    let [counts, bill] = verdict(picture);
    let time = picture.now.strftime("%Y-%m-%d %H:%M:%S");
    let mut first = vec![
        Span::styled("joiner", Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(format!("  {time}  {}", picture.pace)),
    ];
    if let Some(caption) = &picture.caption {
        first.push(Span::styled(format!("  {caption}"), Style::new().fg(Color::Cyan)));
    }
    let waits = picture.pods.pending > 0;
    let counts_style = if waits { Style::new().fg(Color::Yellow) } else { Style::new().fg(Color::Green) };
    let mut lines = vec![
        Line::from(first),
        Line::styled(counts, counts_style),
        Line::styled(bill, Style::new().add_modifier(Modifier::BOLD)),
    ];
    let more = picture.warnings.len().saturating_sub(WARNINGS);
    for (at, warning) in picture.warnings.iter().take(WARNINGS).enumerate() {
        let rest = if at + 1 == WARNINGS && more > 0 { format!(" (and {more} more)") } else { String::new() };
        lines.push(Line::styled(format!("! {warning}{rest}"), Style::new().fg(Color::Red)));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_nodes(frame: &mut Frame<'_>, area: Rect, picture: &Picture, look: &mut Look, unicode: bool) {
    let columns = Columns::of(area.width, &picture.nodes);
    // One line for the rule above, one for the headings.
    let lines = usize::from(area.height.saturating_sub(2));
    let all = picture.nodes.len();
    // The last line tells how many are below.
    let room = if all > lines { lines.saturating_sub(1) } else { lines };
    let above = look.nodes.fit(all, room);
    let end = (above + room).min(all);
    let mut rows: Vec<Row<'_>> =
        picture.nodes[above..end].iter().map(|node| row_of(node, &columns, unicode)).collect();
    if end < all && lines > 0 {
        let rest = &picture.nodes[end..];
        let price: f64 = rest.iter().filter_map(|node| node.price_per_hour).sum();
        let pods: usize = rest.iter().map(|node| node.pods).sum();
        rows.push(Row::new(columns.shown.iter().map(|(column, _)| match column {
            Column::Name => format!("… {} more", all - end),
            Column::Pods => pods.to_string(),
            Column::Price => amount(price),
            _ => String::new(),
        })));
    }
    let headings = columns.shown.iter().map(|(column, _)| column.heading());
    let widths = columns.shown.iter().map(|(_, width)| Constraint::Length(*width));
    let table = Table::new(rows, widths)
        .header(Row::new(headings).style(Style::new().add_modifier(Modifier::DIM)))
        .block(part(String::from("nodes"), above, look.part == Part::Nodes));
    frame.render_widget(table, area);
}

/// What a node costs, or a question mark.
pub(super) fn price(node: &NodeRow) -> String {
    node.price_per_hour.map_or_else(|| "?".to_owned(), amount)
}

/// CPU that is asked for of what there is.
pub(super) fn cpu(node: &NodeRow) -> String {
    format!("{}/{}", cores(node.cpu_used_milli), cores(node.cpu_milli))
}

/// Memory that is asked for of what there is.
pub(super) fn memory(node: &NodeRow) -> String {
    format!("{}/{}", bytes(node.memory_used_bytes), bytes(node.memory_bytes))
}

fn row_of(node: &NodeRow, columns: &Columns, unicode: bool) -> Row<'static> {
    let with_bar = |used: i64, all: i64, text: String| {
        let share = if all > 0 { used as f64 / all as f64 } else { 0.0 };
        match columns.bar {
            0 => text,
            cells => format!("{} {text}", bar(share, cells, unicode)),
        }
    };
    let cells = columns.shown.iter().map(|(column, _)| match column {
        Column::Name => node.name.clone(),
        Column::Type => node.instance_type.clone(),
        Column::Pods => node.pods.to_string(),
        Column::Cpu => with_bar(node.cpu_used_milli, node.cpu_milli, cpu(node)),
        Column::Memory => with_bar(node.memory_used_bytes, node.memory_bytes, memory(node)),
        Column::Price => price(node),
        Column::State => node.state.word().to_owned(),
        Column::Capacity => node.capacity_type.clone(),
        Column::Zone => node.zone.clone(),
    });
    let style = match node.state {
        NodeState::Starting => Style::new().fg(Color::Green),
        NodeState::Ready => Style::new(),
        NodeState::NotReady => Style::new().fg(Color::Red),
        NodeState::Cordoned | NodeState::Leaving => Style::new().fg(Color::Yellow),
    };
    Row::new(cells.collect::<Vec<_>>()).style(style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::look::Move;
    use crate::view::{Decision, PodCounts, Waiting};
    use jiff::Timestamp;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn node(number: usize, state: NodeState) -> NodeRow {
        NodeRow {
            name: format!("default-{number:05}"),
            pool: "default".to_owned(),
            instance_type: "c-16x-amd64-linux".to_owned(),
            zone: "test-zone-a".to_owned(),
            capacity_type: "spot".to_owned(),
            state,
            cpu_milli: 15_900,
            memory_bytes: 32 << 30,
            cpu_used_milli: 1_590 * number as i64,
            memory_used_bytes: (3 * number as i64) << 30,
            pods: number,
            price_per_hour: Some(0.304),
        }
    }

    fn picture(nodes: usize) -> Picture {
        let at = |seconds: i64| Timestamp::from_second(1_793_600_000 + seconds).unwrap();
        let states = [NodeState::Ready, NodeState::Starting, NodeState::Leaving, NodeState::NotReady];
        Picture {
            now: at(90),
            pace: "60x".to_owned(),
            nodes: (1..=nodes).map(|number| node(number, states[number % 4])).collect(),
            pods: PodCounts { pending: 5, running: 41, leaving: 2, ..PodCounts::default() },
            waiting: (1..=5)
                .map(|number| Waiting {
                    pod: format!("default/web-{number}"),
                    scheduler: "0/3 nodes are available: 3 Insufficient cpu.".to_owned(),
                    joiner: (number == 2).then(|| "nodepool/default: asks for 300 cpu".to_owned()),
                    awaits: (number == 1)
                        .then(|| "waits for default-00001: the node is not ready".to_owned()),
                })
                .collect(),
            gap: Some(0.034),
            decisions: (1..=12)
                .map(|number| Decision {
                    at: at(number),
                    what: format!("adds default-{number:05} for 5 pods at $0.304/h"),
                })
                .collect(),
            warnings: Vec::new(),
            caption: Some("a spike: web goes to 60 replicas".to_owned()),
            kubeconfig: Some("joiner.kubeconfig".to_owned()),
        }
    }

    fn drawn(width: u16, height: u16, picture: &Picture) -> String {
        drawn_at(width, height, picture, &mut Look::default())
    }

    fn drawn_at(width: u16, height: u16, picture: &Picture, look: &mut Look) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, picture, look, true)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn what_cannot_be_done_stands_below_the_bill() {
        let warning = |number: usize| format!("list of kind{number} is forbidden: nothing is decided");
        let picture = Picture { warnings: (1..=5).map(warning).collect(), ..picture(3) };
        let drawn = drawn(80, 24, &picture);
        assert!(drawn.contains("! list of kind1 is forbidden"), "{drawn}");
        assert!(drawn.contains("kind3 is forbidden: nothing is decided (and 2 more)"), "{drawn}");
        assert!(!drawn.contains("kind4"), "{drawn}");
        assert!(crate::view::lines::frame(&picture, 80).contains("! list of kind5 is forbidden"));
    }

    #[test]
    fn a_usual_terminal() {
        insta::assert_snapshot!(drawn(80, 24, &picture(3)));
    }

    #[test]
    fn a_wide_terminal_with_more_nodes_than_lines() {
        insta::assert_snapshot!(drawn(132, 30, &picture(40)));
    }

    #[test]
    fn an_empty_cluster() {
        let empty = Picture {
            nodes: Vec::new(),
            waiting: Vec::new(),
            decisions: Vec::new(),
            caption: None,
            gap: None,
            pods: PodCounts::default(),
            ..picture(0)
        };
        insta::assert_snapshot!(drawn(80, 12, &empty));
    }

    #[test]
    fn names_are_whole_on_any_terminal_and_other_columns_give_way() {
        let shown = |width: u16, picture: &Picture| {
            let drawn = drawn(width, 24, picture);
            let heading = drawn.lines().find(|line| line.contains("NODE ")).expect("headings").to_owned();
            let row = drawn.lines().find(|line| line.contains(&picture.nodes[0].name));
            let row = row.unwrap_or_else(|| panic!("{width}: no whole name:\n{drawn}")).to_owned();
            let columns = ["TYPE", "PODS", "CPU", "MEMORY", "$/H", "STATE", "CAPACITY", "ZONE"];
            let columns: Vec<&str> = columns.into_iter().filter(|column| heading.contains(column)).collect();
            (columns.join(" "), row)
        };
        for (width, expected) in [
            (24, "$/H"),
            (30, "PODS $/H"),
            (50, "TYPE PODS $/H"),
            (60, "TYPE PODS CPU $/H"),
            (80, "TYPE PODS CPU MEMORY $/H"),
            (100, "TYPE PODS CPU MEMORY $/H STATE CAPACITY"),
            (120, "TYPE PODS CPU MEMORY $/H STATE CAPACITY ZONE"),
        ] {
            assert_eq!(shown(width, &picture(3)).0, expected, "{width}");
        }
        let mut long = picture(3);
        for node in &mut long.nodes {
            node.name = format!("ip-10-0-{}-134.us-west-2.compute.internal", node.pods);
            node.instance_type = "m5.xlarge".to_owned();
        }
        for width in 50..=160 {
            let (_, row) = shown(width, &long);
            assert!(row.contains("0.304"), "{width}: {row}");
        }
        assert_eq!(shown(80, &long).0, "TYPE PODS CPU $/H");
        // Bars come where figures have room already.
        assert!(shown(80, &picture(3)).1.contains('▃'), "{:?}", shown(80, &picture(3)));
    }

    #[test]
    fn nodes_are_scrolled_to() {
        let (picture, mut look) = (picture(40), Look::default());
        let first = drawn_at(100, 24, &picture, &mut look);
        assert!(first.contains("default-00001") && first.contains(" more "), "{first}");
        look.go(Move::PageDown);
        look.go(Move::Down);
        let later = drawn_at(100, 24, &picture, &mut look);
        assert!(!later.contains("default-00001 "), "{later}");
        assert!(later.contains(" above)"), "{later}");
        look.go(Move::Last);
        let last = drawn_at(100, 24, &picture, &mut look);
        assert!(last.contains("default-00040") && !last.contains("… "), "{last}");
    }

    #[test]
    fn reasons_are_whole_where_there_is_room_or_somebody_looks() {
        let reason = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims \
                      found for incoming pod, because all of them are more important than it is";
        let mut picture = picture(3);
        picture.waiting.truncate(2);
        picture.pods.pending = 2;
        picture.waiting[0].scheduler = reason.to_owned();
        let end = "more important than it is";
        let joined = |text: &str| {
            let lines = text.lines().map(|line| line.trim_matches('"').trim());
            lines.collect::<Vec<_>>().join(" ")
        };
        assert!(joined(&drawn(80, 40, &picture)).contains(end), "{}", drawn(80, 40, &picture));
        let small = drawn(80, 18, &picture);
        assert!(!joined(&small).contains(end) && small.contains('…'), "{small}");
        let mut look = Look { part: Part::Waiting, ..Look::default() };
        drawn_at(80, 18, &picture, &mut look);
        look.go(Move::Down);
        let looked_at = joined(&drawn_at(80, 18, &picture, &mut look));
        assert!(looked_at.contains("more important"), "{looked_at}");
    }

    #[test]
    fn decisions_carry_their_day_and_can_be_scrolled_to() {
        let (picture, mut look) = (picture(3), Look { part: Part::Decisions, ..Look::default() });
        let newest = drawn_at(80, 24, &picture, &mut look);
        assert!(newest.contains("11-02 06:13:32  adds default-00012"), "{newest}");
        look.go(Move::First);
        let oldest = drawn_at(80, 24, &picture, &mut look);
        assert!(oldest.contains("adds default-00001 ") && oldest.contains("below)"), "{oldest}");
    }

    #[test]
    fn no_terminal_is_too_small() {
        for (width, height) in [(1, 1), (10, 2), (20, 5), (300, 3), (4, 200)] {
            drawn(width, height, &picture(7));
        }
    }
}
