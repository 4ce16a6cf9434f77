//! A picture as a frame of a terminal.
//!
//! Verdict first: the header has the bill and what pods do, then come the nodes with bars, then what waits and why, and the latest
//! decisions. What does not fit is counted, never silently left out.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Row, Table};

use super::{HOURS_PER_MONTH, NodeRow, NodeState, Picture};
use crate::show::{amount, bar, bytes, cores, money, plural};

/// Width from which there may be room for more columns, and longer bars.
const WIDE: u16 = 100;
/// Those columns, in the order of their worth.
const FURTHER: [(&str, u16); 3] = [("STATE", 9), ("CAPACITY", 10), ("ZONE", 12)];
/// A name or a type longer than this may be cut.
const LONG_NAME: usize = 28;
/// Cells of a bar, where there is room and where there is little.
const BAR: usize = 8;
const SHORT_BAR: usize = 4;
/// Warnings that are told.
const WARNINGS: usize = 3;
/// Waiting pods that are told of.
const WAITING: usize = 3;

/// Draws a picture. Bars are of ASCII signs where others cannot be shown.
pub fn draw(frame: &mut Frame<'_>, picture: &Picture, unicode: bool) {
    let area = frame.area();
    let decisions = (picture.decisions.len() as u16).min(area.height / 4).max(1) + 1;
    let waiting = match waiting_lines(picture, WAITING) {
        lines if lines.is_empty() => 0,
        lines => lines.len() as u16 + 1,
    };
    let [header, nodes, pending, recent, footer] = Layout::vertical([
        Constraint::Length(3 + picture.warnings.len().min(WARNINGS) as u16),
        Constraint::Min(3),
        Constraint::Length(waiting),
        Constraint::Length(decisions),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_header(frame, header, picture);
    draw_nodes(frame, nodes, picture, unicode);
    if waiting > 0 {
        draw_waiting(frame, pending, picture);
    }
    draw_decisions(frame, recent, picture);
    frame.render_widget(
        Paragraph::new(Line::styled(
            format!("q ends    KUBECONFIG={} kubectl get nodes -w", picture.kubeconfig),
            Style::new().add_modifier(Modifier::DIM),
        )),
        footer,
    );
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
    bill.extend([format!("cpu {:.0} %", cpu * 100.0), format!("memory {:.0} %", memory * 100.0)]);
    if let Some(gap) = picture.gap {
        bill.push(format!("last plan {:.1} % above bound", gap * 100.0));
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

fn draw_nodes(frame: &mut Frame<'_>, area: Rect, picture: &Picture, unicode: bool) {
    let columns = Columns::of(area.width, &picture.nodes);
    // One line for the rule above, one for the headings.
    let lines = usize::from(area.height.saturating_sub(2));
    let all = picture.nodes.len();
    // The last line tells how many are not shown.
    let shown = if all > lines { lines.saturating_sub(1) } else { all };
    let mut rows: Vec<Row<'_>> =
        picture.nodes.iter().take(shown).map(|node| row_of(node, &columns, unicode)).collect();
    if shown < all {
        let rest = &picture.nodes[shown..];
        let price: f64 = rest.iter().filter_map(|node| node.price_per_hour).sum();
        let pods: usize = rest.iter().map(|node| node.pods).sum();
        rows.push(Row::new(vec![
            format!("… {} more", all - shown),
            String::new(),
            plural(pods, "pod"),
            String::new(),
            String::new(),
            amount(price),
        ]));
    }
    let mut headings = vec!["NODE", "TYPE", "PODS", "CPU", "MEMORY", "$/H"];
    let [name, instance_type] = columns.names;
    let mut widths = vec![name, instance_type];
    widths.extend(fixed(columns.bar).map(Constraint::Length));
    for (heading, width) in &FURTHER[..columns.further] {
        headings.push(heading);
        widths.push(Constraint::Length(*width));
    }
    let table = Table::new(rows, widths)
        .header(Row::new(headings).style(Style::new().add_modifier(Modifier::DIM)))
        .block(Block::new().borders(Borders::TOP));
    frame.render_widget(table, area);
}

/// Widths of pods, CPU, memory and price.
fn fixed(bar: usize) -> [u16; 4] {
    [8, bar as u16 + 10, bar as u16 + 12, 6]
}

/// What the table of nodes has room for.
struct Columns {
    /// Name and type.
    names: [Constraint; 2],
    /// How many of [`FURTHER`].
    further: usize,
    /// Cells of a bar.
    bar: usize,
}

impl Columns {
    /// Names and types come first; what is left goes to more columns, then to longer bars.
    fn of(width: u16, nodes: &[NodeRow]) -> Self {
        if width < WIDE {
            return Self { names: [Constraint::Fill(5), Constraint::Fill(6)], further: 0, bar: SHORT_BAR };
        }
        let longest = |text: fn(&NodeRow) -> &str| {
            let longest = nodes.iter().map(|node| text(node).chars().count()).max().unwrap_or(0);
            longest.clamp(LONG_NAME / 2, LONG_NAME) as u16
        };
        let needed = [longest(|node| &node.name), longest(|node| &node.instance_type)];
        // One blank between two columns.
        let taken: u16 = needed.iter().chain(&fixed(SHORT_BAR)).map(|width| width + 1).sum();
        let mut left = (width + 1).saturating_sub(taken);
        let mut further = 0;
        for (_, width) in FURTHER {
            if left <= width {
                break;
            }
            left -= width + 1;
            further += 1;
        }
        let more = 2 * (BAR - SHORT_BAR) as u16;
        let bar = if further == FURTHER.len() && left >= more {
            left -= more;
            BAR
        } else {
            SHORT_BAR
        };
        let names = [needed[0] + left / 2, needed[1] + left - left / 2].map(Constraint::Length);
        Self { names, further, bar }
    }
}

/// What a node costs, or a question mark.
pub(super) fn price(node: &NodeRow) -> String {
    node.price_per_hour.map_or_else(|| "?".to_owned(), amount)
}

fn row_of(node: &NodeRow, columns: &Columns, unicode: bool) -> Row<'static> {
    let share = |used: i64, all: i64| if all > 0 { used as f64 / all as f64 } else { 0.0 };
    let room = columns.bar;
    let mut cells = vec![
        node.name.clone(),
        node.instance_type.clone(),
        node.pods.to_string(),
        format!(
            "{} {}/{}",
            bar(share(node.cpu_used_milli, node.cpu_milli), room, unicode),
            cores(node.cpu_used_milli),
            cores(node.cpu_milli)
        ),
        format!(
            "{} {}/{}",
            bar(share(node.memory_used_bytes, node.memory_bytes), room, unicode),
            bytes(node.memory_used_bytes),
            bytes(node.memory_bytes)
        ),
        price(node),
    ];
    let further = [node.state.word().to_owned(), node.capacity_type.clone(), node.zone.clone()];
    cells.extend(further.into_iter().take(columns.further));
    let style = match node.state {
        NodeState::Starting => Style::new().fg(Color::Green),
        NodeState::Ready => Style::new(),
        NodeState::NotReady => Style::new().fg(Color::Red),
        NodeState::Cordoned | NodeState::Leaving => Style::new().fg(Color::Yellow),
    };
    Row::new(cells).style(style)
}

fn draw_waiting(frame: &mut Frame<'_>, area: Rect, picture: &Picture) {
    let shown = picture.waiting.len().min(WAITING);
    let title = match picture.pods.pending.saturating_sub(shown) {
        0 => "waiting".to_owned(),
        more => format!("waiting ({more} more)"),
    };
    let block = Block::new().borders(Borders::TOP).title(title);
    frame.render_widget(Paragraph::new(waiting_lines(picture, shown)).block(block), area);
}

/// A line of the scheduler for each pod, and one of joiner where it knows that no machine would help.
fn waiting_lines(picture: &Picture, pods: usize) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    for waiting in picture.waiting.iter().take(pods) {
        lines.push(Line::from(vec![
            Span::raw(format!("{}  ", waiting.pod)),
            Span::styled(waiting.scheduler.as_str(), Style::new().fg(Color::Yellow)),
        ]));
        if let Some(why) = &waiting.joiner {
            lines.push(Line::styled(format!("  no machine would help: {why}"), Style::new().fg(Color::Red)));
        }
    }
    lines
}

fn draw_decisions(frame: &mut Frame<'_>, area: Rect, picture: &Picture) {
    let room = usize::from(area.height.saturating_sub(1));
    let skipped = picture.decisions.len().saturating_sub(room);
    let lines: Vec<Line<'_>> = picture
        .decisions
        .iter()
        .skip(skipped)
        .map(|decision| {
            Line::from(vec![
                Span::styled(
                    decision.at.strftime("%H:%M:%S  ").to_string(),
                    Style::new().add_modifier(Modifier::DIM),
                ),
                Span::raw(decision.what.clone()),
            ])
        })
        .collect();
    frame.render_widget(
        Paragraph::new(lines).block(Block::new().borders(Borders::TOP).title("decisions")),
        area,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
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
            kubeconfig: "joiner.kubeconfig".to_owned(),
        }
    }

    fn drawn(width: u16, height: u16, picture: &Picture) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, picture, true)).unwrap();
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
    fn names_and_types_are_whole_at_any_usual_width() {
        for width in 80..=160 {
            let drawn = drawn(width, 24, &picture(3));
            let row = drawn.lines().find(|line| line.contains("default-00001")).expect("a node");
            assert!(row.contains("c-16x-amd64-linux "), "{width}: {row}");
        }
        for (width, headings) in [(99, 0), (100, 1), (104, 2), (119, 3)] {
            let drawn = drawn(width, 24, &picture(3));
            let shown = FURTHER.iter().filter(|(heading, _)| drawn.contains(heading)).count();
            assert!(shown >= headings, "{width}: {drawn}");
        }
    }

    #[test]
    fn no_terminal_is_too_small() {
        for (width, height) in [(1, 1), (10, 2), (20, 5), (300, 3), (4, 200)] {
            drawn(width, height, &picture(7));
        }
    }
}
