//! Strategies shared by the property tests: valid, nearly valid and arbitrary selector texts.
#![allow(dead_code, reason = "each test binary uses only some of these")]

use proptest::prelude::*;
use proptest::sample::select;

/// Without failure persistence files: add the printed minimal failing input to the table-driven tests instead.
pub(crate) fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Few keys and values, so that selectors often match labels.
pub(crate) const KEYS: [&str; 6] = ["a", "b", "in", "notin", "example.com/app", "C_d.e-f"];
pub(crate) const VALUES: [&str; 8] = ["", "a", "b", "in", "5", "10", "007", "9223372036854775807"];

pub(crate) fn key() -> impl Strategy<Value = String> {
    select(KEYS.as_slice()).prop_map(str::to_owned)
}

pub(crate) fn value() -> impl Strategy<Value = String> {
    select(VALUES.as_slice()).prop_map(str::to_owned)
}

/// The labels of an object; some values are invalid label values, which no selector can contain.
pub(crate) fn labels() -> impl Strategy<Value = Vec<(String, String)>> {
    let value = prop_oneof![8 => value(), 1 => Just("-5".to_owned()), 1 => Just("+7".to_owned()), 1 => "[0-9]{1,20}"];
    proptest::collection::btree_map(key(), value, 0..4).prop_map(|map| map.into_iter().collect())
}

/// One requirement as text, always valid.
pub(crate) fn requirement() -> impl Strategy<Value = String> {
    let exact =
        (key(), select(vec!["=", "==", "!="]), value()).prop_map(|(k, o, v)| format!("{k}{o}{v}"));
    let number = (
        key(),
        select(vec![">", "<"]),
        select(vec!["0", "5", "7", "10", "11"]),
    )
        .prop_map(|(k, o, v)| format!("{k}{o}{v}"));
    let set = (
        key(),
        select(vec!["in", "notin"]),
        proptest::collection::vec(value(), 0..12),
    )
        .prop_map(|(k, o, v)| format!("{k} {o} ({})", v.join(",")));
    let exists = (select(vec!["", "!"]), key()).prop_map(|(n, k)| format!("{n}{k}"));
    prop_oneof![3 => exact, 1 => number, 3 => set, 2 => exists]
}

/// A label selector as text, always valid.
pub(crate) fn selector() -> impl Strategy<Value = String> {
    proptest::collection::vec(requirement(), 0..6).prop_map(|requirements| requirements.join(","))
}

/// Tokens of both grammars in random order.
pub(crate) fn word_salad() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        4 => key(),
        4 => value(),
        8 => select(vec!["=", "==", "!=", "!", "(", ")", ",", ">", "<", " in ", " notin ", " ", "\t", "\\", "\0"])
            .prop_map(str::to_owned),
        1 => select(vec!["a/", "/a", "a/b/c", "-", "é", "日本", "_x", "A.B/c", "\u{a0}", "\"", "<>&"]).prop_map(str::to_owned),
        1 => ".{1,4}",
    ];
    proptest::collection::vec(word, 0..16).prop_map(|words| words.concat())
}

/// A text with some bytes changed, removed or doubled; invalid UTF-8 is replaced.
pub(crate) fn mutated(base: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let edits =
        proptest::collection::vec((any::<prop::sample::Index>(), 0_u8..3, any::<u8>()), 1..4);
    (base, edits).prop_map(|(text, edits)| {
        let mut bytes = text.into_bytes();
        for (at, how, byte) in edits {
            if bytes.is_empty() {
                bytes.push(byte);
                continue;
            }
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, bytes[at]),
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Arbitrary, nearly valid and valid texts.
pub(crate) fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        1 => ".{0,80}",
        3 => word_salad(),
        3 => mutated(selector()),
        1 => selector(),
    ]
}
