//! `rhumb up`: starts the API server with its store, certificates, controllers, scheduler and simulated nodes in one
//! process. Entry point: [`run`].

mod flags;
mod open_files;
mod store;
mod tls;

use std::io::{IsTerminal, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rhumb_api::FeatureGates;
use rhumb_api::feature_gates::Feature;
use rhumb_apiserver::ApiServerOptions;
use rhumb_auth::authn::TokenFile;
use rhumb_auth::{User, group, name};
use rhumb_handlers::ServerState;
use rhumb_meta::{Clock, SystemClock};
use rhumb_registry::service_allocation::ServiceAllocationRanges;
use rhumb_scheduler::metrics::Metrics as SchedulerMetrics;
use rhumb_server::{ConnectionLimits, HttpsServer};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub(crate) use flags::UpFlags;

use crate::clients::InProcessClientFactory;
use crate::controllers::{self, ComponentThread};
use crate::pki;
use crate::scheduler;
use crate::simulation;

/// How long requests in progress may take after a shutdown signal.
const DRAIN_MAX: Duration = Duration::from_secs(20);

pub(crate) fn run(flags: UpFlags) -> Result<ExitCode> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?
        .block_on(serve(flags))?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(flags: UpFlags) -> Result<()> {
    let started = Instant::now();
    let open_files = open_files::raise_limit();
    let stop = stop_on_signals()?;
    let selected = flags.controllers.select()?;
    let (gates, notes) = FeatureGates::parse(&flags.feature_gates).context("--feature-gates")?;
    for note in notes {
        tracing::warn!("{note}");
    }
    if let Some(warning) = flags.scheduler_warning() {
        tracing::warn!("{warning}");
    }
    let scheduling = match flags.wants_scheduler() {
        true => {
            let mut config = scheduler::read_config(flags.scheduler_config.as_deref())?;
            config.namespace_selectors = gates.enabled(Feature::PodAffinityNamespaceSelector);
            Some(config)
        }
        false => None,
    };
    let node_pools = flags.simulation.node_pools()?;
    let admission = flags.admission()?;
    let services = flags.services()?;
    let indexes = flags.indexes()?;
    if indexes.has_labels() && !gates.enabled(Feature::CacherLabelIndex) {
        tracing::warn!("--index-labels has no effect: feature gate CacherLabelIndex is disabled");
    }
    let tokens = flags
        .token_auth_file
        .as_deref()
        .map(read_tokens)
        .transpose()?;
    let directory = flags.data_dir()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let listener = listen(&flags).await?;
    let address = listener
        .local_addr()
        .context("failed to read the listening address")?;
    let advertised = flags.advertised();
    let names = server_names(address, &services, advertised);
    let pki = pki::open(&directory, &names, clock.wall())?;
    let url = format!("https://{}", reachable(address));
    let kubeconfig = directory.join(pki::ADMIN_KUBECONFIG);
    let tls = tls::config(&pki)?;
    // Kubeconfigs are written after the store is locked: another server may use this directory.
    let (store, store_name) = store::open(&flags, &directory).await?;
    pki::write_kubeconfigs(&directory, &pki, &url)?;
    let api = rhumb_apiserver::start(ApiServerOptions {
        store,
        clock,
        gates,
        tokens,
        service_account_key: pki.service_account_key,
        issuer: flags.service_account_issuer.clone(),
        public_address: reachable(address).to_string(),
        admission,
        services,
        indexes,
        advertised: advertised.map(|ip| SocketAddr::new(ip, address.port())),
        event_ttl: flags.event_ttl,
        compaction_interval: rhumb_apiserver::COMPACTION_INTERVAL,
        quota_status: flags.controllers.wants_quota_status(),
    })
    .await?;
    let mut service = flags.service(api.clone())?;
    let counted = Arc::<SchedulerMetrics>::default();
    if scheduling.is_some() {
        service
            .metrics
            .add_source(Arc::new(scheduler::SchedulerMetricsSource(counted.clone())));
    }
    let options = flags.controllers.options(
        identity(&flags),
        Some(pki.ca_pem.clone()),
        Some(controllers::LegacyTokenSigner::Server(api.clone())),
    );
    let policies = options.network_policy_metrics.clone();
    service
        .metrics
        .add_source(Arc::new(controllers::ControllerMetricsSource(policies)));
    let service = Arc::new(service);
    let connect = Arc::new(InProcessClientFactory::new(service.clone()));
    let scheduler = match scheduling {
        Some(config) => Some(start_scheduler(
            &connect,
            scheduler::options(config, identity(&flags), counted)?,
            stop.clone(),
        )?),
        None => None,
    };
    let nodes = node_pools.as_ref().map(simulation::describe);
    let simulation = node_pools
        .map(|node_pools| simulation::start(&connect, node_pools, stop.clone()))
        .transpose()?;
    let controllers = controllers::start(connect, selected, options, stop.clone())?;
    let server = HttpsServer {
        listener,
        tls,
        service,
        limits: connection_limits(open_files),
    };
    let server = tokio::spawn(server.run(stop.clone(), DRAIN_MAX));
    print_ready(
        &url,
        &directory,
        &store_name,
        &kubeconfig,
        nodes.as_deref(),
        started.elapsed(),
    );
    stop.cancelled().await;
    // Components release their leases while the server still answers.
    if let Some(scheduler) = scheduler {
        scheduler.ended().await;
    }
    controllers.ended().await;
    if let Some(simulation) = simulation {
        simulation.ended().await;
    }
    end(&api).await;
    server.await.context("the server task panicked")?;
    print_line("stopped");
    Ok(())
}

/// Starts the scheduler in this process, as the user system:kube-scheduler.
fn start_scheduler(
    connect: &Arc<InProcessClientFactory>,
    options: rhumb_scheduler::run::RunOptions,
    stop: CancellationToken,
) -> Result<ComponentThread> {
    let (connect, token) = (connect.clone(), stop.clone());
    controllers::keep("scheduler", stop, move || {
        let user = User::new(name::SCHEDULER, &[group::AUTHENTICATED]);
        rhumb_scheduler::run::run(connect.client_of(user), options.clone(), token.clone())
    })
}

/// The leader election identity. With the embedded store it is fixed, because only one server can open that store: after
/// a crash, the new process continues the lease of the old one.
fn identity(flags: &UpFlags) -> String {
    let host = pki::host_name().unwrap_or_default();
    if flags.etcd_servers.is_empty() {
        format!("{host}_rhumb-up")
    } else {
        controllers::unique_identity()
    }
}

/// All names and addresses for the serving certificate.
fn server_names(
    address: SocketAddr,
    services: &ServiceAllocationRanges,
    advertised: Option<IpAddr>,
) -> pki::ServerCertificateNames {
    // The service `kubernetes` has the first address of the range.
    let service = services
        .api_server_address()
        .unwrap_or(IpAddr::from([10, 0, 0, 1]));
    let mut names = pki::ServerCertificateNames::new(service);
    names.add_address(address.ip());
    if let Some(advertised) = advertised {
        names.add_address(advertised);
    }
    if let Some(host) = pki::host_name() {
        names.add_host(&host);
    }
    names
}

/// Ends watches; other requests complete.
async fn end(api: &ServerState) {
    print_line("stopping: waiting for requests in progress");
    api.registry.shut_down().await;
}

pub(crate) fn stop_on_signals() -> Result<CancellationToken> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate =
        signal(SignalKind::terminate()).context("failed to install signal handlers")?;
    let mut interrupt =
        signal(SignalKind::interrupt()).context("failed to install signal handlers")?;
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        token.cancel();
    });
    Ok(stop)
}

fn read_tokens(path: &Path) -> Result<TokenFile> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("the token file {}", path.display()))?;
    TokenFile::parse(&text).with_context(|| format!("the token file {}", path.display()))
}

async fn listen(flags: &UpFlags) -> Result<TcpListener> {
    let address = SocketAddr::new(flags.bind_address, flags.secure_port);
    TcpListener::bind(address)
        .await
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => anyhow!(
                "port {} on {} is in use; stop what uses it, or choose another with --secure-port",
                address.port(),
                address.ip()
            ),
            std::io::ErrorKind::PermissionDenied => anyhow!(
                "permission denied to listen on port {}; choose one above 1023 with --secure-port",
                address.port()
            ),
            std::io::ErrorKind::AddrNotAvailable => anyhow!(
                "this machine has no address {}; give one that it has with --bind-address",
                address.ip()
            ),
            _ => anyhow!("failed to listen on {address}: {error}"),
        })
}

/// The address at which a client on this machine reaches a listener on `address`.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        ip if !ip.is_unspecified() => address,
        ip if ip.is_ipv4() => SocketAddr::new([127, 0, 0, 1].into(), address.port()),
        _ => SocketAddr::new(std::net::Ipv6Addr::LOCALHOST.into(), address.port()),
    }
}

/// The default limits, with fewer connections if the limit on open files requires it.
fn connection_limits(open_files: u64) -> ConnectionLimits {
    let limits = ConnectionLimits::default();
    let connections_max = open_files::connections_within(open_files);
    if connections_max < limits.connections_max {
        tracing::warn!(
            open_files,
            connections_max,
            "the limit on open files is low; accepting fewer connections than usual, raise it with ulimit -n or LimitNOFILE"
        );
    }
    ConnectionLimits {
        connections_max: connections_max.min(limits.connections_max),
        ..limits
    }
}

fn print_ready(
    url: &str,
    directory: &Path,
    store: &str,
    kubeconfig: &Path,
    nodes: Option<&str>,
    took: Duration,
) {
    let (bold, plain) = if std::io::stdout().is_terminal() {
        ("\x1b[1m", "\x1b[0m")
    } else {
        ("", "")
    };
    let shown: PathBuf = kubeconfig.to_owned();
    let nodes = nodes.map_or_else(String::new, |nodes| format!("  nodes   {nodes}\n"));
    print_line(&format!(
        "{bold}rhumb {}{plain} · Kubernetes v1.36 · {url}\n  data    {} ({store})\n  use it  export KUBECONFIG={}\n{nodes}{bold}ready{plain} in {} ms",
        env!("CARGO_PKG_VERSION"),
        directory.display(),
        shown.display(),
        took.as_millis(),
    ));
}

/// Prints a line to standard output. Errors, such as a closed pipe, are ignored.
fn print_line(text: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{text}");
    let _ = out.flush();
}
