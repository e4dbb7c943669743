//! `metav1.LabelSelector`: the selector in API objects, its validation and conversion to [`Selector`].

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use super::{Operator, REQUIREMENTS_MAX, Requirement, Selector};
use crate::field::{self, BadValue, ErrorList, Path};
use crate::gotext;
use crate::validation;

/// `matchLabels` and `matchExpressions`, all of which must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelector {
    #[serde(
        deserialize_with = "null_is_empty",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub match_labels: BTreeMap<String, String>,
    #[serde(
        deserialize_with = "null_is_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One of `matchExpressions`.
///
/// The operator is a string, so that validation can report an unknown one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LabelSelectorRequirement {
    pub key: String,
    pub operator: String,
    #[serde(
        deserialize_with = "null_is_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub values: Vec<String>,
}

fn null_is_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Why a [`LabelSelector`] cannot be converted to a [`Selector`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelSelectorError {
    #[error("{} is not a valid label selector operator", gotext::quote(.0))]
    Operator(String),
    #[error("{0}")]
    Requirement(ErrorList),
    #[error("selector has too many requirements: at most {REQUIREMENTS_MAX} are accepted")]
    TooMany,
}

/// Relaxations of validation, for objects stored before validation became stricter.
#[derive(Debug, Clone, Copy, Default)]
pub struct LabelSelectorValidationOptions {
    pub allow_invalid_label_value: bool,
    pub allow_unknown_operator: bool,
}

impl LabelSelector {
    /// Converts to a [`Selector`]. An absent selector matches nothing, an empty one everything.
    pub fn to_selector(selector: Option<&LabelSelector>) -> Result<Selector, LabelSelectorError> {
        let Some(selector) = selector else {
            return Ok(Selector::nothing());
        };
        let count = selector.match_labels.len() + selector.match_expressions.len();
        if count > REQUIREMENTS_MAX {
            return Err(LabelSelectorError::TooMany);
        }
        let mut requirements = Vec::with_capacity(count);
        for (key, value) in &selector.match_labels {
            let requirement = Requirement::new(key, Operator::Equals, &[value]);
            requirements.push(requirement.map_err(LabelSelectorError::Requirement)?);
        }
        for expression in &selector.match_expressions {
            requirements.push(expression.to_requirement()?);
        }
        Ok(Selector::new(requirements))
    }

    /// Validates the selector; errors are under `path`.
    pub fn validate(&self, options: LabelSelectorValidationOptions, path: &Path<'_>) -> ErrorList {
        let mut errors = validate_labels(&self.match_labels, &path.child("matchLabels"));
        let path = path.child("matchExpressions");
        for (index, expression) in self.match_expressions.iter().enumerate() {
            errors.extend(expression.validate(options, &path.index(index)));
        }
        errors
    }

    /// Whether an expression has an invalid label value. A stored object may keep such values.
    pub fn has_invalid_label_value(&self) -> bool {
        let mut values = self
            .match_expressions
            .iter()
            .flat_map(|expression| &expression.values);
        values.any(|value| !validation::label_value(value).is_empty())
    }
}

impl LabelSelectorRequirement {
    fn to_requirement(&self) -> Result<Requirement, LabelSelectorError> {
        let operator = match self.operator.as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => return Err(LabelSelectorError::Operator(other.to_owned())),
        };
        Requirement::new(&self.key, operator, &self.values).map_err(LabelSelectorError::Requirement)
    }

    /// Validates the expression; errors are under `path`.
    pub fn validate(&self, options: LabelSelectorValidationOptions, path: &Path<'_>) -> ErrorList {
        let mut errors = ErrorList::new();
        let values_path = path.child("values");
        match self.operator.as_str() {
            "In" | "NotIn" if self.values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(field::Error::required(&values_path, detail));
            }
            "Exists" | "DoesNotExist" if !self.values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(field::Error::forbidden(&values_path, detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ if options.allow_unknown_operator => {}
            other => {
                let value = BadValue::json(other);
                errors.push(field::Error::invalid(
                    &path.child("operator"),
                    value,
                    "not a valid selector operator",
                ));
            }
        }
        push_problems(
            &mut errors,
            &path.child("key"),
            &self.key,
            validation::qualified_name(&self.key),
        );
        if !options.allow_invalid_label_value {
            for (index, value) in self.values.iter().enumerate() {
                push_problems(
                    &mut errors,
                    &values_path.index(index),
                    value,
                    validation::label_value(value),
                );
            }
        }
        errors
    }
}

/// Validates a set of labels; errors are at `path`.
pub fn validate_labels(labels: &BTreeMap<String, String>, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    for (key, value) in labels {
        push_problems(&mut errors, path, key, validation::qualified_name(key));
        push_problems(&mut errors, path, value, validation::label_value(value));
    }
    errors
}

fn push_problems(
    errors: &mut ErrorList,
    path: &Path<'_>,
    value: &str,
    problems: validation::ValidationProblems,
) {
    errors.extend(
        problems
            .into_iter()
            .map(|problem| field::Error::invalid(path, value, problem)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> LabelSelector {
        serde_json::from_str(json).expect(json)
    }

    #[test]
    fn an_absent_selector_matches_nothing_and_an_empty_one_everything() {
        assert!(
            LabelSelector::to_selector(None)
                .expect("valid")
                .is_nothing()
        );
        for empty in [
            "{}",
            r#"{"matchLabels":{},"matchExpressions":[]}"#,
            r#"{"matchLabels":null,"matchExpressions":null}"#,
        ] {
            assert!(
                LabelSelector::to_selector(Some(&read(empty)))
                    .expect("valid")
                    .is_everything()
            );
        }
    }

    #[test]
    fn labels_and_expressions_become_requirements_sorted_by_key() {
        let selector = read(
            r#"{"matchLabels":{"b":"1","a":"2"},"matchExpressions":[
                {"key":"a","operator":"In","values":["y","x"]},{"key":"c","operator":"DoesNotExist"},
                {"key":"0","operator":"NotIn","values":["z"]},{"key":"d","operator":"Exists","values":null}]}"#,
        );
        let text = LabelSelector::to_selector(Some(&selector))
            .expect("valid")
            .to_string();
        assert_eq!(text, "0 notin (z),a=2,a in (x,y),b=1,!c,d");
    }

    #[test]
    fn invalid_label_selectors_are_rejected_with_upstreams_messages() {
        let selector = read(
            r#"{"matchLabels":{"a":"1"},"matchExpressions":[{"key":"a","operator":"in","values":["x"]},
                {"key":"a","operator":"In"},{"key":"a","operator":"Exists","values":["x"]}]}"#,
        );
        let error = LabelSelector::to_selector(Some(&selector)).expect_err("unknown operator");
        assert_eq!(
            error.to_string(),
            "\"in\" is not a valid label selector operator"
        );
        let errors = selector.validate(
            LabelSelectorValidationOptions::default(),
            &Path::new("spec.selector"),
        );
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "spec.selector.matchExpressions[0].operator: Invalid value: \"in\": not a valid selector operator",
                "spec.selector.matchExpressions[1].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                "spec.selector.matchExpressions[2].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ]
        );
        let lenient = LabelSelectorValidationOptions {
            allow_unknown_operator: true,
            allow_invalid_label_value: true,
        };
        assert_eq!(selector.validate(lenient, &Path::new("spec")).len(), 2);
    }

    #[test]
    fn each_validation_option_permits_one_error() {
        let selector =
            read(r#"{"matchExpressions":[{"key":"a","operator":"in","values":["ok","-"]}]}"#);
        let fields = |allow_invalid_label_value, allow_unknown_operator| {
            let options = LabelSelectorValidationOptions {
                allow_invalid_label_value,
                allow_unknown_operator,
            };
            let errors = selector.validate(options, &Path::new("s"));
            errors.into_iter().map(|e| e.field).collect::<Vec<_>>()
        };
        let (operator, value) = (
            "s.matchExpressions[0].operator",
            "s.matchExpressions[0].values[1]",
        );
        assert_eq!(fields(false, false), [operator, value]);
        assert_eq!(fields(true, false), [operator]);
        assert_eq!(fields(false, true), [value]);
        assert_eq!(fields(true, true), [""; 0]);
    }

    #[test]
    fn only_invalid_expression_values_make_a_selector_legacy() {
        let table = [
            (r#"{}"#, false),
            (
                r#"{"matchExpressions":[{"key":"-","operator":"-","values":["ok"]}]}"#,
                false,
            ),
            (r#"{"matchLabels":{"a":"-"}}"#, false),
            (
                r#"{"matchExpressions":[{"key":"a"},{"key":"a","operator":"In","values":["ok","-"]}]}"#,
                true,
            ),
        ];
        for (json, want) in table {
            assert_eq!(read(json).has_invalid_label_value(), want, "{json}");
        }
    }

    #[test]
    fn the_number_of_requirements_is_bounded() {
        let mut selector = read(r#"{"matchLabels":{"a":"1"}}"#);
        let exists = || LabelSelectorRequirement {
            key: "a".to_owned(),
            operator: "Exists".to_owned(),
            values: Vec::new(),
        };
        selector
            .match_expressions
            .resize_with(REQUIREMENTS_MAX - 1, exists);
        assert!(LabelSelector::to_selector(Some(&selector)).is_ok());
        selector.match_expressions.push(exists());
        let error = LabelSelector::to_selector(Some(&selector)).expect_err("one too many");
        assert_eq!(error, LabelSelectorError::TooMany);
        assert_eq!(
            error.to_string(),
            "selector has too many requirements: at most 4096 are accepted"
        );
    }
}
