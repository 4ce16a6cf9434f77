//! Numbers as people read them: always with a unit, never with more digits than matter.

/// A bar of so many cells, filled by a share from 0 to 1. What is used is never shown as nothing.
pub fn bar(used: f64, cells: usize, unicode: bool) -> String {
    const EIGHTHS: [char; 8] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇'];
    const ASCII: [char; 3] = [' ', '-', '#'];
    let steps: &[char] = if unicode { &EIGHTHS } else { &ASCII };
    let per_cell = steps.len() - 1;
    let used = if used.is_nan() { 0.0 } else { used.clamp(0.0, 1.0) };
    // Rounded up; the small amount keeps an exact share from spilling over by the error of a division.
    let mut left = (used * (cells * per_cell) as f64 - 1e-9).ceil().max(0.0) as usize;
    let mut text = String::new();
    for _ in 0..cells {
        let here = left.min(per_cell);
        text.push(steps[here]);
        left -= here;
    }
    text
}

/// Dollars with three or four digits that count: `$0.512`, `$1.284`, `$12.84`, `$937`, `$12,840`.
pub fn money(dollars: f64) -> String {
    let text = amount(dollars);
    match text.strip_prefix('-') {
        _ if !dollars.is_finite() => text,
        Some(positive) => format!("-${positive}"),
        None => format!("${text}"),
    }
}

/// The same without the sign of the currency, for columns whose heading has it.
pub fn amount(dollars: f64) -> String {
    if !dollars.is_finite() {
        return "unknown".to_owned();
    }
    let size = dollars.abs();
    let decimals = match size {
        _ if size < 1e-9 => return "0".to_owned(),
        _ if size >= 100.0 => return grouped(dollars.round()),
        _ if size >= 10.0 => 2,
        _ if size >= 0.1 => 3,
        // Three digits after the zeros.
        _ => (2.0 - size.log10().floor()) as usize,
    };
    format!("{dollars:.decimals$}")
}

fn grouped(whole: f64) -> String {
    let digits = format!("{:.0}", whole.abs());
    let mut text = if whole < 0.0 { "-".to_owned() } else { String::new() };
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share as a percentage: `12.5 %`. What rounds to nothing has no sign.
pub fn percent(share: f64) -> String {
    unsigned_zero(format!("{:.1} %", share * 100.0))
}

/// The same in whole percents.
pub fn whole_percent(share: f64) -> String {
    unsigned_zero(format!("{:.0} %", share * 100.0))
}

/// A change as a percentage with its sign: `+12.5 %`.
pub fn signed_percent(share: f64) -> String {
    let text = percent(share);
    if share > 0.0 && !text.starts_with("0.0") { format!("+{text}") } else { text }
}

fn unsigned_zero(text: String) -> String {
    match text.strip_prefix('-') {
        Some(rest) if !rest.bytes().any(|byte| (b'1'..=b'9').contains(&byte)) => rest.to_owned(),
        _ => text,
    }
}

/// CPUs from thousandths of them: `15.2`, `0.25`, `96`.
pub fn cores(milli: i64) -> String {
    let decimals = match milli.unsigned_abs() {
        10_000.. => 1,
        1_000.. => 2,
        _ => 3,
    };
    trimmed(format!("{:.decimals$}", milli as f64 / 1000.0))
}

/// Bytes in the largest unit that fits: `27Gi`, `1.5Gi`, `512Mi`.
pub fn bytes(bytes: i64) -> String {
    const UNITS: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let rounded =
        |value: f64| if value.abs() >= 100.0 { value.round() } else { (value * 10.0).round() / 10.0 };
    let mut value = bytes as f64;
    let mut unit = 0;
    while rounded(value).abs() >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{}{}", trimmed(format!("{:.1}", rounded(value))), UNITS[unit])
}

fn trimmed(text: String) -> String {
    if !text.contains('.') {
        return text;
    }
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// A number of things: `1 node`, `3 nodes`, `2 classes`, `4 policies`.
pub fn plural(count: usize, thing: &str) -> String {
    if count == 1 {
        return format!("1 {thing}");
    }
    match thing.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{count} {stem}ies"),
        _ if ["s", "x", "ch", "sh"].iter().any(|end| thing.ends_with(end)) => format!("{count} {thing}es"),
        _ => format!("{count} {thing}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fill_from_the_left_and_round_up() {
        for (used, unicode, text) in [
            (0.0, true, "    "),
            (0.001, true, "▁   "),
            (0.5, true, "▇▇  "),
            (0.9, true, "▇▇▇▅"),
            (1.0, true, "▇▇▇▇"),
            (7.0, true, "▇▇▇▇"),
            (-1.0, true, "    "),
            (f64::NAN, true, "    "),
            (0.01, false, "-   "),
            (0.75, false, "### "),
            (0.8, false, "###-"),
        ] {
            assert_eq!(bar(used, 4, unicode), text, "{used}");
        }
        assert_eq!(bar(15.2 / 15.8, 2, true), "▇▇");
        assert_eq!(bar(27.0 / 30.0, 2, true), "▇▆");
        assert_eq!(bar(0.5, 0, true), "");
    }

    #[test]
    fn money_keeps_the_digits_that_count() {
        for (dollars, text) in [
            (0.0, "$0"),
            (0.512, "$0.512"),
            (0.1, "$0.100"),
            (0.0116, "$0.0116"),
            (0.000_512_4, "$0.000512"),
            (1.2839, "$1.284"),
            (12.841, "$12.84"),
            (937.32, "$937"),
            (1284.0, "$1,284"),
            (1_234_567.8, "$1,234,568"),
            (-0.5, "-$0.500"),
            (-1234.0, "-$1,234"),
            (f64::INFINITY, "unknown"),
            (f64::NAN, "unknown"),
        ] {
            assert_eq!(money(dollars), text, "{dollars}");
        }
        assert_eq!(amount(0.512), "0.512");
    }

    #[test]
    fn nothing_has_no_sign() {
        for (share, plain, whole, signed) in [
            (0.0, "0.0 %", "0 %", "0.0 %"),
            (-0.0, "0.0 %", "0 %", "0.0 %"),
            (-0.0004, "0.0 %", "0 %", "0.0 %"),
            (0.0004, "0.0 %", "0 %", "0.0 %"),
            (-0.0006, "-0.1 %", "0 %", "-0.1 %"),
            (0.125, "12.5 %", "12 %", "+12.5 %"),
            (-0.3, "-30.0 %", "-30 %", "-30.0 %"),
            (1.985, "198.5 %", "198 %", "+198.5 %"),
        ] {
            assert_eq!(
                (percent(share).as_str(), whole_percent(share).as_str(), signed_percent(share).as_str()),
                (plain, whole, signed),
                "{share}"
            );
        }
        assert_eq!(amount(-0.0), "0");
    }

    #[test]
    fn cpus_in_cores() {
        for (milli, text) in [
            (15_200, "15.2"),
            (16_000, "16"),
            (1_930, "1.93"),
            (250, "0.25"),
            (1, "0.001"),
            (0, "0"),
            (-500, "-0.5"),
        ] {
            assert_eq!(cores(milli), text);
        }
    }

    #[test]
    fn bytes_in_the_largest_unit() {
        for (count, text) in [
            (27 << 30, "27Gi"),
            (3 << 29, "1.5Gi"),
            (512 << 20, "512Mi"),
            (1_000, "1000"),
            (0, "0"),
            ((1 << 30) - 1, "1Gi"),
            (31_138_512_896, "29Gi"),
            (i64::MAX, "8Ei"),
            (-(1 << 20), "-1Mi"),
        ] {
            assert_eq!(bytes(count), text, "{count}");
        }
    }

    #[test]
    fn things_are_counted() {
        for (count, thing, text) in [
            (0, "node", "0 nodes"),
            (1, "node", "1 node"),
            (2, "class", "2 classes"),
            (3, "policy", "3 policies"),
            (2, "key", "2 keys"),
        ] {
            assert_eq!(plural(count, thing), text);
        }
    }
}
