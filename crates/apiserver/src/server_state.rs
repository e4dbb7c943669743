//! `ServerState`: the state shared by all requests, and waiting for the watch cache to reach a revision.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rhumb_api::FeatureGates;
use rhumb_auth::token::TokenIssuer;
use rhumb_auth::{Attributes, Authenticator, Authorizer, RbacPolicyIndex};
use rhumb_cache::{self as cache, CacheManager};
use rhumb_meta::{Clock, Revision, Status};
use rhumb_schema::{Defaults, Table, TypeId};
use rhumb_store::{Store, Transaction};
use tokio::time::Instant;

use crate::admission;
use crate::openapi::OpenApiDocumentCache;
use crate::quota::QuotaEnforcer;
use crate::resources::{AllocatorSet, RequestContext, ResourceRegistry, shutting_down_status};

/// How long a request waits for the cache to reach a revision.
const CACHE_WAIT_MAX: Duration = Duration::from_secs(3);

/// Store, caches, resource registry, admission chain and the other services that request handlers use.
#[derive(Debug)]
pub struct ServerState {
    pub store: Arc<dyn Store>,
    pub cache_manager: CacheManager,
    pub registry: ResourceRegistry,
    pub table: &'static Table,
    pub defaults: Defaults<'static>,
    pub gates: FeatureGates,
    pub clock: Arc<dyn Clock>,
    pub admission: admission::AdmissionChain,
    /// Allocators of resources whose objects need allocations, such as the IP addresses of services.
    pub allocators: AllocatorSet,
    /// Enforces resource quotas on writes.
    pub quota_enforcer: QuotaEnforcer,
    pub authenticator: Authenticator,
    /// Signs service account tokens.
    pub issuer: TokenIssuer,
    pub policy: Arc<RbacPolicyIndex>,
    /// The address that clients reach the server at, such as `127.0.0.1:6443`.
    pub public_address: String,
    pub openapi_documents: OpenApiDocumentCache,
    pub shutting_down: AtomicBool,
}

impl ServerState {
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

    /// Whether the server is shutting down: it finishes running requests and reports not ready to load balancers.
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down.load(Ordering::Relaxed)
    }

    /// Authorizes the `create` verb for an update that turns out to create the object.
    pub fn authorize_create(&self, context: &RequestContext<'_>) -> Result<(), Status> {
        let attributes = Attributes {
            api_version: &context.version.served.version,
            namespace: context.namespace().unwrap_or_default(),
            name: context.name(),
            ..Attributes::resource(
                context.user,
                "create",
                &context.resource.kind.group,
                &context.resource.kind.plural,
            )
        };
        self.policy
            .policy()
            .authorize(&attributes)
            .require(&attributes)
            .map(|_| ())
    }

    /// Looks up a schema type that is not served as a resource of its own, such as `DeleteOptions`.
    pub fn schema_type(&self, name: &str) -> Result<TypeId, Status> {
        self.table.type_id(name).ok_or_else(|| {
            Status::internal_error(format_args!("the schema table has no type {name}"))
        })
    }
}
