//! Amounts of a resource, exactly as Kubernetes reads and prints them.
//!
//! A [`Quantity`] is a whole number times a power of ten, plus the family of suffixes it was written in.
//! Nothing is a float: `0.1` is one tenth, and sums of a thousand pods come out to the nano-unit. Numbers
//! that the API server would take but that need more than 37 significant digits are rounded away from zero,
//! so that a demand never shrinks; a positive exponent above [`EXPONENT_MAX`] is refused, because printing it
//! would be an attack rather than an amount.
//!
//! Two details decide the printed text. A quantity below 1 written with a binary suffix becomes decimal
//! (`0.0001Ki` prints as `102400u`), and a binary quantity that is not whole prints in the decimal family
//! (`1.1Gi` prints as `1181116006400m`) because no binary suffix could carry it without loss.

mod parse;
mod wire;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};
use std::str::FromStr;

pub use wire::SCHEMA_PATTERN;

/// Largest exponent a quantity may be written with, as in `1e1000`.
pub const EXPONENT_MAX: i32 = 1000;

/// Power of ten of the smallest unit: everything finer is rounded away from zero at parsing.
const NANO_SCALE: i32 = -9;
/// Mantissas stay below ten to this power, which leaves an `i128` room for the sum of two.
const MANTISSA_DIGITS_MAX: usize = 37;

const DECIMAL_SUFFIXES: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY_SUFFIXES: [(&str, u32); 6] =
    [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not a number followed by a suffix.
    #[error("quantity `{0}` is not a number with an optional suffix such as `500m`, `2`, `1.5Gi` or `1e3`")]
    Format(String),
    /// The number is fine but what follows it is not a known suffix.
    #[error(
        "quantity `{0}` has an unknown suffix; use one of `n u m k M G T P E`, `Ki Mi Gi Ti Pi Ei` or an exponent like `e3`"
    )]
    Suffix(String),
    /// The exponent is beyond [`EXPONENT_MAX`].
    #[error("quantity `{0}` has an exponent above 1000; write a smaller amount")]
    Exponent(String),
}

/// The family of suffixes a quantity was written in and is printed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// Powers of ten with letters: `n u m k M G T P E`.
    #[default]
    DecimalSi,
    /// Powers of 1024: `Ki Mi Gi Ti Pi Ei`.
    BinarySi,
    /// Powers of ten with an exponent: `5e3`.
    DecimalExponent,
}

impl Format {
    /// The name Kubernetes gives this format.
    pub const fn name(self) -> &'static str {
        match self {
            Format::DecimalSi => "DecimalSI",
            Format::BinarySi => "BinarySI",
            Format::DecimalExponent => "DecimalExponent",
        }
    }
}

/// An exact amount: `mantissa × 10^scale`.
///
/// Equality, order and hash look at the amount only: `1024Mi` equals `1Gi`, and `1k` equals `1e3`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    mantissa: i128,
    scale: i32,
    format: Format,
}

impl Quantity {
    /// Nothing, in the decimal family.
    pub const ZERO: Quantity = Quantity { mantissa: 0, scale: 0, format: Format::DecimalSi };

    /// Reads a quantity. Blanks are not skipped; only the serde reader does that, as the API server does.
    pub fn parse(text: &str) -> Result<Quantity, Error> {
        parse::quantity(text)
    }

    /// A whole amount in the decimal family.
    pub const fn from_value(value: i64) -> Quantity {
        Quantity { mantissa: value as i128, scale: 0, format: Format::DecimalSi }
    }

    /// Thousandths in the decimal family: `from_milli(1500)` prints as `1500m`.
    pub const fn from_milli(milli: i64) -> Quantity {
        Quantity { mantissa: milli as i128, scale: -3, format: Format::DecimalSi }
    }

    /// A whole amount in the binary family, for memory and storage: `from_bytes(1 << 30)` prints as `1Gi`.
    pub const fn from_bytes(bytes: i64) -> Quantity {
        Quantity { mantissa: bytes as i128, scale: 0, format: Format::BinarySi }
    }

    /// The same amount printed in another family.
    pub const fn with_format(self, format: Format) -> Quantity {
        Quantity { format, ..self }
    }

    /// The family of suffixes.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// True for nothing.
    pub const fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// −1, 0 or 1.
    pub const fn signum(&self) -> i32 {
        self.mantissa.signum() as i32
    }

    /// Whole units, rounded away from zero; `None` when it does not fit.
    ///
    /// The range is symmetric, as in the API server: −2⁶³ itself does not fit.
    pub fn value(&self) -> Option<i64> {
        self.scaled(0)
    }

    /// Thousandths, rounded away from zero; `None` when it does not fit.
    pub fn milli(&self) -> Option<i64> {
        self.scaled(-3)
    }

    /// Whole units, with the nearest end of `i64` where it does not fit.
    pub fn value_saturating(&self) -> i64 {
        self.value().unwrap_or_else(|| self.end_of_range())
    }

    /// Thousandths, with the nearest end of `i64` where it does not fit.
    pub fn milli_saturating(&self) -> i64 {
        self.milli().unwrap_or_else(|| self.end_of_range())
    }

    /// Billionths, exactly; `None` when it does not fit.
    pub fn nano(&self) -> Option<i128> {
        rescale(self.mantissa, self.scale, NANO_SCALE)
    }

    /// Billionths, with the nearest end of `i128` where it does not fit.
    pub fn nano_saturating(&self) -> i128 {
        self.nano().unwrap_or(if self.mantissa < 0 { i128::MIN } else { i128::MAX })
    }

    /// The amount as a plain decimal number without suffix, with the decimals it is stored with.
    pub fn exact(&self) -> String {
        let digits = self.mantissa.unsigned_abs().to_string();
        let sign = if self.mantissa < 0 { "-" } else { "" };
        if self.mantissa == 0 && self.scale >= 0 {
            return "0".to_owned();
        }
        if self.scale >= 0 {
            return format!("{sign}{digits}{}", "0".repeat(self.scale as usize));
        }
        let decimals = self.scale.unsigned_abs() as usize;
        let padded = format!("{digits:0>width$}", width = decimals + 1);
        let (whole, fraction) = padded.split_at(padded.len() - decimals);
        format!("{sign}{whole}.{fraction}")
    }

    fn end_of_range(&self) -> i64 {
        if self.mantissa < 0 { i64::MIN } else { i64::MAX }
    }

    fn scaled(&self, scale: i32) -> Option<i64> {
        let units = rescale(self.mantissa, self.scale, scale)?;
        i64::try_from(units).ok().filter(|units| *units != i64::MIN)
    }

    /// The number of whole units if there is no fraction and it fits.
    fn whole(&self) -> Option<i128> {
        if self.scale < 0 && self.mantissa % ten_to(self.scale.unsigned_abs())? != 0 {
            return None;
        }
        rescale(self.mantissa, self.scale, 0)
    }

    /// Trailing zeros moved into the scale, so that equal amounts have equal parts.
    fn normalized(&self) -> (i128, i32) {
        if self.mantissa == 0 {
            return (0, 0);
        }
        let (mut mantissa, mut scale) = (self.mantissa, self.scale);
        while mantissa % 10 == 0 {
            mantissa /= 10;
            scale += 1;
        }
        (mantissa, scale)
    }

    fn combine(self, other: Quantity, sign: i128) -> Quantity {
        // Zero has no family of its own: `0 + 1Gi` prints as `1Gi`.
        let format = if self.is_zero() { other.format } else { self.format };
        let scale = common_scale(&self, &other);
        let left = rescale(self.mantissa, self.scale, scale).unwrap_or(0);
        let right = rescale(other.mantissa, other.scale, scale).unwrap_or(0);
        Quantity { mantissa: left + sign * right, scale, format }.shortened()
    }

    /// Brings a mantissa that grew by a carry back below the limit.
    fn shortened(mut self) -> Quantity {
        let limit = 10_i128.pow(MANTISSA_DIGITS_MAX as u32);
        while self.mantissa.abs() >= limit {
            self.mantissa = divide_away_from_zero(self.mantissa, 10);
            self.scale += 1;
        }
        self
    }
}

/// The finest scale at which both mantissas stay within the limit: normally the finer of the two.
fn common_scale(left: &Quantity, right: &Quantity) -> i32 {
    let finest = |quantity: &Quantity| {
        let digits = digit_count(quantity.mantissa) as i32;
        quantity.scale - (MANTISSA_DIGITS_MAX as i32 - digits).max(0)
    };
    if left.is_zero() && right.is_zero() {
        return left.scale.min(right.scale);
    }
    let mut bound = i32::MIN;
    for quantity in [left, right].into_iter().filter(|quantity| !quantity.is_zero()) {
        bound = bound.max(finest(quantity));
    }
    left.scale.min(right.scale).max(bound)
}

fn digit_count(mantissa: i128) -> u32 {
    mantissa.unsigned_abs().checked_ilog10().map_or(1, |log| log + 1)
}

fn ten_to(power: u32) -> Option<i128> {
    10_i128.checked_pow(power)
}

fn divide_away_from_zero(value: i128, divisor: i128) -> i128 {
    let quotient = value / divisor;
    if value % divisor == 0 { quotient } else { quotient + value.signum() }
}

/// `mantissa × 10^from` counted in units of `10^to`, rounded away from zero; `None` on overflow.
fn rescale(mantissa: i128, from: i32, to: i32) -> Option<i128> {
    if mantissa == 0 || from == to {
        return Some(mantissa);
    }
    let distance = from.abs_diff(to);
    if from > to {
        return ten_to(distance)?.checked_mul(mantissa);
    }
    // A divisor too large for i128 leaves less than one unit.
    Some(ten_to(distance).map_or(mantissa.signum(), |divisor| divide_away_from_zero(mantissa, divisor)))
}

impl fmt::Display for Quantity {
    /// The canonical text: no fraction, the largest suffix that loses nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.pad("0");
        }
        let mut format = self.format;
        let mut text = None;
        if format == Format::BinarySi {
            format = Format::DecimalSi;
            // Below 1Ki a binary suffix has nothing to say.
            text = self.whole().filter(|whole| whole.abs() >= 1024).map(binary_text);
        }
        f.pad(&text.unwrap_or_else(|| decimal_text(self.normalized(), format)))
    }
}

fn binary_text(mut number: i128) -> String {
    let mut suffix = "";
    for (name, _) in BINARY_SUFFIXES {
        if number % 1024 != 0 {
            break;
        }
        number /= 1024;
        suffix = name;
    }
    format!("{number}{suffix}")
}

fn decimal_text((mantissa, scale): (i128, i32), format: Format) -> String {
    // Suffixes step by three powers of ten; what is above the largest one becomes zeros.
    let exponent_max = if format == Format::DecimalExponent { EXPONENT_MAX / 3 * 3 } else { 18 };
    let exponent = (scale.div_euclid(3) * 3).min(exponent_max);
    let zeros = "0".repeat(usize::try_from(scale - exponent).unwrap_or(0));
    match format {
        Format::DecimalExponent if exponent == 0 => format!("{mantissa}{zeros}"),
        Format::DecimalExponent => format!("{mantissa}{zeros}e{exponent}"),
        Format::DecimalSi | Format::BinarySi => {
            let suffix =
                DECIMAL_SUFFIXES.iter().find(|(_, power)| *power == exponent).map_or("", |(name, _)| name);
            format!("{mantissa}{zeros}{suffix}")
        }
    }
}

impl FromStr for Quantity {
    type Err = Error;

    fn from_str(text: &str) -> Result<Quantity, Error> {
        Quantity::parse(text)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Quantity) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Quantity) -> Ordering {
        if self.scale == other.scale || self.signum() != other.signum() || self.is_zero() {
            let signs = self.signum().cmp(&other.signum());
            return if signs == Ordering::Equal { self.mantissa.cmp(&other.mantissa) } else { signs };
        }
        // Same sign: first by the position of the leading digit, then digit for digit.
        let magnitude =
            |quantity: &Quantity| i64::from(digit_count(quantity.mantissa)) + i64::from(quantity.scale);
        let by_magnitude = magnitude(self).cmp(&magnitude(other));
        if by_magnitude != Ordering::Equal {
            return if self.mantissa < 0 { by_magnitude.reverse() } else { by_magnitude };
        }
        // Leading digits stand at the same place, so aligning lengthens neither beyond the longer one.
        let scale = self.scale.min(other.scale);
        let aligned = |quantity: &Quantity| rescale(quantity.mantissa, quantity.scale, scale);
        aligned(self).cmp(&aligned(other))
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.normalized().hash(state);
    }
}

impl Neg for Quantity {
    type Output = Quantity;

    fn neg(self) -> Quantity {
        Quantity { mantissa: -self.mantissa, ..self }
    }
}

impl Add for Quantity {
    type Output = Quantity;

    fn add(self, other: Quantity) -> Quantity {
        self.combine(other, 1)
    }
}

impl Sub for Quantity {
    type Output = Quantity;

    fn sub(self, other: Quantity) -> Quantity {
        self.combine(other, -1)
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Quantity) {
        *self = *self + other;
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Quantity) {
        *self = *self - other;
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Quantity>>(quantities: I) -> Quantity {
        quantities.fold(Quantity::ZERO, Quantity::add)
    }
}
