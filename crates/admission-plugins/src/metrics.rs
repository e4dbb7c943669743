//! Admission metrics of webhooks and policies. Names and labels are upstream's where upstream has the metric.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry as Exposition;
use rhumb_admission::Operation;
use rhumb_meta::GroupResource;

/// Larger codes are recorded as this one, so that webhooks cannot create an unbounded number of label values.
const MAX_CODE_LABEL: u16 = 600;

type HistogramFamily<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WebhookDurationLabels {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    rejected: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WebhookRequestLabels {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    code: u16,
    rejected: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WebhookRejectionLabels {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    error_type: &'static str,
    rejection_code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WebhookFailOpenLabels {
    name: String,
    r#type: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct MatchConditionLabels {
    name: String,
    kind: &'static str,
    r#type: &'static str,
    operation: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ExclusionRuleLabels {
    configuration: String,
    name: String,
    kind: &'static str,
    r#type: &'static str,
    operation: &'static str,
    group: String,
    resource: String,
    rule: String,
}

/// A counter whose name does not end in `_total`, because upstream's metric predates that convention and dashboards use
/// the name. The exposition format allows that only for metrics of type `unknown`.
#[derive(Debug, Clone, Default)]
struct UnsuffixedCounter(Counter);

impl UnsuffixedCounter {
    fn inc(&self) {
        self.0.inc();
    }
}

impl TypedMetric for UnsuffixedCounter {
    const TYPE: MetricType = MetricType::Unknown;
}

impl EncodeMetric for UnsuffixedCounter {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_gauge(&self.0.get())
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

/// The webhook or policy that a metric is recorded for.
#[derive(Debug, Clone, Copy)]
pub struct MetricSubject<'a> {
    pub name: &'a str,
    /// `webhook` or `policy`.
    pub kind: &'static str,
    /// The `type` label: `admit`, `validating` or `validate`.
    pub step: &'static str,
    pub operation: Operation,
}

/// The exclusion rule that an excluded request is counted for.
#[derive(Debug, Clone, Copy)]
pub struct ExclusionSubject<'a> {
    /// The webhook configuration; empty for policies and bindings.
    pub configuration: &'a str,
    /// The webhook, policy or binding.
    pub name: &'a str,
    /// `webhook` or `policy`.
    pub kind: &'static str,
    /// The `type` label: `admit`, `validating` or `validate`.
    pub step: &'static str,
    pub operation: Operation,
    /// Its position in `excludeResourceRules`.
    pub rule: usize,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PolicyValidationLabels {
    policy: String,
    policy_binding: String,
    error_type: &'static str,
    enforcement_action: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PolicyMutationLabels {
    policy: String,
    policy_binding: String,
    error_type: &'static str,
}

/// The `enforcement_action` label: what followed from a validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnforcementAction {
    Allowed,
    Denied,
    Audited,
    Warned,
}

impl EnforcementAction {
    const fn as_str(self) -> &'static str {
        match self {
            EnforcementAction::Allowed => "allow",
            EnforcementAction::Denied => "deny",
            EnforcementAction::Audited => "audit",
            EnforcementAction::Warned => "warn",
        }
    }
}

/// The `error_type` label: why a webhook call rejected a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookRejectionType {
    /// The webhook denied the request.
    Denied,
    CallFailed,
    Internal,
}

impl WebhookRejectionType {
    const fn as_str(self) -> &'static str {
        match self {
            WebhookRejectionType::Denied => "no_error",
            WebhookRejectionType::CallFailed => "calling_webhook_error",
            WebhookRejectionType::Internal => "apiserver_internal_error",
        }
    }
}

/// The metrics of admission webhooks and policies.
#[derive(Debug)]
pub struct AdmissionMetrics {
    exposition: Exposition,
    webhook_durations: HistogramFamily<WebhookDurationLabels>,
    webhook_requests: Family<WebhookRequestLabels, Counter>,
    webhook_rejections: Family<WebhookRejectionLabels, UnsuffixedCounter>,
    webhook_fail_open: Family<WebhookFailOpenLabels, UnsuffixedCounter>,
    condition_errors: Family<MatchConditionLabels, Counter>,
    condition_exclusions: Family<MatchConditionLabels, Counter>,
    condition_seconds: HistogramFamily<MatchConditionLabels>,
    rule_exclusions: Family<ExclusionRuleLabels, Counter>,
    policy_validations: Family<PolicyValidationLabels, Counter>,
    validation_seconds: HistogramFamily<PolicyValidationLabels>,
    policy_mutations: Family<PolicyMutationLabels, Counter>,
    mutation_seconds: HistogramFamily<PolicyMutationLabels>,
}

fn policy_seconds() -> Histogram {
    Histogram::new([0.000_000_5, 0.001, 0.01, 0.1, 1.0])
}

fn webhook_seconds() -> Histogram {
    Histogram::new([0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0])
}

fn condition_seconds() -> Histogram {
    Histogram::new([0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25])
}

impl Default for AdmissionMetrics {
    fn default() -> Self {
        let mut metrics = AdmissionMetrics {
            exposition: Exposition::default(),
            webhook_durations: Family::new_with_constructor(webhook_seconds),
            webhook_requests: Family::default(),
            webhook_rejections: Family::default(),
            webhook_fail_open: Family::default(),
            condition_errors: Family::default(),
            condition_exclusions: Family::default(),
            condition_seconds: Family::new_with_constructor(condition_seconds),
            rule_exclusions: Family::default(),
            policy_validations: Family::default(),
            validation_seconds: Family::new_with_constructor(policy_seconds),
            policy_mutations: Family::default(),
            mutation_seconds: Family::new_with_constructor(policy_seconds),
        };
        let mut exposition = Exposition::default();
        metrics.register(&mut exposition);
        metrics.register_policies(&mut exposition);
        metrics.exposition = exposition;
        metrics
    }
}

impl AdmissionMetrics {
    fn register(&self, exposition: &mut Exposition) {
        exposition.register(
            "apiserver_admission_webhook_admission_duration_seconds",
            "Duration of admission webhook calls in seconds",
            self.webhook_durations.clone(),
        );
        exposition.register(
            "apiserver_admission_webhook_request",
            "Admission webhook calls by response code",
            self.webhook_requests.clone(),
        );
        exposition.register(
            "apiserver_admission_webhook_rejection_count",
            "Requests rejected by admission webhooks or because of their failure",
            self.webhook_rejections.clone(),
        );
        exposition.register(
            "apiserver_admission_webhook_fail_open_count",
            "Failed admission webhook calls that were ignored (failurePolicy Ignore)",
            self.webhook_fail_open.clone(),
        );
        exposition.register(
            "apiserver_admission_match_condition_evaluation_errors",
            "Match condition evaluation errors",
            self.condition_errors.clone(),
        );
        exposition.register(
            "apiserver_admission_match_condition_exclusions",
            "Requests that match conditions excluded from webhooks and policies",
            self.condition_exclusions.clone(),
        );
        exposition.register(
            "apiserver_admission_match_condition_evaluation_seconds",
            "Duration of match condition evaluation in seconds",
            self.condition_seconds.clone(),
        );
        exposition.register(
            "rhumb_admission_exclusion_rule_exclusions",
            "Requests that exclusion rules excluded from webhooks and policies",
            self.rule_exclusions.clone(),
        );
    }

    fn register_policies(&self, exposition: &mut Exposition) {
        exposition.register(
            "apiserver_validating_admission_policy_check",
            "Validating admission policy checks that did not pass, by enforcement action",
            self.policy_validations.clone(),
        );
        exposition.register(
            "apiserver_validating_admission_policy_check_duration_seconds",
            "Duration of validating admission policy checks in seconds",
            self.validation_seconds.clone(),
        );
        exposition.register(
            "apiserver_mutating_admission_policy_check",
            "Mutating admission policy evaluations",
            self.policy_mutations.clone(),
        );
        exposition.register(
            "apiserver_mutating_admission_policy_check_duration_seconds",
            "Duration of mutating admission policy evaluations in seconds",
            self.mutation_seconds.clone(),
        );
    }

    /// The registry of these metrics, for the metrics endpoint.
    pub fn exposition(&self) -> &Exposition {
        &self.exposition
    }

    /// Records a webhook call. The code is zero if there was no response.
    pub fn record_webhook_call(
        &self,
        subject: MetricSubject<'_>,
        elapsed: Duration,
        rejected: bool,
        code: u16,
    ) {
        let rejected = if rejected { "true" } else { "false" };
        self.webhook_requests
            .get_or_create(&WebhookRequestLabels {
                name: subject.name.to_owned(),
                r#type: subject.step,
                operation: subject.operation.as_str(),
                code: code.min(MAX_CODE_LABEL),
                rejected,
            })
            .inc();
        self.webhook_durations
            .get_or_create(&WebhookDurationLabels {
                name: subject.name.to_owned(),
                r#type: subject.step,
                operation: subject.operation.as_str(),
                rejected,
            })
            .observe(elapsed.as_secs_f64());
    }

    pub fn record_webhook_rejection(
        &self,
        subject: MetricSubject<'_>,
        rejection_type: WebhookRejectionType,
        code: u16,
    ) {
        self.webhook_rejections
            .get_or_create(&WebhookRejectionLabels {
                name: subject.name.to_owned(),
                r#type: subject.step,
                operation: subject.operation.as_str(),
                error_type: rejection_type.as_str(),
                rejection_code: code.min(MAX_CODE_LABEL),
            })
            .inc();
    }

    pub fn record_webhook_fail_open(&self, subject: MetricSubject<'_>) {
        self.webhook_fail_open
            .get_or_create(&WebhookFailOpenLabels {
                name: subject.name.to_owned(),
                r#type: subject.step,
            })
            .inc();
    }

    /// Records an evaluation of match conditions: how many failed, and whether they excluded the request.
    pub fn record_match_conditions(
        &self,
        subject: MetricSubject<'_>,
        elapsed: Duration,
        errors: u64,
        excluded: bool,
    ) {
        let labels = MatchConditionLabels {
            name: subject.name.to_owned(),
            kind: subject.kind,
            r#type: subject.step,
            operation: subject.operation.as_str(),
        };
        self.condition_seconds
            .get_or_create(&labels)
            .observe(elapsed.as_secs_f64());
        if errors > 0 {
            self.condition_errors.get_or_create(&labels).inc_by(errors);
        }
        if excluded {
            self.condition_exclusions.get_or_create(&labels).inc();
        }
    }

    /// Records a validation that did not pass.
    pub fn record_policy_validation(
        &self,
        (policy, binding): (&str, &str),
        checked: EnforcementAction,
        message: Option<&str>,
        elapsed: Duration,
    ) {
        let labels = PolicyValidationLabels {
            policy: policy.to_owned(),
            policy_binding: binding.to_owned(),
            error_type: error_type(message),
            enforcement_action: checked.as_str(),
        };
        self.policy_validations.get_or_create(&labels).inc();
        self.validation_seconds
            .get_or_create(&labels)
            .observe(elapsed.as_secs_f64());
    }

    /// Records an evaluated mutation; `message` is the error if it failed.
    pub fn record_policy_mutation(
        &self,
        (policy, binding): (&str, &str),
        message: Option<&str>,
        elapsed: Duration,
    ) {
        let labels = PolicyMutationLabels {
            policy: policy.to_owned(),
            policy_binding: binding.to_owned(),
            error_type: error_type(message),
        };
        self.policy_mutations.get_or_create(&labels).inc();
        self.mutation_seconds
            .get_or_create(&labels)
            .observe(elapsed.as_secs_f64());
    }

    /// The counter of requests that exclusion rules excluded from one webhook or policy.
    pub fn exclusion_counter(
        &self,
        subject: ExclusionSubject<'_>,
        resource: &GroupResource,
    ) -> Counter {
        self.rule_exclusions
            .get_or_create_owned(&ExclusionRuleLabels {
                configuration: subject.configuration.to_owned(),
                name: subject.name.to_owned(),
                kind: subject.kind,
                r#type: subject.step,
                operation: subject.operation.as_str(),
                group: resource.group.to_string(),
                resource: resource.resource.to_string(),
                rule: subject.rule.to_string(),
            })
    }
}

/// The `error_type` label, derived from the text of an error like upstream does.
fn error_type(message: Option<&str>) -> &'static str {
    match message {
        None => "no_error",
        Some(message) if message.starts_with("compilation") => "compile_error",
        Some(message) if message.contains("running out of cost budget") => "out_of_budget",
        Some(_) => "invalid_error",
    }
}
