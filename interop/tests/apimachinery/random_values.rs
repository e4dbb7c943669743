//! Requests about single values: times, floats, requirements.

use proptest::prelude::*;
use proptest::sample::select;
use rhumb_meta::labels::Operator;

use crate::protocol::OracleRequest;
use crate::{random_requests, support};

pub(crate) const OPERATORS: [Operator; 9] = [
    Operator::Equals,
    Operator::DoubleEquals,
    Operator::NotEquals,
    Operator::In,
    Operator::NotIn,
    Operator::Exists,
    Operator::DoesNotExist,
    Operator::GreaterThan,
    Operator::LessThan,
];

/// Edge cases of time syntax.
const TIMES: &[&str] = &[
    "",
    "null",
    "2006-01-02T15:04:05Z",
    "2006-01-02T5:04:05Z",
    "2006-01-02T05:4:05Z",
    "2006-01-02T15:04:05,5Z",
    "2006-01-02T15:04:05,123456Z",
    "2006-01-02T15:04:05.Z",
    "2006-01-02T15:04:05.1234567899Z",
    "2006-01-02T15:04:05.123456+24:60",
    "2006-01-02T15:04:05+24:00",
    "2006-01-02T15:04:05+25:00",
    "2006-01-02T15:04:05-23:60",
    "2006-01-02T15:04:05-23:61",
    "2006-01-02T15:04:05+0100",
    "2006-01-02T15:04:05+1:00",
    "2006-01-02t15:04:05Z",
    "2006-01-02T15:04:05z",
    "2006-01-02 15:04:05Z",
    "2006-01-02T24:00:00Z",
    "2006-01-02T15:60:05Z",
    "2006-01-02T15:04:60Z",
    "2006-02-29T00:00:00Z",
    "2000-02-29T00:00:00Z",
    "1900-02-29T00:00:00Z",
    "2006-00-01T00:00:00Z",
    "2006-01-00T00:00:00Z",
    "0000-01-01T00:00:00Z",
    "0000-01-01T00:00:00+24:00",
    "9999-12-31T23:59:59.999999-24:60",
    "10000-01-01T00:00:00Z",
    "-001-01-01T00:00:00Z",
    "+006-01-02T15:04:05Z",
];

/// Floats at the boundaries between print formats.
const FLOATS: &[f64] = &[
    0.0,
    -0.0,
    1.0,
    0.1,
    3.3,
    99_999.5,
    999_999.0,
    999_999.999_999_999_9,
    1e6,
    1_234_567.5,
    16_777_217.0,
    1e20,
    1e21,
    9.999_999_999_999_999e20,
    1e-4,
    9.999_999_999_999_999e-5,
    1e-5,
    1e-6,
    9.999_999e-7,
    1e-7,
    1e100,
    5e-324,
    f64::MAX,
    f64::MIN_POSITIVE,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

pub(crate) fn table() -> Vec<OracleRequest> {
    let times = TIMES
        .iter()
        .map(|text| OracleRequest::text("parse_time", *text));
    let floats = FLOATS.iter().map(|value| float_request(*value));
    times.chain(floats).collect()
}

/// Years -1 to 10000. Excludes the first second of year 1, Go's zero time.
pub(crate) fn time() -> impl Strategy<Value = OracleRequest> {
    let seconds =
        prop_oneof![1 => -62_198_755_200_i64..=253_433_836_799, 1 => 0_i64..4_102_444_800];
    (seconds, 1_u32..1_000_000_000).prop_map(|(seconds, nanos)| OracleRequest {
        op: "format_time",
        seconds,
        nanos,
        ..OracleRequest::default()
    })
}

/// Almost valid times: any part may be out of range or lack a digit.
fn time_text() -> impl Strategy<Value = String> {
    let date = "[0-9]{4}-(0[0-9]|1[0-3])-([0-2][0-9]|3[0-2])";
    let clock = "T([0-9]|[01][0-9]|2[0-5]):[0-6][0-9]:([0-5][0-9]|6[01])";
    let fraction =
        prop_oneof![2 => Just(String::new()), 2 => "[.,][0-9]{6}", 1 => "[.,][0-9]{0,11}"];
    let offset = prop_oneof![2 => "Z", 2 => "[+-](0[0-9]|1[0-9]|2[0-6]):[0-6][0-9]", 1 => "[+-]?[0-9:]{0,6}"];
    (date, clock, fraction, offset)
        .prop_map(|(date, clock, fraction, offset)| format!("{date}{clock}{fraction}{offset}"))
}

/// Go accepts a sign as the first of a MicroTime's six digits; rhumb rejects it.
fn has_signed_fraction(text: &str) -> bool {
    [".+", ".-", ",+", ",-"]
        .iter()
        .any(|sign| text.contains(sign))
}

pub(crate) fn parse_time() -> impl Strategy<Value = OracleRequest> {
    let text = prop_oneof![3 => time_text(), 1 => support::mutated(time_text())];
    text.prop_filter("a known difference: signed fractions", |text| {
        !has_signed_fraction(text)
    })
    .prop_map(|text| OracleRequest::text("parse_time", text))
}

fn float_request(value: f64) -> OracleRequest {
    OracleRequest {
        op: "float",
        bits: value.to_bits(),
        ..OracleRequest::default()
    }
}

pub(crate) fn float() -> impl Strategy<Value = OracleRequest> {
    // Exact fractions, for which two shortest decimal forms can be equally near.
    let binary = (-(1_i64 << 53)..1 << 53, 0_u32..12)
        .prop_map(|(digits, shift)| digits as f64 / f64::from(1_u32 << shift));
    let decimal =
        (-1_000_000_000_i64..1_000_000_000, -30_i32..30).prop_map(|(digits, exponent)| {
            format!("{digits}e{exponent}")
                .parse::<f64>()
                .expect("a float")
        });
    let value = prop_oneof![1 => any::<u64>().prop_map(f64::from_bits), 2 => decimal, 2 => binary];
    value.prop_map(float_request)
}

pub(crate) fn requirement() -> impl Strategy<Value = OracleRequest> {
    let value = prop_oneof![6 => support::value(), 1 => random_requests::name()];
    let key = prop_oneof![6 => support::key(), 1 => random_requests::name()];
    let values = proptest::collection::vec(value, 0..4);
    let operator = select(OPERATORS.as_slice()).prop_map(Operator::as_str);
    (
        key,
        operator,
        values,
        random_requests::path(),
        random_requests::set(),
    )
        .prop_map(|(key, operator, values, path, labels)| OracleRequest {
            operator,
            values,
            path,
            labels,
            ..OracleRequest::text("requirement", key)
        })
}

/// Pairs of quantities whose sums are exact on both sides.
pub(crate) fn quantity() -> impl Strategy<Value = OracleRequest> {
    let text = "[+-]?[0-9]{0,8}(\\.[0-9]{0,12})?(|n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?1?[0-2]|x|K|e)";
    (text, text).prop_map(|(left, right)| OracleRequest {
        values: vec![right],
        ..OracleRequest::text("quantity", left)
    })
}
