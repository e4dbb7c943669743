//! What is counted of webhooks and policies; names and labels are upstream's where upstream has them.

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

/// Codes beyond this are all the same, so that no webhook makes labels without end.
const CODE_MAX: u16 = 600;

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Called {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    rejected: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Answered {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    code: u16,
    rejected: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Rejected {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    error_type: &'static str,
    rejection_code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FailedOpen {
    name: String,
    r#type: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Conditioned {
    name: String,
    kind: &'static str,
    r#type: &'static str,
    operation: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Excluded {
    name: String,
    kind: &'static str,
    r#type: &'static str,
    operation: &'static str,
    group: String,
    resource: String,
}

/// A counter whose name does not end in `_total`, since it is older than that custom. Dashboards know it so, and only
/// what has no type may be written like that.
#[derive(Debug, Clone, Default)]
struct OldCounter(Counter);

impl OldCounter {
    fn inc(&self) {
        self.0.inc();
    }
}

impl TypedMetric for OldCounter {
    const TYPE: MetricType = MetricType::Unknown;
}

impl EncodeMetric for OldCounter {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_gauge(&self.0.get())
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

/// Whom something is counted of.
#[derive(Debug, Clone, Copy)]
pub struct Counted<'a> {
    pub name: &'a str,
    /// `webhook` or `policy`.
    pub kind: &'static str,
    /// `admit`, `validating` or `validate`.
    pub step: &'static str,
    pub operation: Operation,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Validated {
    policy: String,
    policy_binding: String,
    error_type: &'static str,
    enforcement_action: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Mutated {
    policy: String,
    policy_binding: String,
    error_type: &'static str,
}

/// What followed from a validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checked {
    Allowed,
    Denied,
    Audited,
    Warned,
}

impl Checked {
    const fn as_str(self) -> &'static str {
        match self {
            Checked::Allowed => "allow",
            Checked::Denied => "deny",
            Checked::Audited => "audit",
            Checked::Warned => "warn",
        }
    }
}

/// Why a webhook kept a write out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// It said so.
    Denied,
    CallFailed,
    Internal,
}

impl Rejection {
    const fn as_str(self) -> &'static str {
        match self {
            Rejection::Denied => "no_error",
            Rejection::CallFailed => "calling_webhook_error",
            Rejection::Internal => "apiserver_internal_error",
        }
    }
}

/// The counters of admission.
#[derive(Debug)]
pub struct Counts {
    exposition: Exposition,
    durations: Histograms<Called>,
    answers: Family<Answered, Counter>,
    rejections: Family<Rejected, OldCounter>,
    failed_open: Family<FailedOpen, OldCounter>,
    condition_errors: Family<Conditioned, Counter>,
    condition_exclusions: Family<Conditioned, Counter>,
    condition_seconds: Histograms<Conditioned>,
    exclusions: Family<Excluded, Counter>,
    validated: Family<Validated, Counter>,
    validation_seconds: Histograms<Validated>,
    mutated: Family<Mutated, Counter>,
    mutation_seconds: Histograms<Mutated>,
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

impl Default for Counts {
    fn default() -> Self {
        let mut counts = Counts {
            exposition: Exposition::default(),
            durations: Family::new_with_constructor(webhook_seconds),
            answers: Family::default(),
            rejections: Family::default(),
            failed_open: Family::default(),
            condition_errors: Family::default(),
            condition_exclusions: Family::default(),
            condition_seconds: Family::new_with_constructor(condition_seconds),
            exclusions: Family::default(),
            validated: Family::default(),
            validation_seconds: Family::new_with_constructor(policy_seconds),
            mutated: Family::default(),
            mutation_seconds: Family::new_with_constructor(policy_seconds),
        };
        let mut exposition = Exposition::default();
        counts.register(&mut exposition);
        counts.register_policies(&mut exposition);
        counts.exposition = exposition;
        counts
    }
}

impl Counts {
    fn register(&self, exposition: &mut Exposition) {
        exposition.register(
            "apiserver_admission_webhook_admission_duration_seconds",
            "How long webhooks took to answer",
            self.durations.clone(),
        );
        exposition.register(
            "apiserver_admission_webhook_request",
            "Calls of webhooks, by the code of the answer",
            self.answers.clone(),
        );
        exposition.register(
            "apiserver_admission_webhook_rejection_count",
            "Writes that webhooks kept out, or that failed because of them",
            self.rejections.clone(),
        );
        exposition.register(
            "apiserver_admission_webhook_fail_open_count",
            "Failed calls of webhooks that are ignored",
            self.failed_open.clone(),
        );
        exposition.register(
            "apiserver_admission_match_condition_evaluation_errors",
            "Match conditions that could not be evaluated",
            self.condition_errors.clone(),
        );
        exposition.register(
            "apiserver_admission_match_condition_exclusions",
            "Writes that match conditions kept away from webhooks and policies",
            self.condition_exclusions.clone(),
        );
        exposition.register(
            "apiserver_admission_match_condition_evaluation_seconds",
            "How long match conditions took",
            self.condition_seconds.clone(),
        );
        exposition.register(
            "rhumb_admission_exclusion_rule_exclusions",
            "Writes that exclusion rules kept away from webhooks and policies",
            self.exclusions.clone(),
        );
    }

    fn register_policies(&self, exposition: &mut Exposition) {
        exposition.register(
            "apiserver_validating_admission_policy_check",
            "What followed from validations that did not simply hold",
            self.validated.clone(),
        );
        exposition.register(
            "apiserver_validating_admission_policy_check_duration_seconds",
            "How long they took",
            self.validation_seconds.clone(),
        );
        exposition.register(
            "apiserver_mutating_admission_policy_check",
            "Mutations by policies",
            self.mutated.clone(),
        );
        exposition.register(
            "apiserver_mutating_admission_policy_check_duration_seconds",
            "How long they took",
            self.mutation_seconds.clone(),
        );
    }

    /// For whoever shows everything that is counted.
    pub fn exposition(&self) -> &Exposition {
        &self.exposition
    }

    /// A webhook was called. The code is zero where there is none.
    pub fn answered(&self, of: Counted<'_>, elapsed: Duration, rejected: bool, code: u16) {
        let rejected = if rejected { "true" } else { "false" };
        self.answers
            .get_or_create(&Answered {
                name: of.name.to_owned(),
                r#type: of.step,
                operation: of.operation.as_str(),
                code: code.min(CODE_MAX),
                rejected,
            })
            .inc();
        self.durations
            .get_or_create(&Called {
                name: of.name.to_owned(),
                r#type: of.step,
                operation: of.operation.as_str(),
                rejected,
            })
            .observe(elapsed.as_secs_f64());
    }

    pub fn rejected(&self, of: Counted<'_>, why: Rejection, code: u16) {
        self.rejections
            .get_or_create(&Rejected {
                name: of.name.to_owned(),
                r#type: of.step,
                operation: of.operation.as_str(),
                error_type: why.as_str(),
                rejection_code: code.min(CODE_MAX),
            })
            .inc();
    }

    pub fn failed_open(&self, of: Counted<'_>) {
        self.failed_open
            .get_or_create(&FailedOpen {
                name: of.name.to_owned(),
                r#type: of.step,
            })
            .inc();
    }

    /// Conditions were evaluated: how many of them failed, and whether they kept the write away.
    pub fn conditions(&self, of: Counted<'_>, elapsed: Duration, errors: u64, excluded: bool) {
        let labels = Conditioned {
            name: of.name.to_owned(),
            kind: of.kind,
            r#type: of.step,
            operation: of.operation.as_str(),
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

    /// A validation did not simply hold.
    pub fn validated(
        &self,
        (policy, binding): (&str, &str),
        checked: Checked,
        message: Option<&str>,
        elapsed: Duration,
    ) {
        let labels = Validated {
            policy: policy.to_owned(),
            policy_binding: binding.to_owned(),
            error_type: error_type(message),
            enforcement_action: checked.as_str(),
        };
        self.validated.get_or_create(&labels).inc();
        self.validation_seconds
            .get_or_create(&labels)
            .observe(elapsed.as_secs_f64());
    }

    /// A mutation was made, or could not be.
    pub fn mutated(
        &self,
        (policy, binding): (&str, &str),
        message: Option<&str>,
        elapsed: Duration,
    ) {
        let labels = Mutated {
            policy: policy.to_owned(),
            policy_binding: binding.to_owned(),
            error_type: error_type(message),
        };
        self.mutated.get_or_create(&labels).inc();
        self.mutation_seconds
            .get_or_create(&labels)
            .observe(elapsed.as_secs_f64());
    }

    /// The counter of what exclusion rules kept away from one webhook or policy.
    pub fn exclusions(&self, of: Counted<'_>, resource: &GroupResource) -> Counter {
        self.exclusions.get_or_create_owned(&Excluded {
            name: of.name.to_owned(),
            kind: of.kind,
            r#type: of.step,
            operation: of.operation.as_str(),
            group: resource.group.to_string(),
            resource: resource.resource.to_string(),
        })
    }
}

/// What went wrong, told by the text of an error as upstream tells it.
fn error_type(message: Option<&str>) -> &'static str {
    match message {
        None => "no_error",
        Some(message) if message.starts_with("compilation") => "compile_error",
        Some(message) if message.contains("running out of cost budget") => "out_of_budget",
        Some(_) => "invalid_error",
    }
}
