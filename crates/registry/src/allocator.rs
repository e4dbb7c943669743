//! Allocations that belong to an object, such as the IP addresses and node ports of a service.
//!
//! Each allocation is a record of its own in the store. It is created and deleted in the same transaction as its
//! object, so that neither a crash nor another server can separate them. Implemented by `ServiceAllocator` (upstream:
//! the `BeginCreate` and `BeginUpdate` hooks of the service registry, and its repair loops).

use parking_lot::Mutex;
use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;

use rhumb_api::JsonObject;
use rhumb_meta::{Status, Timestamp};
use rhumb_store::{OPERATIONS_MAX, TransactionOp};

use super::{RequestContext, Resource};
use crate::Registry;

/// Allocates what the objects of a resource need, and keeps the allocation records in step with them.
pub trait ResourceAllocator: Debug + Send + Sync {
    /// Allocates what the new registry needs and sets it on the object. Runs after mutating admission and before
    /// validation, possibly several times for one write.
    fn allocate(
        &self,
        context: &RequestContext<'_>,
        object: &mut JsonObject,
        old: Option<&JsonObject>,
        dry_run: bool,
    ) -> Result<InFlightAllocations, Status>;

    /// Operations that create and delete allocation records for the change from `old` to `new`. `None` means that the
    /// object does not exist.
    fn record_operations(
        &self,
        registry: &Registry,
        now: Timestamp,
        old: Option<&JsonObject>,
        new: Option<&JsonObject>,
    ) -> Result<Vec<TransactionOp>, Status>;

    /// Operations that create the missing records of a stored object, which was written by a server without these
    /// records.
    fn missing_records(
        &self,
        registry: &Registry,
        now: Timestamp,
        object: &JsonObject,
    ) -> Result<Vec<TransactionOp>, Status>;
}

/// The allocators of all resources that have one.
#[derive(Debug, Default)]
pub struct AllocatorSet(Vec<(&'static str, &'static str, Box<dyn ResourceAllocator>)>);

impl AllocatorSet {
    #[must_use]
    pub fn with_allocator(
        mut self,
        group: &'static str,
        plural: &'static str,
        allocator: impl ResourceAllocator + 'static,
    ) -> AllocatorSet {
        self.0.push((group, plural, Box::new(allocator)));
        self
    }

    pub fn iter(
        &self,
    ) -> impl Iterator<Item = (&'static str, &'static str, &dyn ResourceAllocator)> {
        self.0
            .iter()
            .map(|(group, plural, allocator)| (*group, *plural, &**allocator))
    }

    pub fn for_resource(&self, resource: &Resource) -> Option<&dyn ResourceAllocator> {
        self.0
            .iter()
            .find(|(group, plural, _)| {
                *group == resource.kind.group && *plural == resource.kind.plural
            })
            .map(|(_, _, allocator)| &**allocator)
    }
}

/// Record keys that running writes of this server have chosen, so that concurrent writes choose others. Only the store
/// decides which write gets a key; this set just reduces conflicts.
#[derive(Debug, Clone, Default)]
pub struct InFlightAllocationKeys(Arc<Mutex<HashSet<String>>>);

impl InFlightAllocationKeys {
    fn keys(&self) -> parking_lot::MutexGuard<'_, HashSet<String>> {
        self.0.lock()
    }
}

/// The allocations of one write. They are pending until this is dropped.
#[derive(Debug, Default)]
pub struct InFlightAllocations {
    held: Vec<(InFlightAllocationKeys, String)>,
    /// Keys that the client requested explicitly, with the error to return if they are taken.
    requested: Vec<(String, Status)>,
}

impl InFlightAllocations {
    /// Marks a key as pending; false if another write has chosen it.
    pub fn hold(&mut self, pending: &InFlightAllocationKeys, key: String) -> bool {
        if !pending.keys().insert(key.clone()) {
            return false;
        }
        self.held.push((pending.clone(), key));
        true
    }

    /// Notes that the client requested this key, and the error to return if it is taken.
    pub fn require(&mut self, key: String, rejection: Status) {
        self.requested.push((key, rejection));
    }

    /// The error to return for a conflict on this key; `None` if another key can be chosen.
    pub fn rejection_for(&self, key: &str) -> Option<&Status> {
        self.requested
            .iter()
            .find(|(requested, _)| requested == key)
            .map(|(_, rejection)| rejection)
    }
}

impl Drop for InFlightAllocations {
    fn drop(&mut self) {
        for (pending, key) in &self.held {
            pending.keys().remove(key);
        }
    }
}

impl RequestContext<'_> {
    /// Runs the allocator of this resource, if it has one.
    pub(super) fn allocate(
        &self,
        object: &mut JsonObject,
        old: Option<&JsonObject>,
        dry_run: bool,
    ) -> Result<InFlightAllocations, Status> {
        match self.registry.allocators.for_resource(self.resource) {
            Some(allocator) => allocator.allocate(self, object, old, dry_run),
            None => Ok(InFlightAllocations::default()),
        }
    }

    /// The record operations of this resource's allocator for a change of an object.
    pub(crate) fn allocation_operations(
        &self,
        old: Option<&JsonObject>,
        new: Option<&JsonObject>,
    ) -> Result<Vec<TransactionOp>, Status> {
        let Some(allocator) = self.registry.allocators.for_resource(self.resource) else {
            return Ok(Vec::new());
        };
        let operations = allocator.record_operations(self.registry, self.now, old, new)?;
        if operations.len() >= OPERATIONS_MAX {
            return Err(Status::request_entity_too_large(format_args!(
                "{} allocation records would have to change with the object; the maximum is {}",
                operations.len(),
                OPERATIONS_MAX - 1
            )));
        }
        Ok(operations)
    }
}
