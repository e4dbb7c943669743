//! Servers under test: kube-apiserver and rhumb. Each listens on loopback, has its own directory, and stops when its
//! value is dropped, also on panic.

mod certificates;
mod kube_apiserver;
mod process;
mod rhumb;
pub mod scheduler;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::client::RawClient;
use crate::kubeconfig::Kubeconfig;

/// A running server, accessed only through its kubeconfig.
pub trait TestServer: std::fmt::Debug {
    /// The kubeconfig of a user in `system:masters`.
    fn kubeconfig(&self) -> &Path;

    /// Such as `https://127.0.0.1:6443`.
    fn url(&self) -> Result<String> {
        Ok(Kubeconfig::read(self.kubeconfig())?.server)
    }

    fn client(&self) -> Result<RawClient> {
        RawClient::new(&Kubeconfig::read(self.kubeconfig())?)
    }
}

/// A server that the tests did not start.
#[derive(Debug)]
pub struct AlreadyRunningServer {
    pub kubeconfig: PathBuf,
}

impl TestServer for AlreadyRunningServer {
    fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

/// Starts a server by name: `kube-apiserver`, `rhumb`, or the kubeconfig path of a running one.
pub fn start(name: &str) -> Result<Box<dyn TestServer>> {
    Ok(match name {
        "kube-apiserver" => Box::new(kube_apiserver::start()?),
        "rhumb" => Box::new(rhumb::start()?),
        path if Path::new(path).is_file() => Box::new(AlreadyRunningServer {
            kubeconfig: path.into(),
        }),
        other => {
            bail!("unknown server {other:?}: use kube-apiserver, rhumb or the path of a kubeconfig")
        }
    })
}

/// The path of a program: the value of its environment variable, or its path in the build directory.
pub fn tool(variable: &str, name: &str) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(variable) {
        return Ok(path.into());
    }
    let path = target().join("tools").join(name);
    if !path.is_file() {
        bail!(
            "no {name} at {}: run this suite with `cargo xtask interop`, which builds it, or set {variable} to its path",
            path.display()
        );
    }
    Ok(path)
}

/// The admission configuration of both servers.
fn admission_configuration() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("differential/admission.yaml")
}

/// The build directory.
pub fn target() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => root.join(directory),
        None => root.join("target"),
    }
}
