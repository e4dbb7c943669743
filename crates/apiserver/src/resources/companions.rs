//! Entries that live and die with objects of a resource: written and removed in the same transaction, so that no
//! crash and no other server can part them.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use rhumb_api::Object;
use rhumb_meta::{Status, Timestamp};
use rhumb_store::{OPERATIONS_MAX, Operation};

use super::{Call, Resource};
use crate::Api;

/// What a resource writes beside its objects.
pub trait Companions: Debug + Send + Sync {
    /// Gives a new state what only the server can give. Comes after admission may change the object, and before
    /// it is prepared and validated. May be asked several times for one write.
    fn complete(
        &self,
        call: &Call<'_>,
        object: &mut Object,
        old: Option<&Object>,
        dry_run: bool,
    ) -> Result<Claim, Status>;

    /// What must happen together with the change from one state to the other; no state is no object.
    fn operations(
        &self,
        api: &Api,
        now: Timestamp,
        old: Option<&Object>,
        new: Option<&Object>,
    ) -> Result<Vec<Operation>, Status>;

    /// What should be there for a stored object and is not: it was written by someone who knows nothing of
    /// companions.
    fn missing(&self, api: &Api, now: Timestamp, object: &Object)
    -> Result<Vec<Operation>, Status>;
}

/// The companions of all resources that have any.
#[derive(Debug, Default)]
pub struct CompanionSet(Vec<(&'static str, &'static str, Box<dyn Companions>)>);

impl CompanionSet {
    #[must_use]
    pub fn with(
        mut self,
        group: &'static str,
        plural: &'static str,
        companions: impl Companions + 'static,
    ) -> CompanionSet {
        self.0.push((group, plural, Box::new(companions)));
        self
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, &dyn Companions)> {
        self.0
            .iter()
            .map(|(group, plural, companions)| (*group, *plural, &**companions))
    }

    pub fn of(&self, resource: &Resource) -> Option<&dyn Companions> {
        self.0
            .iter()
            .find(|(group, plural, _)| {
                *group == resource.kind.group && *plural == resource.kind.plural
            })
            .map(|(_, _, companions)| &**companions)
    }
}

/// Keys that writes under way have chosen, so that others on this server choose different ones. Which write gets
/// a key is the store's to say; this only keeps them from quarrelling.
#[derive(Debug, Clone, Default)]
pub struct Chosen(Arc<Mutex<HashSet<String>>>);

impl Chosen {
    fn keys(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one write has chosen, for as long as it takes.
#[derive(Debug, Default)]
pub struct Claim {
    held: Vec<(Chosen, String)>,
    /// For keys that the client asked for: what it is told if another has them.
    asked: Vec<(String, Status)>,
}

impl Claim {
    /// Holds a key, unless another write does.
    pub fn hold(&mut self, chosen: &Chosen, key: String) -> bool {
        if !chosen.keys().insert(key.clone()) {
            return false;
        }
        self.held.push((chosen.clone(), key));
        true
    }

    pub fn asked(&mut self, key: String, refusal: Status) {
        self.asked.push((key, refusal));
    }

    /// The refusal, if the client asked for this key and no other will do.
    pub fn refusal(&self, key: &str) -> Option<&Status> {
        self.asked
            .iter()
            .find(|(asked, _)| asked == key)
            .map(|(_, refusal)| refusal)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        for (chosen, key) in &self.held {
            chosen.keys().remove(key);
        }
    }
}

impl Call<'_> {
    /// See [`Companions::complete`].
    pub(super) fn complete(
        &self,
        object: &mut Object,
        old: Option<&Object>,
        dry_run: bool,
    ) -> Result<Claim, Status> {
        match self.api.companions.of(self.resource) {
            Some(companions) => companions.complete(self, object, old, dry_run),
            None => Ok(Claim::default()),
        }
    }

    /// See [`Companions::operations`].
    pub(crate) fn companion_operations(
        &self,
        old: Option<&Object>,
        new: Option<&Object>,
    ) -> Result<Vec<Operation>, Status> {
        let Some(companions) = self.api.companions.of(self.resource) else {
            return Ok(Vec::new());
        };
        let operations = companions.operations(self.api, self.now, old, new)?;
        if operations.len() >= OPERATIONS_MAX {
            return Err(Status::request_entity_too_large(format_args!(
                "{} entries would have to change with the object, and {} can",
                operations.len(),
                OPERATIONS_MAX - 1
            )));
        }
        Ok(operations)
    }
}
