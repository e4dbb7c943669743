//! What mutating policies do to an object, one after the other.

use std::sync::Arc;
use std::time::Instant;

use rhumb_admission::{Change, FailurePolicy, Met, MutatingPolicy};
use rhumb_api::Object;
use rhumb_expressions::Input;
use rhumb_meta::status::StatusCause;
use rhumb_meta::{Status, StatusReason};
use serde_json::Value;

use super::invocation::{Invocation, Misconfigured};
use super::params::Param;
use super::{MutatingPolicies, TIME_MAX};
use crate::admission::Attributes;
use crate::admission::counts::Counted;
use crate::admission::rounds::Who;
use crate::admission::seen::Sight;
use crate::resources::JsonPatch;

impl MutatingPolicies {
    pub(super) async fn change(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Object>,
    ) -> Result<(), Status> {
        let counts = &self.outside.counts;
        let found = self
            .hooks
            .invocations(attributes, object.as_deref(), counts)
            .await?;
        let mut errors = found.misconfigured;
        if !found.all.is_empty() {
            let rounds = &attributes.rounds;
            rounds.enter(Who::Policies, object.as_deref());
            let namespace = attributes.namespace_object().await?;
            let deadline = Instant::now() + TIME_MAX;
            for invocation in &found.all {
                for param in &invocation.params {
                    let turn = Turn {
                        invocation,
                        param,
                        namespace: namespace.as_ref(),
                        deadline,
                    };
                    let object = object.as_deref_mut();
                    let take = || self.take_turn(attributes, &turn, object, &mut errors);
                    invocation.policy.pace.run(take).await?;
                }
            }
            rounds.leave(Who::Policies, object.as_deref());
        }
        match errors.as_slice() {
            [] => Ok(()),
            errors => Err(refusal(attributes, object.as_deref(), errors)),
        }
    }

    fn take_turn(
        &self,
        attributes: &Attributes<'_>,
        turn: &Turn<'_>,
        object: Option<&mut Object>,
        errors: &mut Vec<Misconfigured>,
    ) -> Result<(), Status> {
        let invocation = turn.invocation;
        let policy = &invocation.policy.it;
        let namespace = turn.namespace.cloned();
        let names = &invocation.names;
        let mut sight = Sight::new(attributes, names, object.as_deref(), namespace)?;
        if !self.holds(attributes, turn, &sight, errors) {
            return Ok(());
        }
        let id = turn.id();
        let rounds = &attributes.rounds;
        if !rounds.may_ask(Who::Policies, &id) {
            return Ok(());
        }
        let mut changed = false;
        if let Some(object) = object {
            for number in 0..policy.len() {
                let begun = Instant::now();
                let outcome = change_once(attributes, turn, &sight, number);
                let binding = &invocation.binding.it.name;
                let counts = &self.outside.counts;
                counts.mutated(
                    (&policy.head.name, binding),
                    outcome.as_ref().err().map(String::as_str),
                    begun.elapsed(),
                );
                match outcome {
                    Ok(None) => {}
                    Ok(Some(new)) => {
                        changed |= *object != new;
                        let seen = attributes.shown(names, &new)?.into_owned();
                        sight.set_object(Value::Object(seen));
                        *object = new;
                    }
                    Err(message) => turn.fail(message, errors),
                }
            }
        }
        rounds.asked(Who::Policies, &id, changed, policy.reinvoked);
        Ok(())
    }

    /// Whether the conditions of the policy hold.
    fn holds(
        &self,
        attributes: &Attributes<'_>,
        turn: &Turn<'_>,
        sight: &Sight<'_>,
        errors: &mut Vec<Misconfigured>,
    ) -> bool {
        let policy = &turn.invocation.policy.it;
        if policy.head.conditions.is_empty() {
            return true;
        }
        let begun = Instant::now();
        let params = Input::from(turn.param.value.as_ref());
        let params = policy.head.params.is_some().then_some(&params);
        let judged = policy.judge(&sight.inputs(), params, turn.deadline);
        let counted = Counted {
            name: &policy.head.name,
            kind: "policy",
            step: self.hooks.flavor.as_str(),
            operation: attributes.operation,
        };
        let excluded = matches!(judged.met, Met::No { .. } | Met::Ignored);
        let counts = &self.outside.counts;
        counts.conditions(counted, begun.elapsed(), judged.errors, excluded);
        match judged.met {
            Met::Yes => true,
            Met::No { .. } | Met::Ignored => false,
            Met::Failed(message) => {
                turn.fail(message, errors);
                false
            }
        }
    }
}

/// A policy that is asked now, with one set of parameters.
struct Turn<'a> {
    invocation: &'a Invocation<MutatingPolicy>,
    param: &'a Param,
    namespace: Option<&'a Value>,
    deadline: Instant,
}

impl Turn<'_> {
    fn id(&self) -> Arc<str> {
        let Invocation {
            policy, binding, ..
        } = self.invocation;
        format!(
            "{}/{}/{}",
            policy.it.head.name, binding.it.name, self.param.id
        )
        .into()
    }

    fn fail(&self, message: String, errors: &mut Vec<Misconfigured>) {
        let head = &self.invocation.policy.it.head;
        if head.failure == FailurePolicy::Fail {
            errors.push(Misconfigured {
                policy: head.name.clone(),
                binding: Some(self.invocation.binding.it.name.clone()),
                message,
                is_expression: true,
            });
        }
    }
}

/// The object after one mutation; nothing if that changes nothing.
fn change_once(
    attributes: &Attributes<'_>,
    turn: &Turn<'_>,
    sight: &Sight<'_>,
    number: usize,
) -> Result<Option<Object>, String> {
    let Invocation { policy, names, .. } = turn.invocation;
    let policy = &policy.it;
    let Some(Value::Object(before)) = sight.object() else {
        return Ok(None);
    };
    let params = Input::from(turn.param.value.as_ref());
    let params = policy.head.params.is_some().then_some(&params);
    let change = policy.change(number, &sight.inputs(), params, turn.deadline)?;
    let patched = match change {
        Change::Apply(configuration) => attributes
            .apply(names, before, configuration)
            .map_err(|error| format!("error applying patch: {error}"))?,
        Change::Patch(operations) => {
            let patch = JsonPatch::parse(operations.to_string().as_bytes())?;
            let patched = attributes.patch(names, &patch, before.clone());
            match patched.map_err(|status| status.message)? {
                Ok(patched) => patched,
                // A patch that tests for something else is not for this object.
                Err(failure) if failure.is_test => return Ok(None),
                Err(failure) => return Err(format!("JSON Patch: {failure}")),
            }
        }
    };
    let new = attributes
        .taken_back(names, &patched)
        .map_err(|status| status.message)?;
    Ok(Some(new))
}

/// The first error is what the client reads first.
fn refusal(
    attributes: &Attributes<'_>,
    object: Option<&Object>,
    errors: &[Misconfigured],
) -> Status {
    let mut status = attributes.forbidden(object, "admission request denied by policy");
    let text = |error: &Misconfigured| match &error.binding {
        Some(binding) => format!(
            "policy '{}' with binding '{binding}' denied request: {}",
            error.policy, error.message
        ),
        None => format!(
            "policy {:?} denied request: {}",
            error.policy, error.message
        ),
    };
    let texts: Vec<String> = errors.iter().map(text).collect();
    status.message = texts.first().cloned().unwrap_or_default();
    if errors.first().is_some_and(|error| error.is_expression) {
        status.reason = StatusReason::INVALID;
    }
    if let Some(details) = &mut status.details {
        details
            .causes
            .extend(texts.into_iter().map(|message| StatusCause {
                message,
                ..StatusCause::default()
            }));
    }
    status
}
