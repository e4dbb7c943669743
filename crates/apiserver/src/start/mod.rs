//! Assembles an API server: fills the caches, builds authentication and authorization, creates the bootstrap objects
//! and spawns the background tasks. Entry point: [`start`].

mod allocation_repair;
mod bootstrap;
mod bootstrap_reconciler;
mod event_ttl;
mod index_config;
mod kubernetes_service;
mod legacy_token_tracking;
mod metrics_sources;
mod rbac_reflector;
mod token_lookup;

pub use index_config::{LabelIndexSettingError, ListIndexConfig};
use metrics_sources::{AdmissionMetricsSource, QuotaMetricsSource};
pub use rhumb_cache::COMPACTION_INTERVAL;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use arc_swap::ArcSwap;
use rhumb_api::{FeatureGates, Kind};
use rhumb_auth::authn::TokenFile;
use rhumb_auth::token::{SigningKey, TokenIssuer, TokenVerifier};
use rhumb_auth::{Authenticator, Authorizer};
use rhumb_cache::CacheManager;
use rhumb_meta::{Clock, StoragePrefix};
use rhumb_schema::{ObjectDefaulter, Table, TableError};
use rhumb_store::Store;

use rhumb_admission_plugins::{AdmissionPlugins, ServerServices};
use rhumb_handlers::ServerState;
use rhumb_handlers::openapi::OpenApiDocumentCache;
use rhumb_handlers::resources::DisruptionBudgetIndex;
use rhumb_quota_enforcement::{
    self, EPOCHS_PATH, EpochSideEffects, QuotaEnforcer, QuotaEpochs, QuotaReadHook,
};
use rhumb_registry::Registry;
use rhumb_registry::objects::RawProjector;
use rhumb_registry::service_allocation::{
    NODE_PORTS_PATH, ServiceAllocationRanges, ServiceAllocator,
};
use rhumb_registry::{
    AllocatorSet, KindRegistrationError, KindSet, ReadHooks, ResourceTable, cache_configs,
};

/// Configuration of an API server.
#[derive(Debug)]
pub struct ApiServerOptions {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub gates: FeatureGates,
    pub tokens: Option<TokenFile>,
    pub service_account_key: SigningKey,
    /// Issuer of service account tokens (`--service-account-issuer`).
    pub issuer: String,
    /// Host and port that clients use to reach the server: `127.0.0.1:6443`.
    pub public_address: String,
    pub admission: AdmissionPlugins,
    pub services: ServiceAllocationRanges,
    pub indexes: ListIndexConfig,
    /// Address in the endpoints of the `kubernetes` service; without it the service has no endpoints.
    pub advertised: Option<SocketAddr>,
    /// How long an event is kept after its last write; zero keeps events forever.
    pub event_ttl: Duration,
    /// Continue tokens are valid for at least this long, and for at most twice as long.
    pub compaction_interval: Duration,
    /// Whether a read of ResourceQuotas brings their status up to date first.
    pub quota_status: bool,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("failed to load the caches from the store: {0}")]
    Cache(#[from] rhumb_cache::Error),
    #[error(transparent)]
    Registry(#[from] KindRegistrationError),
    #[error("the built-in schema table is invalid: {0}")]
    Table(#[from] TableError),
    #[error("a kind has an invalid storage path: {0}")]
    Path(#[from] rhumb_meta::key::InvalidKeyError),
    #[error("failed to create the bootstrap objects: {0}")]
    Bootstrap(String),
}

/// Starts a server that is ready to serve requests.
pub async fn start(options: ApiServerOptions) -> Result<Arc<ServerState>, StartError> {
    let table = Table::builtin();
    let kinds = rhumb_api::kinds::all();
    let cache_manager = start_cache_manager(&options, &kinds).await?;
    let defaults =
        ObjectDefaulter::new(table, rhumb_api::defaults::enabled_by_type(&options.gates))?;
    let defaults = Arc::new(defaults);
    let set = KindSet {
        kinds,
        table: Arc::clone(table),
        defaults: Arc::clone(&defaults),
        openapi_schemas: Arc::default(),
    };
    let resources = ResourceTable::new(set, &options.gates, |prefix| cache_manager.cache(prefix))?;
    let policy = rbac_reflector::start(&resources).await;
    let node_ports = cache_manager
        .cache(&StoragePrefix::new(NODE_PORTS_PATH)?)
        .ok_or_else(|| StartError::Bootstrap("node ports are not cached".to_owned()))?;
    let epochs = cache_manager
        .cache(&StoragePrefix::new(EPOCHS_PATH)?)
        .ok_or_else(|| StartError::Bootstrap("quota epochs are not cached".to_owned()))?;
    let epochs = Arc::new(QuotaEpochs::new(epochs, options.store.is_shared()));
    epochs.spawn_watch();
    let allocator = ServiceAllocator::new(options.services.clone(), node_ports);
    let (token_use_sender, token_use_receiver) = legacy_token_tracking::channel();
    let accounts = token_lookup::TokenObjectLookup::new(&resources, token_use_sender);
    let (authenticator, issuer) =
        service_account_tokens(options.issuer, options.service_account_key, accounts);
    let quota_enforcer = Arc::new(QuotaEnforcer::new(&resources, Arc::clone(&epochs)));
    let admission = options.admission;
    admission.attach(
        &resources,
        ServerServices {
            policy: Arc::clone(&policy),
            quota_enforcer: Arc::clone(&quota_enforcer),
        },
    );
    let registry = Arc::new(Registry {
        store: options.store,
        cache_manager,
        resources: ArcSwap::from_pointee(resources),
        resource_updates: parking_lot::Mutex::default(),
        table: Arc::clone(table),
        defaults,
        gates: options.gates,
        clock: options.clock,
        admission: admission.chain().clone(),
        allocators: allocators(allocator, &epochs),
        read_hooks: read_hooks(&quota_enforcer, options.quota_status),
        authorizer: Arc::clone(&policy) as Arc<dyn Authorizer + Send + Sync>,
        shutting_down: AtomicBool::new(false),
    });
    let state = Arc::new(ServerState {
        registry,
        authenticator: match options.tokens {
            Some(tokens) => authenticator.with_token_file(tokens),
            None => authenticator,
        },
        issuer,
        policy,
        public_address: options.public_address,
        openapi_documents: OpenApiDocumentCache::default(),
        disruption_budgets: DisruptionBudgetIndex::default(),
        metrics_sources: vec![
            Arc::new(AdmissionMetricsSource(admission)),
            Arc::new(QuotaMetricsSource(Arc::clone(&quota_enforcer))),
        ],
    });
    let registry = &state.registry;
    bootstrap::create_bootstrap_objects(registry)
        .await
        .map_err(StartError::Bootstrap)?;
    allocation_repair::repair_all(registry).await;
    allocation_repair::spawn_address_repair(registry);
    kubernetes_service::bootstrap_service_access(registry, &options.services, options.advertised)
        .await
        .map_err(StartError::Bootstrap)?;
    bootstrap_reconciler::spawn(registry, options.services, options.advertised);
    legacy_token_tracking::spawn(registry, token_use_receiver);
    rhumb_quota_enforcement::spawn_tracking(registry, &quota_enforcer);
    if !options.event_ttl.is_zero() {
        event_ttl::spawn(registry, options.event_ttl);
    }
    Ok(state)
}

fn read_hooks(quota_enforcer: &Arc<QuotaEnforcer>, quota_status: bool) -> ReadHooks {
    let hooks = ReadHooks::default();
    match quota_status {
        true => {
            let hook = QuotaReadHook(Arc::clone(quota_enforcer));
            hooks.with_hook("", "resourcequotas", hook)
        }
        false => hooks,
    }
}

fn allocators(services: ServiceAllocator, epochs: &Arc<QuotaEpochs>) -> AllocatorSet {
    AllocatorSet::default()
        .with_allocator("", "services", services)
        .with_allocator(
            "",
            "resourcequotas",
            EpochSideEffects::for_quotas(Arc::clone(epochs)),
        )
        .with_allocator(
            "",
            "namespaces",
            EpochSideEffects::for_namespaces(Arc::clone(epochs)),
        )
}

async fn start_cache_manager(
    options: &ApiServerOptions,
    kinds: &[Kind],
) -> Result<CacheManager, StartError> {
    let mut resources = cache_configs(kinds, Table::builtin(), &options.gates, |kind, path| {
        options.indexes.attributes_for(kind, path)
    })?;
    for prefix_path in [NODE_PORTS_PATH, EPOCHS_PATH] {
        resources.push(rhumb_cache::ResourceCacheConfig {
            prefix: StoragePrefix::new(prefix_path)?,
            projector: Arc::new(RawProjector),
            indexes: Vec::new(),
        });
    }
    let cache_options = rhumb_cache::CacheOptions {
        clock: options.clock.clone(),
        index: options.indexes.options(&options.gates),
        compaction_interval: options.compaction_interval,
        ..rhumb_cache::CacheOptions::default()
    };
    let root = format!("{}/", rhumb_meta::key::DEFAULT_ROOT);
    Ok(CacheManager::start(options.store.clone(), &root, resources, cache_options).await?)
}

/// Builds the verifier and the issuer of service account tokens.
fn service_account_tokens(
    issuer: String,
    key: SigningKey,
    accounts: token_lookup::TokenObjectLookup,
) -> (Authenticator, TokenIssuer) {
    let audiences = vec![issuer.clone()];
    let verifier = TokenVerifier::new(
        issuer.clone(),
        audiences.clone(),
        vec![key.public().clone()],
        Arc::new(accounts),
    );
    let authenticator = Authenticator::new().with_service_accounts(Arc::new(verifier));
    (authenticator, TokenIssuer::new(issuer, audiences, key))
}
