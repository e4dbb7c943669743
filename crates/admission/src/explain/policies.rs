//! Policies and their bindings.

use serde_json::Value;

use super::{
    Configurations, Found, Part, Participant, Phase, Verdict, Write, failure_name, name_of,
};
use crate::Object;
use crate::criteria::Reading;
use crate::policy::{
    Binding, Head, MutatingPolicy, ParamChoice, ParamRef, PolicyFlavor, ValidatingPolicy,
};

/// Policies in the order of their names, each with its bindings in theirs.
pub(super) fn explain(
    write: &Write<'_>,
    configurations: &Configurations,
    flavor: PolicyFlavor,
    reading: Reading,
) -> Vec<Participant> {
    let (phase, policies, bindings) = match flavor {
        PolicyFlavor::Mutating => (
            Phase::MutatingPolicy,
            &configurations.mutating_policies,
            &configurations.mutating_bindings,
        ),
        PolicyFlavor::Validating => (
            Phase::ValidatingPolicy,
            &configurations.validating_policies,
            &configurations.validating_bindings,
        ),
    };
    let mut all = Vec::new();
    for policy in policies {
        let head = match flavor {
            PolicyFlavor::Mutating => MutatingPolicy::read(policy, reading).head,
            PolicyFlavor::Validating => ValidatingPolicy::read(policy, reading).head,
        };
        let own = |binding: &&Object| policy_name(binding) == &*head.name;
        let bound: Vec<&Object> = bindings.iter().filter(own).collect();
        let participant = |binding: Option<&Binding>, found: Found| Participant {
            phase,
            configuration: head.name.to_string(),
            name: binding.map_or_else(String::new, |binding| binding.name.to_string()),
            verdict: found.verdict,
            note: found.note,
            failure_policy: failure_name(head.failure),
            timeout_seconds: None,
            actions: binding.map_or_else(Vec::new, |binding| binding.actions.clone()),
        };
        if let Some(verdict) = verdict_of_policy(write, policy, &head, &bound) {
            all.push(participant(None, verdict.into()));
            continue;
        }
        for form in bound {
            let binding = Binding::read(form, reading);
            let found = verdict_of_binding(write, policy, &head, form, &binding);
            all.push(participant(Some(&binding), found));
        }
    }
    let orphans = bindings.iter().filter(|binding| {
        let wanted = policy_name(binding);
        policies.iter().all(|policy| name_of(policy) != wanted)
    });
    all.extend(orphans.map(|binding| Participant {
        phase,
        configuration: policy_name(binding).to_owned(),
        name: name_of(binding).to_owned(),
        verdict: Verdict::NoPolicy,
        note: None,
        failure_policy: "",
        timeout_seconds: None,
        actions: Vec::new(),
    }));
    all
}

/// Why no binding needs to be looked at.
fn verdict_of_policy(
    write: &Write<'_>,
    policy: &Object,
    head: &Head,
    bound: &[&Object],
) -> Option<Verdict> {
    if write.facts.is_exempt_from_policies() {
        return Some(Verdict::Exempt);
    }
    let form = at(policy, "matchConstraints");
    let seen = write.seen(&head.criteria, form, Part::Policy);
    match seen {
        Err(verdict) => Some(verdict),
        Ok(_) if bound.is_empty() => Some(Verdict::Unbound),
        Ok(_) => None,
    }
}

fn verdict_of_binding(
    write: &Write<'_>,
    policy: &Object,
    head: &Head,
    form: &Object,
    binding: &Binding,
) -> Found {
    let constraints = at(policy, "matchConstraints");
    let names = match write.seen(&head.criteria, constraints, Part::Policy) {
        Ok(names) => names,
        Err(verdict) => return verdict.into(),
    };
    if let Some(criteria) = &binding.criteria {
        let seen = write.seen(criteria, at(form, "matchResources"), Part::Binding);
        if let Err(verdict) = seen {
            return verdict.into();
        }
    }
    // Conditions may ask for parameters, which are not known here.
    if let (Some(kind), Some(params)) = (&head.params, &binding.params) {
        let (kind, params) = (&kind.kind, described(params));
        let params = format!("{kind} {params}");
        return Verdict::CalledWithParams { params }.into();
    }
    let met = write.judge(&head.conditions, Some(head), &names, head.failure);
    Found {
        verdict: Verdict::of_conditions(met).unwrap_or_else(|| write.called(&names)),
        note: write.note_on(&head.conditions, &names),
    }
}

fn described(params: &ParamRef) -> String {
    let what = match &params.choice {
        ParamChoice::Name(name) => name.clone(),
        ParamChoice::Selector(_) => "by selector".to_owned(),
        ParamChoice::Nothing => "that are not named".to_owned(),
    };
    match &*params.namespace {
        "" => what,
        namespace => format!("{what} in {namespace}"),
    }
}

fn at<'a>(object: &'a Object, field: &str) -> &'a Value {
    static NOTHING: Value = Value::Null;
    object.get("spec").map_or(&NOTHING, |spec| &spec[field])
}

fn policy_name(binding: &Object) -> &str {
    at(binding, "policyName").as_str().unwrap_or_default()
}
