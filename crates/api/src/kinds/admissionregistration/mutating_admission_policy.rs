//! Declares `MutatingAdmissionPolicy` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/admissionregistration/validation`.

use rhumb_expressions::ReturnTypes;
use rhumb_meta::field::{Error, ErrorList};

use super::admission_policies::AdmissionPolicyStrategy;
use super::policy_expressions::PolicyExpressionCompiler;
use super::{admission_policies, exclude_rules, matching};
use crate::validation_helpers::checks;
use crate::{FieldView, GenerationPolicy, Kind, ResourceScope, StrategyContext};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "admissionregistration.k8s.io",
        "v1",
        "MutatingAdmissionPolicy",
        "mutatingadmissionpolicies",
        "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicy",
    )
    .allow_any_finalizer()
    .category("api-extensions")
    .generation(GenerationPolicy::ChangesTo(&["spec"]))
    .requires_resource_version()
    .strategy(AdmissionPolicyStrategy {
        matching: admission_policies::MATCH_CONSTRAINTS,
        validate,
        validate_status: |_, _| {},
    })
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
    matching::validate_mutating_operations(
        &spec.field(admission_policies::MATCH_CONSTRAINTS),
        errors,
    );
    admission_policies::validate_conditions(&spec, old, errors);
    let mut compiler = PolicyExpressionCompiler::for_mutating_policy(&spec);
    admission_policies::validate_variables(&spec.field("variables"), &mut compiler, errors);
    let mutations = spec.field("mutations");
    if mutations.is_empty() {
        mutations.required(errors, "mutations must contain at least one item");
    }
    for mutation in mutations.items() {
        validate_mutation(&mutation, &compiler, errors);
    }
    let reinvocation = spec.field("reinvocationPolicy");
    if reinvocation.is_empty() {
        reinvocation.required(errors, "");
    } else {
        checks::one_of(&reinvocation, matching::REINVOCATION_POLICIES, errors);
    }
}

/// Requires the patch that `patchType` names, and no other.
fn validate_mutation(
    mutation: &FieldView<'_>,
    compiler: &PolicyExpressionCompiler,
    errors: &mut ErrorList,
) {
    let patch = mutation.field("patchType");
    let (wanted, other, return_types) = match patch.str() {
        "" => return patch.required(errors, ""),
        "JSONPatch" => (
            "jsonPatch",
            "applyConfiguration",
            ReturnTypes::JsonPatchList,
        ),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", ReturnTypes::Object),
        _ => return patch.not_supported(errors, &["ApplyConfiguration", "JSONPatch"]),
    };
    let field = mutation.field(wanted);
    let expression = field.field("expression");
    if !field.exists() {
        let detail = format!("must be specified when patchType is {}", patch.str());
        field.required(errors, detail);
    } else if expression.str().trim().is_empty() {
        expression.required(errors, "");
    } else {
        compiler.check_trimmed(&expression, return_types, errors);
    }
    let surplus = mutation.field(other);
    if surplus.exists() {
        let value = format!("{{{other}}}");
        let detail = format!("must not be specified when patchType is {}", patch.str());
        errors.push(Error::invalid(surplus.path(), value, detail));
    }
}
