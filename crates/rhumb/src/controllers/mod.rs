//! `rhumb controllers`, and the parts by which `rhumb up` runs the controllers (upstream: kube-controller-manager).

mod component_thread;
mod flags;
mod token_signer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Args;
use rhumb_controllers::NetworkPolicyStatusCollector;
use rhumb_handlers::MetricsSource;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

pub(crate) use component_thread::{ComponentThread, keep, start};
pub(crate) use flags::ControllerFlags;
pub(crate) use token_signer::LegacyTokenSigner;

use crate::clients;
use crate::logging::LoggingFlags;
use crate::metrics_server::{self, MonitoredComponent};
use crate::pki;

/// The metrics of the controllers, for `/metrics` of the server in the same process.
#[derive(Debug)]
pub(crate) struct ControllerMetricsSource(pub(crate) Arc<NetworkPolicyStatusCollector>);

impl MetricsSource for ControllerMetricsSource {
    fn encode(&self, text: &mut String) -> fmt::Result {
        self.0.encode(text)
    }
}

/// The last line of OpenMetrics text.
const OPENMETRICS_END: &str = "# EOF\n";

/// `/metrics` and `/readyz` of `rhumb controllers`. A standby is ready, and has no metrics of controllers.
struct ControllersMonitor(Arc<NetworkPolicyStatusCollector>);

impl MonitoredComponent for ControllersMonitor {
    fn metrics(&self) -> Option<String> {
        let mut text = String::new();
        self.0.encode(&mut text).ok()?;
        text.push_str(OPENMETRICS_END);
        Some(text)
    }

    fn unready(&self) -> Option<String> {
        None
    }
}

#[derive(Args, Debug)]
pub(crate) struct ControllersCommand {
    /// Kubeconfig of the API server [default: $KUBECONFIG, ~/.kube/config, or the pod's service account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// CA bundle that is published to pods as kube-root-ca.crt [default: the CA in the kubeconfig].
    #[arg(long, value_name = "FILE")]
    root_ca_file: Option<PathBuf>,
    /// Private key that signs tokens of service account secrets; the API server must trust it [default: no tokens are
    /// issued].
    #[arg(long, value_name = "FILE")]
    service_account_private_key_file: Option<PathBuf>,
    /// Run each controller with its own service account in kube-system.
    #[arg(long)]
    use_service_account_credentials: bool,
    /// Address for metrics and health checks, over HTTP and without authentication; empty disables it.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:10257")]
    metrics_address: String,
    #[command(flatten)]
    flags: ControllerFlags,
    #[command(flatten)]
    pub(crate) logging: LoggingFlags,
}

pub(crate) fn run(command: ControllersCommand) -> Result<ExitCode> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?
        .block_on(control(command))?;
    Ok(ExitCode::SUCCESS)
}

async fn control(command: ControllersCommand) -> Result<()> {
    let stop = crate::up::stop_on_signals()?;
    let selected = command.flags.select()?;
    let (connect, server_ca) = clients::over_https(
        command.kubeconfig.as_deref(),
        command.use_service_account_credentials,
    )
    .await?;
    let root_ca = match &command.root_ca_file {
        Some(path) => {
            Some(read_bundle(path).with_context(|| format!("--root-ca-file {}", path.display()))?)
        }
        None => server_ca,
    };
    let signer = match &command.service_account_private_key_file {
        Some(path) => Some(read_signer(path).with_context(|| {
            let path = path.display();
            format!("--service-account-private-key-file {path}")
        })?),
        None => None,
    };
    let options = command.flags.options(unique_identity(), root_ca, signer);
    if !command.metrics_address.is_empty() {
        let listener = metrics_server::bind(&command.metrics_address).await?;
        let monitor = ControllersMonitor(options.network_policy_metrics.clone());
        tokio::spawn(metrics_server::serve(listener, monitor));
    }
    tracing::info!(
        server = connect.server(),
        controllers = selected.len(),
        lease = format_args!("{}/{}", options.election.namespace, options.election.name),
        "waiting for the leader election lease before controllers start"
    );
    rhumb_controllers::run(Arc::new(connect), selected, options, stop).await;
    Ok(())
}

/// Reads PEM certificates. A private key in the file is an error, because the bundle is published to every namespace.
fn read_bundle(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path)?;
    let certificates: Vec<CertificateDer<'_>> = CertificateDer::pem_slice_iter(text.as_bytes())
        .collect::<Result<_, _>>()
        .context("no certificates in PEM")?;
    ensure!(!certificates.is_empty(), "no certificates in PEM");
    ensure!(
        !text.contains("PRIVATE KEY-----"),
        "contains a private key, but the bundle is published to every namespace"
    );
    Ok(text)
}

fn read_signer(path: &Path) -> Result<LegacyTokenSigner> {
    let text = std::fs::read_to_string(path)?;
    Ok(LegacyTokenSigner::File(pki::read_signing_key(&text)?))
}

/// A leader election identity that is unique to this process.
pub(crate) fn unique_identity() -> String {
    let host = pki::host_name().unwrap_or_default();
    format!("{host}_{}", uuid::Uuid::new_v4())
}
