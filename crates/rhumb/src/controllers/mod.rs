//! The controllers: `rhumb controllers`, and what `rhumb up` needs to run them inside.

mod flags;
mod signer;
mod thread;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Args;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

pub(crate) use flags::ControllerFlags;
pub(crate) use signer::Signer;
pub(crate) use thread::{Running, keep, start};

use crate::connect;
use crate::pki;

#[derive(Args, Debug)]
pub(crate) struct Command {
    /// How to reach the API server [default: $KUBECONFIG, ~/.kube/config, or the pod's own account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The certificates that pods get to know the API server by [default: those in the kubeconfig].
    #[arg(long, value_name = "FILE")]
    root_ca_file: Option<PathBuf>,
    /// The key that tokens in secrets are signed with: one that the API server knows [default: they get none].
    #[arg(long, value_name = "FILE")]
    service_account_private_key_file: Option<PathBuf>,
    /// Have each controller act as its own service account in kube-system, with a token of that account.
    #[arg(long)]
    use_service_account_credentials: bool,
    #[command(flatten)]
    flags: ControllerFlags,
}

pub(crate) fn run(command: Command) -> Result<ExitCode> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("no threads can be started")?
        .block_on(control(command))?;
    Ok(ExitCode::SUCCESS)
}

async fn control(command: Command) -> Result<()> {
    let stop = crate::up::stop_on_signals()?;
    let selected = command.flags.select()?;
    let (connect, server_ca) = connect::over_https(
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
    tracing::info!(
        server = connect.server(),
        controllers = selected.len(),
        lease = format_args!("{}/{}", options.election.namespace, options.election.name),
        "controllers begin once this process has the lease"
    );
    rhumb_controllers::run(Arc::new(connect), selected, options, stop).await;
    Ok(())
}

/// Certificates in PEM, and nothing that should not be told to everyone: every namespace gets them.
fn read_bundle(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path)?;
    let certificates: Vec<CertificateDer<'_>> = CertificateDer::pem_slice_iter(text.as_bytes())
        .collect::<Result<_, _>>()
        .context("no certificates in PEM")?;
    ensure!(!certificates.is_empty(), "no certificates in PEM");
    ensure!(
        !text.contains("PRIVATE KEY-----"),
        "it holds a private key, which nobody else should see"
    );
    Ok(text)
}

fn read_signer(path: &Path) -> Result<Signer> {
    let text = std::fs::read_to_string(path)?;
    Ok(Signer::File(pki::read_signing_key(&text)?))
}

/// A name for this process that no other has.
pub(crate) fn unique_identity() -> String {
    let host = pki::host_name().unwrap_or_default();
    format!("{host}_{}", uuid::Uuid::new_v4())
}
