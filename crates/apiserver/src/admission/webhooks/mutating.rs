//! Webhooks that may change the object, one after the other.

use std::borrow::Cow;
use std::time::Instant;

use rhumb_admission::Names;
use rhumb_admission::review::Answer;
use rhumb_api::Object;
use rhumb_meta::Status;
use serde_json::{Value, json};

use super::Webhooks;
use super::ask::{Refusal, Seen, Settled};
use super::hooks::Hook;
use super::invocation::LeftOut;
use crate::admission::Attributes;
use crate::admission::rounds::Who;
use crate::resources::JsonPatch;

const PATCHES: &str = "patch.webhook.admission.k8s.io/";
const MUTATIONS: &str = "mutation.webhook.admission.k8s.io/";
const FAILED_OPEN: &str = "failed-open.mutation.webhook.admission.k8s.io/";

impl Webhooks {
    pub(super) async fn ask_in_turn(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Object>,
    ) -> Result<(), Status> {
        let Some(hooks) = self.hooks(attributes)? else {
            return Ok(());
        };
        attributes.rounds.enter(Who::Webhooks, object.as_deref());
        let namespace = attributes.namespace_labels(hooks.need_labels).await;
        let plan = self.plan(attributes, &hooks, &namespace)?;
        let mut left_out = LeftOut::default();
        self.note_left_out(attributes, &hooks, &plan, &mut left_out);
        let outcome = async {
            for step in &plan.steps {
                let index = step.webhook();
                let Some(hook) = hooks.all.get(index) else {
                    continue;
                };
                let seen = object.as_deref();
                let at = (&**hook, step);
                let names = self.step(attributes, at, seen, &namespace, &mut left_out)?;
                if !hook.webhook.conditions.is_empty() {
                    tokio::task::yield_now().await;
                }
                if let Some(names) = names
                    && attributes.rounds.may_ask(Who::Webhooks, &hook.webhook.id)
                {
                    let turn = Turn { hook, names, index };
                    self.take_turn(attributes, &turn, object.as_deref_mut())
                        .await?;
                }
            }
            Ok(())
        };
        let outcome = outcome.await;
        self.annotate_left_out(attributes, &left_out);
        attributes.rounds.leave(Who::Webhooks, object.as_deref());
        outcome
    }

    async fn take_turn(
        &self,
        attributes: &Attributes<'_>,
        turn: &Turn<'_>,
        object: Option<&mut Object>,
    ) -> Result<(), Status> {
        let begun = Instant::now();
        let outcome = self.change(attributes, turn, object).await;
        let changed = matches!(&outcome, Ok(true));
        turn.annotate_mutation(attributes, changed);
        let settled = self.settle(attributes, turn.hook, begun, outcome.err());
        let webhook = &turn.hook.webhook;
        let rounds = &attributes.rounds;
        rounds.asked(Who::Webhooks, &webhook.id, changed, webhook.reinvoked);
        match settled {
            Settled::Allowed => Ok(()),
            Settled::FailedOpen => {
                let key = turn.key(FAILED_OPEN, attributes);
                attributes.call.annotate(key, &*webhook.name);
                Ok(())
            }
            Settled::Refused(status) => Err(status),
        }
    }

    /// Asks, and changes the object as the webhook wants it; tells whether that changed anything.
    async fn change(
        &self,
        attributes: &Attributes<'_>,
        turn: &Turn<'_>,
        object: Option<&mut Object>,
    ) -> Result<bool, Refusal> {
        let Turn { hook, names, .. } = turn;
        let name = attributes
            .facts(object.as_deref())
            .map(|facts| facts.name.to_owned())
            .map_err(Refusal::Internal)?;
        let seen = Seen::new(attributes, names, object.as_deref()).map_err(Refusal::Internal)?;
        let question = self.ask(attributes, hook, names, &seen, &name);
        let answer = attributes.call.wait(question).await;
        let answer = answer.map_err(Refusal::Internal)??;
        let Some(patch) = read_patch(&answer)? else {
            return Ok(false);
        };
        let before = seen.object.map(Cow::into_owned);
        let (Some(object), Some(before)) = (object, before) else {
            return Err(Refusal::Internal(Status::internal_error(format_args!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                hook.webhook.name
            ))));
        };
        let patched = attributes
            .patch(names, &patch, before)
            .map_err(Refusal::Internal)?;
        let patched = patched.map_err(|error| {
            Refusal::Internal(Status::internal_error(format_args!(
                "the patch of admission webhook {:?} does not apply: {error}",
                hook.webhook.name
            )))
        })?;
        let new = attributes
            .taken_back(names, &patched)
            .map_err(Refusal::Internal)?;
        turn.annotate_patch(attributes, &answer);
        let changed = *object != new;
        *object = new;
        Ok(changed)
    }
}

fn read_patch(answer: &Answer) -> Result<Option<JsonPatch>, Refusal> {
    if answer.patch.is_empty() {
        return Ok(None);
    }
    let patch = JsonPatch::parse(&answer.patch).map_err(|error| Refusal::Failed {
        reason: format!("received undecodable patch in webhook response: {error}"),
        code: 503,
    })?;
    Ok((!patch.is_empty()).then_some(patch))
}

/// A webhook that is asked now.
struct Turn<'a> {
    hook: &'a Hook,
    names: Names,
    /// Among all webhooks.
    index: usize,
}

impl Turn<'_> {
    fn key(&self, prefix: &str, attributes: &Attributes<'_>) -> String {
        let round = u8::from(attributes.rounds.is_second());
        format!("{prefix}round_{round}_index_{}", self.index)
    }

    fn annotate_mutation(&self, attributes: &Attributes<'_>, mutated: bool) {
        if attributes.call.annotations.is_none() {
            return;
        }
        let webhook = &self.hook.webhook;
        let value = json!({
            "configuration": &*webhook.configuration, "webhook": &*webhook.name, "mutated": mutated,
        });
        let key = self.key(MUTATIONS, attributes);
        attributes.call.annotate(key, value.to_string());
    }

    /// The patch shows the object, so only a log that has objects has it.
    fn annotate_patch(&self, attributes: &Attributes<'_>, answer: &Answer) {
        if attributes.call.recorder.is_none() {
            return;
        }
        let webhook = &self.hook.webhook;
        let patch: Value = serde_json::from_slice(&answer.patch).unwrap_or_default();
        let value = json!({
            "configuration": &*webhook.configuration, "webhook": &*webhook.name,
            "patch": patch, "patchType": "JSONPatch",
        });
        let key = self.key(PATCHES, attributes);
        attributes.call.annotate(key, value.to_string());
    }
}
