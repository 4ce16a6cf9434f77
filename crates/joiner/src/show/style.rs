//! Colours, few and always with the same meaning.
//!
//! Written as `{GREEN}text{GREEN:#}`. The streams of the process drop the escapes where nobody can see them.

use anstyle::{AnsiColor, Style};

/// Something comes, something is fine.
pub const GREEN: Style = AnsiColor::Green.on_default();
/// Worth a look.
pub const YELLOW: Style = AnsiColor::Yellow.on_default();
/// Refused, wrong.
pub const RED: Style = AnsiColor::Red.on_default();
/// Of second importance.
pub const DIM: Style = Style::new().dimmed();
/// The verdict.
pub const BOLD: Style = Style::new().bold();
