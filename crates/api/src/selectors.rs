//! Validation of labels and label selectors within objects (upstream: `metav1/validation`).

use rhumb_meta::field::{Error, ErrorList, Path};
pub use rhumb_meta::labels::LabelSelectorValidationOptions as Options;
use rhumb_meta::validation::{self, ValidationProblems};

use crate::FieldView;

const VALUES_MISSING: &str = "must be specified when `operator` is 'In' or 'NotIn'";
const VALUES_SURPLUS: &str = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";

/// Validates a `metav1.LabelSelector`; an absent one is valid.
pub fn validate_label_selector(selector: &FieldView<'_>, options: Options, errors: &mut ErrorList) {
    validate_labels(&selector.field("matchLabels"), errors);
    for expression in selector.field("matchExpressions").items() {
        validate_requirement(&expression, options, errors);
    }
}

fn validate_requirement(expression: &FieldView<'_>, options: Options, errors: &mut ErrorList) {
    let (operator, values) = (expression.field("operator"), expression.field("values"));
    match operator.str() {
        "In" | "NotIn" if values.is_empty() => values.required(errors, VALUES_MISSING),
        "Exists" | "DoesNotExist" if !values.is_empty() => values.forbidden(errors, VALUES_SURPLUS),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ if options.allow_unknown_operator => {}
        other => errors.push(Error::invalid(
            operator.path(),
            other,
            "not a valid selector operator",
        )),
    }
    validate_label_name(&expression.field("key"), errors);
    if !options.allow_invalid_label_value {
        for value in values.items() {
            push_problems(
                errors,
                value.path(),
                value.str(),
                validation::label_value(value.str()),
            );
        }
    }
}

/// Validates a label key.
pub fn validate_label_name(name: &FieldView<'_>, errors: &mut ErrorList) {
    let problems = validation::qualified_name(name.str());
    push_problems(errors, name.path(), name.str(), problems);
}

/// Validates a map of labels. All errors are reported at the path of the map.
pub fn validate_labels(labels: &FieldView<'_>, errors: &mut ErrorList) {
    for (key, value) in labels.object().into_iter().flatten() {
        push_problems(errors, labels.path(), key, validation::qualified_name(key));
        let value = value.as_str().unwrap_or_default();
        push_problems(errors, labels.path(), value, validation::label_value(value));
    }
}

/// Whether a `matchExpressions` value is not a valid label value; an existing object may keep such values.
pub fn has_invalid_label_value(selector: &FieldView<'_>) -> bool {
    let expressions = selector.field("matchExpressions");
    expressions.items().any(|expression| {
        let values = expression.field("values");
        values
            .items()
            .any(|value| !validation::label_value(value.str()).is_empty())
    })
}

/// Adds one error per problem of a value.
pub fn push_problems(
    errors: &mut ErrorList,
    path: &Path<'_>,
    value: &str,
    problems: ValidationProblems,
) {
    for problem in problems {
        errors.push(Error::invalid(path, value, problem));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(selector: serde_json::Value, options: Options, want: &[&str]) {
        let path = Path::new("spec.selector");
        let mut errors = ErrorList::new();
        validate_label_selector(&FieldView::at(Some(&selector), path), options, &mut errors);
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), want.len(), "{selector}: {texts:?}");
        for (text, want) in texts.iter().zip(want) {
            assert!(text.starts_with(want), "{text}\n{want}");
        }
    }

    #[test]
    fn selector_errors_have_upstreams_texts() {
        let table: [(_, &[&str]); 7] = [
            (json!(null), &[]),
            (json!({}), &[]),
            (
                json!({"matchLabels": {"a": "b"}, "matchExpressions": [
                    {"key": "a", "operator": "In", "values": ["x"]}, {"key": "a", "operator": "Exists"}]}),
                &[],
            ),
            (
                json!({"matchLabels": {"-": "-"}}),
                &[
                    "spec.selector.matchLabels: Invalid value: \"-\": name part must consist of",
                    "spec.selector.matchLabels: Invalid value: \"-\": a valid label must be",
                ],
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
                &[
                    "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                ],
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
                &[
                    "spec.selector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                ],
            ),
            (
                json!({"matchExpressions": [{"key": "", "operator": "in", "values": ["ok", "-"]}]}),
                &[
                    "spec.selector.matchExpressions[0].operator: Invalid value: \"in\": not a valid selector operator",
                    "spec.selector.matchExpressions[0].key: Invalid value: \"\": name part must be non-empty",
                    "spec.selector.matchExpressions[0].key: Invalid value: \"\": name part must consist of",
                    "spec.selector.matchExpressions[0].values[1]: Invalid value: \"-\": a valid label must be",
                ],
            ),
        ];
        for (selector, want) in table {
            check(selector, Options::default(), want);
        }
    }

    #[test]
    fn lenient_options_accept_invalid_selectors() {
        let selector =
            json!({"matchExpressions": [{"key": "a", "operator": "in", "values": ["-"]}]});
        let lenient = Options {
            allow_invalid_label_value: true,
            allow_unknown_operator: true,
        };
        check(selector.clone(), lenient, &[]);
        let view = FieldView::at(Some(&selector), Path::NIL);
        assert!(has_invalid_label_value(&view));
        assert!(!has_invalid_label_value(&FieldView::at(None, Path::NIL)));
    }
}
