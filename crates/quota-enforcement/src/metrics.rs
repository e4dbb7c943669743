//! Metrics of quota enforcement: evaluations, denials and duration.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry as Exposition;
use rhumb_meta::GroupResource;
use rhumb_quota::QuotaDenial;

use crate::namespace_quota::{QuotaGrant, ReservationError};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EvaluationLabels {
    group: String,
    resource: String,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DenialLabels {
    group: String,
    resource: String,
    scope: String,
    reason: &'static str,
}

#[derive(Debug)]
pub struct QuotaMetrics {
    registry: Exposition,
    evaluations: Family<EvaluationLabels, Counter>,
    denials: Family<DenialLabels, Counter>,
    seconds: Histogram,
}

impl Default for QuotaMetrics {
    fn default() -> Self {
        let mut metrics = QuotaMetrics {
            registry: Exposition::default(),
            evaluations: Family::default(),
            denials: Family::default(),
            // From 4 µs to 4 s.
            seconds: Histogram::new(exponential_buckets(4e-6, 4.0, 11)),
        };
        let mut exposition = Exposition::default();
        metrics.register(&mut exposition);
        metrics.registry = exposition;
        metrics
    }
}

impl QuotaMetrics {
    pub(super) fn record_evaluation(
        &self,
        resource: &GroupResource,
        elapsed: Duration,
        result: &Result<QuotaGrant, ReservationError>,
    ) {
        self.seconds.observe(elapsed.as_secs_f64());
        let result_label = match result {
            Ok(QuotaGrant {
                reservation: Some(_),
                ..
            }) => "admitted",
            Ok(_) => "unlimited",
            Err(ReservationError::Denied(_)) => "denied",
            Err(ReservationError::Failed(_)) => "failed",
        };
        self.evaluations
            .get_or_create(&EvaluationLabels {
                group: resource.group.to_string(),
                resource: resource.resource.to_string(),
                result: result_label,
            })
            .inc();
        if let Err(ReservationError::Denied(denial)) = result {
            self.record_denial(resource, denial);
        }
    }

    /// Counts one denial per scope of the quota; with an empty scope label if it has none.
    fn record_denial(&self, resource: &GroupResource, denial: &QuotaDenial) {
        let scopes = denial.scopes().iter();
        let mut scopes: Vec<&str> = scopes.map(|scope| scope.scope.as_str()).collect();
        if scopes.is_empty() {
            scopes.push("");
        }
        for scope in scopes {
            self.denials
                .get_or_create(&DenialLabels {
                    group: resource.group.to_string(),
                    resource: resource.resource.to_string(),
                    scope: scope.to_owned(),
                    reason: denial.reason(),
                })
                .inc();
        }
    }

    pub fn registry(&self) -> &Exposition {
        &self.registry
    }

    fn register(&self, exposition: &mut Exposition) {
        exposition.register(
            "rhumb_quota_evaluations",
            "Writes checked against the quotas of their namespace, by result",
            self.evaluations.clone(),
        );
        exposition.register(
            "rhumb_quota_denials",
            "Writes denied by quotas, by scope of the quota and reason",
            self.denials.clone(),
        );
        exposition.register(
            "rhumb_quota_evaluation_duration_seconds",
            "Duration of quota evaluation, including waiting for reservations of other writes",
            self.seconds.clone(),
        );
    }
}
