//! Quantities as upstream prints them.

use rhumb_meta::Quantity;

pub(crate) fn canonical_quantity(text: &str) -> Result<String, String> {
    if is_plainly_canonical(text) {
        return Ok(text.to_owned());
    }
    Quantity::parse(text)
        .map(|quantity| quantity.to_string())
        .map_err(|error| error.to_string())
}

/// Numbers of so many digits are far from all limits, whatever the suffix.
const FEW_DIGITS: usize = 5;

/// Whether it can be seen at a glance that upstream prints a quantity just so. That holds for nearly all there are, and
/// spares them the way through a number and back.
pub(crate) fn is_plainly_canonical(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut number = 0;
    let mut digits = 0;
    while let Some(digit @ b'0'..=b'9') = bytes.get(digits) {
        if digits == FEW_DIGITS {
            return false;
        }
        number = number * 10 + u32::from(digit - b'0');
        digits += 1;
    }
    if matches!(bytes.first(), None | Some(b'0')) {
        return false;
    }
    // Thousands would be a larger unit.
    match &bytes[digits..] {
        b"" | b"m" | b"k" | b"M" | b"G" => number % 1000 != 0,
        b"Ki" | b"Mi" | b"Gi" => number % 1024 != 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_plainly_canonical_is_printed_just_so() {
        let suffixes = [
            "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "K", "Ki", "Mi", "Gi", "Ti", "e3", " ",
        ];
        let mut plain = 0;
        for suffix in suffixes {
            for number in 0..=101_000 {
                let text = format!("{number}{suffix}");
                if is_plainly_canonical(&text) {
                    let printed = Quantity::parse(&text).map(|quantity| quantity.to_string());
                    assert_eq!(printed.as_deref(), Ok(&*text));
                    plain += 1;
                }
            }
        }
        assert!(plain > 700_000, "{plain}");
    }

    #[test]
    fn what_is_not_has_another_look() {
        for text in [
            "", "0", "00", "01", "+1", "-1", " 1", "1.5", "1000m", "1024Ki", "m", "100000", "1e3",
        ] {
            assert!(!is_plainly_canonical(text), "{text}");
        }
    }
}
