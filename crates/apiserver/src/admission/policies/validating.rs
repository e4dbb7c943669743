//! What follows when validating policies have been asked.

use std::collections::BTreeMap;
use std::time::Instant;

use rhumb_admission::{Annotation, Binding, Decision, Names, ValidatingPolicy, Verdict};
use rhumb_api::Object;
use rhumb_expressions::{Input, Inputs};
use rhumb_meta::status::StatusCause;
use rhumb_meta::{Status, StatusReason};
use serde_json::json;

use super::hooks::Known;
use super::invocation::{Invocation, Misconfigured};
use super::params::Param;
use super::{TIME_MAX, ValidatingPolicies};
use crate::admission::Attributes;
use crate::admission::counts::{Checked, Counted};
use crate::admission::seen::Sight;

/// What an annotation may have; more is cut.
const ANNOTATION_BYTES_MAX: usize = 10 * 1024;

const FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";

/// A policy that is asked now, with one set of parameters.
struct Case<'a> {
    invocation: &'a Invocation<ValidatingPolicy>,
    param: &'a Param,
    deadline: Instant,
}

/// A write that may not go on.
struct Denial {
    policy: String,
    binding: Option<String>,
    message: String,
    reason: String,
}

/// What the audit log is to know, by key; several bindings may have several values.
type Notes = BTreeMap<String, Vec<String>>;

impl ValidatingPolicies {
    pub(super) async fn judge(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let counts = &self.outside.counts;
        let found = self.hooks.invocations(attributes, object, counts).await?;
        let mut denials: Vec<Denial> = found.misconfigured.into_iter().map(Denial::from).collect();
        if !found.all.is_empty() {
            let namespace = attributes.namespace_object().await?;
            let deadline = Instant::now() + TIME_MAX;
            let mut sights: Vec<(Names, Sight<'_>)> = Vec::new();
            let mut notes: Vec<(String, Notes)> = Vec::new();
            for invocation in &found.all {
                let known = sights
                    .iter()
                    .position(|(names, _)| *names == invocation.names);
                let at = match known {
                    Some(at) => at,
                    None => {
                        let names = &invocation.names;
                        let sight = Sight::new(attributes, names, object, namespace.clone())?;
                        sights.push((names.clone(), sight));
                        sights.len() - 1
                    }
                };
                let policy = &*invocation.policy.it.head.name;
                if notes.last().is_none_or(|(last, _)| last != policy) {
                    notes.push((policy.to_owned(), Notes::new()));
                }
                if let (Some((_, sight)), Some((_, notes))) = (sights.get(at), notes.last_mut()) {
                    let inputs = sight.inputs();
                    for param in &invocation.params {
                        let case = Case {
                            invocation,
                            param,
                            deadline,
                        };
                        let ask = || self.ask(attributes, &case, &inputs, notes, &mut denials);
                        invocation.policy.pace.run(ask).await;
                    }
                }
            }
            publish(attributes, &notes);
        }
        match denials.into_iter().next() {
            None => Ok(()),
            Some(denial) => Err(denial.status(attributes, object)),
        }
    }

    fn ask(
        &self,
        attributes: &Attributes<'_>,
        case: &Case<'_>,
        inputs: &Inputs<'_>,
        notes: &mut Notes,
        denials: &mut Vec<Denial>,
    ) {
        let invocation = case.invocation;
        let policy = &invocation.policy.it;
        let binding = &invocation.binding;
        let begun = Instant::now();
        let params = Input::from(case.param.value.as_ref());
        let has_params = policy.head.params.is_some();
        let verdict = policy.validate(inputs, has_params.then_some(&params), case.deadline);
        self.count_conditions(attributes, policy, &verdict, begun);
        for (number, decision) in verdict.decisions.into_iter().enumerate() {
            let denied = match decision {
                Decision::Admitted => continue,
                Decision::Ignored => {
                    self.check(policy, binding, Checked::Allowed, Some(""), begun);
                    continue;
                }
                Decision::Denied { message, reason } => (message, reason),
                Decision::Failed { message } => (message, String::new()),
            };
            self.act(attributes, invocation, number, denied, begun, denials);
        }
        for annotation in verdict.annotations {
            match annotation {
                Annotation::Publish { key, value } => add_note(notes, key, value),
                Annotation::Failed { message } => {
                    self.check(policy, binding, Checked::Denied, Some(&message), begun);
                    denials.push(Denial::new(invocation, message, String::new()));
                }
            }
        }
    }

    /// Does what the binding says about a validation that did not hold.
    fn act(
        &self,
        attributes: &Attributes<'_>,
        invocation: &Invocation<ValidatingPolicy>,
        number: usize,
        (message, reason): (String, String),
        begun: Instant,
        denials: &mut Vec<Denial>,
    ) {
        let (policy, binding) = (&invocation.policy.it, &invocation.binding);
        for action in &binding.it.actions {
            match action.as_str() {
                "Deny" => {
                    let denial = Denial::new(invocation, message.clone(), reason.clone());
                    denials.push(denial);
                    self.check(policy, binding, Checked::Denied, Some(&message), begun);
                }
                "Audit" => {
                    annotate_failure(attributes, &binding.it, number, &message);
                    self.check(policy, binding, Checked::Audited, Some(&message), begun);
                }
                "Warn" => {
                    attributes.call.warn(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                        policy.head.name, binding.it.name
                    ));
                    self.check(policy, binding, Checked::Warned, Some(&message), begun);
                }
                _ => {}
            }
        }
    }

    fn check(
        &self,
        policy: &ValidatingPolicy,
        binding: &Known<Binding>,
        enforced: Checked,
        message: Option<&str>,
        begun: Instant,
    ) {
        let names = (&*policy.head.name, &*binding.it.name);
        let counts = &self.outside.counts;
        counts.validated(names, enforced, message, begun.elapsed());
    }

    fn count_conditions(
        &self,
        attributes: &Attributes<'_>,
        policy: &ValidatingPolicy,
        verdict: &Verdict,
        begun: Instant,
    ) {
        if policy.head.conditions.is_empty() {
            return;
        }
        let counted = Counted {
            name: &policy.head.name,
            kind: "policy",
            step: self.hooks.flavor.as_str(),
            operation: attributes.operation,
        };
        let (errors, excluded) = (verdict.condition_errors, verdict.excluded);
        let counts = &self.outside.counts;
        counts.conditions(counted, begun.elapsed(), errors, excluded);
    }
}

/// The same value twice is one value.
fn add_note(notes: &mut Notes, key: String, mut value: String) {
    value.truncate(value.floor_char_boundary(ANNOTATION_BYTES_MAX));
    let values = notes.entry(key).or_default();
    if !values.contains(&value) {
        values.push(value);
    }
}

fn publish(attributes: &Attributes<'_>, notes: &[(String, Notes)]) {
    for (policy, notes) in notes {
        for (key, values) in notes {
            let key = format!("{policy}/{key}");
            attributes.call.annotate(key, values.join(", "));
        }
    }
}

fn annotate_failure(attributes: &Attributes<'_>, binding: &Binding, number: usize, message: &str) {
    let value = json!([{
        "message": message,
        "policy": binding.policy,
        "binding": &*binding.name,
        "expressionIndex": number,
        "validationActions": binding.actions,
    }]);
    attributes.call.annotate(FAILURE, value.to_string());
}

impl Denial {
    fn new(invocation: &Invocation<ValidatingPolicy>, message: String, reason: String) -> Denial {
        Denial {
            policy: invocation.policy.it.head.name.to_string(),
            binding: Some(invocation.binding.it.name.to_string()),
            message,
            reason,
        }
    }

    fn status(self, attributes: &Attributes<'_>, object: Option<&Object>) -> Status {
        let policy = self.policy;
        let message = match self.binding {
            Some(binding) => format!(
                "ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {}",
                self.message
            ),
            None => format!(
                "ValidatingAdmissionPolicy '{policy}' denied request: {}",
                self.message
            ),
        };
        let mut status = attributes.forbidden(object, &message);
        let (code, reason) = match &*self.reason {
            "Forbidden" => (403, StatusReason::FORBIDDEN),
            "Unauthorized" => (401, StatusReason::UNAUTHORIZED),
            "RequestEntityTooLarge" => (413, StatusReason::REQUEST_ENTITY_TOO_LARGE),
            _ => (422, StatusReason::INVALID),
        };
        status.code = code;
        status.reason = reason;
        if let Some(details) = &mut status.details {
            details.causes.push(StatusCause {
                message,
                ..StatusCause::default()
            });
        }
        status
    }
}

impl From<Misconfigured> for Denial {
    fn from(misconfigured: Misconfigured) -> Denial {
        Denial {
            policy: misconfigured.policy.to_string(),
            binding: misconfigured.binding.map(|binding| binding.to_string()),
            message: misconfigured.message,
            reason: String::new(),
        }
    }
}
