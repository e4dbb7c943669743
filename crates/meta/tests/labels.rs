//! Label selectors: property tests against a simple reference implementation, and tables of upstream's behaviour.

mod support;

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rhumb_meta::field::Path;
use rhumb_meta::labels::{Operator, REQUIREMENTS_MAX, Requirement, SELECTOR_MAX_BYTES, Selector};

/// Reference implementation of upstream's matching rules.
fn oracle(requirement: &Requirement, labels: &[(String, String)]) -> bool {
    let value = labels
        .iter()
        .find(|(key, _)| key == requirement.key())
        .map(|(_, value)| value.clone());
    let values: Vec<String> = requirement
        .values()
        .iter()
        .map(ToString::to_string)
        .collect();
    let number = |text: &String| text.parse::<i64>().ok();
    match requirement.operator() {
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
        Operator::Equals | Operator::DoubleEquals | Operator::In => {
            value.is_some() && values.contains(&value.unwrap())
        }
        Operator::NotEquals | Operator::NotIn => {
            value.is_none() || !values.contains(&value.unwrap())
        }
        Operator::GreaterThan => {
            value.as_ref().and_then(number) > number(&values[0]) && number(&values[0]).is_some()
        }
        Operator::LessThan => match value.as_ref().and_then(number) {
            Some(actual) => actual < number(&values[0]).unwrap(),
            None => false,
        },
    }
}

proptest! {
    #![proptest_config(support::config())]

    #[test]
    fn matching_agrees_with_the_oracle(text in support::selector(), labels in support::labels()) {
        let selector = Selector::parse(&text).expect("generated selectors are valid");
        let requirements = selector.requirements().expect("is not nothing");
        let want = requirements.iter().all(|requirement| oracle(requirement, &labels));
        prop_assert_eq!(selector.matches(&labels), want);
        for requirement in requirements {
            prop_assert_eq!(requirement.matches(&labels), oracle(requirement, &labels));
        }
    }

    #[test]
    fn all_label_set_types_match_equally(text in support::selector(), labels in support::labels()) {
        let selector = Selector::parse(&text).expect("generated selectors are valid");
        let want = selector.matches(labels.as_slice());
        let sorted: BTreeMap<String, String> = labels.iter().cloned().collect();
        let hashed: HashMap<&str, &str> = labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        prop_assert_eq!(selector.matches(&sorted), want);
        prop_assert_eq!(selector.matches(&hashed), want);
        prop_assert_eq!(selector.matches(&Some(&sorted)), want);
        if labels.is_empty() {
            prop_assert_eq!(selector.matches(&None::<Vec<(String, String)>>), want);
        }
    }

    #[test]
    fn parse_print_parse_is_identity(text in support::any_text()) {
        if let Ok(selector) = Selector::parse(&text) {
            let printed = selector.to_string();
            let again = Selector::parse(&printed).expect("printed selectors can be parsed");
            prop_assert_eq!(again.to_string(), printed);
            prop_assert_eq!(again, selector);
        }
    }

    #[test]
    fn the_parser_never_panics(text in support::any_text()) {
        if let Err(error) = Selector::parse(&text) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn a_selector_matches_only_its_required_exact_values(text in support::selector(), labels in support::labels()) {
        let selector = Selector::parse(&text).expect("generated selectors are valid");
        if selector.matches(&labels) {
            for requirement in selector.requirements().unwrap_or_default() {
                if let Some(values) = requirement.exact_values() {
                    let value = labels.iter().find(|(key, _)| key == requirement.key()).map(|(_, v)| v.as_str());
                    prop_assert!(values.iter().any(|allowed| Some(&**allowed) == value));
                }
            }
        }
    }
}

#[test]
fn the_whole_grammar_is_parsed_and_formatted_canonically() {
    let table = [
        ("", ""),
        ("x=a,y=b,z=c", "x=a,y=b,z=c"),
        ("z,y,x", "x,y,z"),
        (" x = a , y == b , z != c ", "x=a,y==b,z!=c"),
        ("x in (c,a,b,a)", "x in (a,b,c)"),
        ("x notin (a,,)", "x notin (,a)"),
        ("x in ()", "x in ()"),
        ("x in (,)", "x in ()"),
        ("x=,y!=", "x=,y!="),
        ("!x,x", "!x,x"),
        ("x>1,z <5", "x>1,z<5"),
        ("in in (in,notin)", "in in (in,notin)"),
        ("notin notin (in),in", "in,notin notin (in)"),
        ("x=in", "x=in"),
        ("a.b/c\t=\nd", "a.b/c=d"),
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
fn invalid_selectors_are_rejected_with_upstreams_messages() {
    let operators = "in, notin, =, ==, !=, gt, lt";
    let table = [
        (",", "found ',', expected: !, identifier, or 'end of string'".to_owned()),
        ("a,", "found '', expected: identifier after ','".to_owned()),
        ("a,,b", "found ',', expected: identifier after ','".to_owned()),
        ("a=b c", "found 'c', expected: ',' or 'end of string'".to_owned()),
        ("!a=b", "found '=', expected: ',' or 'end of string'".to_owned()),
        ("!", "unable to parse requirement: found '', expected: identifier".to_owned()),
        ("a b", format!("unable to parse requirement: found 'b', expected: {operators}")),
        ("a in b", "unable to parse requirement: found 'b' expected: '('".to_owned()),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier".to_owned()),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'".to_owned()),
        ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier".to_owned()),
        ("a==(", "unable to parse requirement: found '(', expected: identifier".to_owned()),
        (
            "a>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer".to_owned(),
        ),
    ];
    for (text, want) in table {
        assert_eq!(
            Selector::parse(text).expect_err(text).to_string(),
            want,
            "{text:?}"
        );
    }
    let key = Selector::parse("a/b/c").expect_err("not a key").to_string();
    assert!(key.starts_with("unable to parse requirement: <nil>: Invalid value: \"a/b/c\": a valid label key must consist of"), "{key}");
}

#[test]
fn errors_have_the_given_path() {
    let spec = Path::new("spec");
    let path = spec.child("selector");
    let table = [
        ("a/b/c", "spec.selector: Invalid value"),
        ("a=-", "spec.selector.values[0][a]: Invalid value"),
        ("a>x", "spec.selector.values[0]: Invalid value"),
    ];
    for (text, want) in table {
        let error = Selector::parse_at(&path, text).expect_err(text).to_string();
        assert!(
            error.starts_with(&format!("unable to parse requirement: {want}")),
            "{error}"
        );
    }
    let error = Requirement::new_at(&path, "-", Operator::Exists, &["b"]).expect_err("both");
    let fields: Vec<&str> = error.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(fields, ["spec.selector.key", "spec.selector.values"]);
}

#[test]
fn numeric_operators_compare_strictly_and_only_numbers() {
    let table = [
        ("6", false, true),
        ("7", false, false),
        ("007", false, false),
        ("8", true, false),
        ("+8", true, false),
        ("-9223372036854775808", false, true),
        ("9223372036854775808", false, false),
        ("x", false, false),
        ("", false, false),
    ];
    let [greater, less] = ["a>7", "a<7"].map(|text| Selector::parse(text).expect(text));
    for (value, is_greater, is_less) in table {
        assert_eq!(
            greater.matches(&[("a", value)]),
            is_greater,
            "{value:?} > 7"
        );
        assert_eq!(less.matches(&[("a", value)]), is_less, "{value:?} < 7");
    }
    assert!(!greater.matches(&[("b", "8")]) && !less.matches(&[("b", "6")]));
}

#[test]
fn nothing_matches_nothing_and_everything_matches_all() {
    let labels = [("a", "b")];
    let more = || Requirement::new("a", Operator::Exists, &[] as &[&str]).expect("valid");
    assert!(Selector::everything().matches(&labels) && Selector::everything().is_everything());
    assert!(!Selector::nothing().matches(&labels) && Selector::nothing().is_nothing());
    assert!(Selector::nothing().and([more()]).is_nothing());
    assert_eq!(Selector::everything().and([more()]).to_string(), "a");
    assert_eq!(
        Selector::from_labels([("b", "2"), ("a", "1")]).to_string(),
        "a=1,b=2"
    );
    assert_eq!(Selector::default(), Selector::parse("").expect("valid"));
    assert_ne!(Selector::nothing(), Selector::everything());
}

#[test]
fn the_single_required_value_is_found() {
    let table = [
        ("a=b", Some("b")),
        ("a==b", Some("b")),
        ("a in (b)", Some("b")),
        ("a in (b,c)", None),
        ("a!=b", None),
        ("a", None),
        ("b=c", None),
    ];
    for (text, want) in table {
        assert_eq!(
            Selector::parse(text).expect(text).requires_exact_match("a"),
            want,
            "{text:?}"
        );
    }
}

#[test]
fn the_largest_selectors_are_parsed_in_linear_time() {
    let fill = |unit: &str| unit.repeat(SELECTOR_MAX_BYTES / unit.len());
    let close = |open: &str, unit: &str| {
        format!(
            "{open}{}z)",
            unit.repeat((SELECTOR_MAX_BYTES - open.len() - 2) / unit.len())
        )
    };
    let distinct: String = (0..140_000).map(|n| format!("-{n},")).collect();
    let inputs = [
        fill("("),
        fill("!"),
        fill(","),
        fill("a"),
        fill("a,"),
        fill("a b "),
        fill("\0"),
        fill("é"),
        fill("/"),
        fill("a/"),
        fill("\u{1}"),
        close("a in (", "b,"),
        close("a in (", ","),
        close("a in (", "-,"),
        close("a in (", " "),
        format!("a in ({distinct}z)"),
    ];
    for input in inputs {
        let start = Instant::now();
        let error_bytes =
            Selector::parse(&input).map_or_else(|error| error.to_string().len(), |_| 0);
        let took = start.elapsed();
        assert!(
            took < Duration::from_secs(5),
            "{:?}... took {took:?}",
            &input.chars().take(8).collect::<String>()
        );
        assert!(
            error_bytes < 12 * SELECTOR_MAX_BYTES,
            "error message of {error_bytes} bytes"
        );
    }
}

#[test]
fn selectors_beyond_the_limits_are_rejected() {
    let long = format!("a={}", "b".repeat(SELECTOR_MAX_BYTES));
    assert!(
        Selector::parse(&long)
            .expect_err("too long")
            .to_string()
            .contains("too long")
    );
    let many = |count: usize| {
        (0..count)
            .map(|n| format!("k{n}"))
            .collect::<Vec<_>>()
            .join(",")
    };
    assert!(Selector::parse(&many(REQUIREMENTS_MAX)).is_ok());
    assert!(
        Selector::parse(&many(REQUIREMENTS_MAX + 1))
            .expect_err("too many")
            .to_string()
            .contains("too many")
    );
}
