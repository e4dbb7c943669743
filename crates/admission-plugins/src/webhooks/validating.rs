//! Calls all matching validating webhooks in parallel.

use std::time::Instant;

use futures_util::future::join_all;
use rhumb_admission::ResourceAndKind;
use rhumb_api::JsonObject;
use rhumb_meta::Status;

use super::WebhookPlugin;
use super::call::{ReviewObjects, WebhookCallOutcome};
use super::invocation::ExcludedWebhooks;
use super::webhook_set::PreparedWebhook;
use crate::namespace_labels::namespace_labels;
use rhumb_registry::admission::AdmissionAttributes;

const FAILED_OPEN_ANNOTATION: &str = "failed-open.validating.webhook.admission.k8s.io/";

impl WebhookPlugin {
    /// Calls all matching webhooks. The first rejection in webhook order is returned, so that the error does not depend
    /// on timing.
    pub(super) async fn call_in_parallel(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        let Some(webhooks) = self.applicable_webhooks(attributes)? else {
            return Ok(());
        };
        let namespace = namespace_labels(attributes, webhooks.need_namespace_labels).await;
        let plan = self.plan(attributes, &webhooks, &namespace)?;
        let mut excluded = ExcludedWebhooks::default();
        self.collect_excluded(attributes, &webhooks, &plan, &mut excluded);
        let mut webhook_calls: Vec<(&PreparedWebhook, usize)> = Vec::new();
        let mut versions: Vec<(ResourceAndKind, ReviewObjects<'_>)> = Vec::new();
        for step in &plan.steps {
            let Some(webhook) = webhooks.all.get(step.webhook()) else {
                continue;
            };
            let webhook_step = (&**webhook, step);
            let names =
                self.resolve_step(attributes, webhook_step, object, &namespace, &mut excluded)?;
            if !webhook.spec.match_conditions.is_empty() {
                tokio::task::yield_now().await;
            }
            let Some(names) = names else {
                continue;
            };
            let position = versions.iter().position(|(version, _)| *version == names);
            let version_index = match position {
                Some(index) => index,
                None => {
                    let review_objects = ReviewObjects::new(attributes, &names, object)?;
                    versions.push((names, review_objects));
                    versions.len() - 1
                }
            };
            webhook_calls.push((webhook, version_index));
        }
        self.annotate_excluded(attributes, &excluded);
        if webhook_calls.is_empty() {
            return Ok(());
        }
        let name = attributes.request_attributes(object)?.name;
        let calls = webhook_calls
            .iter()
            .enumerate()
            .map(|(index, &(webhook, version_index))| {
                let (names, review_objects) = &versions[version_index];
                self.call_and_record_one(attributes, webhook, index, names, review_objects, name)
            });
        let results = attributes
            .context
            .wait_without_permit(join_all(calls))
            .await?;
        results.into_iter().collect()
    }

    async fn call_and_record_one(
        &self,
        attributes: &AdmissionAttributes<'_>,
        webhook: &PreparedWebhook,
        index: usize,
        names: &ResourceAndKind,
        review_objects: &ReviewObjects<'_>,
        name: &str,
    ) -> Result<(), Status> {
        let started = Instant::now();
        let response = self
            .call(attributes, webhook, names, review_objects, name)
            .await;
        match self.record_outcome(attributes, webhook, started, response.err()) {
            WebhookCallOutcome::Allowed => Ok(()),
            WebhookCallOutcome::FailedOpen => {
                let key = format!("{FAILED_OPEN_ANNOTATION}round_0_index_{index}");
                attributes.context.annotate(key, &*webhook.spec.name);
                Ok(())
            }
            WebhookCallOutcome::Rejected(status) => Err(status),
        }
    }
}
