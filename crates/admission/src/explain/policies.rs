//! Explains policies and their bindings.

use serde_json::Value;

use super::{
    AdmissionParticipant, AdmissionRegistrations, CriteriaOwner, ExplainedWrite, ParticipantPhase,
    ParticipantVerdict, VerdictWithNote, failure_policy_name, name_of,
};
use crate::Object;
use crate::match_criteria::CriteriaFeatures;
use crate::policy::{
    CommonPolicySpec, MutatingPolicy, ParamRef, ParamSelection, PolicyBinding, PolicyType,
    ValidatingPolicy,
};

/// Policies by name, each with its bindings by name, then bindings whose policy does not exist.
pub(super) fn explain(
    write: &ExplainedWrite<'_>,
    configurations: &AdmissionRegistrations,
    flavor: PolicyType,
    reading: CriteriaFeatures,
) -> Vec<AdmissionParticipant> {
    let (phase, policies, bindings) = match flavor {
        PolicyType::Mutating => (
            ParticipantPhase::MutatingPolicy,
            &configurations.mutating_policies,
            &configurations.mutating_bindings,
        ),
        PolicyType::Validating => (
            ParticipantPhase::ValidatingPolicy,
            &configurations.validating_policies,
            &configurations.validating_bindings,
        ),
    };
    let mut all = Vec::new();
    for policy in policies {
        let head = match flavor {
            PolicyType::Mutating => MutatingPolicy::parse(policy, reading).spec,
            PolicyType::Validating => ValidatingPolicy::parse(policy, reading).spec,
        };
        let own = |binding: &&Object| policy_name(binding) == &*head.name;
        let bound: Vec<&Object> = bindings.iter().filter(own).collect();
        let participant =
            |binding: Option<&PolicyBinding>, found: VerdictWithNote| AdmissionParticipant {
                phase,
                configuration: head.name.to_string(),
                name: binding.map_or_else(String::new, |binding| binding.name.to_string()),
                verdict: found.verdict,
                note: found.note,
                failure_policy: failure_policy_name(head.failure_policy),
                timeout_seconds: None,
                actions: binding
                    .map_or_else(Vec::new, |binding| binding.validation_actions.clone()),
            };
        if let Some(verdict) = policy_verdict(write, policy, &head, &bound) {
            all.push(participant(None, verdict.into()));
            continue;
        }
        for form in bound {
            let binding = PolicyBinding::parse(form, reading);
            let found = binding_verdict(write, policy, &head, form, &binding);
            all.push(participant(Some(&binding), found));
        }
    }
    let orphans = bindings.iter().filter(|binding| {
        let wanted = policy_name(binding);
        policies.iter().all(|policy| name_of(policy) != wanted)
    });
    all.extend(orphans.map(|binding| AdmissionParticipant {
        phase,
        configuration: policy_name(binding).to_owned(),
        name: name_of(binding).to_owned(),
        verdict: ParticipantVerdict::NoPolicy,
        note: None,
        failure_policy: "",
        timeout_seconds: None,
        actions: Vec::new(),
    }));
    all
}

/// The verdict for the policy as a whole, if its bindings need not be looked at.
fn policy_verdict(
    write: &ExplainedWrite<'_>,
    policy: &Object,
    head: &CommonPolicySpec,
    bound: &[&Object],
) -> Option<ParticipantVerdict> {
    if write.attributes.is_exempt_from_policies() {
        return Some(ParticipantVerdict::Exempt);
    }
    let form = spec_field(policy, "matchConstraints");
    let owner = (CriteriaOwner::Policy, head.failure_policy);
    let seen = write.match_criteria(&head.match_criteria, form, owner);
    match seen {
        Err(verdict) => Some(verdict),
        Ok(_) if bound.is_empty() => Some(ParticipantVerdict::Unbound),
        Ok(_) => None,
    }
}

fn binding_verdict(
    write: &ExplainedWrite<'_>,
    policy: &Object,
    head: &CommonPolicySpec,
    form: &Object,
    binding: &PolicyBinding,
) -> VerdictWithNote {
    let constraints = spec_field(policy, "matchConstraints");
    let owner = (CriteriaOwner::Policy, head.failure_policy);
    let names = match write.match_criteria(&head.match_criteria, constraints, owner) {
        Ok(names) => names,
        Err(verdict) => return verdict.into(),
    };
    if let Some(criteria) = &binding.match_criteria {
        let seen = write.match_criteria(
            criteria,
            spec_field(form, "matchResources"),
            (CriteriaOwner::Binding, head.failure_policy),
        );
        if let Err(verdict) = seen {
            return verdict.into();
        }
    }
    // Conditions may use parameters, which are not known here.
    if let (Some(kind), Some(params)) = (&head.param_kind, &binding.param_ref) {
        let (kind, params) = (&kind.kind, describe_params(params));
        let params = format!("{kind} {params}");
        return ParticipantVerdict::CalledWithParams { params }.into();
    }
    let met = write.evaluate_conditions(
        &head.match_conditions,
        Some(head),
        &names,
        head.failure_policy,
    );
    VerdictWithNote {
        verdict: ParticipantVerdict::of_conditions(met)
            .unwrap_or_else(|| write.called_verdict(&names)),
        note: write.version_note(&head.match_conditions, &names),
    }
}

fn describe_params(params: &ParamRef) -> String {
    let what = match &params.selection {
        ParamSelection::Name(name) => name.clone(),
        ParamSelection::Selector(_) => "by selector".to_owned(),
        ParamSelection::Unspecified => "that are not named".to_owned(),
    };
    match &*params.namespace {
        "" => what,
        namespace => format!("{what} in {namespace}"),
    }
}

fn spec_field<'a>(object: &'a Object, field: &str) -> &'a Value {
    static NOTHING: Value = Value::Null;
    object.get("spec").map_or(&NOTHING, |spec| &spec[field])
}

fn policy_name(binding: &Object) -> &str {
    spec_field(binding, "policyName")
        .as_str()
        .unwrap_or_default()
}
