//! The registry: the store, its caches, the table of served resources, and the path of every write (upstream: the
//! generic registry, `k8s.io/apiserver/pkg/registry`, with its admission interfaces).
//!
//! [`Registry`] holds them, [`Registry::add_resources`] adds kinds at run time, [`RequestContext`] carries the attributes
//! of a request, `write/` changes objects, `admission/` declares the admission interfaces. Nothing here knows HTTP, webhooks, or how quotas are enforced: plugins,
//! [`ReadHook`]s and [`ResourceAllocator`]s are registered by the crates above.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

pub mod admission;
mod allocator;
mod audit_annotations;
mod delete_options;
mod equivalent_resources;
mod error_status;
mod in_flight_permit;
mod kind_set;
mod object_names;
pub mod objects;
mod read_hooks;
mod registry;
mod request_context;
mod resource_table;
pub mod service_allocation;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod version_conversion;
mod watch_event_counters;
pub mod write;

pub use allocator::{AllocatorSet, InFlightAllocationKeys, InFlightAllocations, ResourceAllocator};
pub use audit_annotations::{AuditAnnotations, DECISION_KEY, REASON_KEY, TRUNCATED_KEY};
pub use delete_options::{DeleteOptions, DeletionPropagation};
pub use equivalent_resources::{EquivalentResources, equivalents_by_kind, subresource_index};
pub use error_status::{history_error_status, shutting_down_status, store_error_status};
pub use in_flight_permit::InFlightPermit;
pub use kind_set::{KindSet, OpenApiSchemas};
pub use object_names::{ensure_request_namespace, generate_name};
pub use read_hooks::{ReadHook, ReadHooks};
pub use registry::Registry;
pub use request_context::{RequestContext, RequestOptions, RequestOrigin};
pub use resource_table::{
    KindRegistrationError, Resource, ResourceStorage, ResourceTable, ServedVersion, cache_configs,
};
pub use watch_event_counters::{EVENT_SIZE_BUCKETS, WatchEventCounters, WatchEventTotals};
