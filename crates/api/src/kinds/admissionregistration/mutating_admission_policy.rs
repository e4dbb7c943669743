//! MutatingAdmissionPolicy.

use rhumb_meta::field::{Error, ErrorList};

use super::{matching, policies};
use crate::workloads::checks;
use crate::{Generation, Kind, Request, Rules, Scope, View};

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
    .rules(MutatingAdmissionPolicy)
}

#[derive(Debug)]
struct MutatingAdmissionPolicy;

impl Rules for MutatingAdmissionPolicy {
    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        validate(&object.field("spec"), None, errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        validate(&object.field("spec"), Some(&old.field("spec")), errors);
    }

    fn warnings(&self, object: &View<'_>, _: Option<&View<'_>>, warnings: &mut Vec<String>) {
        matching::warn_of_name(object, warnings);
    }
}

fn validate(spec: &View<'_>, old: Option<&View<'_>>, errors: &mut ErrorList) {
    policies::validate_head(spec, errors);
    matching::validate_mutating_operations(&spec.field("matchConstraints"), errors);
    policies::validate_conditions(spec, old, errors);
    policies::validate_variables(&spec.field("variables"), errors);
    let mutations = spec.field("mutations");
    if mutations.is_empty() {
        mutations.required(errors, "mutations must contain at least one item");
    }
    for mutation in mutations.items() {
        validate_mutation(&mutation, errors);
    }
    let reinvocation = spec.field("reinvocationPolicy");
    if reinvocation.is_empty() {
        reinvocation.required(errors, "");
    } else {
        checks::one_of(&reinvocation, matching::REINVOCATION_POLICIES, errors);
    }
}

/// The patch of its type, and no other.
fn validate_mutation(mutation: &View<'_>, errors: &mut ErrorList) {
    let patch = mutation.field("patchType");
    let (wanted, other) = match patch.str() {
        "" => return patch.required(errors, ""),
        "JSONPatch" => ("jsonPatch", "applyConfiguration"),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
        _ => return patch.not_supported(errors, &["ApplyConfiguration", "JSONPatch"]),
    };
    let field = mutation.field(wanted);
    let expression = field.field("expression");
    if !field.exists() {
        let detail = format!("must be specified when patchType is {}", patch.str());
        field.required(errors, detail);
    } else if expression.str().trim().is_empty() {
        expression.required(errors, "");
    }
    let surplus = mutation.field(other);
    if surplus.exists() {
        let value = format!("{{{other}}}");
        let detail = format!("must not be specified when patchType is {}", patch.str());
        errors.push(Error::invalid(surplus.path(), value, detail));
    }
}
