//! Decimal numbers: an integer mantissa and a power of ten (upstream: `inf.Dec`).

use std::cmp::Ordering;

/// The largest mantissa; multiplication by 100 still fits in an `i128`.
const MANTISSA_MAX: i128 = 10_i128.pow(36);

#[derive(Debug, Clone, Copy)]
pub(super) struct Decimal {
    mantissa: i128,
    scale: i32,
}

impl Decimal {
    pub(super) const ZERO: Decimal = Decimal {
        mantissa: 0,
        scale: 0,
    };

    pub(super) const fn new(mantissa: i128, scale: i32) -> Self {
        Decimal { mantissa, scale }
    }

    pub(super) const fn fits(mantissa: i128) -> bool {
        mantissa.unsigned_abs() <= MANTISSA_MAX.unsigned_abs()
    }

    pub(super) const fn scale(self) -> i32 {
        self.scale
    }

    /// Rounded away from zero to a multiple of 10^`scale`, which must be larger than its own scale.
    pub(super) fn rounded(self, scale: i32) -> Self {
        let surplus = i64::from(scale) - i64::from(self.scale);
        Decimal::new(divide_away(self.mantissa, surplus), scale)
    }

    pub(super) const fn is_zero(self) -> bool {
        self.mantissa == 0
    }

    pub(super) const fn sign(self) -> i32 {
        self.mantissa.signum() as i32
    }

    pub(super) const fn negated(self) -> Self {
        Decimal {
            mantissa: -self.mantissa,
            scale: self.scale,
        }
    }

    /// The number of units of 10^`scale`, rounded away from zero, saturating.
    pub(super) fn scaled(self, scale: i32) -> i64 {
        if self.is_zero() {
            return 0;
        }
        let difference = i64::from(self.scale) - i64::from(scale);
        let exact = if difference >= 0 {
            power(difference).and_then(|factor| self.mantissa.checked_mul(factor))
        } else {
            Some(divide_away(self.mantissa, -difference))
        };
        let saturated = i64::MAX * i64::from(self.sign());
        exact.map_or(saturated, |exact| i64::try_from(exact).unwrap_or(saturated))
    }

    pub(super) fn is_integer(self) -> bool {
        self.is_multiple_of_scale(0)
    }

    pub(super) fn is_multiple_of_scale(self, scale: i32) -> bool {
        let missing = i64::from(scale) - i64::from(self.scale);
        missing <= 0
            || self.is_zero()
            || power(missing).is_some_and(|unit| self.mantissa % unit == 0)
    }

    /// The value, if it is an integer and fits.
    pub(super) fn integer(self) -> Option<i128> {
        if !self.is_integer() {
            return None;
        }
        match power(i64::from(self.scale).abs()) {
            Some(factor) if self.scale >= 0 => self.mantissa.checked_mul(factor),
            Some(factor) => Some(self.mantissa / factor),
            None => None,
        }
    }

    /// The shortest mantissa with an exponent that is a multiple of three, and that exponent.
    pub(super) fn in_thousands(self) -> (i128, i32) {
        let (mut mantissa, zeros) = without_zeros(self.mantissa);
        let mut scale = self.scale.wrapping_add(zeros);
        while scale % 3 != 0 {
            mantissa = mantissa.saturating_mul(10);
            scale = scale.wrapping_sub(1);
        }
        (mantissa, scale)
    }

    /// The sum. If it cannot be represented, the operand with the larger scale.
    pub(super) fn plus(self, other: Decimal) -> Decimal {
        if self.is_zero() {
            return other;
        }
        if other.is_zero() {
            return self;
        }
        let (coarse, fine) = if self.scale >= other.scale {
            (self, other)
        } else {
            (other, self)
        };
        let aligned = power(i64::from(coarse.scale) - i64::from(fine.scale))
            .and_then(|factor| coarse.mantissa.checked_mul(factor))
            .and_then(|mantissa| mantissa.checked_add(fine.mantissa))
            .filter(|&mantissa| Decimal::fits(mantissa));
        match aligned {
            Some(mantissa) => Decimal::new(mantissa, fine.scale),
            // The fine operand is below the precision of the coarse one.
            None => coarse,
        }
    }

    pub(super) fn compare(self, other: Decimal) -> Ordering {
        let signs = self.sign().cmp(&other.sign());
        if signs != Ordering::Equal || self.is_zero() {
            return signs;
        }
        if self.scale == other.scale {
            return self.mantissa.cmp(&other.mantissa);
        }
        let (left, right) = (self.mantissa.unsigned_abs(), other.mantissa.unsigned_abs());
        let difference = i64::from(self.scale) - i64::from(other.scale);
        let magnitude = if difference >= 0 {
            compare_scaled(left, difference, right)
        } else {
            compare_scaled(right, -difference, left).reverse()
        };
        if self.sign() < 0 {
            magnitude.reverse()
        } else {
            magnitude
        }
    }
}

/// The number without trailing zeros, and the count of these zeros.
fn without_zeros(number: i128) -> (i128, i32) {
    // Fast path: dividing i64 is much faster than i128, and nearly all numbers fit.
    if let Ok(mut short) = i64::try_from(number) {
        let mut zeros = 0;
        while short != 0 && short % 10 == 0 {
            short /= 10;
            zeros += 1;
        }
        return (i128::from(short), zeros);
    }
    let (mut long, mut zeros) = (number, 0);
    while long % 10 == 0 {
        long /= 10;
        zeros += 1;
    }
    (long, zeros)
}

/// Compares `left * 10^exponent` with `right`.
fn compare_scaled(left: u128, exponent: i64, right: u128) -> Ordering {
    let scaled = power(exponent).and_then(|factor| left.checked_mul(factor.unsigned_abs()));
    scaled.map_or(Ordering::Greater, |scaled| scaled.cmp(&right))
}

/// Divides by 10^`exponent`, rounding away from zero.
pub(super) fn divide_away(mantissa: i128, exponent: i64) -> i128 {
    let Some(divisor) = power(exponent) else {
        return mantissa.signum();
    };
    let rest = mantissa % divisor;
    mantissa / divisor + rest.signum()
}

fn power(exponent: i64) -> Option<i128> {
    if exponent == 0 {
        return Some(1);
    }
    10_i128.checked_pow(u32::try_from(exponent).ok()?)
}
