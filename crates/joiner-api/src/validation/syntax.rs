//! Forms of names and numbers, written out by hand: a handful of fixed patterns does not pay for a regex engine.

/// What keeps `text` from being a label key or taint key: a name, optionally after a DNS domain and a slash.
pub fn qualified_name_fault(text: &str) -> Option<&'static str> {
    let name = match text.split_once('/') {
        Some((domain, name)) => {
            if name.contains('/') {
                return Some("has more than one slash");
            }
            if !is_dns_subdomain(domain) {
                return Some("the part before the slash is not a DNS domain in lower case");
            }
            name
        }
        None => text,
    };
    if name.is_empty() {
        return Some("the name is empty");
    }
    if name.len() > 63 {
        return Some("the name is longer than 63 characters");
    }
    if !is_word(name) {
        return Some(
            "the name may only hold letters, digits, `-`, `_` and `.`, and must begin and end with a letter or digit",
        );
    }
    None
}

/// The path of a map's entry. A key with dots or slashes, as most label keys have, stands in brackets.
pub fn entry_path(path: &str, key: &str) -> String {
    if key.contains(['.', '/', '[', ']']) { format!("{path}[{key}]") } else { format!("{path}.{key}") }
}

/// What keeps `text` from being a label value.
pub fn label_value_fault(text: &str) -> Option<&'static str> {
    if text.len() > 63 {
        return Some("a label value cannot be longer than 63 characters");
    }
    if !text.is_empty() && !is_word(text) {
        return Some(
            "a label value may only hold letters, digits, `-`, `_` and `.`, and must begin and end with a letter or digit",
        );
    }
    None
}

/// What keeps `text` from being the name of an object with at most `max` characters.
pub fn object_name_fault(text: &str, max: usize) -> Option<&'static str> {
    if !is_dns_subdomain(text) {
        return Some(
            "not a DNS name: only lower-case letters, digits, `-` and `.`, beginning and ending with a letter or digit",
        );
    }
    (text.len() > max).then_some("the name is too long")
}

/// Letters, digits, `-`, `_`, `.`; not one of the last three at either end.
fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.into_iter().all(|byte| byte.is_some_and(u8::is_ascii_alphanumeric))
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_label)
}

fn is_dns_label(text: &str) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    [bytes.first(), bytes.last()].into_iter().all(|byte| byte.is_some_and(is_plain))
        && bytes.iter().all(|byte| is_plain(byte) || *byte == b'-')
}

/// A share in percent up to 100, or a number of nodes.
pub(super) fn is_budget_nodes(text: &str) -> bool {
    match text.strip_suffix('%') {
        Some("100") => true,
        Some(share) => share.len() <= 2 && is_digits(share),
        None => is_digits(text),
    }
}

/// A whole number not below 0 that fits a signed 64-bit integer, with or without a sign.
pub(super) fn is_natural(text: &str) -> bool {
    text.parse::<i64>().is_ok_and(|number| number >= 0)
}

/// An unsigned decimal number with digits on both sides of the point.
pub(super) fn is_price(text: &str) -> bool {
    match text.split_once('.') {
        Some((whole, fraction)) => is_digits(whole) && is_digits(fraction),
        None => is_digits(text),
    }
}

/// A decimal number or percentage with its sign; percentages not below -100.
pub(super) fn is_price_adjustment(text: &str) -> bool {
    let (negative, rest) = match (text.strip_prefix('-'), text.strip_prefix('+')) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return false,
    };
    match rest.strip_suffix('%') {
        Some("100") => true,
        Some(share) if negative => {
            is_price(share) && share.split('.').next().is_some_and(|whole| whole.len() <= 2)
        }
        Some(share) => is_short_decimal(share),
        None => is_short_decimal(rest),
    }
}

/// A decimal number that may begin with its point.
fn is_short_decimal(text: &str) -> bool {
    is_price(text) || text.strip_prefix('.').is_some_and(is_digits)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualified_names() {
        for good in ["a", "A-1_b.c", "example.com/a", "a.b-c.d/Name_1", &"a".repeat(63)] {
            assert_eq!(qualified_name_fault(good), None, "{good}");
        }
        for bad in [
            "",
            "/",
            "a/",
            "/a",
            "a/b/c",
            "-a",
            "a-",
            "a b",
            "Example.com/a",
            "exa_mple.com/a",
            ".com/a",
            "a..b/c",
            "ä",
            &"a".repeat(64),
            &format!("{}/a", "a".repeat(254)),
        ] {
            assert!(qualified_name_fault(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn label_values() {
        for good in ["", "a", "5", "a.b_c-d", "2Ti", &"a".repeat(63)] {
            assert_eq!(label_value_fault(good), None, "{good}");
        }
        for bad in ["a/b", "-", "a-", ".a", "a b", " ", &"a".repeat(64)] {
            assert!(label_value_fault(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn object_names() {
        assert_eq!(object_name_fault("my-pool.1", 63), None);
        for bad in ["", "My-pool", "a_b", "-a", "a.", &"a".repeat(64)] {
            assert!(object_name_fault(bad, 63).is_some(), "{bad}");
        }
    }

    #[test]
    fn numbers_of_budgets_prices_and_bounds() {
        for good in ["0", "10", "0%", "99%", "100%", "007", "8589934592"] {
            assert!(is_budget_nodes(good), "{good}");
        }
        for bad in ["", "%", "101%", "-1", "1.5", "10 %", "1e3", "100%%", "000%"] {
            assert!(!is_budget_nodes(bad), "{bad}");
        }
        for good in ["0", "1", "0.25", "12.5"] {
            assert!(is_price(good), "{good}");
        }
        for bad in ["", ".5", "5.", "+1", "-1", "1e3", "1.2.3", "1%"] {
            assert!(!is_price(bad), "{bad}");
        }
        for good in
            ["+0.5", "-0.5", "+.5", "+10%", "-15%", "-99.9%", "-100%", "+100%", "+250%", "+.5%", "-1000"]
        {
            assert!(is_price_adjustment(good), "{good}");
        }
        for bad in ["", "0.5", "10%", "-101%", "-100.5%", "+", "-%", "+5.", "+-1", "-.5%", "+1%%"] {
            assert!(!is_price_adjustment(bad), "{bad}");
        }
        for good in ["0", "9", "+5", "007"] {
            assert!(is_natural(good), "{good}");
        }
        for bad in ["", "-1", "1.5", "a", "9223372036854775808", " 1"] {
            assert!(!is_natural(bad), "{bad}");
        }
    }
}
