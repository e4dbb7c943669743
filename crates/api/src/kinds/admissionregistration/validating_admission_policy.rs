//! Declares `ValidatingAdmissionPolicy` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/admissionregistration/validation`.

use std::collections::HashSet;

use rhumb_expressions::ReturnTypes;
use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;

use super::admission_policies::AdmissionPolicyStrategy;
use super::policy_expressions::PolicyExpressionCompiler;
use super::{admission_policies, exclude_rules};
use crate::validation_helpers::{checks, conditions};
use crate::{FieldView, GenerationPolicy, Kind, ResourceScope, StrategyContext};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy",
    )
    .allow_any_finalizer()
    .category("api-extensions")
    .generation(GenerationPolicy::ChangesTo(&["spec"]))
    .status()
    .status_update_preserves(crate::kind::USER_METADATA_FIELDS)
    .requires_resource_version()
    .strategy(AdmissionPolicyStrategy {
        matching: admission_policies::MATCH_CONSTRAINTS,
        validate,
        validate_status,
    })
}

const AUDIT_ANNOTATIONS_MAX: usize = 20;
/// Lower than the limit of a value, because expressions that concatenate strings produce longer values.
const VALUE_EXPRESSION_MAX_BYTES: usize = 5 * 1024;

fn validate_status(object: &FieldView<'_>, errors: &mut ErrorList) {
    let status = object.field("status");
    let checking = status.field("typeChecking");
    for warning in checking.field("expressionWarnings").items() {
        for name in ["warning", "fieldRef"] {
            let field = warning.field(name);
            if field.str().trim().is_empty() {
                field.required(errors, "");
            }
        }
    }
    conditions::validate(&status.field("conditions"), errors);
}

fn validate(
    object: &FieldView<'_>,
    old: Option<&FieldView<'_>>,
    request: &StrategyContext<'_>,
    errors: &mut ErrorList,
) {
    let spec = object.field("spec");
    let context = exclude_rules::ExclusionValidationContext::new(
        old,
        admission_policies::MATCH_CONSTRAINTS,
        request,
    );
    admission_policies::validate_common_policy_fields(&spec, context, errors);
    admission_policies::validate_conditions(&spec, old, errors);
    let mut compiler = PolicyExpressionCompiler::for_validating_policy(&spec);
    admission_policies::validate_variables(&spec.field("variables"), &mut compiler, errors);
    let validations = spec.field("validations");
    let annotations = spec.field("auditAnnotations");
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        validations.required(errors, detail);
        annotations.required(errors, detail);
        return;
    }
    for validation in validations.items() {
        validate_validation(&validation, &compiler, errors);
    }
    let metadata = object.field("metadata");
    let name = metadata.field("name");
    validate_annotations(&annotations, name.str(), &compiler, errors);
}

fn validate_validation(
    item: &FieldView<'_>,
    compiler: &PolicyExpressionCompiler,
    errors: &mut ErrorList,
) {
    let expression = item.field("expression");
    if expression.str().trim().is_empty() {
        expression.required(errors, "expression is not specified");
    } else {
        compiler.check(&expression, ReturnTypes::Bool, errors);
    }
    let message_expression = item.field("messageExpression");
    let is_blank = |field: &FieldView<'_>| !field.is_empty() && field.str().trim().is_empty();
    if is_blank(&message_expression) {
        checks::invalid_text(
            &message_expression,
            errors,
            "must be non-empty if specified",
        );
    } else if !message_expression.is_empty() {
        compiler.check_message(&message_expression, errors);
    }
    let message = item.field("message");
    if is_blank(&message) {
        checks::invalid_text(&message, errors, "must be non-empty if specified");
    }
    if message.str().trim().contains(['\n', '\r']) {
        checks::invalid_text(&message, errors, "must not contain line breaks");
    }
    let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
    checks::one_of(&item.field("reason"), &reasons, errors);
}

/// Validates audit annotations. Their keys are prefixed with the name of the policy.
fn validate_annotations(
    annotations: &FieldView<'_>,
    policy: &str,
    compiler: &PolicyExpressionCompiler,
    errors: &mut ErrorList,
) {
    if annotations.len() > AUDIT_ANNOTATIONS_MAX {
        let detail = format!("must not have more than {AUDIT_ANNOTATIONS_MAX} auditAnnotations");
        annotations.invalid(errors, detail);
    }
    let mut keys = HashSet::new();
    for annotation in annotations.items() {
        let key = annotation.field("key");
        if policy.is_empty() {
            checks::invalid_text(&key, errors, "requires metadata.name be non-empty");
        } else {
            let full = format!("{policy}/{}", key.str());
            for problem in validation::qualified_name(&full) {
                errors.push(Error::invalid(key.path(), full.as_str(), problem));
            }
        }
        let value = annotation.field("valueExpression");
        let expression = value.str().trim();
        if expression.is_empty() {
            value.required(errors, "valueExpression is not specified");
        } else if expression.len() > VALUE_EXPRESSION_MAX_BYTES {
            let detail = format!("must not exceed {VALUE_EXPRESSION_MAX_BYTES} bytes in length");
            value.required(errors, detail);
        } else {
            compiler.check_trimmed(&value, ReturnTypes::StringOrNull, errors);
        }
        if !keys.insert(key.str().to_owned()) {
            errors.push(Error::duplicate(key.path(), key.str()));
        }
    }
}
