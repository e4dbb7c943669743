//! Validation of tolerations, taints, topology spread constraints and scheduling gates.

use rhumb_meta::field::{BadValue, Error, ErrorList};
use rhumb_meta::gotext;
use rhumb_meta::validation;

use super::{PodValidationOptions, affinity, checks};
use crate::FieldView;
use crate::selectors::{self, push_problems, validate_label_name, validate_label_selector};
use crate::small_map::{SmallMap, SmallSet};

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn validate_tolerations(
    tolerations: &FieldView<'_>,
    options: &PodValidationOptions,
    errors: &mut ErrorList,
) {
    for toleration in tolerations.items() {
        let index = toleration.index();
        let toleration = toleration.with_index(&index);
        let (key, operator) = (toleration.field("key"), toleration.field("operator"));
        if !key.is_empty() {
            validate_label_name(&key, errors);
        } else if operator.str() != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            checks::invalid_text(&operator, errors, detail);
        }
        let effect = toleration.field("effect");
        if toleration.has("tolerationSeconds") && effect.str() != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            checks::invalid_text(&effect, errors, detail);
        }
        toleration_value(&operator, &toleration.field("value"), options, errors);
        if !effect.is_empty() {
            checks::one_of(&effect, EFFECTS, errors);
        }
    }
}

fn toleration_value(
    operator: &FieldView<'_>,
    value: &FieldView<'_>,
    options: &PodValidationOptions,
    errors: &mut ErrorList,
) {
    let text = value.str();
    match operator.str() {
        "Equal" | "" => {
            let problems = validation::label_value(text);
            if !problems.is_empty() {
                errors.push(Error::invalid(operator.path(), text, problems.join(";")));
            }
        }
        "Exists" if !text.is_empty() => {
            let detail = "value must be empty when `operator` is 'Exists'";
            errors.push(Error::invalid(operator.path(), text, detail));
        }
        "Exists" => {}
        "Lt" | "Gt" if options.allow_comparing_tolerations => validate_numeric_value(value, errors),
        "Lt" | "Gt" => unsupported(operator, &["Equal", "Exists", "Lt", "Gt"], errors),
        _ => unsupported(operator, &["Equal", "Exists"], errors),
    }
}

fn unsupported(view: &FieldView<'_>, supported: &[&str], errors: &mut ErrorList) {
    errors.push(Error::not_supported(view.path(), view.str(), supported));
}

fn validate_numeric_value(value: &FieldView<'_>, errors: &mut ErrorList) {
    let text = value.str();
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_integer = !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" && text == "0" || !digits.starts_with('0'));
    if text.is_empty() {
        checks::invalid_text(value, errors, "must be non-empty");
    } else if !is_integer {
        let detail = "must be a valid decimal integer in canonical form";
        checks::invalid_text(value, errors, detail);
    }
    if text.parse::<i64>().is_err() {
        let reason = if is_integer {
            "value out of range"
        } else {
            "invalid syntax"
        };
        let detail = format!(
            "strconv.ParseInt: parsing {}: {reason}",
            gotext::quote(text)
        );
        checks::invalid_text(value, errors, detail);
    }
}

/// Validates the taints of a node.
pub(crate) fn validate_taints(taints: &FieldView<'_>, errors: &mut ErrorList) {
    let mut known = SmallSet::new();
    for taint in taints.items() {
        validate_label_name(&taint.field("key"), errors);
        let value = taint.field("value");
        let problems = validation::label_value(value.str());
        if !problems.is_empty() {
            checks::invalid_text(&value, errors, problems.join(";"));
        }
        checks::required_one_of(&taint.field("effect"), EFFECTS, errors);
        if !known.insert((taint.text("key"), taint.text("effect"))) {
            let fields = [
                ("Key", "key", "\"\""),
                ("Value", "value", "\"\""),
                ("Effect", "effect", "\"\""),
                ("TimeAdded", "timeAdded", "null"),
            ];
            let shown = BadValue::Rendered(checks::go_struct(&taint, &fields));
            let mut error = Error::duplicate(taint.path(), shown);
            "taints must be unique by key and effect pair".clone_into(&mut error.detail);
            errors.push(error);
        }
    }
}

pub(super) fn validate_spread(
    constraints: &FieldView<'_>,
    options: &PodValidationOptions,
    errors: &mut ErrorList,
) {
    let places = constraints.items().enumerate();
    let last: SmallMap<_, _> = places
        .map(|(index, item)| (constraint_key(&item), index))
        .collect();
    for (index, constraint) in constraints.items().enumerate() {
        checks::positive(&constraint.field("maxSkew"), errors);
        let key = constraint.field("topologyKey");
        if key.is_empty() {
            key.required(errors, "can not be empty");
        }
        let action = constraint.field("whenUnsatisfiable");
        checks::one_of(&action, &["DoNotSchedule", "ScheduleAnyway"], errors);
        if last
            .get(&constraint_key(&constraint))
            .is_some_and(|&last| last > index)
        {
            let (key, action) = constraint_key(&constraint);
            let path = constraint.path().child("{topologyKey, whenUnsatisfiable}");
            errors.push(Error::duplicate(&path, format!("{{{key}, {action}}}")));
        }
        min_domains(&constraint, errors);
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policies = ["Honor", "Ignore"];
            checks::optional_one_of(&constraint.field(policy), &policies, errors);
        }
        if options.old_violates_label_keys {
            affinity::validate_legacy_label_keys(&constraint, errors);
        } else {
            affinity::validate_label_keys(&constraint, errors);
        }
        if !options.allow_invalid_spread_selectors {
            let selector = constraint.field("labelSelector");
            validate_label_selector(&selector, selectors::Options::default(), errors);
        }
    }
}

/// Identity of a constraint: topology key and `whenUnsatisfiable`.
fn constraint_key<'a>(constraint: &FieldView<'a>) -> (&'a str, &'a str) {
    (
        constraint.text("topologyKey"),
        constraint.text("whenUnsatisfiable"),
    )
}

fn min_domains(constraint: &FieldView<'_>, errors: &mut ErrorList) {
    let domains = constraint.field("minDomains");
    if !domains.exists() {
        return;
    }
    checks::positive(&domains, errors);
    let action = constraint.text("whenUnsatisfiable");
    if action != "DoNotSchedule" {
        let detail =
            format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        checks::invalid_number(&domains, errors, detail);
    }
}

/// Validates scheduling gates. Errors are reported at the gate, not at its name.
pub(super) fn validate_gates(gates: &FieldView<'_>, errors: &mut ErrorList) {
    let mut names = SmallSet::new();
    for gate in gates.items() {
        let name = gate.text("name");
        push_problems(errors, gate.path(), name, validation::qualified_name(name));
        if !names.insert(name) {
            errors.push(Error::duplicate(gate.path(), name));
        }
    }
}
