//! Field selectors: property tests against a simple reference implementation, and tables of upstream's behaviour.

mod support;

use proptest::prelude::*;
use rhumb_meta::fields::{Operator, Requirement, Selector, escape};
use rhumb_meta::labels::{REQUIREMENTS_MAX, SELECTOR_MAX_BYTES};

fn requirement() -> impl Strategy<Value = (String, bool, String)> {
    let field = prop::sample::select(vec!["metadata.name", "spec.nodeName", "status.phase", ""])
        .prop_map(str::to_owned);
    let value = prop_oneof![2 => support::value(), 1 => r"[a\\,=]{0,4}"];
    (field, any::<bool>(), value)
}

fn selector() -> impl Strategy<Value = Vec<(String, bool, String)>> {
    proptest::collection::vec(requirement(), 0..5)
}

fn print(requirements: &[(String, bool, String)]) -> String {
    let print = |(field, equals, value): &(String, bool, String)| {
        format!(
            "{field}{}{}",
            if *equals { "=" } else { "!=" },
            escape(value)
        )
    };
    requirements.iter().map(print).collect::<Vec<_>>().join(",")
}

fn any_text() -> impl Strategy<Value = String> {
    let valid = || selector().prop_map(|requirements| print(&requirements));
    prop_oneof![
        1 => ".{0,80}",
        3 => support::word_salad(),
        3 => support::mutated(valid()),
        1 => valid(),
        2 => r"[ab!=,\\]{0,24}",
    ]
}

proptest! {
    #![proptest_config(support::config())]

    #[test]
    fn matching_agrees_with_the_oracle(requirements in selector(), fields in proptest::collection::vec(requirement(), 0..4)) {
        let fields: Vec<(String, String)> = fields.into_iter().map(|(field, _, value)| (field, value)).collect();
        let parsed = Selector::parse(&print(&requirements)).expect("generated selectors are valid");
        let actual = |name: &str| fields.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value);
        let is_empty = |field: &str, value: &str| field.is_empty() && value.is_empty();
        let want = requirements.iter().all(|(field, equals, value)| {
            is_empty(field, value) || (actual(field) == value) == *equals
        });
        prop_assert_eq!(parsed.matches(&fields), want);
    }

    /// Compares sets of requirements, because upstream sorts by the original text, where `a==b` sorts before `a=b`.
    #[test]
    fn parse_print_parse_is_identity(text in any_text()) {
        if let Ok(selector) = Selector::parse(&text) {
            let again = Selector::parse(&selector.to_string()).expect("printed selectors can be parsed");
            let sorted = |selector: &Selector| {
                let mut texts: Vec<String> = selector.requirements().unwrap_or_default().iter().map(ToString::to_string).collect();
                texts.sort();
                texts
            };
            prop_assert_eq!(sorted(&again), sorted(&selector));
            prop_assert_eq!(Selector::parse(&again.to_string()).expect("again").to_string(), again.to_string());
        }
    }

    #[test]
    fn the_parser_never_panics(text in any_text()) {
        if let Err(error) = Selector::parse(&text) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}

#[test]
fn field_selectors_are_parsed_and_formatted_as_upstream() {
    let table = [
        ("", ""),
        (",,", ""),
        ("=", ""),
        ("b=1,a==2,c!=3", "a=2,b=1,c!=3"),
        (r"a=x\,y\=z\\", r"a=x\,y\=z\\"),
        ("a= b ", "a= b "),
        ("a!b=c", "a!b=c"),
        ("a=", "a="),
        ("=a", "=a"),
    ];
    for (text, want) in table {
        assert_eq!(
            Selector::parse(text).expect(text).to_string(),
            want,
            "{text:?}"
        );
    }
}

#[test]
fn invalid_field_selectors_are_rejected_with_upstreams_messages() {
    let table = [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("b=1,a", "invalid selector: 'b=1,a'; can't understand 'a'"),
        (
            "a=b=c",
            "invalid field selector: unescaped character in value: 61",
        ),
        (
            "a===b",
            "invalid field selector: unescaped character in value: 61",
        ),
        (
            r"a=\x",
            r"invalid field selector: invalid escape sequence: \x",
        ),
        (
            r"a=\",
            r"invalid field selector: invalid escape sequence: \",
        ),
    ];
    for (text, want) in table {
        assert_eq!(
            Selector::parse(text).expect_err(text).to_string(),
            want,
            "{text:?}"
        );
    }
}

#[test]
fn nothing_matches_nothing_and_everything_matches_all() {
    let more = || [Requirement::new("a", Operator::Equals, "b")];
    assert!(Selector::nothing().and(more()).is_nothing());
    assert!(!Selector::nothing().and(more()).matches(&[("a", "b")]));
    assert!(Selector::nothing().and([]).is_nothing());
    assert!(Selector::everything().is_everything() && !Selector::everything().is_nothing());
    assert_eq!(
        Selector::everything().and(more()),
        Selector::equals("a", "b")
    );
    let both = Selector::equals("c", "d").and(more());
    assert_eq!(both.to_string(), "c=d,a=b");
    let kept = Selector::nothing().transform(|f, v| Ok::<_, ()>((f.to_owned(), v.to_owned())));
    assert_eq!(kept, Ok(Selector::nothing()));
}

#[test]
fn field_selectors_beyond_the_limits_are_rejected() {
    let many = |count: usize| "a=b,".repeat(count);
    let most = Selector::parse(&many(REQUIREMENTS_MAX)).expect("at the limit");
    assert_eq!(most.requirements().map(<[_]>::len), Some(REQUIREMENTS_MAX));
    let error = Selector::parse(&many(REQUIREMENTS_MAX + 1)).expect_err("one too many");
    assert_eq!(
        error.to_string(),
        "selector has too many requirements: at most 4096 are accepted"
    );
    let long = format!("a={}", "b".repeat(SELECTOR_MAX_BYTES - 2));
    assert!(Selector::parse(&long).is_ok());
    let error = Selector::parse(&format!("{long}b")).expect_err("one byte too long");
    assert_eq!(
        error.to_string(),
        "selector of 1048577 bytes is too long: at most 1048576 bytes are accepted"
    );
}

#[test]
fn a_transformation_can_rename_drop_and_reject() {
    let selector = Selector::parse("a=1,b!=2,c=3").expect("valid");
    let changed = selector.transform(|field, value| match field {
        "a" => Ok(("metadata.name".to_owned(), value.to_owned())),
        "b" => Ok((String::new(), String::new())),
        "c" => Ok(("c".to_owned(), "x".to_owned())),
        _ => Err(()),
    });
    assert_eq!(
        changed.expect("all are known").to_string(),
        "metadata.name=1,c=x"
    );
    let refused = selector.transform(|field, _| {
        Err::<(String, String), _>(format!("field label not supported: {field}"))
    });
    assert_eq!(refused, Err("field label not supported: a".to_owned()));
}

#[test]
fn the_required_value_of_a_field_is_found() {
    let selector = Selector::parse("a!=1,a=2,b!=3").expect("valid");
    assert_eq!(selector.requires_exact_match("a"), Some("2"));
    assert_eq!(selector.requires_exact_match("b"), None);
    assert_eq!(Selector::nothing().requires_exact_match("a"), None);
    let requirements = selector.requirements().expect("is not nothing");
    assert_eq!(
        requirements[0],
        Requirement::new("a", Operator::NotEquals, "1")
    );
}

#[test]
fn the_largest_field_selectors_are_parsed_in_linear_time() {
    for unit in [",", "=", "a=b,", "\\", "a", "é"] {
        let text = unit.repeat(SELECTOR_MAX_BYTES / unit.len());
        let start = std::time::Instant::now();
        let _ = Selector::parse(&text).map_err(|error| error.to_string());
        assert!(
            start.elapsed().as_secs() < 5,
            "{unit:?} took {:?}",
            start.elapsed()
        );
        assert!(Selector::parse(&format!("{text}aaaaaa=")).is_err());
    }
}
