//! Which columns the table of nodes has room for.

use super::{NodeRow, screen};

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// Name of the node.
    Name,
    /// Instance type.
    Type,
    /// How many pods are on it.
    Pods,
    /// CPU.
    Cpu,
    /// Memory.
    Memory,
    /// Dollars per hour.
    Price,
    /// What it is doing.
    State,
    /// Capacity type.
    Capacity,
    /// Zone.
    Zone,
}

/// From left to right.
const ORDER: [Column; 9] = [
    Column::Name,
    Column::Type,
    Column::Pods,
    Column::Cpu,
    Column::Memory,
    Column::Price,
    Column::State,
    Column::Capacity,
    Column::Zone,
];
/// By worth: what comes later gives way first.
const WORTH: [Column; 9] = [
    Column::Name,
    Column::Price,
    Column::Pods,
    Column::Type,
    Column::Cpu,
    Column::Memory,
    Column::State,
    Column::Capacity,
    Column::Zone,
];
/// Columns with bars before their figures.
const WITH_BARS: [Column; 2] = [Column::Cpu, Column::Memory];
/// Cells of a bar, where there is room and where there is little.
const BAR: usize = 8;
const SHORT_BAR: usize = 4;

impl Column {
    /// What stands above it.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Name => "NODE",
            Self::Type => "TYPE",
            Self::Pods => "PODS",
            Self::Cpu => "CPU",
            Self::Memory => "MEMORY",
            Self::Price => "$/H",
            Self::State => "STATE",
            Self::Capacity => "CAPACITY",
            Self::Zone => "ZONE",
        }
    }

    /// As wide as its longest text, but no narrower than what texts usually are: a table that jumps with every change is hard to read.
    fn width(self, nodes: &[NodeRow]) -> usize {
        let longest = |text: &dyn Fn(&NodeRow) -> usize| nodes.iter().map(text).max().unwrap_or(0);
        let letters = |text: &str| text.chars().count();
        let (longest, usual) = match self {
            Self::Name => (longest(&|node| letters(&node.name)), 14),
            Self::Type => (longest(&|node| letters(&node.instance_type)), 10),
            Self::Pods => (0, 5),
            Self::Cpu => (longest(&|node| letters(&screen::cpu(node))), 9),
            Self::Memory => (longest(&|node| letters(&screen::memory(node))), 10),
            Self::Price => (longest(&|node| letters(&screen::price(node))), 6),
            Self::State => (0, 9),
            Self::Capacity => (longest(&|node| letters(&node.capacity_type)), 9),
            Self::Zone => (longest(&|node| letters(&node.zone)), 11),
        };
        longest.max(usual)
    }
}

/// The columns that fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// From left to right, with their widths.
    pub shown: Vec<(Column, u16)>,
    /// Cells of a bar; 0 for none.
    pub bar: usize,
}

impl Columns {
    /// Names stay whole as long as they can and other columns give way. Short bars come before the columns of least worth, long ones after all.
    pub fn of(width: u16, nodes: &[NodeRow]) -> Self {
        let width = usize::from(width);
        let needs: Vec<(Column, usize)> =
            WORTH.into_iter().map(|column| (column, column.width(nodes))).collect();
        let mut left = width;
        let mut bar = 0;
        let mut chosen: Vec<(Column, usize)> = Vec::new();
        for (column, needed) in needs {
            if column == Column::State && WITH_BARS.len() * (SHORT_BAR + 1) <= left {
                bar = SHORT_BAR;
                left -= WITH_BARS.len() * (SHORT_BAR + 1);
            }
            // A name longer than the terminal is cut, and stands alone.
            let needed = if column == Column::Name { needed.min(width) } else { needed };
            // One blank between two columns.
            let taken = needed + usize::from(!chosen.is_empty());
            if taken > left {
                break;
            }
            left -= taken;
            chosen.push((column, needed));
        }
        let longer = WITH_BARS.len() * (BAR - SHORT_BAR);
        if bar > 0 && longer <= left {
            bar = BAR;
            left -= longer;
        }
        let mut shown = Vec::new();
        for column in ORDER {
            let Some((_, needed)) = chosen.iter().find(|(of, _)| *of == column) else { continue };
            let bar = if bar > 0 && WITH_BARS.contains(&column) { bar + 1 } else { 0 };
            // A little air between the columns, while there is some.
            let air = left.min(2);
            left -= air;
            shown.push((column, (needed + bar + air) as u16));
        }
        Self { shown, bar }
    }
}
