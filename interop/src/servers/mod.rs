//! Servers to ask: the real kube-apiserver, and rhumb. Each runs on loopback in a directory of its own, and
//! ends when its value is dropped, also by a panic.

mod certificates;
mod kubernetes;
mod process;
mod rhumb;
pub mod scheduler;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::client::Client;
use crate::kubeconfig::Kubeconfig;

/// A running server. What can be asked of it depends on nothing but its kubeconfig.
pub trait Server: std::fmt::Debug {
    /// The kubeconfig of a user in `system:masters`.
    fn kubeconfig(&self) -> &Path;

    /// Such as `https://127.0.0.1:6443`.
    fn url(&self) -> Result<String> {
        Ok(Kubeconfig::read(self.kubeconfig())?.server)
    }

    fn client(&self) -> Result<Client> {
        Client::new(&Kubeconfig::read(self.kubeconfig())?)
    }
}

/// A server that somebody else runs.
#[derive(Debug)]
pub struct Running {
    pub kubeconfig: PathBuf,
}

impl Server for Running {
    fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

/// Starts a server by its name: `kube-apiserver`, `rhumb`, or the path of a kubeconfig of one that runs.
pub fn start(name: &str) -> Result<Box<dyn Server>> {
    Ok(match name {
        "kube-apiserver" => Box::new(kubernetes::start()?),
        "rhumb" => Box::new(rhumb::start()?),
        path if Path::new(path).is_file() => Box::new(Running {
            kubeconfig: path.into(),
        }),
        other => bail!("{other} is neither kube-apiserver, nor rhumb, nor a kubeconfig"),
    })
}

/// Where the tools are that tests need, by a variable that says it or else by their place in the build directory.
pub fn tool(variable: &str, name: &str) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(variable) {
        return Ok(path.into());
    }
    let path = target().join("tools").join(name);
    if !path.is_file() {
        bail!(
            "no {name}: `cargo xtask interop` builds it, or {variable} says where it is ({} is not there)",
            path.display()
        );
    }
    Ok(path)
}

/// The configuration of admission that both servers have.
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
