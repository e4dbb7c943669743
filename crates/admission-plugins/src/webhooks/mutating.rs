//! Calls mutating webhooks one after the other and applies their patches.

use std::borrow::Cow;
use std::time::Instant;

use rhumb_admission::ResourceAndKind;
use rhumb_admission::review::AdmissionResponse;
use rhumb_api::JsonObject;
use rhumb_meta::Status;
use serde_json::{Value, json};

use super::WebhookPlugin;
use super::call::{ReviewObjects, WebhookCallOutcome, WebhookRejection};
use super::invocation::ExcludedWebhooks;
use super::webhook_set::PreparedWebhook;
use crate::namespace_labels::namespace_labels;
use rhumb_registry::admission::{
    AddedUnknownFields, AdmissionAttributes, MutatingPluginKind, parse_json_patch,
};
use rhumb_schema::JsonPatch;

const PATCH_ANNOTATION: &str = "patch.webhook.admission.k8s.io/";
const MUTATION_ANNOTATION: &str = "mutation.webhook.admission.k8s.io/";
const FAILED_OPEN_ANNOTATION: &str = "failed-open.mutation.webhook.admission.k8s.io/";

impl WebhookPlugin {
    pub(super) async fn call_sequentially(
        &self,
        attributes: &AdmissionAttributes<'_>,
        mut object: Option<&mut JsonObject>,
    ) -> Result<(), Status> {
        let Some(webhooks) = self.applicable_webhooks(attributes)? else {
            return Ok(());
        };
        attributes
            .reinvocation
            .plugin_started(MutatingPluginKind::Webhooks, object.as_deref());
        let namespace = namespace_labels(attributes, webhooks.need_namespace_labels).await;
        let plan = self.plan(attributes, &webhooks, &namespace)?;
        let mut excluded = ExcludedWebhooks::default();
        self.collect_excluded(attributes, &webhooks, &plan, &mut excluded);
        let outcome = async {
            for step in &plan.steps {
                let index = step.webhook();
                let Some(webhook) = webhooks.all.get(index) else {
                    continue;
                };
                let review_objects = object.as_deref();
                let webhook_step = (&**webhook, step);
                let names = self.resolve_step(
                    attributes,
                    webhook_step,
                    review_objects,
                    &namespace,
                    &mut excluded,
                )?;
                if !webhook.spec.match_conditions.is_empty() {
                    tokio::task::yield_now().await;
                }
                if let Some(names) = names
                    && attributes
                        .reinvocation
                        .may_invoke(MutatingPluginKind::Webhooks, &webhook.spec.id)
                {
                    let webhook_call = MutatingWebhookCall {
                        webhook,
                        names,
                        index,
                    };
                    self.call_and_record(attributes, &webhook_call, object.as_deref_mut())
                        .await?;
                }
            }
            Ok(())
        };
        let outcome = outcome.await;
        self.annotate_excluded(attributes, &excluded);
        attributes
            .reinvocation
            .plugin_finished(MutatingPluginKind::Webhooks, object.as_deref());
        outcome
    }

    async fn call_and_record(
        &self,
        attributes: &AdmissionAttributes<'_>,
        webhook_call: &MutatingWebhookCall<'_>,
        object: Option<&mut JsonObject>,
    ) -> Result<(), Status> {
        let started = Instant::now();
        let outcome = self.call_and_patch(attributes, webhook_call, object).await;
        let changed = matches!(&outcome, Ok(true));
        webhook_call.annotate_mutation(attributes, changed);
        let call_outcome =
            self.record_outcome(attributes, webhook_call.webhook, started, outcome.err());
        let webhook = &webhook_call.webhook.spec;
        let reinvocation = &attributes.reinvocation;
        reinvocation.record_invocation(
            MutatingPluginKind::Webhooks,
            &webhook.id,
            changed,
            webhook.reinvoke_if_needed,
        );
        match call_outcome {
            WebhookCallOutcome::Allowed => Ok(()),
            WebhookCallOutcome::FailedOpen => {
                let key = webhook_call.annotation_key(FAILED_OPEN_ANNOTATION, attributes);
                attributes.context.annotate(key, &*webhook.name);
                Ok(())
            }
            WebhookCallOutcome::Rejected(status) => Err(status),
        }
    }

    /// Calls the webhook and applies its patch; returns whether the object changed.
    async fn call_and_patch(
        &self,
        attributes: &AdmissionAttributes<'_>,
        webhook_call: &MutatingWebhookCall<'_>,
        object: Option<&mut JsonObject>,
    ) -> Result<bool, WebhookRejection> {
        let MutatingWebhookCall { webhook, names, .. } = webhook_call;
        let name = attributes
            .request_attributes(object.as_deref())
            .map(|request| request.name.to_owned())
            .map_err(WebhookRejection::Internal)?;
        let review_objects = ReviewObjects::new(attributes, names, object.as_deref())
            .map_err(WebhookRejection::Internal)?;
        let call = self.call(attributes, webhook, names, &review_objects, &name);
        let response = attributes.context.wait_without_permit(call).await;
        let response = response.map_err(WebhookRejection::Internal)??;
        let Some(patch) = read_patch(&response)? else {
            return Ok(false);
        };
        let original = review_objects.object.map(Cow::into_owned);
        let (Some(object), Some(original)) = (object, original) else {
            return Err(WebhookRejection::Internal(Status::internal_error(
                format_args!(
                    "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                    webhook.spec.name
                ),
            )));
        };
        let patched = attributes
            .patch(names, &patch, original)
            .map_err(WebhookRejection::Internal)?;
        let patched = patched.map_err(|error| {
            WebhookRejection::Internal(Status::internal_error(format_args!(
                "failed to apply the patch of admission webhook {:?}: {error}",
                webhook.spec.name
            )))
        })?;
        let new = attributes
            .decode_mutated(names, &patched, object, AddedUnknownFields::Dropped)
            .map_err(WebhookRejection::Internal)?;
        webhook_call.annotate_patch(attributes, &response);
        let changed = *object != new;
        *object = new;
        Ok(changed)
    }
}

fn read_patch(response: &AdmissionResponse) -> Result<Option<JsonPatch>, WebhookRejection> {
    if response.patch.is_empty() {
        return Ok(None);
    }
    let patch = parse_json_patch(&response.patch).map_err(|error| WebhookRejection::Failed {
        reason: format!("received undecodable patch in webhook response: {error}"),
        code: 503,
    })?;
    Ok((!patch.is_empty()).then_some(patch))
}

/// A webhook to call now.
struct MutatingWebhookCall<'a> {
    webhook: &'a PreparedWebhook,
    names: ResourceAndKind,
    /// Its index among all webhooks.
    index: usize,
}

impl MutatingWebhookCall<'_> {
    fn annotation_key(&self, prefix: &str, attributes: &AdmissionAttributes<'_>) -> String {
        let round = u8::from(attributes.reinvocation.is_reinvocation());
        format!("{prefix}round_{round}_index_{}", self.index)
    }

    fn annotate_mutation(&self, attributes: &AdmissionAttributes<'_>, mutated: bool) {
        if attributes.context.audit_annotations.is_none() {
            return;
        }
        let webhook = &self.webhook.spec;
        let value = json!({
            "configuration": &*webhook.configuration, "webhook": &*webhook.name, "mutated": mutated,
        });
        let key = self.annotation_key(MUTATION_ANNOTATION, attributes);
        attributes.context.annotate(key, value.to_string());
    }

    /// The patch reveals the object, so it is added only if the audit level includes request bodies.
    fn annotate_patch(&self, attributes: &AdmissionAttributes<'_>, response: &AdmissionResponse) {
        if !attributes.context.audits_bodies {
            return;
        }
        let webhook = &self.webhook.spec;
        let patch: Value = serde_json::from_slice(&response.patch).unwrap_or_default();
        let value = json!({
            "configuration": &*webhook.configuration, "webhook": &*webhook.name,
            "patch": patch, "patchType": "JSONPatch",
        });
        let key = self.annotation_key(PATCH_ANNOTATION, attributes);
        attributes.context.annotate(key, value.to_string());
    }
}
