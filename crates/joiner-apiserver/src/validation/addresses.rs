//! Addresses of the network, and ranges of them.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::json;

use super::place::Place;
use crate::rest::Cause;

/// Reads an address. Leading zeros are read as decimal, as Kubernetes has always done.
pub(super) fn parse(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let mut octets = [0_u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next().filter(|part| part.bytes().all(|digit| digit.is_ascii_digit()))?;
        *octet = part.parse().ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets).into())
}

/// Reads a range: an address in it and how many of its bits are fixed.
pub(super) fn parse_range(text: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = text.split_once('/')?;
    let address = parse(address)?;
    let bits: u32 = bits.parse().ok().filter(|_| bits.bytes().all(|digit| digit.is_ascii_digit()))?;
    (bits <= width(address)).then_some((address, bits))
}

/// Whether the inner range is a true part of the outer.
pub(super) fn is_inside(inner: (IpAddr, u32), outer: (IpAddr, u32)) -> bool {
    inner.0.is_ipv4() == outer.0.is_ipv4()
        && inner.1 > outer.1
        && prefix(inner.0, outer.1) == prefix(outer.0, outer.1)
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The first bits of an address.
fn prefix(address: IpAddr, bits: u32) -> u128 {
    let number = match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    number.checked_shr(width(address) - bits).unwrap_or(0)
}

/// Judges an address. Says whether it is one.
pub(super) fn check(text: &str, place: Place<'_>, causes: &mut Vec<Cause>) -> bool {
    let right = parse(text).is_some();
    if !right {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        causes.push(Cause::invalid(place, &json!(text), detail));
    }
    right
}

/// Judges a range.
pub(super) fn check_range(text: &str, place: Place<'_>, causes: &mut Vec<Cause>) {
    if parse_range(text).is_none() {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        causes.push(Cause::invalid(place, &json!(text), detail));
    }
}

/// Judges an address that others are to be sent to: those that mean something special cannot be.
pub(super) fn check_reachable(text: &str, place: Place<'_>, causes: &mut Vec<Cause>) {
    if !check(text, place, causes) {
        return;
    }
    let Some(address) = parse(text) else { return };
    let (link_local, link_local_group) = match address {
        IpAddr::V4(address) => (address.is_link_local(), address.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(address) => (address.is_unicast_link_local(), address.segments()[0] & 0xff0f == 0xff02),
    };
    if address.is_unspecified() {
        let detail = format!("may not be unspecified ({text})");
        causes.push(Cause::invalid(place, &json!(text), &detail));
    }
    for (special, detail) in [
        (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (link_local_group, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ] {
        if special {
            causes.push(Cause::invalid(place, &json!(text), detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_ranges() {
        for good in ["1.2.3.4", "010.0.0.001", "::1", "2001:db8::ffff"] {
            assert!(parse(good).is_some(), "{good}");
        }
        for bad in ["", "1.2.3", "1.2.3.4.5", "1.2.3.256", "a.b.c.d", "1.2.3.+4", "1.2.3.", ":::"] {
            assert!(parse(bad).is_none(), "{bad}");
        }
        for bad in ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/-1", "x/8", "10.0.0.0/", "::/129", "1.1.1.1/+8"] {
            assert!(parse_range(bad).is_none(), "{bad}");
        }
        let range = |text: &str| parse_range(text).unwrap();
        assert!(is_inside(range("10.1.0.0/16"), range("10.0.0.0/8")));
        assert!(is_inside(range("10.1.0.0/16"), range("0.0.0.0/0")));
        assert!(!is_inside(range("11.1.0.0/16"), range("10.0.0.0/8")));
        assert!(!is_inside(range("10.0.0.0/8"), range("10.0.0.0/8")));
        assert!(!is_inside(range("::/16"), range("0.0.0.0/0")));
    }
}
