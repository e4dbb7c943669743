//! Parsing of quantities (upstream: `resource.ParseQuantity`).

use super::decimal::{Decimal, divide_away};
use super::{Quantity, QuantityError, QuantityFormat};

/// The finest scale; smaller fractions are rounded up.
const NANO: i32 = -9;

/// Up to this number of digits, upstream parses into an int64 and may keep the original text.
const SHORT_DIGITS_MAX: usize = 18;

/// Longer texts are rejected; a quantity cannot represent that many digits.
const TEXT_MAX_BYTES: usize = 1024;

const DECIMAL_SUFFIXES: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

pub(super) fn decimal_suffix(exponent: i32) -> Option<&'static str> {
    let mut known = DECIMAL_SUFFIXES.iter();
    known
        .find(|(_, power)| *power == exponent)
        .map(|(suffix, _)| *suffix)
}

pub(super) fn binary_suffix(power: usize) -> &'static str {
    BINARY_SUFFIXES.get(power).copied().unwrap_or_default()
}

/// The components of a quantity text. `whole` has no leading zeros, except for "0" itself.
struct QuantityParts<'a> {
    negative: bool,
    has_digits: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

pub(super) fn parse(text: &str) -> Result<Quantity, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    if text.len() > TEXT_MAX_BYTES {
        return Err(QuantityError::Numeric);
    }
    let parts = split(text)?;
    let (format, exponent) = interpret(parts.suffix).ok_or(QuantityError::Suffix)?;
    let short = short(text, &parts, format, exponent);
    match short {
        Some(quantity) => Ok(quantity),
        None => long(&parts, format, exponent),
    }
}

fn split(text: &str) -> Result<QuantityParts<'_>, QuantityError> {
    let (negative, unsigned) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    let zeros = unsigned.bytes().take_while(|&byte| byte == b'0').count();
    let significant = &unsigned[zeros..];
    let (whole, rest) = split_digits(significant);
    let whole = if whole.is_empty() { "0" } else { whole };
    let (fraction, suffix) = match rest.as_bytes() {
        [b'.', ..] => split_digits(&rest[1..]),
        _ => ("", rest),
    };
    let unsigned_number = &unsigned[..unsigned.len() - suffix.len()];
    if is_suffix(suffix.as_bytes()) {
        Ok(QuantityParts {
            negative,
            has_digits: unsigned_number.bytes().any(|byte| byte.is_ascii_digit()),
            whole,
            fraction,
            suffix,
        })
    } else {
        Err(QuantityError::Format)
    }
}

/// Whether the text consists of suffix letters, a sign and digits, all of them optional.
fn is_suffix(suffix: &[u8]) -> bool {
    let is_letter = |byte: &&u8| {
        matches!(
            byte,
            b'e' | b'E' | b'i' | b'n' | b'u' | b'm' | b'k' | b'K' | b'M' | b'G' | b'T' | b'P'
        )
    };
    let letters = suffix.iter().take_while(is_letter);
    let rest = &suffix[letters.count()..];
    let exponent = match rest {
        [b'-' | b'+', digits @ ..] => digits,
        digits => digits,
    };
    exponent.iter().all(u8::is_ascii_digit)
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(end)
}

fn interpret(suffix: &str) -> Option<(QuantityFormat, i32)> {
    if let Some(exponent) = decimal_exponent(suffix) {
        return Some((QuantityFormat::DecimalSi, exponent));
    }
    if let Some(exponent) = binary_exponent(suffix) {
        return Some((QuantityFormat::BinarySi, exponent));
    }
    let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    // Upstream truncates the exponent to 32 bits.
    Some((QuantityFormat::DecimalExponent, exponent as i32))
}

fn decimal_exponent(suffix: &str) -> Option<i32> {
    // Decimal suffixes have at most one letter, so comparing a byte is enough.
    let letter = match suffix.as_bytes() {
        [] => None,
        [letter] => Some(letter),
        _ => return None,
    };
    let mut known = DECIMAL_SUFFIXES.iter();
    known
        .find(|(known, _)| known.as_bytes().first() == letter)
        .map(|(_, exponent)| *exponent)
}

fn binary_exponent(suffix: &str) -> Option<i32> {
    let &[letter, b'i'] = suffix.as_bytes() else {
        return None;
    };
    let power = b"KMGTPE".iter().position(|&known| known == letter)?;
    Some(10 * (i32::try_from(power).ok()? + 1))
}

/// Parses a number with few digits, for which upstream keeps the original text if it looks canonical.
fn short(
    text: &str,
    parts: &QuantityParts<'_>,
    format: QuantityFormat,
    exponent: i32,
) -> Option<Quantity> {
    let digits = parts.whole.len() + parts.fraction.len();
    let (factor, scale, digits_max) = match format {
        QuantityFormat::BinarySi if !parts.fraction.is_empty() => return None,
        QuantityFormat::BinarySi => {
            let digits_max = 14 - usize::try_from(exponent * 3 / 10).ok()?.min(14);
            (1_i64.checked_shl(exponent.unsigned_abs())?, 0, digits_max)
        }
        _ => (1, exponent, SHORT_DIGITS_MAX),
    };
    let scale = scale.wrapping_sub(i32::try_from(parts.fraction.len()).ok()?);
    if digits > digits_max || scale < NANO {
        return None;
    }
    let number = short_number(parts);
    let mantissa = number.checked_mul(factor)?;
    let keeps_text = match format {
        QuantityFormat::BinarySi => number & 7 != 0,
        _ => scale % 3 == 0 && number % 1000 != 0 && !parts.whole.starts_with('0'),
    };
    let is_written = keeps_text && !is_plain(text, parts, format);
    Some(Quantity {
        amount: signed(i128::from(mantissa), scale, parts.negative),
        format,
        written: is_written.then(|| text.into()),
    })
}

/// Whether the text equals the canonical form, so that it need not be stored.
fn is_plain(text: &str, parts: &QuantityParts<'_>, format: QuantityFormat) -> bool {
    let plain_len = usize::from(parts.negative) + parts.whole.len() + parts.suffix.len();
    parts.fraction.is_empty()
        && format != QuantityFormat::DecimalExponent
        && text.len() == plain_len
}

fn long(
    parts: &QuantityParts<'_>,
    format: QuantityFormat,
    exponent: i32,
) -> Result<Quantity, QuantityError> {
    // Upstream accepts a text without digits as zero, but only on the path for few digits.
    if !parts.has_digits {
        return Err(QuantityError::Numeric);
    }
    let fraction = parts.fraction.trim_end_matches('0');
    let parts = QuantityParts { fraction, ..*parts };
    let scale = match format {
        QuantityFormat::BinarySi => 0,
        _ => i64::from(exponent),
    };
    let scale = scale - i64::try_from(fraction.len()).map_err(|_| QuantityError::Numeric)?;
    if format == QuantityFormat::BinarySi {
        return long_binary(&parts, scale, exponent).ok_or(QuantityError::Numeric);
    }
    let surplus = (i64::from(NANO) - scale).max(0);
    let mantissa = rounded_up(&parts, surplus).ok_or(QuantityError::Numeric)?;
    let scale = i32::try_from(scale + surplus).map_err(|_| QuantityError::Numeric)?;
    Ok(Quantity {
        amount: signed(mantissa, scale, parts.negative),
        format,
        written: None,
    })
}

/// Binary amounts saturate at `i64::MAX`; those below one get the decimal notation.
fn long_binary(parts: &QuantityParts<'_>, scale: i64, exponent: i32) -> Option<Quantity> {
    let largest = Decimal::new(i128::from(i64::MAX), 0);
    let factor = 1_i128.checked_shl(exponent.unsigned_abs())?;
    let whole: Option<i128> = parts.whole.parse().ok();
    let amount = match whole.and_then(|whole| whole.checked_mul(factor)) {
        Some(whole) if whole <= i128::from(i64::MAX) => {
            // Digits further behind the point are below the finest scale with any suffix.
            let surplus = (-scale - 27).max(0);
            let product = rounded_up(parts, surplus)?.checked_mul(factor)?;
            let fine = -scale - surplus;
            match i32::try_from(-fine) {
                Ok(scale) if scale >= NANO => Decimal::new(product, scale),
                _ => Decimal::new(divide_away(product, fine + i64::from(NANO)), NANO),
            }
        }
        _ => largest,
    };
    let amount = if amount.compare(largest).is_gt() {
        largest
    } else {
        amount
    };
    let below_one = amount.compare(Decimal::new(1, 0)).is_lt() && !amount.is_zero();
    Some(Quantity {
        amount: if parts.negative {
            amount.negated()
        } else {
            amount
        },
        format: if below_one {
            QuantityFormat::DecimalSi
        } else {
            QuantityFormat::BinarySi
        },
        written: None,
    })
}

fn signed(mantissa: i128, scale: i32, negative: bool) -> Decimal {
    let amount = Decimal::new(mantissa, scale);
    if negative { amount.negated() } else { amount }
}

/// The digits as a number, ignoring the point. The caller has checked that they fit in an `i64`.
fn short_number(parts: &QuantityParts<'_>) -> i64 {
    let add = |number, digit: u8| number * 10 + i64::from(digit - b'0');
    let whole = parts.whole.bytes().fold(0, add);
    parts.fraction.bytes().fold(whole, add)
}

/// The digits as a number, ignoring the point, without the last `surplus` digits and rounded up. `None` if the number
/// is too large.
fn rounded_up(parts: &QuantityParts<'_>, surplus: i64) -> Option<i128> {
    let digits = parts.whole.bytes().chain(parts.fraction.bytes());
    let count = i64::try_from(parts.whole.len() + parts.fraction.len()).ok()?;
    let kept = usize::try_from(count - surplus).unwrap_or(0);
    let (mut number, mut rest) = (0_i128, false);
    for (position, digit) in digits.enumerate() {
        if position >= kept {
            rest |= digit != b'0';
            continue;
        }
        number = number
            .checked_mul(10)?
            .checked_add(i128::from(digit - b'0'))?;
    }
    let number = number + i128::from(rest);
    Decimal::fits(number).then_some(number)
}
