//! MutatingAdmissionPolicy.

use rhumb_expressions::Want;
use rhumb_meta::field::{Error, ErrorList};

use super::expressions::Compiler;
use super::policies::PolicyRules;
use super::{exclusion, matching, policies};
use crate::workloads::checks;
use crate::{Generation, Kind, Request, Scope, View};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "admissionregistration.k8s.io",
        "v1",
        "MutatingAdmissionPolicy",
        "mutatingadmissionpolicies",
        "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicy",
    )
    .any_finalizers()
    .category("api-extensions")
    .generation(Generation::Of(&["spec"]))
    .updates_need_version()
    .rules(PolicyRules {
        matching: policies::CONSTRAINTS,
        validate,
        validate_status: |_, _| {},
    })
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
    matching::validate_mutating_operations(&spec.field(policies::CONSTRAINTS), errors);
    policies::validate_conditions(&spec, old, errors);
    let mut compiler = Compiler::mutating(&spec);
    policies::validate_variables(&spec.field("variables"), &mut compiler, errors);
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

/// The patch of its type, and no other.
fn validate_mutation(mutation: &View<'_>, compiler: &Compiler, errors: &mut ErrorList) {
    let patch = mutation.field("patchType");
    let (wanted, other, want) = match patch.str() {
        "" => return patch.required(errors, ""),
        "JSONPatch" => ("jsonPatch", "applyConfiguration", Want::Patches),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", Want::Object),
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
        compiler.check_trimmed(&expression, want, errors);
    }
    let surplus = mutation.field(other);
    if surplus.exists() {
        let value = format!("{{{other}}}");
        let detail = format!("must not be specified when patchType is {}", patch.str());
        errors.push(Error::invalid(surplus.path(), value, detail));
    }
}
