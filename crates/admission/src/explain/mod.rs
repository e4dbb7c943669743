//! Explains which webhooks and policies a write would be sent to, and why others would be skipped, without calling any.
//!
//! Entry point: [`explain`]. It uses the server's own code: the criteria and conditions of each webhook, policy and
//! binding. The write is taken as given: the effects of mutating policies and webhooks on later ones are not simulated.

mod policies;
#[cfg(test)]
mod tests;
mod verdict;

use std::time::{Duration, Instant};

use rhumb_expressions::{Activation, EvaluationBudget, JsonInput, RequestInputs, ResourceCheck};
use rhumb_meta::labels::Labels;
use serde::Serialize;
use serde_json::Value;

use crate::Object;
use crate::match_attributes::{MatchAttributes, ObjectLabels, ResourceAndKind, SelectorLabels};
use crate::match_conditions::{MatchConditions, MatchConditionsResult};
use crate::match_criteria::{CriteriaFeatures, MatchCriteria, MatchOutcome};
use crate::policy::{CommonPolicySpec, PolicyType};
use crate::review::{AdmissionRequest, UserInfo};
use crate::webhook::{FailurePolicy, SideEffects, Webhook, WebhookType, parse_webhooks};

pub use verdict::{CriteriaOwner, ParticipantVerdict};

/// Time limit for the conditions of one webhook or policy.
const CONDITIONS_TIMEOUT: Duration = Duration::from_secs(1);

/// The write to explain.
#[derive(Debug, Clone, Copy)]
pub struct ExplainedWrite<'a> {
    pub attributes: MatchAttributes<'a>,
    /// `None` for DELETE; the options for CONNECT.
    pub object: Option<&'a Object>,
    /// `None` for CREATE and CONNECT.
    pub old_object: Option<&'a Object>,
    /// The namespace of the object; unused for cluster-scoped objects.
    pub namespace: Option<&'a Object>,
    pub user: UserInfo<'a>,
    pub dry_run: bool,
}

/// The admissionregistration.k8s.io objects of a cluster.
#[derive(Debug, Default)]
pub struct AdmissionRegistrations {
    mutating_policies: Vec<Object>,
    mutating_bindings: Vec<Object>,
    mutating_webhooks: Vec<Object>,
    validating_policies: Vec<Object>,
    validating_bindings: Vec<Object>,
    validating_webhooks: Vec<Object>,
}

/// The admission phases, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum ParticipantPhase {
    MutatingPolicy,
    MutatingWebhook,
    ValidatingPolicy,
    ValidatingWebhook,
}

impl ParticipantPhase {
    /// The name in text output.
    pub const fn as_str(self) -> &'static str {
        match self {
            ParticipantPhase::MutatingPolicy => "mutating policy",
            ParticipantPhase::MutatingWebhook => "mutating webhook",
            ParticipantPhase::ValidatingPolicy => "validating policy",
            ParticipantPhase::ValidatingWebhook => "validating webhook",
        }
    }
}

/// A webhook or policy binding, and whether it would be called. Participants are in call order, except that validating
/// webhooks are called in parallel.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionParticipant {
    pub phase: ParticipantPhase,
    /// The name of the webhook configuration or policy.
    pub configuration: String,
    /// The name of the webhook or binding; empty for a policy that is skipped as a whole.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(flatten)]
    pub verdict: ParticipantVerdict,
    /// A caveat about the verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub failure_policy: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// The binding's `validationActions`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
}

impl AdmissionRegistrations {
    /// Adds an object if it is of one of these kinds, else returns it.
    pub fn add(&mut self, object: Object) -> Result<(), Object> {
        let kind = object.get("kind").and_then(Value::as_str);
        let list = match kind {
            Some("MutatingAdmissionPolicy") => &mut self.mutating_policies,
            Some("MutatingAdmissionPolicyBinding") => &mut self.mutating_bindings,
            Some("MutatingWebhookConfiguration") => &mut self.mutating_webhooks,
            Some("ValidatingAdmissionPolicy") => &mut self.validating_policies,
            Some("ValidatingAdmissionPolicyBinding") => &mut self.validating_bindings,
            Some("ValidatingWebhookConfiguration") => &mut self.validating_webhooks,
            _ => return Err(object),
        };
        list.push(object);
        list.sort_by(|one, other| name_of(one).cmp(name_of(other)));
        Ok(())
    }

    fn webhooks(&self, flavor: WebhookType) -> &[Object] {
        match flavor {
            WebhookType::Mutating => &self.mutating_webhooks,
            WebhookType::Validating => &self.validating_webhooks,
        }
    }
}

/// All webhooks and policy bindings, in call order, each with its verdict.
pub fn explain(
    write: &ExplainedWrite<'_>,
    configurations: &AdmissionRegistrations,
    reading: CriteriaFeatures,
) -> Vec<AdmissionParticipant> {
    let policies = |flavor| policies::explain(write, configurations, flavor, reading);
    let webhooks =
        |flavor| explain_webhooks(write, configurations.webhooks(flavor), flavor, reading);
    [
        policies(PolicyType::Mutating),
        webhooks(WebhookType::Mutating),
        policies(PolicyType::Validating),
        webhooks(WebhookType::Validating),
    ]
    .concat()
}

fn explain_webhooks(
    write: &ExplainedWrite<'_>,
    configurations: &[Object],
    flavor: WebhookType,
    reading: CriteriaFeatures,
) -> Vec<AdmissionParticipant> {
    let mut all = Vec::new();
    for configuration in configurations {
        let forms = configuration.get("webhooks").unwrap_or(&Value::Null);
        let webhooks = parse_webhooks(configuration, reading);
        for (at, webhook) in webhooks.iter().enumerate() {
            let VerdictWithNote { verdict, note } = write.verdict_of_webhook(webhook, &forms[at]);
            all.push(AdmissionParticipant {
                phase: match flavor {
                    WebhookType::Mutating => ParticipantPhase::MutatingWebhook,
                    WebhookType::Validating => ParticipantPhase::ValidatingWebhook,
                },
                configuration: webhook.configuration.to_string(),
                name: webhook.name.to_string(),
                verdict,
                note,
                failure_policy: failure_policy_name(webhook.failure_policy),
                timeout_seconds: Some(webhook.timeout.as_secs()),
                actions: Vec::new(),
            });
        }
    }
    all
}

/// A verdict and its caveat.
struct VerdictWithNote {
    verdict: ParticipantVerdict,
    note: Option<String>,
}

impl From<ParticipantVerdict> for VerdictWithNote {
    fn from(verdict: ParticipantVerdict) -> Self {
        VerdictWithNote {
            verdict,
            note: None,
        }
    }
}

impl ExplainedWrite<'_> {
    fn verdict_of_webhook(&self, webhook: &Webhook, form: &Value) -> VerdictWithNote {
        if self.attributes.is_exempt_from_webhooks() {
            return ParticipantVerdict::Exempt.into();
        }
        // The failure policy of a webhook does not cover selectors.
        let owner = (CriteriaOwner::Webhook, FailurePolicy::Fail);
        let names = match self.match_criteria(&webhook.match_criteria, form, owner) {
            Ok(names) => names,
            Err(verdict) => return verdict.into(),
        };
        let met = self.evaluate_conditions(
            &webhook.match_conditions,
            None,
            &names,
            webhook.failure_policy,
        );
        let refuses = || {
            let refuses = self.dry_run && webhook.side_effects == SideEffects::Some;
            refuses.then_some(ParticipantVerdict::RefusesDryRun)
        };
        VerdictWithNote {
            verdict: ParticipantVerdict::of_conditions(met)
                .or_else(refuses)
                .unwrap_or_else(|| self.called_verdict(&names)),
            note: self.version_note(&webhook.match_conditions, &names),
        }
    }

    /// Notes that conditions are evaluated on another version than they would see: objects are not converted here.
    fn version_note(
        &self,
        conditions: &MatchConditions,
        names: &ResourceAndKind,
    ) -> Option<String> {
        let requested_kind = self.attributes.requested;
        let is_other = !conditions.is_empty() && names != requested_kind;
        is_other.then(|| {
            let (seen, requested_kind) = (names.kind.group_version(), requested_kind.kind.group_version());
            format!("its conditions are evaluated on the object in {requested_kind}, though it would see it in {seen}")
        })
    }

    fn called_verdict(&self, names: &ResourceAndKind) -> ParticipantVerdict {
        ParticipantVerdict::Called {
            resource: (names != self.attributes.requested).then(|| names.resource.to_string()),
        }
    }

    /// The resource and kind as which the criteria match, or the verdict if they do not. The failure policy is for
    /// selectors that cannot be evaluated.
    fn match_criteria(
        &self,
        criteria: &MatchCriteria,
        form: &Value,
        (by, failure): (CriteriaOwner, FailurePolicy),
    ) -> Result<ResourceAndKind, ParticipantVerdict> {
        let namespace = match self.attributes.is_namespace_write() {
            true => self.object,
            false => self.namespace,
        };
        let namespace = namespace.map(ObjectLabels);
        let (object, old) = (
            self.object.map(ObjectLabels),
            self.old_object.map(ObjectLabels),
        );
        let labels = SelectorLabels {
            namespace: Ok(&namespace),
            object: object.as_ref().map(|labels| labels as &dyn Labels),
            old_object: old.as_ref().map(|labels| labels as &dyn Labels),
        };
        match criteria.evaluate(&self.attributes, &labels) {
            MatchOutcome::Matched(names) => Ok(names),
            MatchOutcome::NoRule => Err(ParticipantVerdict::NoRule { by }),
            MatchOutcome::NamespaceNotSelected => Err(ParticipantVerdict::OtherNamespace { by }),
            MatchOutcome::ObjectNotSelected => Err(ParticipantVerdict::OtherObject { by }),
            MatchOutcome::Failed(status) => Err(ParticipantVerdict::of_failed_criteria(
                status.message,
                failure,
            )),
            MatchOutcome::Excluded { rule } => Err(ParticipantVerdict::Excluded {
                by,
                rule,
                excludes: form["excludeResourceRules"][rule].clone(),
            }),
        }
    }

    /// Evaluates match conditions; `head` gives access to the variables of a policy.
    pub(crate) fn evaluate_conditions(
        &self,
        conditions: &MatchConditions,
        head: Option<&CommonPolicySpec>,
        names: &ResourceAndKind,
        failure: FailurePolicy,
    ) -> MatchConditionsResult {
        if conditions.is_empty() {
            return MatchConditionsResult::Matched;
        }
        let seen = match head {
            Some(_) => names.clone(),
            // As upstream, conditions of webhooks see the requested resource, and the kind of the object that is sent.
            None => ResourceAndKind {
                resource: self.attributes.requested.resource.clone(),
                kind: names.kind.clone(),
            },
        };
        let request = match self.request(&seen) {
            Ok(request) => request,
            Err(error) => return MatchConditionsResult::Error(error.to_string()),
        };
        // Only policies have `namespaceObject`, and only for namespaced objects.
        let is_shown = head.is_some() && self.attributes.is_namespaced();
        let namespace = self.namespace.filter(|_| is_shown);
        let [object, old, namespace] = [self.object, self.old_object, namespace]
            .map(|it| it.map(|object| Value::Object(object.clone())));
        let inputs = RequestInputs {
            object: JsonInput::from(object.as_ref()),
            old_object: JsonInput::from(old.as_ref()),
            request: JsonInput::new(&request),
            namespace_object: JsonInput::from(namespace.as_ref()),
            authorizer: None,
            request_resource: ResourceCheck::default(),
        };
        let mut activation = match head {
            Some(head) => head.activation(&inputs),
            None => Activation::new(&inputs),
        };
        let deadline = Instant::now() + CONDITIONS_TIMEOUT;
        let mut budget = EvaluationBudget::for_match_conditions(Some(deadline));
        conditions
            .evaluate(&mut activation, &mut budget, failure)
            .result
    }

    fn request(&self, names: &ResourceAndKind) -> serde_json::Result<Value> {
        let attributes = &self.attributes;
        AdmissionRequest {
            uid: "",
            matched: names,
            requested: attributes.requested,
            subresource: attributes.subresource,
            name: attributes.name,
            namespace: attributes.namespace,
            operation: attributes.operation,
            user: self.user,
            object: None,
            old_object: None,
            dry_run: self.dry_run,
            options: None,
        }
        .to_value()
    }
}

const fn failure_policy_name(policy: FailurePolicy) -> &'static str {
    match policy {
        FailurePolicy::Fail => "Fail",
        FailurePolicy::Ignore => "Ignore",
    }
}

fn name_of(object: &Object) -> &str {
    let metadata = object.get("metadata");
    metadata
        .and_then(|metadata| metadata["name"].as_str())
        .unwrap_or_default()
}
