//! What a process has used: time of processors and memory, as Linux tells it.

use anyhow::{Context, Result};

/// Ticks in a second of the times in `/proc`: fixed for programs, whatever the kernel's own clock does.
const TICKS: f64 = 100.0;

/// What a process has used so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// Time on processors, its own and the kernel's for it.
    pub cpu_seconds: f64,
    /// Memory it has now.
    pub resident_bytes: u64,
    /// The most it had since its start, or since [`forget_peak`].
    pub peak_bytes: u64,
}

/// What this process has used.
///
/// # Errors
/// It does not run, or this is not Linux.
pub fn of(id: u32) -> Result<Usage> {
    let read = |file: &str| {
        let path = format!("/proc/{id}/{file}");
        std::fs::read_to_string(&path).with_context(|| format!("cannot read `{path}`"))
    };
    let (stat, status) = (read("stat")?, read("status")?);
    Ok(Usage {
        cpu_seconds: cpu_seconds(&stat).with_context(|| format!("`/proc/{id}/stat` has no times"))?,
        resident_bytes: bytes(&status, "VmRSS:").unwrap_or_default(),
        peak_bytes: bytes(&status, "VmHWM:").unwrap_or_default(),
    })
}

/// Lets the peak begin anew at what is used now.
///
/// # Errors
/// It does not run, or belongs to somebody else.
pub fn forget_peak(id: u32) -> Result<()> {
    let path = format!("/proc/{id}/clear_refs");
    std::fs::write(&path, "5").with_context(|| format!("cannot write `{path}`"))
}

/// The name in brackets may hold anything; user and system time are the 14th and 15th word of the line.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let behind = &stat[stat.rfind(')')? + 1..];
    let mut times = behind.split_whitespace().skip(11).map(str::parse::<f64>);
    Some((times.next()?.ok()? + times.next()?.ok()?) / TICKS)
}

fn bytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_system_are_read() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 9 0 0 0 150 50 7 8 20 0 1 0 100 1 2";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(cpu_seconds("42 (short) S"), None);
        assert_eq!(bytes("VmHWM:\t    2048 kB\nVmRSS:\t 1024 kB\n", "VmRSS:"), Some(1 << 20));
        assert_eq!(bytes("Name: x", "VmRSS:"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_uses_something() {
        let id = std::process::id();
        let before = of(id).unwrap();
        assert!(before.resident_bytes > 0 && before.peak_bytes >= before.resident_bytes);
        let mut sum = 0_u64;
        while of(id).unwrap().cpu_seconds < before.cpu_seconds + 0.02 {
            sum = (0..100_000_u64).fold(sum, |sum, number| sum.wrapping_add(number ^ sum));
        }
        assert!(std::hint::black_box(sum) != 1);
        forget_peak(id).unwrap();
    }
}
