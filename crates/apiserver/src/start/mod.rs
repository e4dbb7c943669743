//! How a server comes to be: caches filled, policy known, the first objects there.

mod accounts;
mod aggregation;
mod amend;
mod bootstrap;
mod companions;
mod expiry;
mod indexes;
mod policy;
mod policy_status;
mod services;
mod token_use;
mod upkeep;

pub(crate) use amend::{Amended, amend_all};
pub use indexes::{Indexes, IndexesError};

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rhumb_api::{Gates, Kind};
use rhumb_auth::Authenticator;
use rhumb_auth::authn::TokenFile;
use rhumb_auth::token::{Issuer, SigningKey, Verifier};
use rhumb_cache::Hub;
use rhumb_meta::{Clock, StoragePrefix};
use rhumb_schema::{Defaults, Table, TableError};
use rhumb_store::Store;

use crate::objects::{AsStored, Projection};
use crate::openapi::Documents;
use crate::quota::{self, TURNS, Tills, TurnKeys, Turns};
use crate::resources::allocation::{NODE_PORTS, ServiceAllocator, ServiceRanges};
use crate::resources::{CompanionSet, Registry, RegistryError, forms, stored_kinds};
use crate::{Api, admission};

/// What a server is made of.
#[derive(Debug)]
pub struct Options {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub gates: Gates,
    pub tokens: Option<TokenFile>,
    pub service_account_key: SigningKey,
    /// What tokens name as their issuer.
    pub issuer: String,
    /// Where clients find the server: `127.0.0.1:6443`.
    pub public_address: String,
    pub admission: admission::Chain,
    pub services: ServiceRanges,
    pub indexes: Indexes,
    /// Where pods find the server; without it the `kubernetes` service has no endpoints.
    pub advertised: Option<SocketAddr>,
    /// How long an event stays that nobody writes again; zero is for ever.
    pub event_ttl: Duration,
    /// Whether policies are told what a type checker thinks of them.
    pub policy_status: bool,
    /// Whether quotas are told what is used.
    pub quota_status: bool,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the store cannot be read: {0}")]
    Cache(#[from] rhumb_cache::Error),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error("the schema table is broken: {0}")]
    Table(#[from] TableError),
    #[error("a kind has a storage path that cannot be: {0}")]
    Path(#[from] rhumb_meta::key::Error),
    #[error("the first objects cannot be stored: {0}")]
    Bootstrap(String),
}

impl Api {
    /// A server that is ready to answer.
    pub async fn start(options: Options) -> Result<Arc<Api>, StartError> {
        let table = Table::builtin();
        let kinds = rhumb_api::kinds::all();
        let hub = start_hub(&options, &kinds).await?;
        let registry = Registry::new(kinds, table, &options.gates, |prefix| hub.cache(prefix))?;
        let (policy, roles_changed) = policy::follow(&registry);
        let node_ports = hub
            .cache(&StoragePrefix::new(NODE_PORTS)?)
            .ok_or_else(|| StartError::Bootstrap("node ports are not cached".to_owned()))?;
        let turns = hub
            .cache(&StoragePrefix::new(TURNS)?)
            .ok_or_else(|| StartError::Bootstrap("turns are not cached".to_owned()))?;
        let turns = Arc::new(Turns::new(turns, options.store.is_shared()));
        turns.follow();
        let allocator = ServiceAllocator::new(options.services.clone(), node_ports);
        let (uses, notes) = token_use::notes();
        let accounts = accounts::Accounts::new(&registry, uses);
        let (authenticator, issuer) =
            service_accounts(options.issuer, options.service_account_key, accounts);
        options.admission.follow(&registry);
        let api = Arc::new(Api {
            store: options.store,
            hub,
            table,
            defaults: Defaults::new(table, rhumb_api::defaults::by_type_for(&options.gates))?,
            gates: options.gates,
            clock: options.clock,
            admission: options.admission,
            companions: CompanionSet::default()
                .with("", "services", allocator)
                .with("", "resourcequotas", TurnKeys::of_quotas(turns.clone()))
                .with("", "namespaces", TurnKeys::of_namespaces(turns.clone())),
            tills: Tills::new(&registry, turns),
            authenticator: match options.tokens {
                Some(tokens) => authenticator.with_token_file(tokens),
                None => authenticator,
            },
            issuer,
            policy,
            registry,
            public_address: options.public_address,
            documents: Documents::default(),
            closing: AtomicBool::new(false),
        });
        bootstrap::run(&api).await.map_err(StartError::Bootstrap)?;
        companions::repair(&api).await;
        companions::keep_addresses(&api);
        services::run(&api, &options.services, options.advertised)
            .await
            .map_err(StartError::Bootstrap)?;
        upkeep::keep(&api, options.services, options.advertised);
        aggregation::keep(&api, roles_changed);
        token_use::keep(&api, notes);
        if options.policy_status {
            policy_status::keep(&api);
        }
        quota::keep(&api, options.quota_status);
        if !options.event_ttl.is_zero() {
            expiry::keep(&api, options.event_ttl);
        }
        Ok(api)
    }
}

async fn start_hub(options: &Options, kinds: &[Kind]) -> Result<Hub, StartError> {
    let mut resources = Vec::new();
    for (path, stored) in stored_kinds(kinds) {
        resources.push(rhumb_cache::Resource {
            prefix: StoragePrefix::new(path)?,
            projector: Arc::new(Projection::new(
                stored.kind,
                &stored.api_version,
                forms(path, kinds, Table::builtin(), &options.gates)?,
            )),
            indexes: options.indexes.of(stored.kind, path),
        });
    }
    for notes in [NODE_PORTS, TURNS] {
        resources.push(rhumb_cache::Resource {
            prefix: StoragePrefix::new(notes)?,
            projector: Arc::new(AsStored),
            indexes: Vec::new(),
        });
    }
    let cache_options = rhumb_cache::Options {
        clock: options.clock.clone(),
        index: options.indexes.options(&options.gates),
        ..rhumb_cache::Options::default()
    };
    let root = format!("{}/", rhumb_meta::key::DEFAULT_ROOT);
    Ok(Hub::start(options.store.clone(), &root, resources, cache_options).await?)
}

/// Who checks tokens of service accounts, and who makes them.
fn service_accounts(
    issuer: String,
    key: SigningKey,
    accounts: accounts::Accounts,
) -> (Authenticator, Issuer) {
    let audiences = vec![issuer.clone()];
    let verifier = Verifier::new(
        issuer.clone(),
        audiences.clone(),
        vec![key.public().clone()],
        Arc::new(accounts),
    );
    let authenticator = Authenticator::new().with_service_accounts(Arc::new(verifier));
    (authenticator, Issuer::new(issuer, audiences, key))
}
