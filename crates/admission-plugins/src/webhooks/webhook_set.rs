//! The webhooks of all configurations of a type, in call order, parsed and kept current (upstream:
//! `configuration.WebhookSource`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use rhumb_admission::{
    CriteriaFeatures, MatchCriteria, Webhook, WebhookAddress, WebhookType, parse_webhooks,
};
use rhumb_api::JsonObject;
use rhumb_api::feature_gates::Feature;
use rhumb_cache::CacheEntry;
use rhumb_meta::Revision;
use rhumb_webhooks::{TargetService, WebhookTarget};
use tokio::sync::Semaphore;

use super::WebhookPlugin;
use super::match_plans::{MatchPlan, MatchPlanCache};
use crate::exclusion_counters::ExclusionCounters;
use crate::metrics::{AdmissionMetrics, ExclusionSubject};
use rhumb_registry::admission::AdmissionAttributes;

/// Maximum number of requests that wait for one webhook. Further ones fail as if the webhook did not respond, so that a
/// hanging webhook does not use up the capacity for requests that wait for others.
const MAX_WAITING: usize = 250;

/// Minimum interval between warnings about a failing webhook.
const WARN_INTERVAL_SECONDS: u64 = 30;

/// A webhook with its call target and counters.
#[derive(Debug)]
pub(super) struct PreparedWebhook {
    pub(super) spec: Webhook,
    /// The call target, or why the configuration is unusable.
    pub(super) target: Result<WebhookTarget, String>,
    pub(super) exclusion_counters: ExclusionCounters,
    /// Permits for requests that wait for its response.
    pub(super) waiting_permits: Semaphore,
    /// When its failure was last logged, in seconds since `warn_epoch`; zero if never.
    last_warned: AtomicU64,
}

impl PreparedWebhook {
    fn new(spec: Webhook) -> PreparedWebhook {
        let authorities = spec.ca_bundle.as_deref();
        let target = match &spec.address {
            WebhookAddress::Url(url) => WebhookTarget::from_url(url, authorities),
            WebhookAddress::Service(service) => {
                let path = Some(&*service.path);
                let service = TargetService {
                    namespace: service.namespace.clone(),
                    name: service.name.clone(),
                    port: service.port,
                };
                WebhookTarget::from_service(service, path, authorities)
            }
            WebhookAddress::Missing => WebhookTarget::from_url("", None),
        };
        PreparedWebhook {
            target: target.map_err(|error| error.to_string()),
            exclusion_counters: ExclusionCounters::default(),
            waiting_permits: Semaphore::new(MAX_WAITING),
            last_warned: AtomicU64::new(0),
            spec,
        }
    }

    /// Logs a warning that the webhook fails, at most once per interval.
    pub(super) fn warn_failing(&self, reason: &str, is_ignored: bool) {
        let now = warn_epoch().elapsed().as_secs() + 1;
        let last_warned = self.last_warned.load(Ordering::Relaxed);
        let is_due = last_warned == 0 || now.saturating_sub(last_warned) >= WARN_INTERVAL_SECONDS;
        let relaxed = Ordering::Relaxed;
        if !is_due
            || self
                .last_warned
                .compare_exchange(last_warned, now, relaxed, relaxed)
                .is_err()
        {
            return;
        }
        let (configuration, name) = (&self.spec.configuration, &self.spec.name);
        let message = match is_ignored {
            true => {
                "failed to call admission webhook; admitting requests without it (failurePolicy Ignore)"
            }
            false => "failed to call admission webhook; rejecting requests (failurePolicy Fail)",
        };
        tracing::warn!(%configuration, webhook = %name, reason, "{message}");
    }
}

/// The reference time of `last_warned`: the first call.
fn warn_epoch() -> Instant {
    static STARTED: OnceLock<Instant> = OnceLock::new();
    *STARTED.get_or_init(Instant::now)
}

/// The webhooks of a configuration, and its revision.
type ConfigurationWebhooks = (Revision, Vec<Arc<PreparedWebhook>>);

/// The webhooks of all configurations, and the match plans computed for them.
#[derive(Debug)]
pub(super) struct WebhookSet {
    pub(super) all: Vec<Arc<PreparedWebhook>>,
    /// The webhooks of each configuration by name, to reuse them while it is unchanged.
    configurations: HashMap<String, ConfigurationWebhooks>,
    webhook_type: WebhookType,
    /// Whether any of them needs the labels of namespaces.
    pub(super) need_namespace_labels: bool,
    pub(super) depend_on_namespace: bool,
    pub(super) plans: MatchPlanCache,
    metrics: Arc<AdmissionMetrics>,
}

impl WebhookSet {
    fn new(
        configurations: Vec<(String, ConfigurationWebhooks)>,
        webhook_type: WebhookType,
        metrics: Arc<AdmissionMetrics>,
    ) -> WebhookSet {
        let all: Vec<Arc<PreparedWebhook>> = configurations
            .iter()
            .flat_map(|(_, (_, webhooks))| webhooks.iter().cloned())
            .collect();
        let any_webhook = |predicate: fn(&MatchCriteria) -> bool| {
            all.iter()
                .any(|webhook| predicate(&webhook.spec.match_criteria))
        };
        WebhookSet {
            webhook_type,
            need_namespace_labels: any_webhook(MatchCriteria::needs_namespace_labels),
            depend_on_namespace: any_webhook(MatchCriteria::depends_on_namespace),
            plans: MatchPlanCache::default(),
            configurations: configurations.into_iter().collect(),
            metrics,
            all,
        }
    }

    /// The webhooks of a configuration, if its revision is unchanged.
    fn unchanged(&self, entry: &CacheEntry) -> Option<Vec<Arc<PreparedWebhook>>> {
        let (revision, webhooks) = self.configurations.get(entry.key().name())?;
        (*revision == entry.revision()).then(|| webhooks.clone())
    }

    /// Adds the exclusions counted by plans to the metrics.
    pub(super) fn flush_exclusion_counts(&self, plans: &[Arc<MatchPlan>]) {
        for excluded in plans.iter().filter_map(|plan| plan.take_excluded_count()) {
            for (index, rule) in excluded.webhooks {
                let Some(webhook) = self.all.get(*index) else {
                    continue;
                };
                let subject = ExclusionSubject {
                    configuration: &webhook.spec.configuration,
                    name: &webhook.spec.name,
                    kind: "webhook",
                    step: self.webhook_type.metric_label(),
                    operation: excluded.operation,
                    rule: *rule,
                };
                let (resource, writes) = (&excluded.resource, excluded.writes);
                webhook
                    .exclusion_counters
                    .increment(&self.metrics, subject, resource, writes);
            }
        }
    }
}

fn parse_configuration(
    entry: &CacheEntry,
    parse_options: CriteriaFeatures,
) -> Vec<Arc<PreparedWebhook>> {
    let configuration: JsonObject = match serde_json::from_slice(entry.json_slice()) {
        Ok(configuration) => configuration,
        Err(error) => {
            let name = entry.key().name();
            tracing::error!(name, %error, "failed to decode webhook configuration; its webhooks are not called");
            return Vec::new();
        }
    };
    let webhooks = parse_webhooks(&configuration, parse_options);
    webhooks
        .into_iter()
        .map(|webhook| Arc::new(PreparedWebhook::new(webhook)))
        .collect()
}

impl Drop for WebhookSet {
    fn drop(&mut self) {
        self.flush_exclusion_counts(&self.plans.all());
    }
}

impl WebhookPlugin {
    /// The current webhooks; `None` if there are none. Configurations are in the order of the cache, which is by name.
    pub(super) fn current_webhooks(
        &self,
        attributes: &AdmissionAttributes<'_>,
    ) -> Option<Arc<WebhookSet>> {
        let context = attributes.context;
        let cache = self.cache.get_or_init(|| {
            let configurations = context.resources.find(
                "admissionregistration.k8s.io",
                self.webhook_type.configurations_resource(),
            );
            configurations.and_then(|resource| Some(resource.storage.as_ref()?.cache.clone()))
        });
        let parse_options = CriteriaFeatures {
            exclusion_rules: context
                .registry
                .gates
                .enabled(Feature::AdmissionWebhookExclusionRules),
        };
        let webhooks = self.webhooks.get(cache.as_ref()?, |snapshot, previous| {
            let webhooks_of = |entry: &Arc<CacheEntry>| {
                let unchanged = previous.and_then(|previous| previous.unchanged(entry));
                let webhooks =
                    unchanged.unwrap_or_else(|| parse_configuration(entry, parse_options));
                (entry.key().name().to_owned(), (entry.revision(), webhooks))
            };
            let configurations = snapshot.range(None, None).map(webhooks_of).collect();
            WebhookSet::new(
                configurations,
                self.webhook_type,
                self.dependencies.metrics.clone(),
            )
        });
        (!webhooks.all.is_empty()).then_some(webhooks)
    }
}
