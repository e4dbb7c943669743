//! The state that all requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rhumb_api::Gates;
use rhumb_auth::token::Issuer;
use rhumb_auth::{Attributes, Authenticator, Authorizer, PolicyIndex};
use rhumb_cache::{self as cache, Hub};
use rhumb_meta::{Clock, Revision, Status};
use rhumb_schema::{Defaults, Table, TypeId};
use rhumb_store::{Store, Transaction};
use tokio::time::Instant;

use crate::admission;
use crate::openapi::Documents;
use crate::quota::Tills;
use crate::resources::{Call, CompanionSet, Registry, shutting_down};

/// How long a read waits for a revision that the cache does not have yet.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// Everything a request may need.
#[derive(Debug)]
pub struct Api {
    pub store: Arc<dyn Store>,
    pub hub: Hub,
    pub registry: Registry,
    pub table: &'static Table,
    pub defaults: Defaults<'static>,
    pub gates: Gates,
    pub clock: Arc<dyn Clock>,
    pub admission: admission::Chain,
    /// What is written beside the objects of some resources.
    pub companions: CompanionSet,
    /// What namespaces with quotas use.
    pub tills: Tills,
    pub authenticator: Authenticator,
    /// Makes tokens of service accounts.
    pub issuer: Issuer,
    pub policy: Arc<PolicyIndex>,
    /// Where clients find the server: `127.0.0.1:6443`.
    pub public_address: String,
    pub documents: Documents,
    pub closing: AtomicBool,
}

impl Api {
    /// Waits until the cache holds every write that was answered before.
    pub async fn fresh(&self, call: &Call<'_>) -> Result<(), Status> {
        self.hub
            .current(Instant::now() + WAIT_MAX)
            .await
            .map(|_| ())
            .map_err(|error| match error {
                cache::Error::Closed => shutting_down(),
                _ => Status::server_timeout(&call.resource.group_resource, call.verb, 1),
            })
    }

    /// Waits until the cache is as new as a client asks.
    pub async fn not_older_than(&self, revision: Revision) -> Result<(), Status> {
        let waited = self.hub.wait_for(revision, Instant::now() + WAIT_MAX).await;
        waited.map_err(|error| match error {
            cache::Error::Closed => shutting_down(),
            _ => Status::too_large_resource_version(revision, self.hub.revision(), 1),
        })
    }

    /// Commits, and waits until the cache shows it: a client reads its own writes.
    pub async fn commit(&self, transaction: Transaction) -> Result<Revision, rhumb_store::Error> {
        let revision = self.store.commit(transaction).await?;
        self.seen(revision).await;
        Ok(revision)
    }

    /// Waits until a write can be read. It is durable already: should the cache not catch up in time, the write
    /// is answered all the same. A server that ends has no more reads.
    pub async fn seen(&self, revision: Revision) {
        match self.hub.wait_for(revision, Instant::now() + WAIT_MAX).await {
            Ok(()) | Err(cache::Error::Closed) => {}
            Err(_) if self.is_closing() => {}
            Err(_) => {
                tracing::warn!(%revision, "the cache does not follow the store; a write was answered before it can be read");
            }
        }
    }

    /// Whether the server is on its way out: it finishes what it has, and says so to load balancers.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// An update that turns out to be a creation must be allowed as one.
    pub fn authorize_create(&self, call: &Call<'_>) -> Result<(), Status> {
        let attributes = Attributes {
            api_version: &call.target.version,
            namespace: call.namespace().unwrap_or_default(),
            name: call.name(),
            ..Attributes::resource(
                call.user,
                "create",
                &call.target.group,
                &call.target.resource,
            )
        };
        self.policy
            .policy()
            .authorize(&attributes)
            .require(&attributes)
            .map(|_| ())
    }

    /// A type of the schema table that is no kind of its own.
    pub fn type_named(&self, name: &str) -> Result<TypeId, Status> {
        self.table.named(name).ok_or_else(|| {
            Status::internal_error(format_args!("the schema table has no type {name}"))
        })
    }
}
