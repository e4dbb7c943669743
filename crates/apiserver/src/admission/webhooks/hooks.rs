//! The webhooks of all configurations, in the order in which they are asked.

use std::sync::Arc;

use rhumb_admission::{Address, Reading, Webhook, webhooks_of};
use rhumb_api::Object;
use rhumb_api::gates::Feature;
use rhumb_webhooks::{Service, Target};

use super::Webhooks;
use crate::admission::Attributes;
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

impl Webhooks {
    /// Configurations are in the order of their names, which is that of the cache.
    pub(super) fn configured(&self, attributes: &Attributes<'_>) -> Arc<Vec<Hook>> {
        let api = attributes.call.api;
        let configurations = api
            .registry
            .find("admissionregistration.k8s.io", self.flavor.plural())
            .and_then(|resource| resource.storage.as_ref());
        let Some(storage) = configurations else {
            return Arc::default();
        };
        let reading = Reading {
            exclusions: api.gates.enabled(Feature::AdmissionWebhookExclusionRules),
        };
        self.hooks.get(&storage.cache, |snapshot, _| {
            snapshot
                .range(None, None)
                .filter_map(|entry| serde_json::from_slice::<Object>(entry.json_slice()).ok())
                .flat_map(|configuration| webhooks_of(&configuration, reading))
                .map(Hook::new)
                .collect()
        })
    }
}
