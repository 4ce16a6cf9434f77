//! Reading the text of a quantity.
//!
//! Short numbers keep the decimals they were written with; long ones, and binary ones with a fraction, are
//! worked out on decimal digits of any length and kept in nano-units. The API server divides them in the same
//! way, and the division shows in [`Quantity::exact`].

use super::{
    BINARY_SUFFIXES, DECIMAL_SUFFIXES, EXPONENT_MAX, Error, Format, MANTISSA_DIGITS_MAX, NANO_SCALE,
    Quantity, digit_count,
};

/// Binary quantities are capped here when read, as the API server does.
const BINARY_MAX: i128 = i64::MAX as i128;
/// Below this exponent everything is less than a nano-unit, however many digits it has.
const EXPONENT_MIN: i32 = -1_000_000;

pub(super) fn quantity(text: &str) -> Result<Quantity, Error> {
    let parts = split(text)?;
    let quantity = match Suffix::parse(parts.suffix, text)? {
        Suffix::Decimal { exponent, format } => decimal(&parts, exponent, format),
        Suffix::Binary { exponent } => binary(&parts, exponent),
    };
    Ok(if parts.negative { -quantity } else { quantity })
}

/// A quantity's text cut at its seams.
struct Parts<'a> {
    negative: bool,
    /// Digits before the point without leading zeros, or `0`.
    whole: &'a str,
    /// Digits after the point, as written.
    fraction: &'a str,
    suffix: &'a str,
}

fn split(text: &str) -> Result<Parts<'_>, Error> {
    if text.is_empty() {
        return Err(Error::Format(String::new()));
    }
    let (negative, unsigned) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (whole, rest) = take_digits(unsigned.trim_start_matches('0'));
    let whole = if whole.is_empty() { "0" } else { whole };
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => take_digits(rest),
        None => ("", rest),
    };
    // Letters, then a sign, then digits; anything left over is not a quantity at all.
    let rest = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    if !take_digits(rest).1.is_empty() {
        return Err(Error::Format(text.to_owned()));
    }
    Ok(Parts { negative, whole, fraction, suffix })
}

fn take_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

enum Suffix {
    Decimal { exponent: i32, format: Format },
    Binary { exponent: u32 },
}

impl Suffix {
    fn parse(suffix: &str, text: &str) -> Result<Suffix, Error> {
        if let Some((_, exponent)) = DECIMAL_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
            return Ok(Suffix::Decimal { exponent: *exponent, format: Format::DecimalSi });
        }
        if let Some((_, exponent)) = BINARY_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
            return Ok(Suffix::Binary { exponent: *exponent });
        }
        let unknown = || Error::Suffix(text.to_owned());
        let digits = suffix.strip_prefix(['e', 'E']).ok_or_else(unknown)?;
        let magnitude = digits.strip_prefix(['-', '+']).unwrap_or(digits);
        if magnitude.is_empty() || !magnitude.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(unknown());
        }
        let exponent = match digits.parse::<i32>() {
            Ok(exponent) if exponent > EXPONENT_MAX => return Err(Error::Exponent(text.to_owned())),
            Ok(exponent) => exponent.max(EXPONENT_MIN),
            // Far below a nano-unit: whatever is there rounds to one.
            Err(_) if digits.starts_with('-') => EXPONENT_MIN,
            Err(_) => return Err(Error::Exponent(text.to_owned())),
        };
        Ok(Suffix::Decimal { exponent, format: Format::DecimalExponent })
    }
}

/// A short number keeps the decimals it was written with; a long one is kept in nano-units.
fn decimal(parts: &Parts<'_>, exponent: i32, format: Format) -> Quantity {
    let digits = parts.whole.len() + parts.fraction.len();
    if digits <= 18 {
        let scale = exponent - parts.fraction.len() as i32;
        let mantissa = format!("{}{}", parts.whole, parts.fraction).parse::<i128>();
        if let (Ok(mantissa), true) = (mantissa, scale >= NANO_SCALE) {
            return Quantity { mantissa, scale, format };
        }
    }
    let digits = Digits::new(parts.whole, parts.fraction);
    digits.into_quantity(i64::from(exponent) - parts.fraction.len() as i64, format)
}

fn binary(parts: &Parts<'_>, exponent: u32) -> Quantity {
    // The same division into short and long numbers as the API server makes: it shows in `exact`.
    let short = parts.whole.len() as i32 + (exponent * 3 / 10) as i32 <= 14;
    if parts.fraction.is_empty()
        && short
        && let Ok(number) = parts.whole.parse::<i128>()
    {
        return Quantity { mantissa: number << exponent, scale: 0, format: Format::BinarySi };
    }
    let mut digits = Digits::new(parts.whole, parts.fraction);
    for _ in 0..exponent / 10 {
        digits.multiply(1024);
    }
    let quantity = digits.into_quantity(-(parts.fraction.len() as i64), Format::BinarySi);
    if quantity > Quantity::from_bytes(i64::MAX) {
        return Quantity { mantissa: BINARY_MAX, scale: 0, format: Format::BinarySi };
    }
    if !quantity.is_zero() && quantity < Quantity::from_value(1) {
        return quantity.with_format(Format::DecimalSi);
    }
    quantity
}

/// Decimal digits of a number of any length, least significant first.
struct Digits(Vec<u8>);

impl Digits {
    fn new(whole: &str, fraction: &str) -> Digits {
        let mut digits: Vec<u8> = whole
            .bytes()
            .chain(fraction.bytes())
            .skip_while(|byte| *byte == b'0')
            .map(|byte| byte - b'0')
            .collect();
        digits.reverse();
        Digits(digits)
    }

    fn multiply(&mut self, factor: u32) {
        let mut carry = 0;
        for digit in &mut self.0 {
            carry += u32::from(*digit) * factor;
            *digit = (carry % 10) as u8;
            carry /= 10;
        }
        while carry > 0 {
            self.0.push((carry % 10) as u8);
            carry /= 10;
        }
    }

    /// Brings these digits times `10^scale` to nano-units or, where that would be too long, to as many
    /// leading digits as fit, rounding away from zero.
    fn into_quantity(self, scale: i64, format: Format) -> Quantity {
        if self.0.is_empty() {
            return Quantity { mantissa: 0, scale: NANO_SCALE, format };
        }
        let nano = i64::from(NANO_SCALE);
        let too_fine = (nano - scale).max(0);
        let too_long = (self.0.len() as i64 - MANTISSA_DIGITS_MAX as i64).max(0);
        let dropped = too_fine.max(too_long);
        let split_at = usize::try_from(dropped).unwrap_or(usize::MAX).min(self.0.len());
        let (low, high) = self.0.split_at(split_at);
        let mut mantissa = high.iter().rev().fold(0_i128, |sum, digit| sum * 10 + i128::from(*digit));
        if low.iter().any(|digit| *digit != 0) {
            mantissa += 1;
        }
        let scale = scale + dropped;
        let scale = i32::try_from(scale).unwrap_or(if scale < 0 { NANO_SCALE } else { i32::MAX });
        let quantity = Quantity { mantissa, scale, format }.shortened();
        // Written out in nano-units when there is room, as the API server keeps long numbers.
        match quantity.nano() {
            Some(nanos) if digit_count(nanos) <= MANTISSA_DIGITS_MAX as u32 => {
                Quantity { mantissa: nanos, scale: NANO_SCALE, format }
            }
            _ => quantity,
        }
    }
}
