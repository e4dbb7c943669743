//! ValidatingAdmissionPolicy.

use std::collections::HashSet;

use rhumb_expressions::Want;
use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;

use super::expressions::Compiler;
use super::policies::PolicyRules;
use super::{exclusion, policies};
use crate::workloads::{checks, conditions};
use crate::{Generation, Kind, Request, Scope, View};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy",
    )
    .any_finalizers()
    .category("api-extensions")
    .generation(Generation::Of(&["spec"]))
    .status()
    .status_keeps(crate::kind::ALL_OF_METADATA)
    .updates_need_version()
    .rules(PolicyRules {
        matching: policies::CONSTRAINTS,
        validate,
        validate_status,
    })
}

const AUDIT_ANNOTATIONS_MAX: usize = 20;
/// Less than a value may have, since expressions that join texts make longer ones.
const VALUE_EXPRESSION_MAX_BYTES: usize = 5 * 1024;

fn validate_status(object: &View<'_>, errors: &mut ErrorList) {
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
    object: &View<'_>,
    old: Option<&View<'_>>,
    request: &Request<'_>,
    errors: &mut ErrorList,
) {
    let spec = object.field("spec");
    let context = exclusion::Context::new(old, policies::CONSTRAINTS, request);
    policies::validate_head(&spec, context, errors);
    policies::validate_conditions(&spec, old, errors);
    let mut compiler = Compiler::validating(&spec);
    policies::validate_variables(&spec.field("variables"), &mut compiler, errors);
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

fn validate_validation(item: &View<'_>, compiler: &Compiler, errors: &mut ErrorList) {
    let expression = item.field("expression");
    if expression.str().trim().is_empty() {
        expression.required(errors, "expression is not specified");
    } else {
        compiler.check(&expression, Want::Bool, errors);
    }
    let message_expression = item.field("messageExpression");
    let is_blank = |field: &View<'_>| !field.is_empty() && field.str().trim().is_empty();
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

/// The keys get the name of the policy in front.
fn validate_annotations(
    annotations: &View<'_>,
    policy: &str,
    compiler: &Compiler,
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
            compiler.check_trimmed(&value, Want::StringOrNull, errors);
        }
        if !keys.insert(key.str().to_owned()) {
            errors.push(Error::duplicate(key.path(), key.str()));
        }
    }
}
