//! Webhooks: others who are asked about a write, and who may change it.
//!
//! `hooks.rs` has the webhooks of all configurations, `invocation.rs` says who is to be asked, `ask.rs` asks one of
//! them. Those that may change the object are asked one after the other (`mutating.rs`), the others all at once
//! (`validating.rs`).

mod ask;
mod hooks;
mod invocation;
mod mutating;
mod plans;
mod services;
mod validating;

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use rhumb_admission::Flavor;
use rhumb_api::Object;
use rhumb_cache::Cache;
use rhumb_meta::Status;
use rhumb_quota::Limited;
use rhumb_webhooks::Client;

use super::counts::{Counted, Counts};
use super::derived::Derived;
use super::{Attributes, Plugin, Step};
use hooks::{Hook, Hooks};
pub(crate) use services::Services;

/// What plugins that ask others have in common.
#[derive(Debug, Clone)]
pub(super) struct Outside {
    pub(super) counts: Arc<Counts>,
    pub(super) services: Arc<Services>,
    /// What may be used only where a quota says how much.
    pub(super) limited: Arc<[Limited]>,
    client: Client,
}

impl Default for Outside {
    fn default() -> Self {
        let services = Arc::new(Services::default());
        Outside {
            counts: Arc::default(),
            client: Client::new(services.clone()),
            services,
            limited: Arc::default(),
        }
    }
}

impl Outside {
    pub(super) fn with_limited(mut self, limited: Arc<[Limited]>) -> Outside {
        self.limited = limited;
        self
    }
}

/// One of the two plugins that ask webhooks.
#[derive(Debug)]
pub(super) struct Webhooks {
    flavor: Flavor,
    /// Of the configurations; nothing where they are not served.
    cache: OnceLock<Option<Cache>>,
    hooks: Derived<Hooks>,
    outside: Outside,
}

impl Webhooks {
    pub(super) fn new(flavor: Flavor, outside: &Outside) -> Webhooks {
        Webhooks {
            flavor,
            cache: OnceLock::new(),
            hooks: Derived::default(),
            outside: outside.clone(),
        }
    }

    fn counted<'a>(&self, attributes: &Attributes<'_>, hook: &'a Hook) -> Counted<'a> {
        Counted {
            name: &hook.webhook.name,
            kind: "webhook",
            step: self.flavor.as_str(),
            operation: attributes.operation,
        }
    }

    /// The webhooks there are; none for what nobody outside may judge.
    fn hooks(&self, attributes: &Attributes<'_>) -> Result<Option<Arc<Hooks>>, Status> {
        if attributes.call.is_own || attributes.facts(None)?.is_exempt_from_webhooks() {
            return Ok(None);
        }
        Ok(self.configured(attributes))
    }
}

#[async_trait]
impl Plugin for Webhooks {
    fn takes_part(&self, step: Step, attributes: &Attributes<'_>) -> bool {
        let is_its_step = match self.flavor {
            Flavor::Mutating => step == Step::Mutation,
            Flavor::Validating => step == Step::Validation,
        };
        is_its_step && self.configured(attributes).is_some()
    }

    async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Object>,
    ) -> Result<(), Status> {
        match self.flavor {
            Flavor::Mutating => self.ask_in_turn(attributes, object).await,
            Flavor::Validating => Ok(()),
        }
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        match self.flavor {
            Flavor::Mutating => Ok(()),
            Flavor::Validating => self.ask_all(attributes, object).await,
        }
    }

    fn gather(&self) {
        if let Some(hooks) = self.hooks.latest() {
            hooks.gather(&hooks.plans.all());
        }
    }
}
