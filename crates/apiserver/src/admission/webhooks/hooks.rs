//! The webhooks of all configurations, in the order in which they are asked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use rhumb_admission::{Address, Criteria, Flavor, Reading, Webhook, webhooks_of};
use rhumb_api::Object;
use rhumb_api::gates::Feature;
use rhumb_cache::Entry;
use rhumb_meta::Revision;
use rhumb_webhooks::{Service, Target};
use tokio::sync::Semaphore;

use super::Webhooks;
use super::plans::{Plan, Plans};
use crate::admission::Attributes;
use crate::admission::counts::{Counted, Counts};
use crate::admission::exclusions::Exclusions;

/// How many writes may wait for one webhook. More of them fail as if it did not answer, so that it does not keep those
/// away that wait for others.
const WAITING_MAX: usize = 250;

/// How often it is told that a webhook fails.
const TELL_SECONDS: u64 = 30;

/// A webhook, ready to be asked.
#[derive(Debug)]
pub(super) struct Hook {
    pub(super) webhook: Webhook,
    /// Or why it can never be called.
    pub(super) target: Result<Target, String>,
    pub(super) exclusions: Exclusions,
    /// Room for those who wait for its answer.
    pub(super) room: Semaphore,
    /// When it was last told that it fails, in seconds since the first was; zero if never.
    told: AtomicU64,
}

impl Hook {
    fn new(webhook: Webhook) -> Hook {
        let authorities = webhook.authorities.as_deref();
        let target = match &webhook.address {
            Address::Url(url) => Target::url(url, authorities),
            Address::Service(service) => {
                let path = Some(&*service.path);
                let service = Service {
                    namespace: service.namespace.clone(),
                    name: service.name.clone(),
                    port: service.port,
                };
                Target::service(service, path, authorities)
            }
            Address::Nowhere => Target::url("", None),
        };
        Hook {
            target: target.map_err(|error| error.to_string()),
            exclusions: Exclusions::default(),
            room: Semaphore::new(WAITING_MAX),
            told: AtomicU64::new(0),
            webhook,
        }
    }

    /// Tells the operator that the webhook fails, now and then.
    pub(super) fn tell(&self, reason: &str, is_ignored: bool) {
        let now = started().elapsed().as_secs() + 1;
        let told = self.told.load(Ordering::Relaxed);
        let is_due = told == 0 || now.saturating_sub(told) >= TELL_SECONDS;
        let relaxed = Ordering::Relaxed;
        if !is_due
            || self
                .told
                .compare_exchange(told, now, relaxed, relaxed)
                .is_err()
        {
            return;
        }
        let (configuration, name) = (&self.webhook.configuration, &self.webhook.name);
        let what = match is_ignored {
            true => "a webhook fails, and writes go on without it",
            false => "a webhook fails, and writes fail with it",
        };
        tracing::warn!(%configuration, webhook = %name, reason, "{what}");
    }
}

/// When the first webhook was told of.
fn started() -> Instant {
    static STARTED: OnceLock<Instant> = OnceLock::new();
    *STARTED.get_or_init(Instant::now)
}

/// The webhooks of a version of a configuration.
type AsOf = (Revision, Vec<Arc<Hook>>);

/// The webhooks of all configurations, and what was decided about them.
#[derive(Debug)]
pub(super) struct Hooks {
    pub(super) all: Vec<Arc<Hook>>,
    /// Those of each configuration, and its version.
    configurations: HashMap<String, AsOf>,
    flavor: Flavor,
    /// Whether any of them looks at labels of namespaces.
    pub(super) need_labels: bool,
    pub(super) tell_namespaces_apart: bool,
    pub(super) plans: Plans,
    counts: Arc<Counts>,
}

impl Hooks {
    fn new(configurations: Vec<(String, AsOf)>, flavor: Flavor, counts: Arc<Counts>) -> Hooks {
        let all: Vec<Arc<Hook>> = configurations
            .iter()
            .flat_map(|(_, (_, hooks))| hooks.iter().cloned())
            .collect();
        let any = |what: fn(&Criteria) -> bool| all.iter().any(|hook| what(&hook.webhook.criteria));
        Hooks {
            flavor,
            need_labels: any(Criteria::needs_namespace),
            tell_namespaces_apart: any(Criteria::tells_namespaces_apart),
            plans: Plans::default(),
            configurations: configurations.into_iter().collect(),
            counts,
            all,
        }
    }

    /// The webhooks of a configuration, if they are those that are known already.
    fn same(&self, entry: &Entry) -> Option<Vec<Arc<Hook>>> {
        let (revision, hooks) = self.configurations.get(entry.key().name())?;
        (*revision == entry.revision()).then(|| hooks.clone())
    }

    /// Counts what plans have kept away from webhooks.
    pub(super) fn gather(&self, plans: &[Arc<Plan>]) {
        for kept_away in plans.iter().filter_map(|plan| plan.take_counts()) {
            for (webhook, _) in kept_away.webhooks {
                let Some(hook) = self.all.get(*webhook) else {
                    continue;
                };
                let counted = Counted {
                    name: &hook.webhook.name,
                    kind: "webhook",
                    step: self.flavor.as_str(),
                    operation: kept_away.operation,
                };
                let (resource, writes) = (&kept_away.resource, kept_away.writes);
                hook.exclusions
                    .count(&self.counts, counted, resource, writes);
            }
        }
    }
}

fn hooks_of(entry: &Entry, reading: Reading) -> Vec<Arc<Hook>> {
    let configuration: Object = match serde_json::from_slice(entry.json_slice()) {
        Ok(configuration) => configuration,
        Err(error) => {
            let name = entry.key().name();
            tracing::error!(name, %error, "the webhooks of a configuration cannot be read, and are not asked");
            return Vec::new();
        }
    };
    let webhooks = webhooks_of(&configuration, reading);
    webhooks
        .into_iter()
        .map(|it| Arc::new(Hook::new(it)))
        .collect()
}

impl Drop for Hooks {
    fn drop(&mut self) {
        self.gather(&self.plans.all());
    }
}

impl Webhooks {
    /// Configurations are in the order of their names, which is that of the cache.
    pub(super) fn configured(&self, attributes: &Attributes<'_>) -> Option<Arc<Hooks>> {
        let api = attributes.call.api;
        let cache = self.cache.get_or_init(|| {
            let found = api
                .registry
                .find("admissionregistration.k8s.io", self.flavor.plural());
            found.and_then(|resource| Some(resource.storage.as_ref()?.cache.clone()))
        });
        let reading = Reading {
            exclusions: api.gates.enabled(Feature::AdmissionWebhookExclusionRules),
        };
        let hooks = self.hooks.get(cache.as_ref()?, |snapshot, before| {
            let read = |entry: &Arc<Entry>| {
                let same = before.and_then(|before| before.same(entry));
                let hooks = same.unwrap_or_else(|| hooks_of(entry, reading));
                (entry.key().name().to_owned(), (entry.revision(), hooks))
            };
            let configurations = snapshot.range(None, None).map(read).collect();
            Hooks::new(configurations, self.flavor, self.outside.counts.clone())
        });
        (!hooks.all.is_empty()).then_some(hooks)
    }
}
