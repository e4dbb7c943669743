//! What is counted of quotas.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry as Exposition;
use rhumb_meta::GroupResource;
use rhumb_quota::Refusal;

use super::{NoRoom, Room};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Evaluated {
    group: String,
    resource: String,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Denied {
    group: String,
    resource: String,
    scope: String,
    reason: &'static str,
}

#[derive(Debug)]
pub struct Counts {
    exposition: Exposition,
    evaluations: Family<Evaluated, Counter>,
    denials: Family<Denied, Counter>,
    seconds: Histogram,
}

impl Default for Counts {
    fn default() -> Self {
        let mut counts = Counts {
            exposition: Exposition::default(),
            evaluations: Family::default(),
            denials: Family::default(),
            // From 4 µs to 4 s.
            seconds: Histogram::new(exponential_buckets(4e-6, 4.0, 11)),
        };
        let mut exposition = Exposition::default();
        counts.register(&mut exposition);
        counts.exposition = exposition;
        counts
    }
}

impl Counts {
    pub(super) fn note(
        &self,
        resource: &GroupResource,
        took: Duration,
        found: &Result<Room, NoRoom>,
    ) {
        self.seconds.observe(took.as_secs_f64());
        let result = match found {
            Ok(Room {
                reservation: Some(_),
                ..
            }) => "admitted",
            Ok(_) => "unlimited",
            Err(NoRoom::Refused(_)) => "denied",
            Err(NoRoom::Failed(_)) => "failed",
        };
        self.evaluations
            .get_or_create(&Evaluated {
                group: resource.group.to_string(),
                resource: resource.resource.to_string(),
                result,
            })
            .inc();
        if let Err(NoRoom::Refused(refusal)) = found {
            self.note_denied(resource, refusal);
        }
    }

    /// Once for each scope that the refusal is about; for none if it is about none.
    fn note_denied(&self, resource: &GroupResource, refusal: &Refusal) {
        let scopes = refusal.scopes().iter();
        let mut scopes: Vec<&str> = scopes.map(|scope| scope.scope.as_str()).collect();
        if scopes.is_empty() {
            scopes.push("");
        }
        for scope in scopes {
            self.denials
                .get_or_create(&Denied {
                    group: resource.group.to_string(),
                    resource: resource.resource.to_string(),
                    scope: scope.to_owned(),
                    reason: refusal.reason(),
                })
                .inc();
        }
    }

    pub fn exposition(&self) -> &Exposition {
        &self.exposition
    }

    fn register(&self, exposition: &mut Exposition) {
        exposition.register(
            "rhumb_quota_evaluations",
            "Writes that were held against the quotas of their namespace, by what came of it",
            self.evaluations.clone(),
        );
        exposition.register(
            "rhumb_quota_denials",
            "Writes that quotas kept out, by the scope of the quota and the reason",
            self.denials.clone(),
        );
        exposition.register(
            "rhumb_quota_evaluation_duration_seconds",
            "Time from asking for room to having it or being refused, waiting included",
            self.seconds.clone(),
        );
    }
}
