//! Strategy and validation shared by validating and mutating admission policies and their bindings.

use rhumb_expressions::is_identifier;
use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::labels::LabelSelectorValidationOptions;
use rhumb_meta::validation;

use super::policy_expressions::PolicyExpressionCompiler;
use super::{exclude_rules, matching};
use crate::validation_helpers::checks;
use crate::{DroppedField, FeatureGates, FieldView, JsonObject, ResourceStrategy, StrategyContext};

/// Field with the match criteria, in a policy and in a binding.
pub(super) const MATCH_CONSTRAINTS: &str = "matchConstraints";
pub(super) const MATCH_RESOURCES: &str = "matchResources";

/// Validates the fields of a policy spec up to its match conditions.
pub(super) fn validate_common_policy_fields(
    spec: &FieldView<'_>,
    context: exclude_rules::ExclusionValidationContext<'_>,
    errors: &mut ErrorList,
) {
    let failure = spec.field("failurePolicy");
    matching::one_of_required(&failure, matching::FAILURE_POLICIES, errors);
    validate_param_kind(&spec.field("paramKind"), errors);
    let constraints = spec.field(MATCH_CONSTRAINTS);
    if !constraints.exists() {
        constraints.required(errors, "");
        return;
    }
    matching::validate_match_resources(&constraints, context, errors);
    let rules = constraints.field("resourceRules");
    if rules.is_empty() {
        rules.required(errors, "");
    }
}

/// Validates match conditions, unless they are unchanged.
pub(super) fn validate_conditions(
    spec: &FieldView<'_>,
    old: Option<&FieldView<'_>>,
    errors: &mut ErrorList,
) {
    let is_same = old.is_some_and(|old| {
        let old = old.field("spec");
        ["paramKind", "matchConditions"]
            .iter()
            .all(|name| checks::semantically_equal(&spec.field(name), &old.field(name)))
    });
    if !is_same {
        let has_params = spec.field("paramKind").exists();
        matching::validate_match_conditions(&spec.field("matchConditions"), has_params, errors);
    }
}

fn validate_param_kind(kind: &FieldView<'_>, errors: &mut ErrorList) {
    if !kind.exists() {
        return;
    }
    validate_api_version(&kind.field("apiVersion"), errors);
    let name = kind.field("kind");
    if name.is_empty() {
        name.required(errors, "");
        return;
    }
    let problems = validation::dns1035_label(&name.str().to_lowercase());
    if !problems.is_empty() {
        let problems = problems.join(",");
        let detail = format!("may have mixed case, but should otherwise match: {problems}");
        checks::invalid_text(&name, errors, detail);
    }
}

fn validate_api_version(field: &FieldView<'_>, errors: &mut ErrorList) {
    let text = field.str();
    if text.is_empty() {
        field.required(errors, "");
        return;
    }
    let (group, version) = match text.split_once('/') {
        None => ("", text),
        Some((_, version)) if version.contains('/') => {
            let detail = format!("unexpected GroupVersion string: {text}");
            checks::invalid_text(field, errors, detail);
            return;
        }
        Some(parts) => parts,
    };
    let problems = validation::dns1123_subdomain(group);
    if !group.is_empty() && !problems.is_empty() {
        errors.push(Error::invalid(field.path(), group, problems.join(",")));
    }
    if version.is_empty() {
        checks::invalid_text(field, errors, "version must be specified");
        return;
    }
    let problems = validation::dns1035_label(version);
    if !problems.is_empty() {
        errors.push(Error::invalid(field.path(), version, problems.join(",")));
    }
}

pub(super) fn validate_variables(
    variables: &FieldView<'_>,
    compiler: &mut PolicyExpressionCompiler,
    errors: &mut ErrorList,
) {
    for variable in variables.items() {
        let name = variable.field("name");
        if name.str().trim().is_empty() {
            name.required(errors, "name is not specified");
        } else if !is_identifier(name.str()) {
            checks::invalid_text(&name, errors, "must be a valid CEL identifier");
        }
        let expression = variable.field("expression");
        if expression.str().trim().is_empty() {
            expression.required(errors, "expression is not specified");
        } else {
            compiler.declare_variable(name.str(), &expression, errors);
        }
    }
}

/// Validates the fields of a binding spec up to `matchResources`.
pub(super) fn validate_common_binding_fields(
    spec: &FieldView<'_>,
    context: exclude_rules::ExclusionValidationContext<'_>,
    errors: &mut ErrorList,
) {
    let policy = spec.field("policyName");
    if policy.is_empty() {
        policy.required(errors, "");
    } else {
        checks::push_problems(&policy, validation::dns1123_subdomain(policy.str()), errors);
    }
    validate_param_ref(&spec.field("paramRef"), errors);
    matching::validate_match_resources(&spec.field(MATCH_RESOURCES), context, errors);
}

fn validate_param_ref(reference: &FieldView<'_>, errors: &mut ErrorList) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    if !reference.exists() {
        return;
    }
    let (name, selector) = (reference.field("name"), reference.field("selector"));
    if !name.is_empty() {
        checks::push_problems(&name, validation::path_segment_name(name.str()), errors);
        if selector.exists() {
            name.forbidden(errors, EXCLUSIVE);
        }
    }
    if selector.exists() {
        checks::validate_selector(&selector, LabelSelectorValidationOptions::default(), errors);
        if !name.is_empty() {
            selector.forbidden(errors, EXCLUSIVE);
        }
    }
    if name.is_empty() && !selector.exists() {
        reference.required(errors, "one of name or selector must be specified");
    }
    let action = reference.field("parameterNotFoundAction");
    if action.is_empty() {
        action.required(errors, "");
    } else {
        checks::one_of(&action, &["Deny", "Allow"], errors);
    }
}

type PolicyValidateFn =
    fn(&FieldView<'_>, Option<&FieldView<'_>>, &StrategyContext<'_>, &mut ErrorList);

/// Strategy of an admission policy or of its binding.
#[derive(Debug)]
pub(super) struct AdmissionPolicyStrategy {
    /// Field with the match criteria.
    pub(super) matching: &'static str,
    /// Validates the object; the old object is given on update.
    pub(super) validate: PolicyValidateFn,
    pub(super) validate_status: fn(&FieldView<'_>, &mut ErrorList),
}

impl ResourceStrategy for AdmissionPolicyStrategy {
    fn prepare_create(&self, object: &mut JsonObject, request: &StrategyContext<'_>) {
        exclude_rules::drop_disabled_match_rules(object, None, self.matching, request);
    }

    fn prepare_update(
        &self,
        object: &mut JsonObject,
        old: &JsonObject,
        request: &StrategyContext<'_>,
    ) {
        exclude_rules::drop_disabled_match_rules(object, Some(old), self.matching, request);
    }

    fn disabled_fields(
        &self,
        object: &JsonObject,
        old: Option<&JsonObject>,
        gates: &FeatureGates,
    ) -> Vec<DroppedField> {
        exclude_rules::disabled_match_rules(object, old, self.matching, gates)
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        (self.validate)(object, None, request, errors);
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        (self.validate)(object, Some(old), request, errors);
    }

    fn validate_status_update(
        &self,
        object: &FieldView<'_>,
        _: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        (self.validate_status)(object, errors);
    }

    fn warnings(
        &self,
        object: &FieldView<'_>,
        _: Option<&FieldView<'_>>,
        warnings: &mut Vec<String>,
    ) {
        matching::warn_of_reserved_name(object, warnings);
    }
}
