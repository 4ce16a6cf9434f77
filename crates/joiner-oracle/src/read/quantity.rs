//! Kubernetes quantities, read into billionths so that every legal text is exact, and printed canonically for labels.

use serde_json::Value;

use crate::world::Resources;

const BILLION: i128 = 1_000_000_000;
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// How a quantity was written, which decides how it prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Binary,
    Decimal,
    Exponent,
}

/// A quantity: billionths and the way it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantity {
    billionths: i128,
    form: Form,
}

impl Quantity {
    /// Reads a quantity as Kubernetes does; finer than a billionth is rounded away from zero.
    pub fn parse(text: &str) -> Result<Quantity, String> {
        let bad = |why: &str| format!("`{text}` is not a quantity: {why}");
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.len() + fraction.len() == 0 || fraction.contains('.') {
            return Err(bad("it needs digits with at most one point"));
        }
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        if digits.len() > 30 {
            return Err(bad("it has too many digits"));
        }
        let mantissa: i128 =
            if digits.is_empty() { 0 } else { digits.parse().map_err(|_| bad("digits expected"))? };
        let scale = i32::try_from(fraction.len()).map_err(|_| bad("it has too many digits"))?;
        let (form, power_of_two, power_of_ten) = read_suffix(suffix).ok_or_else(|| bad("unknown suffix"))?;
        let magnitude = mantissa
            .checked_shl(power_of_two)
            .filter(|shifted| shifted >> power_of_two == mantissa)
            .and_then(|scaled| shift_decimal(scaled, power_of_ten - scale + 9))
            .ok_or_else(|| bad("it is too large"))?;
        Ok(Quantity { billionths: if negative { -magnitude } else { magnitude }, form })
    }

    /// Thousandths, rounded away from zero.
    pub fn milli(self) -> i128 {
        divide_away(self.billionths, BILLION / 1000)
    }

    /// Whole units, rounded away from zero.
    pub fn units(self) -> i128 {
        divide_away(self.billionths, BILLION)
    }

    /// The text Kubernetes prints after arithmetic.
    pub fn canonical(self) -> String {
        if self.billionths == 0 {
            return "0".to_owned();
        }
        if self.form == Form::Binary && self.billionths % BILLION == 0 {
            let mut units = self.billionths / BILLION;
            let mut step = 0;
            while units % 1024 == 0 && step + 1 < BINARY.len() {
                units /= 1024;
                step += 1;
            }
            return format!("{units}{}", BINARY[step]);
        }
        let mut mantissa = self.billionths;
        let mut step = 0;
        while mantissa % 1000 == 0 && step + 1 < DECIMAL.len() {
            mantissa /= 1000;
            step += 1;
        }
        match (self.form, DECIMAL[step]) {
            (Form::Exponent, (_, 0)) => mantissa.to_string(),
            (Form::Exponent, (_, power)) => format!("{mantissa}e{power}"),
            (_, (suffix, _)) => format!("{mantissa}{suffix}"),
        }
    }

    /// The sum, in the form of the first.
    pub fn plus(self, other: Quantity) -> Quantity {
        Quantity { billionths: self.billionths.saturating_add(other.billionths), form: self.form }
    }

    /// The larger one.
    pub fn larger(self, other: Quantity) -> Quantity {
        if other.billionths > self.billionths { other } else { self }
    }

    /// In the unit the [`crate::world`] uses for this resource.
    pub fn in_unit_of(self, resource: &str) -> i128 {
        if resource == "cpu" { self.milli() } else { self.units() }
    }
}

fn read_suffix(suffix: &str) -> Option<(Form, u32, i32)> {
    if let Some(step) = BINARY.iter().skip(1).position(|known| *known == suffix) {
        return Some((Form::Binary, 10 * (u32::try_from(step).ok()? + 1), 0));
    }
    if let Some((_, power)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Some((Form::Decimal, 0, *power));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some((Form::Exponent, 0, exponent.parse().ok().filter(|power: &i32| power.abs() < 1000)?))
}

/// `value × 10^power`, rounded up; `None` on overflow. `value` is not negative.
fn shift_decimal(value: i128, power: i32) -> Option<i128> {
    if value == 0 {
        return Some(0);
    }
    match u32::try_from(power) {
        Ok(power) => value.checked_mul(10i128.checked_pow(power)?),
        Err(_) => match 10i128.checked_pow(power.unsigned_abs()) {
            Some(divisor) => Some(divide_away(value, divisor)),
            None => Some(1),
        },
    }
}

fn divide_away(value: i128, divisor: i128) -> i128 {
    let quotient = value / divisor;
    if value % divisor == 0 { quotient } else { quotient + value.signum() }
}

/// A quantity in JSON: text or a bare number.
pub fn from_json(value: &Value) -> Result<Quantity, String> {
    match value {
        Value::String(text) => Quantity::parse(text),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        other => Err(format!("`{other}` is not a quantity")),
    }
}

/// A resource list in world units; null and absent are empty.
pub(super) fn resources(value: Option<&Value>) -> Result<Resources, String> {
    match value {
        None | Some(Value::Null) => Ok(Resources::new()),
        Some(Value::Object(map)) => map
            .iter()
            .map(|(name, amount)| {
                let amount = from_json(amount).map_err(|why| format!("resource `{name}`: {why}"))?;
                Ok((name.clone(), amount.in_unit_of(name)))
            })
            .collect(),
        Some(other) => Err(format!("`{other}` is not a list of resources")),
    }
}
