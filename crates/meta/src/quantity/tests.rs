//! The expected values were taken from upstream's library.

use super::*;

fn read(text: &str) -> Quantity {
    Quantity::parse(text).expect(text)
}

#[test]
fn quantities_are_formatted_as_upstream() {
    let table = [
        // The original text is kept.
        ("0", "0"),
        ("1", "1"),
        ("-1", "-1"),
        ("+1", "+1"),
        ("001", "001"),
        ("1.234", "1.234"),
        ("1.500", "1.500"),
        ("1500", "1500"),
        ("100m", "100m"),
        ("1e3", "1e3"),
        ("1E3", "1E3"),
        ("1Ki", "1Ki"),
        ("1025Ki", "1025Ki"),
        ("10G", "10G"),
        // Printed in canonical form.
        ("00", "0"),
        ("-0", "0"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("1.5", "1500m"),
        ("5.", "5."),
        ("1000", "1k"),
        ("1000m", "1"),
        ("0.1Ki", "102400m"),
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("8Ki", "8Ki"),
        ("0.5Mi", "512Ki"),
        ("0.0001Ki", "102400u"),
        ("1e2", "100"),
        ("12e-4", "1200e-6"),
        ("0.0000000001", "1n"),
        ("-0.00000000001", "-1n"),
        ("1.0000000000000000000001", "1000000001n"),
        ("1234567890123456789", "1234567890123456789"),
        (
            "123456789012345678901234567890",
            "123456789012345678901234567890",
        ),
        ("1000P", "1E"),
        ("16Ei", "9223372036854775807"),
        ("-16Ei", "-9223372036854775807"),
        ("1.5Ei", "1536Pi"),
        // Upstream's special cases.
        ("1000E", "1"),
        ("-", "0"),
        (".", "0"),
        ("m", "0"),
        ("1e4294967296", "1e4294967296"),
    ];
    for (text, want) in table {
        assert_eq!(read(text).to_string(), want, "{text}");
    }
}

#[test]
fn invalid_quantities_are_rejected_with_upstreams_messages() {
    let format = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    let suffix = "unable to parse quantity's suffix";
    let numeric = "unable to parse numeric part of quantity";
    let long = "1".repeat(2000);
    let table = [
        ("", format),
        ("x", format),
        (" 1", format),
        ("1 ", format),
        ("1..2", format),
        ("1.2.3", format),
        ("1x", format),
        ("1KiB", format),
        ("é", format),
        ("1K", suffix),
        ("1ki", suffix),
        ("1mm", suffix),
        ("1e", "unable to parse quantity's suffix"),
        ("1E-", suffix),
        ("1e99999999999999999999", suffix),
        ("Pi", numeric),
        (&long, numeric),
    ];
    for (text, want) in table {
        let error = Quantity::parse(text).expect_err(text);
        assert_eq!(error.to_string(), want, "{text}");
    }
}

#[test]
fn values_are_rounded_away_from_zero() {
    let table = [
        ("0", 0, 0),
        ("1", 1, 1000),
        ("1m", 1, 1),
        ("1u", 1, 1),
        ("1500m", 2, 1500),
        ("-1500m", -2, -1500),
        ("1Ki", 1024, 1_024_000),
        ("2e3", 2000, 2_000_000),
        ("9E", 9_000_000_000_000_000_000, i64::MAX),
        ("100E", i64::MAX, i64::MAX),
        ("1e4294967296", 1, 1000),
        ("-100E", -i64::MAX, -i64::MAX),
    ];
    for (text, value, milli) in table {
        let quantity = read(text);
        assert_eq!(
            (quantity.value(), quantity.milli_value()),
            (value, milli),
            "{text}"
        );
    }
}

#[test]
fn comparison_ignores_the_format() {
    let rising = [
        "-2Ki",
        "-1",
        "-1n",
        "0",
        "1n",
        "1m",
        "1",
        "1k",
        "1Ki",
        "1.1Ki",
        "1e30",
        "1e2000000000",
    ];
    for (left, a) in rising.iter().enumerate() {
        for (right, b) in rising.iter().enumerate() {
            assert_eq!(read(a).cmp(&read(b)), left.cmp(&right), "{a} and {b}");
        }
    }
    for (a, b) in [
        ("1", "1000m"),
        ("1024", "1Ki"),
        ("0", "-0Ki"),
        ("1e3", "1k"),
    ] {
        assert_eq!(read(a), read(b));
    }
}

#[test]
fn sums_keep_the_format_of_the_first_nonzero_operand() {
    let table = [
        ("1", "1", "2", "0"),
        ("0", "1Ki", "1Ki", "-1Ki"),
        ("1Gi", "512Mi", "1536Mi", "512Mi"),
        ("1", "1Ki", "1025", "-1023"),
        ("1Ki", "1", "1025", "1023"),
        ("500m", "600m", "1100m", "-100m"),
        ("1e3", "500", "1500", "500"),
        (
            "1n",
            "1E",
            "1000000000000000000000000001n",
            "-999999999999999999999999999n",
        ),
    ];
    for (left, right, sum, difference) in table {
        let (mut plus, mut minus) = (read(left), read(left));
        plus.add(&read(right));
        minus.sub(&read(right));
        assert_eq!(
            (plus.to_string().as_str(), minus.to_string().as_str()),
            (sum, difference),
            "{left} {right}"
        );
    }
}

#[test]
fn quantities_are_read_from_json_strings_and_numbers() {
    let table = [
        ("\"1Gi\"", "\"1Gi\""),
        ("\" 2 \"", "\"2\""),
        ("3", "\"3\""),
        ("0.5", "\"500m\""),
        ("null", "\"0\""),
    ];
    for (json, want) in table {
        let quantity: Quantity = serde_json::from_str(json).expect(json);
        assert_eq!(serde_json::to_string(&quantity).expect(json), want);
    }
    assert!(serde_json::from_str::<Quantity>("true").is_err());
    assert!(serde_json::from_str::<Quantity>("\"1x\"").is_err());
}

#[test]
fn multiples_of_a_scale_are_detected() {
    let table = [
        ("1", true, true, true),
        ("1m", false, true, false),
        ("1u", false, false, false),
        ("999999u", false, false, true),
        ("-999999u", false, false, true),
        ("1000m", true, true, true),
        ("0", true, true, true),
        ("1e3", true, true, true),
        ("10P", true, true, true),
        ("0.5Ki", true, true, true),
    ];
    for (text, whole, milli, rounded) in table {
        let quantity = read(text);
        assert_eq!(
            (
                quantity.is_integer(),
                quantity.is_whole_milli(),
                quantity.is_integer_at_milli()
            ),
            (whole, milli, rounded),
            "{text}"
        );
    }
}

#[test]
fn rounding_up_changes_only_finer_quantities() {
    let table = [
        ("1", "1"),
        ("1.234", "1.234"),
        ("1.2345", "1235m"),
        ("1u", "1m"),
        ("-1u", "-1m"),
        ("1000u", "1m"),
        ("0.0001Ki", "103m"),
    ];
    for (text, want) in table {
        let mut quantity = read(text);
        quantity.round_up(-3);
        assert_eq!(quantity.to_string(), want, "{text}");
    }
}
