//! `Registry`: the store, its caches and the resources, as the write path, admission and reads use them (upstream: the
//! generic registry and its `RESTOptions`). It knows nothing of HTTP and of who is allowed what.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use rhumb_api::FeatureGates;
use rhumb_auth::Authorizer;
use rhumb_cache::{self as cache, CacheManager};
use rhumb_meta::{Clock, Revision, Status};
use rhumb_schema::{ObjectDefaulter, SchemaRef, Table};
use rhumb_store::{Store, Transaction};
use tokio::time::Instant;

use crate::admission::AdmissionChain;
use crate::{
    AllocatorSet, ReadHooks, RequestContext, Resource, ResourceTable, shutting_down_status,
};

/// How long a request waits for the cache to reach a revision.
const CACHE_WAIT_MAX: Duration = Duration::from_secs(3);

/// Store, caches, resources and what every write runs through.
#[derive(Debug)]
pub struct Registry {
    pub store: Arc<dyn Store>,
    pub cache_manager: CacheManager,
    /// Replaced as a whole when resources are added or removed. Those of built-in kinds remain, so their caches may be
    /// looked up once.
    pub resources: ArcSwap<ResourceTable>,
    /// Held while another table of resources is published.
    pub resource_updates: parking_lot::Mutex<()>,
    /// The types of the built-in kinds, and of what is not served as a resource of its own.
    pub table: Arc<Table>,
    pub defaults: Arc<ObjectDefaulter>,
    pub gates: FeatureGates,
    pub clock: Arc<dyn Clock>,
    pub admission: AdmissionChain,
    /// Allocators of resources whose objects need allocations, such as the IP addresses of services.
    pub allocators: AllocatorSet,
    /// Work before objects are read, such as the status of quotas.
    pub read_hooks: ReadHooks,
    pub authorizer: Arc<dyn Authorizer + Send + Sync>,
    pub shutting_down: AtomicBool,
}

impl Registry {
    /// The resources that are served now. A request uses one table from begin to end.
    pub fn resources(&self) -> Arc<ResourceTable> {
        self.resources.load_full()
    }

    pub fn find(&self, group: &str, plural: &str) -> Option<Arc<Resource>> {
        self.resources.load().find(group, plural).cloned()
    }

    /// Waits until the cache holds every write that was acknowledged before this call (a consistent read).
    pub async fn await_consistent(&self, context: &RequestContext<'_>) -> Result<(), Status> {
        self.cache_manager
            .wait_until_consistent(Instant::now() + CACHE_WAIT_MAX)
            .await
            .map(|_| ())
            .map_err(|error| match error {
                cache::Error::Closed => shutting_down_status(),
                _ => Status::server_timeout(&context.resource.group_resource, context.verb, 1),
            })
    }

    /// Waits until the cache has reached the revision that a client requested (`NotOlderThan`).
    pub async fn await_revision(&self, revision: Revision) -> Result<(), Status> {
        let result = self
            .cache_manager
            .wait_for_revision(revision, Instant::now() + CACHE_WAIT_MAX)
            .await;
        result.map_err(|error| match error {
            cache::Error::Closed => shutting_down_status(),
            _ => Status::too_large_resource_version(
                revision,
                self.cache_manager.applied_revision(),
                1,
            ),
        })
    }

    /// Commits, then waits until the cache has applied the revision, so that clients read their own writes.
    pub async fn commit(&self, transaction: Transaction) -> Result<Revision, rhumb_store::Error> {
        let revision = self.store.commit(transaction).await?;
        self.await_applied(revision).await;
        Ok(revision)
    }

    /// Waits until the cache has applied a committed revision. The write is durable already, so a timeout is logged and
    /// the client still gets its response. During shutdown nothing is logged.
    pub async fn await_applied(&self, revision: Revision) {
        match self
            .cache_manager
            .wait_for_revision(revision, Instant::now() + CACHE_WAIT_MAX)
            .await
        {
            Ok(()) | Err(cache::Error::Closed) => {}
            Err(_) if self.is_shutting_down() => {}
            Err(_) => {
                tracing::warn!(%revision, "cache did not apply a committed write in time; responding before the write is readable");
            }
        }
    }

    /// Ends watches and reports not ready to load balancers; other requests complete.
    pub async fn shut_down(&self) {
        self.shutting_down.store(true, Ordering::Relaxed);
        self.cache_manager.close().await;
    }

    /// Whether the server is shutting down: it finishes running requests and reports not ready to load balancers.
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down.load(Ordering::Relaxed)
    }

    /// Looks up a schema type that is not served as a resource of its own, such as `DeleteOptions`.
    pub fn schema_type(&self, name: &str) -> Result<SchemaRef, Status> {
        SchemaRef::find(&self.table, name).ok_or_else(|| {
            Status::internal_error(format_args!("the schema table has no type {name}"))
        })
    }
}
