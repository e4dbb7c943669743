//! What both kinds of admission policies and their bindings have in common.

use rhumb_expressions::is_identifier;
use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::labels::ValidationOptions;
use rhumb_meta::validation;

use super::expressions::Compiler;
use super::{exclusion, matching};
use crate::workloads::checks;
use crate::{Object, Request, Rules, View};

/// What is matched, in a policy and in a binding.
pub(super) const CONSTRAINTS: &str = "matchConstraints";
pub(super) const RESOURCES: &str = "matchResources";

/// The head of a policy, up to its conditions.
pub(super) fn validate_head(
    spec: &View<'_>,
    context: exclusion::Context<'_>,
    errors: &mut ErrorList,
) {
    let failure = spec.field("failurePolicy");
    matching::one_of_required(&failure, matching::FAILURE_POLICIES, errors);
    validate_param_kind(&spec.field("paramKind"), errors);
    let constraints = spec.field(CONSTRAINTS);
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

/// Conditions that have not changed are as right as they were.
pub(super) fn validate_conditions(spec: &View<'_>, old: Option<&View<'_>>, errors: &mut ErrorList) {
    let is_same = old.is_some_and(|old| {
        let old = old.field("spec");
        ["paramKind", "matchConditions"]
            .iter()
            .all(|name| checks::same(&spec.field(name), &old.field(name)))
    });
    if !is_same {
        let has_params = spec.field("paramKind").exists();
        matching::validate_conditions(&spec.field("matchConditions"), has_params, errors);
    }
}

fn validate_param_kind(kind: &View<'_>, errors: &mut ErrorList) {
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

fn validate_api_version(field: &View<'_>, errors: &mut ErrorList) {
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
    variables: &View<'_>,
    compiler: &mut Compiler,
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
            compiler.declare(name.str(), &expression, errors);
        }
    }
}

/// The head of a binding, up to what it matches.
pub(super) fn validate_binding(
    spec: &View<'_>,
    context: exclusion::Context<'_>,
    errors: &mut ErrorList,
) {
    let policy = spec.field("policyName");
    if policy.is_empty() {
        policy.required(errors, "");
    } else {
        checks::problems(&policy, validation::dns1123_subdomain(policy.str()), errors);
    }
    validate_param_ref(&spec.field("paramRef"), errors);
    matching::validate_match_resources(&spec.field(RESOURCES), context, errors);
}

fn validate_param_ref(reference: &View<'_>, errors: &mut ErrorList) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    if !reference.exists() {
        return;
    }
    let (name, selector) = (reference.field("name"), reference.field("selector"));
    if !name.is_empty() {
        checks::problems(&name, validation::path_segment_name(name.str()), errors);
        if selector.exists() {
            name.forbidden(errors, EXCLUSIVE);
        }
    }
    if selector.exists() {
        checks::validate_selector(&selector, ValidationOptions::default(), errors);
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

type Validate = fn(&View<'_>, Option<&View<'_>>, &Request<'_>, &mut ErrorList);

/// The rules of a policy or a binding.
#[derive(Debug)]
pub(super) struct PolicyRules {
    /// Where it says what it matches.
    pub(super) matching: &'static str,
    /// What is checked of it; the state before is there in an update.
    pub(super) validate: Validate,
    pub(super) validate_status: fn(&View<'_>, &mut ErrorList),
}

impl Rules for PolicyRules {
    fn prepare_create(&self, object: &mut Object, request: &Request<'_>) {
        exclusion::drop_from_matching(object, None, self.matching, request);
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, request: &Request<'_>) {
        exclusion::drop_from_matching(object, Some(old), self.matching, request);
    }

    fn validate_create(&self, object: &View<'_>, request: &Request<'_>, errors: &mut ErrorList) {
        (self.validate)(object, None, request, errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        request: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        (self.validate)(object, Some(old), request, errors);
    }

    fn validate_status_update(
        &self,
        object: &View<'_>,
        _: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        (self.validate_status)(object, errors);
    }

    fn warnings(&self, object: &View<'_>, _: Option<&View<'_>>, warnings: &mut Vec<String>) {
        matching::warn_of_name(object, warnings);
    }
}
