//! What the system knows of this process: memory, time, files.

use std::fmt::Write as _;

/// Ticks of the times in /proc: 100 on every Linux there is.
const TICKS_PER_SECOND: f64 = 100.0;

/// The usual metrics of a process, in the text format of Prometheus; nothing where there is no /proc.
pub fn metrics() -> String {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let boot = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    text(&read("stat"), &read("limits"), &boot, open)
}

fn text(stat: &str, limits: &str, boot: &str, open: usize) -> String {
    // The name of the program stands in brackets, and may hold blanks.
    let Some((_, rest)) = stat.rsplit_once(") ") else { return String::new() };
    let fields: Vec<f64> = rest.split(' ').map(|field| field.trim().parse().unwrap_or(0.0)).collect();
    // Counted from the field after the name, which is the third.
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0.0);
    let boot = boot.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<f64>().ok());
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let most = files.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    let mut text = String::new();
    let mut tell = |name: &str, kind: &str, help: &str, value: f64| {
        // What is written to a string is written.
        let _ = writeln!(
            text,
            "# HELP process_{name} {help}\n# TYPE process_{name} {kind}\nprocess_{name} {value}"
        );
    };
    let cpu = (field(14) + field(15)) / TICKS_PER_SECOND;
    tell("cpu_seconds_total", "counter", "CPU time of the process.", cpu);
    if let Some(most) = most {
        tell("max_fds", "gauge", "Files that may be open.", most);
    }
    tell("open_fds", "gauge", "Files that are open.", open as f64);
    tell("resident_memory_bytes", "gauge", "Memory of the process that is in use.", field(24) * 4096.0);
    if let Some(boot) = boot {
        tell("start_time_seconds", "gauge", "When the process began.", boot + field(22) / TICKS_PER_SECOND);
    }
    tell("virtual_memory_bytes", "gauge", "Memory that the process has asked for.", field(23));
    text
}

/// How the original would call this machine's architecture.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The threads of the process with their CPU time, the busiest first.
pub fn threads() -> String {
    let mut rows: Vec<(f64, String)> = Vec::new();
    for entry in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let Some((head, rest)) = stat.rsplit_once(") ") else { continue };
        let name = head.split_once('(').map_or("", |(_, name)| name);
        let fields: Vec<&str> = rest.split(' ').collect();
        let ticks = |at: usize| fields.get(at).and_then(|of| of.parse::<f64>().ok()).unwrap_or(0.0);
        rows.push(((ticks(11) + ticks(12)) / TICKS_PER_SECOND, name.to_owned()));
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let mut text = format!("{} threads\n", rows.len());
    for (seconds, name) in rows {
        let _ = writeln!(text, "{seconds:10.2} s  {name}");
    }
    text
}

/// Where the memory of the process is, as the system tells it.
pub fn memory() -> String {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
    let status = read("status");
    let lines = status.lines().filter(|line| line.starts_with("Vm") || line.starts_with("Rss"));
    let status: String = lines.flat_map(|line| [line, "\n"]).collect();
    format!("{status}{}", read("smaps_rollup"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells_time_memory_and_files() {
        let stat = "42 (a ) b) S 1 42 42 0 -1 4194560 900 0 3 0 250 50 0 0 20 0 7 0 1000 104857600 2560 18446744073709551615";
        let limits = "Limit Soft Hard Units\nMax open files            1024                 4096                 files\n";
        let text = text(stat, limits, "cpu 1\nbtime 1700000000\n", 12);
        for line in [
            "process_cpu_seconds_total 3",
            "process_max_fds 1024",
            "process_open_fds 12",
            "process_resident_memory_bytes 10485760",
            "process_start_time_seconds 1700000010",
            "process_virtual_memory_bytes 104857600",
        ] {
            assert!(text.lines().any(|of| of == line), "{line}\n{text}");
        }
        assert_eq!(super::text("", "", "", 0), "", "where there is no /proc");
    }
}
