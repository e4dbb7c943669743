//! What may stop or change a write between its decoding and its commit.
//!
//! A chain of small plugins with one trait, in upstream's order (`selection.rs`). All may change the object, then
//! it is prepared and validated, then all may refuse it. Each says which requests concern it. What a plugin
//! decides is a pure function of the object and of what it looked up (`lookup.rs`).

mod certificates;
mod configuration;
mod counts;
mod critical;
mod default_classes;
mod default_tolerations;
mod derived;
mod escalation;
mod exclusions;
mod facts;
mod limit_ranger;
mod lookup;
mod namespace_lifecycle;
mod namespaces;
mod node_taint;
mod policies;
mod priority;
mod quota;
mod rounds;
mod runtime_class;
mod secured;
mod seen;
mod selection;
mod service_account;
mod storage_protection;
#[cfg(test)]
mod tests;
mod versioned;
mod volume_resize;
mod webhooks;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rhumb_admission::critical::CriticalResources;
pub use rhumb_admission::{Configured, Operation};
use rhumb_api::Object;
use rhumb_meta::Status;
pub use rhumb_quota::Limited;
use rhumb_store::Expect;
use tokio::time::Instant;

use crate::objects::Metadata;
use crate::quota::Room;
use crate::request::DeleteOptions;
use crate::resources::{Call, Registry};
use rounds::Rounds;
use webhooks::Services;

pub use configuration::{read_configuration, read_limited};
pub use counts::Counts;
pub use critical::read_critical_resources;
pub use secured::Secured;
pub use selection::{Selection, SelectionError};

/// How long a write is tried that others keep from being committed.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(10);

/// A write that asks for admission.
#[derive(Debug)]
pub struct Attributes<'a> {
    pub call: &'a Call<'a>,
    pub operation: Operation,
    /// The state before; absent for a creation.
    pub old: Option<&'a Object>,
    pub dry_run: bool,
    /// The options of a deletion.
    deletion: Option<&'a DeleteOptions>,
    rounds: Rounds,
    /// When it was first asked for, however often it is tried.
    began: Instant,
}

impl<'a> Attributes<'a> {
    pub fn with_deletion(mut self, options: &'a DeleteOptions) -> Attributes<'a> {
        self.deletion = Some(options);
        self
    }
}

impl Attributes<'_> {
    /// Whether it has been tried for so long that the client should come back later.
    pub fn is_late(&self) -> bool {
        self.began.elapsed() > WAIT_MAX
    }

    /// Whether it is about objects of this resource themselves, not about a subresource.
    // Inlined, because nearly every plugin asks for names that are constants.
    #[inline]
    pub fn is_about(&self, group: &str, plural: &str) -> bool {
        self.subresource().is_empty() && self.is_below(group, plural)
    }

    /// Whether it is about this resource or any of its subresources.
    #[inline]
    pub fn is_below(&self, group: &str, plural: &str) -> bool {
        let kind = &self.call.resource.kind;
        kind.group == group && kind.plural == plural
    }

    /// Empty for the object itself.
    #[inline]
    pub fn subresource(&self) -> &str {
        self.call
            .subresource
            .map_or("", |subresource| subresource.name)
    }

    /// The name in the path, or the object's own, or what its name will begin with.
    pub fn name<'a>(&'a self, object: Option<&'a Object>) -> &'a str {
        let known = object.or(self.old);
        let candidates = [
            self.call.name(),
            known.map_or("", Metadata::name),
            known.map_or("", |object| object.meta_str("generateName")),
        ];
        candidates
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or("Unknown")
    }

    /// A refusal in the words of upstream's plugins.
    pub fn forbidden(&self, object: Option<&Object>, reason: impl std::fmt::Display) -> Status {
        let resource = &self.call.resource.group_resource;
        Status::forbidden(resource, self.name(object), reason)
    }
}

/// What a plugin is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Mutation,
    Validation,
}

/// One rule about writes. Every method lets everything pass unless it says otherwise.
#[async_trait]
pub trait Plugin: Debug + Send + Sync {
    /// Whether it has anything to do with such a write in that step. Most plugins are about few writes, and to ask one
    /// for more than this takes memory.
    fn takes_part(&self, _step: Step, _attributes: &Attributes<'_>) -> bool {
        true
    }

    /// May change the object (there is none in a deletion), or refuse it. Asked once for each write, or twice if a
    /// webhook or a policy changed what others had seen; in an update again whenever somebody else was quicker.
    async fn mutate(
        &self,
        _attributes: &Attributes<'_>,
        _object: Option<&mut Object>,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// Sees the final object (none in a deletion), and may refuse it.
    async fn validate(
        &self,
        _attributes: &Attributes<'_>,
        _object: Option<&Object>,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// Brings up to date what it counts, before somebody reads it.
    fn gather(&self) {}

    /// The object without a namespace that a creation rests on. It is looked at again right before the commit, which
    /// fails if it is another by then; so the answer of `still_admits` holds for the moment of the commit.
    fn rests_on(&self, _attributes: &Attributes<'_>) -> Option<On> {
        None
    }

    /// Whether it holds something for a write until that is committed.
    fn reserves(&self, _attributes: &Attributes<'_>) -> bool {
        false
    }

    /// Holds what the write needs. Asked right before each attempt to commit it.
    async fn reserve(
        &self,
        _attributes: &Attributes<'_>,
        _object: &Object,
    ) -> Result<Room, Status> {
        Ok(Room::default())
    }

    /// Whether the final object is still let in, with what it rests on as it is now.
    fn still_admits(
        &self,
        _attributes: &Attributes<'_>,
        _object: &Object,
        _now: Option<&Object>,
    ) -> Result<(), Status> {
        Ok(())
    }
}

/// An object that a decision rests on.
#[derive(Debug)]
pub struct On {
    pub group: &'static str,
    pub plural: &'static str,
    pub name: String,
}

/// What lets a write in only as long as it is so: checked again as the write is committed.
#[derive(Debug)]
pub struct Premise {
    pub key: String,
    pub expect: Expect,
}

/// The plugins in their order.
#[derive(Debug)]
pub struct Chain {
    plugins: Vec<Box<dyn Plugin>>,
    counts: Arc<Counts>,
    services: Arc<Services>,
    critical: Arc<CriticalResources>,
    limited: Arc<[Limited]>,
}

impl Default for Chain {
    /// The plugins that are on when nobody says anything.
    fn default() -> Self {
        Selection::default().chain()
    }
}

impl Chain {
    /// Adds a plugin that comes after all others.
    #[must_use]
    pub fn with(mut self, plugin: impl Plugin + 'static) -> Chain {
        self.plugins.push(Box::new(plugin));
        self
    }

    /// Webhooks of services are found from now on.
    pub(crate) fn follow(&self, registry: &Registry) {
        self.services.follow(registry);
        critical::tell_of_idle_rules(&self.critical, registry);
        quota::tell_of_idle_limits(&self.limited, registry);
    }

    /// What is counted of webhooks and policies.
    pub fn counts(&self) -> &Counts {
        self.plugins.iter().for_each(|plugin| plugin.gather());
        &self.counts
    }

    /// Asks all in their order; once more, if somebody outside changed what others had seen before.
    pub async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Object>,
    ) -> Result<(), Status> {
        self.round(attributes, object.as_deref_mut()).await?;
        if attributes.rounds.begin_second() {
            self.round(attributes, object).await?;
        }
        Ok(())
    }

    async fn round(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Object>,
    ) -> Result<(), Status> {
        for plugin in &self.plugins {
            if plugin.takes_part(Step::Mutation, attributes) {
                plugin.mutate(attributes, object.as_deref_mut()).await?;
            }
        }
        Ok(())
    }

    pub async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        for plugin in &self.plugins {
            if plugin.takes_part(Step::Validation, attributes) {
                plugin.validate(attributes, object).await?;
            }
        }
        Ok(())
    }

    /// What must be so as the object is committed, and what is held for it until then.
    pub async fn secure(
        &self,
        attributes: &Attributes<'_>,
        object: &Object,
    ) -> Result<Secured, Status> {
        let mut secured = Secured::default();
        for plugin in &self.plugins {
            if let Some(on) = plugin.rests_on(attributes) {
                let found = lookup::with_revision(attributes.call, &on).await?;
                let (now, premise) = found.unzip();
                plugin.still_admits(attributes, object, now.as_deref())?;
                secured.premises.extend(premise);
            }
            if plugin.reserves(attributes) {
                let Room {
                    premise,
                    reservation,
                } = plugin.reserve(attributes, object).await?;
                secured.premises.extend(premise);
                secured.reservations.extend(reservation);
            }
        }
        Ok(secured)
    }

    /// Both, for what is asked and not stored.
    pub async fn admit(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Object>,
    ) -> Result<(), Status> {
        self.mutate(attributes, object.as_deref_mut()).await?;
        self.validate(attributes, object.as_deref()).await
    }
}

impl Call<'_> {
    /// This request as admission sees it.
    pub fn attributes<'a>(
        &'a self,
        operation: Operation,
        old: Option<&'a Object>,
        dry_run: bool,
    ) -> Attributes<'a> {
        Attributes {
            call: self,
            operation,
            old,
            dry_run,
            deletion: None,
            rounds: Rounds::default(),
            began: Instant::now(),
        }
    }
}
