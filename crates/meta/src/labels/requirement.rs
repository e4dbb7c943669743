//! A requirement on one label: key, operator, values (upstream: `labels.Requirement`).

use std::fmt;

use super::Labels;
use crate::field::{self, BadValue, ErrorList, Path};
use crate::validation;

/// The maximum number of invalid values that one requirement reports.
///
/// A message can be a hundred times as long as its value, so that without a limit a request of 1 MiB could cause a
/// response of 100 MiB.
const REPORTED_VALUES_MAX: usize = 100;

/// Up to this number of values, a linear scan is faster than a binary search.
const SCANNED_VALUES_MAX: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    Equals,
    DoubleEquals,
    NotEquals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

impl Operator {
    /// Upstream's name of the operator in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Operator::Equals => "=",
            Operator::DoubleEquals => "==",
            Operator::NotEquals => "!=",
            Operator::In => "in",
            Operator::NotIn => "notin",
            Operator::Exists => "exists",
            Operator::DoesNotExist => "!",
            Operator::GreaterThan => "gt",
            Operator::LessThan => "lt",
        }
    }
}

/// A requirement on one label: a key, an operator and values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: Box<str>,
    operator: Operator,
    /// Sorted, for binary search and for printing without a copy.
    values: Box<[Box<str>]>,
    /// The value as a number, for `GreaterThan` and `LessThan`.
    bound: i64,
}

impl Requirement {
    /// Validates and builds a requirement; errors have upstream's texts, at the paths `key` and `values`.
    pub fn new<V: AsRef<str>>(
        key: &str,
        operator: Operator,
        values: &[V],
    ) -> Result<Self, ErrorList> {
        Self::new_at(&Path::NIL, key, operator, values)
    }

    /// As [`Requirement::new`], with the errors under `path`.
    pub fn new_at<V: AsRef<str>>(
        path: &Path<'_>,
        key: &str,
        operator: Operator,
        values: &[V],
    ) -> Result<Self, ErrorList> {
        let mut errors = ErrorList::new();
        let problems = validation::qualified_name(key);
        if !problems.is_empty() {
            errors.push(field::Error::invalid(
                &path.child("key"),
                key,
                problems.join("; "),
            ));
        }
        let bound = check_values(&path.child("values"), key, operator, values, &mut errors);
        errors.into_result()?;
        Ok(Self::assemble(
            key,
            operator,
            values.iter().map(AsRef::as_ref),
            bound,
        ))
    }

    /// A requirement on a valid label, such as one of a stored object.
    pub(super) fn equals_unchecked(key: &str, value: &str) -> Self {
        Self::assemble(key, Operator::Equals, std::iter::once(value), 0)
    }

    fn assemble<'a>(
        key: &str,
        operator: Operator,
        values: impl Iterator<Item = &'a str>,
        bound: i64,
    ) -> Self {
        let mut values: Box<[Box<str>]> = values.map(Box::from).collect();
        values.sort_unstable();
        Requirement {
            key: key.into(),
            operator,
            values,
            bound,
        }
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values, sorted. Empty for [`Operator::Exists`] and [`Operator::DoesNotExist`].
    pub fn values(&self) -> &[Box<str>] {
        &self.values
    }

    /// The values that match, if the requirement lists them; for index lookups.
    pub fn exact_values(&self) -> Option<&[Box<str>]> {
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => Some(&self.values),
            _ => None,
        }
    }

    /// Whether only objects with the label can match.
    pub fn needs_label(&self) -> bool {
        !self.matches_value(None)
    }

    pub fn matches<L: Labels + ?Sized>(&self, labels: &L) -> bool {
        self.matches_value(labels.get(&self.key))
    }

    /// Whether the value of the label matches; `None` if the object does not have the label.
    pub fn matches_value(&self, value: Option<&str>) -> bool {
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => {
                value.is_some_and(|value| self.has_value(value))
            }
            Operator::NotEquals | Operator::NotIn => {
                !value.is_some_and(|value| self.has_value(value))
            }
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => number(value).is_some_and(|number| number > self.bound),
            Operator::LessThan => number(value).is_some_and(|number| number < self.bound),
        }
    }

    fn has_value(&self, value: &str) -> bool {
        if self.values.len() <= SCANNED_VALUES_MAX {
            self.values.iter().any(|candidate| &**candidate == value)
        } else {
            self.values
                .binary_search_by(|candidate| (**candidate).cmp(value))
                .is_ok()
        }
    }
}

fn number(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

/// Validates the number and format of the values. Returns the bound of `GreaterThan` and `LessThan`, else 0.
fn check_values<V: AsRef<str>>(
    path: &Path<'_>,
    key: &str,
    operator: Operator,
    values: &[V],
    errors: &mut ErrorList,
) -> i64 {
    if let Some(detail) = wrong_count(operator, values.len()) {
        errors.push(field::Error::invalid(path, shown(values), detail));
    }
    let mut bound = 0;
    if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
        for (index, value) in values.iter().enumerate().take(REPORTED_VALUES_MAX) {
            match value.as_ref().parse() {
                Ok(number) => bound = number,
                Err(_) => {
                    let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                    errors.push(field::Error::invalid(
                        &path.index(index),
                        value.as_ref(),
                        detail,
                    ));
                }
            }
        }
    }
    let wrong = |(index, value): (usize, &V)| {
        let problems = validation::label_value(value.as_ref());
        let at = path.index(index);
        let error = || field::Error::invalid(&at.key(key), value.as_ref(), problems.join("; "));
        (!problems.is_empty()).then(error)
    };
    let wrong_values = values.iter().enumerate().filter_map(wrong);
    errors.extend(wrong_values.take(REPORTED_VALUES_MAX));
    bound
}

fn wrong_count(operator: Operator, count: usize) -> Option<&'static str> {
    match operator {
        Operator::In | Operator::NotIn => {
            (count == 0).then_some("for 'in', 'notin' operators, values set can't be empty")
        }
        Operator::Equals | Operator::DoubleEquals | Operator::NotEquals => {
            (count != 1).then_some("exact-match compatibility requires one single value")
        }
        Operator::Exists | Operator::DoesNotExist => {
            (count != 0).then_some("values set must be empty for exists and does not exist")
        }
        Operator::GreaterThan | Operator::LessThan => {
            (count != 1).then_some("for 'Gt', 'Lt' operators, exactly one value is required")
        }
    }
}

/// The values in an error message; an empty list is Go's nil slice, which prints as null.
fn shown<V: AsRef<str>>(values: &[V]) -> BadValue {
    let values: Vec<&str> = values
        .iter()
        .take(REPORTED_VALUES_MAX)
        .map(AsRef::as_ref)
        .collect();
    BadValue::json(&(!values.is_empty()).then_some(values))
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let (open, close) = match self.operator {
            Operator::Exists => return f.write_str(key),
            Operator::DoesNotExist => return write!(f, "!{key}"),
            Operator::Equals => ("=", ""),
            Operator::DoubleEquals => ("==", ""),
            Operator::NotEquals => ("!=", ""),
            Operator::In => (" in (", ")"),
            Operator::NotIn => (" notin (", ")"),
            Operator::GreaterThan => (">", ""),
            Operator::LessThan => ("<", ""),
        };
        write!(f, "{key}{open}")?;
        for (index, value) in self.values.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            f.write_str(value)?;
        }
        f.write_str(close)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_requirements_are_rejected_with_upstreams_messages() {
        let table: [(&str, Operator, &[&str], &str); 5] = [
            (
                "a",
                Operator::In,
                &[],
                "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
            ),
            (
                "a",
                Operator::Equals,
                &["b", "c"],
                "values: Invalid value: [\"b\",\"c\"]: exact-match compatibility requires one single value",
            ),
            (
                "a",
                Operator::Exists,
                &["b"],
                "values: Invalid value: [\"b\"]: values set must be empty for exists and does not exist",
            ),
            (
                "a",
                Operator::GreaterThan,
                &["b"],
                "values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
            (
                "a",
                Operator::LessThan,
                &[],
                "values: Invalid value: null: for 'Gt', 'Lt' operators, exactly one value is required",
            ),
        ];
        for (key, operator, values, want) in table {
            assert_eq!(
                Requirement::new(key, operator, values)
                    .expect_err(want)
                    .to_string(),
                want
            );
        }
        let two = Requirement::new("a/", Operator::In, &["-"])
            .expect_err("key and value are invalid")
            .to_string();
        assert!(
            two.starts_with(
                "[key: Invalid value: \"a/\": name part must be non-empty; name part must"
            ),
            "{two}"
        );
        assert!(
            two.contains(", values[0][a/]: Invalid value: \"-\": a valid label must be"),
            "{two}"
        );
    }

    #[test]
    fn a_requirement_returns_its_parts() {
        let table: [(Operator, &[&str], &[&str], &str); 9] = [
            (Operator::Equals, &["b"], &["b"], "a=b"),
            (Operator::DoubleEquals, &["b"], &["b"], "a==b"),
            (Operator::NotEquals, &[""], &[""], "a!="),
            (
                Operator::In,
                &["c", "b", "c"],
                &["b", "c", "c"],
                "a in (b,c,c)",
            ),
            (Operator::NotIn, &["c", ""], &["", "c"], "a notin (,c)"),
            (Operator::Exists, &[], &[], "a"),
            (Operator::DoesNotExist, &[], &[], "!a"),
            (Operator::GreaterThan, &["7"], &["7"], "a>7"),
            (Operator::LessThan, &["007"], &["007"], "a<007"),
        ];
        for (operator, given, values, text) in table {
            let requirement = Requirement::new("a", operator, given).expect(text);
            assert_eq!(requirement.key(), "a");
            assert_eq!(requirement.operator(), operator);
            assert!(
                requirement
                    .values()
                    .iter()
                    .map(|v| &**v)
                    .eq(values.iter().copied())
            );
            assert_eq!(requirement.to_string(), text);
        }
    }

    #[test]
    fn large_value_sets_match_like_small_ones() {
        let values: Vec<String> = (0..1000).map(|n| format!("v{n}")).collect();
        for operator in [Operator::In, Operator::NotIn] {
            let requirement = Requirement::new("a", operator, &values).expect("valid");
            for n in [0, 1, 500, 999] {
                assert_eq!(
                    requirement.matches(&[("a", format!("v{n}"))]),
                    operator == Operator::In
                );
            }
            assert_eq!(
                requirement.matches(&[("a", "w")]),
                operator == Operator::NotIn
            );
        }
    }

    #[test]
    fn the_number_of_reported_invalid_values_is_bounded() {
        let values = vec!["-"; 100_000];
        let errors =
            Requirement::new("a", Operator::Exists, &values).expect_err("all values are invalid");
        assert_eq!(errors.len(), 1 + REPORTED_VALUES_MAX);
    }
}
