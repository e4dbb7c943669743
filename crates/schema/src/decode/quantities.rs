//! Converts quantities to their canonical form, as `resource.Quantity.String` prints them.

use rhumb_meta::Quantity;

pub(crate) fn canonical_quantity(text: &str) -> Result<String, String> {
    if is_plainly_canonical_quantity(text) {
        return Ok(text.to_owned());
    }
    Quantity::parse(text)
        .map(|quantity| quantity.to_string())
        .map_err(|error| error.to_string())
}

/// Numbers of up to this many digits cannot overflow, whatever the suffix.
const FEW_DIGITS: usize = 5;

/// Fast path: whether the text is certainly in canonical form. True for nearly all real quantities, which then need
/// not be parsed and printed again.
pub(crate) fn is_plainly_canonical_quantity(text: &str) -> bool {
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
    // A multiple of 1000 (or 1024) would be printed with the next larger suffix.
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
    fn plainly_canonical_quantities_are_printed_unchanged() {
        let suffixes = [
            "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "K", "Ki", "Mi", "Gi", "Ti", "e3", " ",
        ];
        let mut plain = 0;
        for suffix in suffixes {
            for number in 0..=101_000 {
                let text = format!("{number}{suffix}");
                if is_plainly_canonical_quantity(&text) {
                    let printed = Quantity::parse(&text).map(|quantity| quantity.to_string());
                    assert_eq!(printed.as_deref(), Ok(&*text));
                    plain += 1;
                }
            }
        }
        assert!(plain > 700_000, "{plain}");
    }

    #[test]
    fn other_quantities_are_not_plainly_canonical() {
        for text in [
            "", "0", "00", "01", "+1", "-1", " 1", "1.5", "1000m", "1024Ki", "m", "100000", "1e3",
        ] {
            assert!(!is_plainly_canonical_quantity(text), "{text}");
        }
    }
}
