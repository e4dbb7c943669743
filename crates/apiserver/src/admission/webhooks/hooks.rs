//! The webhooks of all configurations, in the order in which they are asked.

use std::sync::Arc;

use rhumb_admission::{Address, Criteria, Flavor, Reading, Webhook, webhooks_of};
use rhumb_api::Object;
use rhumb_api::gates::Feature;
use rhumb_webhooks::{Service, Target};

use super::Webhooks;
use super::plans::{Plan, Plans};
use crate::admission::Attributes;
use crate::admission::counts::{Counted, Counts};
use crate::admission::exclusions::Exclusions;

/// A webhook, ready to be asked.
#[derive(Debug)]
pub(super) struct Hook {
    pub(super) webhook: Webhook,
    /// Or why it can never be called.
    pub(super) target: Result<Target, String>,
    pub(super) exclusions: Exclusions,
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
            webhook,
        }
    }
}

/// The webhooks of all configurations, and what was decided about them.
#[derive(Debug)]
pub(super) struct Hooks {
    pub(super) all: Vec<Hook>,
    flavor: Flavor,
    /// Whether any of them looks at labels of namespaces.
    pub(super) need_labels: bool,
    pub(super) tell_namespaces_apart: bool,
    pub(super) plans: Plans,
    counts: Arc<Counts>,
}

impl Hooks {
    fn new(all: Vec<Hook>, flavor: Flavor, counts: Arc<Counts>) -> Hooks {
        let any = |what: fn(&Criteria) -> bool| all.iter().any(|hook| what(&hook.webhook.criteria));
        Hooks {
            flavor,
            need_labels: any(Criteria::needs_namespace),
            tell_namespaces_apart: any(Criteria::tells_namespaces_apart),
            plans: Plans::default(),
            counts,
            all,
        }
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

impl Drop for Hooks {
    fn drop(&mut self) {
        self.gather(&self.plans.all());
    }
}

impl Webhooks {
    /// Configurations are in the order of their names, which is that of the cache.
    pub(super) fn configured(&self, attributes: &Attributes<'_>) -> Option<Arc<Hooks>> {
        let api = attributes.call.api;
        let configurations = api
            .registry
            .find("admissionregistration.k8s.io", self.flavor.plural())
            .and_then(|resource| resource.storage.as_ref());
        let storage = configurations?;
        let reading = Reading {
            exclusions: api.gates.enabled(Feature::AdmissionWebhookExclusionRules),
        };
        let hooks = self.hooks.get(&storage.cache, |snapshot, _| {
            let all = snapshot
                .range(None, None)
                .filter_map(|entry| serde_json::from_slice::<Object>(entry.json_slice()).ok())
                .flat_map(|configuration| webhooks_of(&configuration, reading))
                .map(Hook::new)
                .collect();
            Hooks::new(all, self.flavor, self.outside.counts.clone())
        });
        (!hooks.all.is_empty()).then_some(hooks)
    }
}
