//! Go-compatible formatting: `%q` strings, `%v` floats and `encoding/json`.
//!
//! Kubernetes error messages contain such values, and clients and tests compare the messages as text.

use std::fmt::{self, Write as _};
use std::io;
use std::str::FromStr;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// A string as Go's `%q` prints it: double-quoted, with non-printable characters escaped.
#[derive(Debug, Clone, Copy)]
pub struct GoQuoted<'a>(&'a str);

/// Formats `text` as Go's `%q` does.
pub fn quote(text: &str) -> GoQuoted<'_> {
    GoQuoted(text)
}

impl fmt::Display for GoQuoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            write_quoted_char(f, c)?;
        }
        f.write_char('"')
    }
}

fn write_quoted_char(f: &mut fmt::Formatter<'_>, c: char) -> fmt::Result {
    match c {
        '"' => f.write_str("\\\""),
        '\\' => f.write_str("\\\\"),
        '\x07' => f.write_str("\\a"),
        '\x08' => f.write_str("\\b"),
        '\x0c' => f.write_str("\\f"),
        '\n' => f.write_str("\\n"),
        '\r' => f.write_str("\\r"),
        '\t' => f.write_str("\\t"),
        '\x0b' => f.write_str("\\v"),
        ' '..='~' => f.write_char(c),
        '\0'..='\x7f' => write!(f, "\\x{:02x}", u32::from(c)),
        _ if is_printable(c) => f.write_char(c),
        '\u{80}'..='\u{ffff}' => write!(f, "\\u{:04x}", u32::from(c)),
        _ => write!(f, "\\U{:08x}", u32::from(c)),
    }
}

/// Whether a non-ASCII character is a letter, mark, number, punctuation or symbol (Go's `unicode.IsPrint`).
///
/// `escape_debug` of the standard library has the same rule, except that it also escapes a combining mark at the start
/// of a string; therefore a letter is prepended. Characters newer than the Unicode version of upstream's Go are
/// printed here but escaped there.
fn is_printable(c: char) -> bool {
    let mut buffer = [b'a'; 5];
    let len = 1 + c.encode_utf8(&mut buffer[1..]).len();
    std::str::from_utf8(&buffer[..len]).is_ok_and(|text| text.escape_debug().nth(1) != Some('\\'))
}

/// Encodes a value as Go's `encoding/json` does: HTML-sensitive characters escaped, floats in Go's form.
///
/// A value that JSON cannot represent (a map with non-string keys) becomes `null`.
pub fn json<T: Serialize + ?Sized>(value: &T) -> String {
    let mut out = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut out, GoJsonFormatter);
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8(out).unwrap_or_else(|_| "null".to_owned()),
        Err(_) => "null".to_owned(),
    }
}

struct GoJsonFormatter;

impl Formatter for GoJsonFormatter {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        w: &mut W,
        text: &str,
    ) -> io::Result<()> {
        let mut rest = text;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let (plain, tail) = rest.split_at(at);
            w.write_all(plain.as_bytes())?;
            let mut chars = tail.chars();
            if let Some(c) = chars.next() {
                write!(w, "\\u{:04x}", u32::from(c))?;
            }
            rest = chars.as_str();
        }
        w.write_all(rest.as_bytes())
    }

    fn write_f64<W: io::Write + ?Sized>(&mut self, w: &mut W, value: f64) -> io::Result<()> {
        let is_plain = value == 0.0 || (1e-6..1e21).contains(&value.abs());
        write_float(w, value, is_plain)
    }

    // Not via f64, which would print digits that the f32 does not have.
    fn write_f32<W: io::Write + ?Sized>(&mut self, w: &mut W, value: f32) -> io::Result<()> {
        let is_plain = value == 0.0 || (1e-6..1e21).contains(&value.abs());
        write_float(w, value, is_plain)
    }
}

/// Go prints exponents without leading zeros, and with a sign for large numbers too (1e-7, 1e+21).
fn write_float<W, F>(w: &mut W, value: F, is_plain: bool) -> io::Result<()>
where
    W: io::Write + ?Sized,
    F: Float,
{
    if is_plain {
        return w.write_all(plain(value).as_bytes());
    }
    let text = exponential(value);
    let signed = if text.contains("e-") {
        text
    } else {
        text.replace('e', "e+")
    };
    w.write_all(signed.as_bytes())
}

trait Float: Copy + PartialEq + FromStr + fmt::Display + fmt::LowerExp {}

impl Float for f32 {}

impl Float for f64 {}

fn plain<F: Float>(value: F) -> String {
    ties_to_even(value, value.to_string(), |digits| {
        format!("{value:.digits$}")
    })
}

fn exponential<F: Float>(value: F) -> String {
    ties_to_even(value, format!("{value:e}"), |digits| {
        format!("{value:.digits$e}")
    })
}

/// The shortest text that parses back to the value, with Go's choice between ties.
///
/// If two such texts are equally near the value, the standard library takes the larger one and Go the even one, which
/// is the result of rounding to that number of digits. The rounded text is checked, because next to a power of two it
/// may parse to another value. (Without a fraction there are no ties: the distance to such a text would exceed the
/// distance to the next float.)
fn ties_to_even<F: Float>(
    value: F,
    shortest: String,
    round: impl FnOnce(usize) -> String,
) -> String {
    let Some((_, fraction)) = shortest.split_once('.') else {
        return shortest;
    };
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    let rounded = round(digits);
    match rounded.parse::<F>() {
        Ok(read) if read == value => rounded,
        _ => shortest,
    }
}

/// The exponents for which Go's `%v` prints a float without an exponent. The limits of its JSON differ.
const PLAIN_EXPONENTS: std::ops::Range<i32> = -4..6;

/// A float as Go's `%v` prints it: `1e+06` and `1e-05`, with at least two exponent digits.
pub fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let text = exponential(value);
    let parts = text.split_once('e');
    let Some((mantissa, Ok(exponent))) = parts.map(|(m, e)| (m, e.parse::<i32>())) else {
        return text;
    };
    if PLAIN_EXPONENTS.contains(&exponent) {
        return plain(value);
    }
    format!("{mantissa}e{exponent:+03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted_as_in_go() {
        let table = [
            ("", r#""""#),
            ("plain", r#""plain""#),
            ("say \"hi\" \\", r#""say \"hi\" \\""#),
            (
                "\0\x07\x08\x0c\n\r\t\x0b\x1b\x7f",
                r#""\x00\a\b\f\n\r\t\v\x1b\x7f""#,
            ),
            ("é 日本 🦀 \u{301}", "\"é 日本 🦀 \u{301}\""),
            (
                "\u{a0}\u{ad}\u{200b}\u{feff}\u{e000}\u{10ffff}",
                r#""\u00a0\u00ad\u200b\ufeff\ue000\U0010ffff""#,
            ),
        ];
        for (input, want) in table {
            assert_eq!(quote(input).to_string(), want);
        }
    }

    #[test]
    fn json_is_encoded_as_in_go() {
        assert_eq!(
            json(&["<a>", "b&c", "\u{2028}\"\n"]),
            r#"["\u003ca\u003e","b\u0026c","\u2028\"\n"]"#
        );
        assert_eq!(
            json(&[1.0, 0.5, 1e20, 1e21, 1e-6, 1e-7, 0.0]),
            "[1,0.5,100000000000000000000,1e+21,0.000001,1e-7,0]"
        );
        assert_eq!(
            json(&[0.1_f32, 3.3, 16_777_216.0, 1e20, 1e21, 1e-6, 1e-7, -0.0]),
            "[0.1,3.3,16777216,100000000000000000000,1e+21,0.000001,1e-7,-0]"
        );
        assert_eq!(json(&Option::<u8>::None), "null");
    }

    #[test]
    fn ties_between_shortest_representations_go_to_the_even_one() {
        assert_eq!(
            json(&[2_287_242.0_f32 + 0.25, 2_287_242.0 + 0.75]),
            "[2287242.2,2287242.8]"
        );
        let tie = 1_125_899_906_842_624.0 + 0.25;
        assert_eq!(json(&tie), "1125899906842624.2");
        assert_eq!(float(tie), "1.1258999068426242e+15");
    }

    #[test]
    fn floats_are_formatted_as_in_go() {
        let table = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.25, "0.25"),
            (-999_999.5, "-999999.5"),
            (1e5, "100000"),
            (1e6, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (123_456_789.25, "1.2345678925e+08"),
            (1e20, "1e+20"),
            (1e21, "1e+21"),
            (1e100, "1e+100"),
            (0.0001, "0.0001"),
            (0.000_099, "9.9e-05"),
            (-1.5e-7, "-1.5e-07"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ];
        for (value, want) in table {
            assert_eq!(float(value), want);
        }
    }
}
