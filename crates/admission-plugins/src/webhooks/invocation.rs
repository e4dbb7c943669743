//! Finds the webhooks that match a request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_admission::{MatchConditionsResult, MatchOutcome, ResourceAndKind, WebhookType};
use rhumb_api::JsonObject;
use rhumb_expressions::{Activation, EvaluationBudget};
use rhumb_meta::Status;

use super::WebhookPlugin;
use super::match_plans::{MatchKey, MatchPlan, MatchPlanStep};
use super::webhook_set::{PreparedWebhook, WebhookSet};
use crate::cel_inputs::CelInputs;
use crate::metrics::{ExclusionSubject, MetricSubject};
use crate::namespace_labels::{NamespaceLabelSource, match_criteria};
use rhumb_registry::admission::AdmissionAttributes;

/// Time limit for the match conditions of one webhook.
const CONDITIONS_TIMEOUT: Duration = Duration::from_millis(100);

/// Webhooks that exclusion rules excluded, for the audit log.
#[derive(Debug, Default)]
pub(super) struct ExcludedWebhooks(Vec<String>);

impl WebhookPlugin {
    /// The match plan of a request, from the cache if possible. Exclusions in the plan are counted.
    pub(super) fn plan(
        &self,
        attributes: &AdmissionAttributes<'_>,
        webhooks: &WebhookSet,
        namespace: &NamespaceLabelSource,
    ) -> Result<Arc<MatchPlan>, Status> {
        let request = attributes.request_attributes(None)?;
        let key = MatchKey {
            operation: request.operation,
            resource: &request.requested.resource,
            registration: attributes.context.resource.registration,
            subresource: request.subresource,
            namespace: match request.namespace {
                "" => "",
                namespace if webhooks.depend_on_namespace => namespace,
                _ => "*",
            },
            namespace_revision: namespace.revision(),
        };
        if !namespace.is_cacheable() {
            return self
                .make_plan(attributes, webhooks, namespace, &key)
                .map(Arc::new);
        }
        let is_counted = !self.is_reinvocation(attributes);
        if let Some(plan) = webhooks.plans.get(&key, is_counted) {
            return Ok(plan);
        }
        let plan = self.make_plan(attributes, webhooks, namespace, &key)?;
        let (plan, evicted) = webhooks.plans.insert(&key, plan, is_counted);
        webhooks.flush_exclusion_counts(&evicted);
        Ok(plan)
    }

    fn make_plan(
        &self,
        attributes: &AdmissionAttributes<'_>,
        webhooks: &WebhookSet,
        namespace: &NamespaceLabelSource,
        key: &MatchKey<'_>,
    ) -> Result<MatchPlan, Status> {
        let mut steps = Vec::new();
        let mut excluded = Vec::new();
        for (number, webhook) in webhooks.all.iter().enumerate() {
            let criteria = &webhook.spec.match_criteria;
            if criteria.depends_on_object() || !namespace.is_cacheable() {
                steps.push(MatchPlanStep::Evaluate(number));
                continue;
            }
            match match_criteria(attributes, criteria, None, namespace)? {
                MatchOutcome::Matched(names) => steps.push(MatchPlanStep::Call(number, names)),
                MatchOutcome::Excluded { rule } => excluded.push((number, rule)),
                MatchOutcome::Failed(_) => steps.push(MatchPlanStep::Evaluate(number)),
                MatchOutcome::NoRule
                | MatchOutcome::NamespaceNotSelected
                | MatchOutcome::ObjectNotSelected => {}
            }
        }
        Ok(MatchPlan::new(key, steps, excluded))
    }

    /// Collects the plan's excluded webhooks for the audit log.
    pub(super) fn collect_excluded(
        &self,
        attributes: &AdmissionAttributes<'_>,
        webhooks: &WebhookSet,
        plan: &MatchPlan,
        excluded: &mut ExcludedWebhooks,
    ) {
        if attributes.context.audit_annotations.is_some() && !self.is_reinvocation(attributes) {
            for &(number, rule) in &plan.excluded {
                excluded.0.extend(
                    webhooks
                        .all
                        .get(number)
                        .map(|webhook| excluded_label(webhook, rule)),
                );
            }
        }
    }

    /// Whether this is the reinvocation pass, which concerns the same request and is not counted twice.
    fn is_reinvocation(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        self.webhook_type == WebhookType::Mutating && attributes.reinvocation.is_reinvocation()
    }

    /// The resource and kind to call the webhook of a plan step with; `None` to skip it.
    pub(super) fn resolve_step(
        &self,
        attributes: &AdmissionAttributes<'_>,
        (webhook, step): (&PreparedWebhook, &MatchPlanStep),
        object: Option<&JsonObject>,
        namespace: &NamespaceLabelSource,
        excluded: &mut ExcludedWebhooks,
    ) -> Result<Option<ResourceAndKind>, Status> {
        match step {
            MatchPlanStep::Call(_, names) => {
                let holds = self.conditions_match(attributes, webhook, names, object)?;
                Ok(holds.then(|| names.clone()))
            }
            MatchPlanStep::Evaluate(_) => {
                self.match_webhook(attributes, webhook, object, namespace, excluded)
            }
        }
    }

    /// Evaluates the webhook's criteria and conditions; `None` to skip it.
    fn match_webhook(
        &self,
        attributes: &AdmissionAttributes<'_>,
        webhook: &PreparedWebhook,
        object: Option<&JsonObject>,
        namespace: &NamespaceLabelSource,
        excluded: &mut ExcludedWebhooks,
    ) -> Result<Option<ResourceAndKind>, Status> {
        match match_criteria(attributes, &webhook.spec.match_criteria, object, namespace)? {
            MatchOutcome::Matched(names) => {
                let holds = self.conditions_match(attributes, webhook, &names, object)?;
                Ok(holds.then_some(names))
            }
            MatchOutcome::Failed(status) => Err(status),
            MatchOutcome::Excluded { rule } => {
                self.count_excluded(attributes, webhook, rule, excluded);
                Ok(None)
            }
            MatchOutcome::NoRule
            | MatchOutcome::NamespaceNotSelected
            | MatchOutcome::ObjectNotSelected => Ok(None),
        }
    }

    /// Whether the webhook's match conditions are true.
    fn conditions_match(
        &self,
        attributes: &AdmissionAttributes<'_>,
        webhook: &PreparedWebhook,
        names: &ResourceAndKind,
        object: Option<&JsonObject>,
    ) -> Result<bool, Status> {
        let spec = &webhook.spec;
        if spec.match_conditions.is_empty() {
            return Ok(true);
        }
        let started = Instant::now();
        let cel_inputs = CelInputs::for_webhook(attributes, names, object)?;
        let inputs = cel_inputs.inputs();
        let mut budget = EvaluationBudget::for_match_conditions(Some(started + CONDITIONS_TIMEOUT));
        let mut scope = Activation::new(&inputs);
        let condition_result =
            spec.match_conditions
                .evaluate(&mut scope, &mut budget, spec.failure_policy);
        let excluded = matches!(
            condition_result.result,
            MatchConditionsResult::NotMatched { .. } | MatchConditionsResult::ErrorIgnored
        );
        let subject = MetricSubject {
            step: match self.webhook_type {
                WebhookType::Mutating => "admit",
                WebhookType::Validating => "validate",
            },
            ..self.metric_subject(attributes, webhook)
        };
        let metrics = &self.dependencies.metrics;
        metrics.record_match_conditions(
            subject,
            started.elapsed(),
            condition_result.error_count,
            excluded,
        );
        match condition_result.result {
            MatchConditionsResult::Matched => Ok(true),
            MatchConditionsResult::NotMatched { .. } | MatchConditionsResult::ErrorIgnored => {
                Ok(false)
            }
            MatchConditionsResult::Error(error) => {
                let resource = &attributes.context.resource.group_resource;
                let name = attributes.request_attributes(object)?.name;
                Err(Status::forbidden(resource, name, error))
            }
        }
    }

    fn count_excluded(
        &self,
        attributes: &AdmissionAttributes<'_>,
        webhook: &PreparedWebhook,
        rule: usize,
        excluded: &mut ExcludedWebhooks,
    ) {
        if self.is_reinvocation(attributes) {
            return;
        }
        let context = attributes.context;
        let subject = ExclusionSubject {
            configuration: &webhook.spec.configuration,
            name: &webhook.spec.name,
            kind: "webhook",
            step: self.webhook_type.metric_label(),
            operation: attributes.operation,
            rule,
        };
        let resource = &context.resource.group_resource;
        webhook
            .exclusion_counters
            .increment(&self.dependencies.metrics, subject, resource, 1);
        if context.audit_annotations.is_some() {
            excluded.0.push(excluded_label(webhook, rule));
        }
    }

    /// Adds an audit annotation that lists the excluded webhooks, each with the index of the exclusion rule.
    pub(super) fn annotate_excluded(
        &self,
        attributes: &AdmissionAttributes<'_>,
        excluded: &ExcludedWebhooks,
    ) {
        if excluded.0.is_empty() {
            return;
        }
        let key = match self.webhook_type {
            WebhookType::Mutating => "admission.rhumb/excluded-mutating-webhooks",
            WebhookType::Validating => "admission.rhumb/excluded-validating-webhooks",
        };
        attributes.context.annotate(key, excluded.0.join(","));
    }
}

fn excluded_label(webhook: &PreparedWebhook, rule: usize) -> String {
    let spec = &webhook.spec;
    format!("{}/{}[{rule}]", spec.configuration, spec.name)
}
