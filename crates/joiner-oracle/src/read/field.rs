//! Getting at fields of loosely shaped JSON: absent and null are the same, a wrong shape is an error that names its place.

use serde_json::Value;

use crate::world::Labels;

/// The value under a path of keys; `None` when a step is absent or null.
pub(super) fn at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |here, key| here.get(key)).filter(|found| !found.is_null())
}

/// A non-empty string under a path.
pub(super) fn text<'v>(value: &'v Value, path: &[&str]) -> Option<&'v str> {
    at(value, path).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// A string that must be there.
pub(super) fn required<'v>(value: &'v Value, path: &[&str]) -> Result<&'v str, String> {
    text(value, path).ok_or_else(|| format!("field `{}` is missing", path.join(".")))
}

/// The elements of a list, none when it is absent.
pub(super) fn list<'v>(value: &'v Value, path: &[&str]) -> Result<&'v [Value], String> {
    match at(value, path) {
        None => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(other) => Err(format!("field `{}` must be a list, not `{other}`", path.join("."))),
    }
}

/// A list of strings, empty when absent.
pub(super) fn strings(value: &Value, path: &[&str]) -> Result<Vec<String>, String> {
    list(value, path)?
        .iter()
        .map(|item| {
            item.as_str()
                .map(str::to_owned)
                .ok_or_else(|| format!("field `{}` must hold strings, not `{item}`", path.join(".")))
        })
        .collect()
}

/// A map of strings, empty when absent.
pub(super) fn labels(value: &Value, path: &[&str]) -> Result<Labels, String> {
    match at(value, path) {
        None => Ok(Labels::new()),
        Some(Value::Object(map)) => map
            .iter()
            .map(|(key, value)| {
                let value = value.as_str().ok_or_else(|| {
                    format!("`{key}` in field `{}` must be a string, not `{value}`", path.join("."))
                })?;
                Ok((key.clone(), value.to_owned()))
            })
            .collect(),
        Some(other) => Err(format!("field `{}` must be a map, not `{other}`", path.join("."))),
    }
}

/// A whole number, `None` when absent.
pub(super) fn whole(value: &Value, path: &[&str]) -> Result<Option<i64>, String> {
    match at(value, path) {
        None => Ok(None),
        Some(found) => found
            .as_i64()
            .map(Some)
            .ok_or_else(|| format!("field `{}` must be a whole number, not `{found}`", path.join("."))),
    }
}

/// A whole number that fits 32 bits, `None` when absent.
pub(super) fn whole32(value: &Value, path: &[&str]) -> Result<Option<i32>, String> {
    whole(value, path)?
        .map(|n| i32::try_from(n).map_err(|_| format!("field `{}` is out of range: `{n}`", path.join("."))))
        .transpose()
}

/// Seconds since 1970 of a time such as `2026-01-31T12:00:00Z` or `…T12:00:00.5+02:00`.
pub(super) fn seconds(text: &str) -> Option<i64> {
    let digits = |range: std::ops::Range<usize>| -> Option<i64> {
        let part = text.get(range)?;
        part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok())?
    };
    let (year, month, day) = (digits(0..4)?, digits(5..7)?, digits(8..10)?);
    let (hour, minute, second) = (digits(11..13)?, digits(14..16)?, digits(17..19)?);
    let zone = text.get(19..)?.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let offset = match zone.chars().next()? {
        'Z' | 'z' => 0,
        sign @ ('+' | '-') => {
            let minutes = zone.get(1..3)?.parse::<i64>().ok()? * 60 + zone.get(4..6)?.parse::<i64>().ok()?;
            if sign == '+' { minutes * 60 } else { -minutes * 60 }
        }
        _ => return None,
    };
    // Days since the epoch, counting years from March so that the leap day comes last.
    let years = if month <= 2 { year - 1 } else { year };
    let era = years.div_euclid(400);
    let year_of_era = years.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second - offset)
}

/// The stable name of a label key.
pub(super) fn stable_key(key: &str) -> &str {
    match key {
        "beta.kubernetes.io/arch" => "kubernetes.io/arch",
        "beta.kubernetes.io/os" => "kubernetes.io/os",
        "beta.kubernetes.io/instance-type" => "node.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/zone" => "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
        other => other,
    }
}

/// Labels with stable keys; where a node carries both, the stable one wins.
pub(super) fn stable_labels(labels: Labels) -> Labels {
    let mut stable = Labels::new();
    for (key, value) in &labels {
        let new = stable_key(key);
        if new == key || !labels.contains_key(new) {
            stable.insert(new.to_owned(), value.clone());
        }
    }
    stable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds() {
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds("2024-02-29T12:30:15Z"), Some(1_709_209_815));
        assert_eq!(seconds("2024-02-29T14:30:15.25+02:00"), Some(1_709_209_815));
        assert_eq!(seconds("2024-02-29"), None);
    }

    #[test]
    fn the_stable_label_wins() {
        let old = Labels::from([
            ("beta.kubernetes.io/arch".to_owned(), "old".to_owned()),
            ("kubernetes.io/arch".to_owned(), "new".to_owned()),
            ("beta.kubernetes.io/os".to_owned(), "linux".to_owned()),
        ]);
        let stable = stable_labels(old);
        assert_eq!(stable.get("kubernetes.io/arch").map(String::as_str), Some("new"));
        assert_eq!(stable.get("kubernetes.io/os").map(String::as_str), Some("linux"));
        assert_eq!(stable.len(), 2);
    }
}
