//! Real etcd servers on free loopback ports: for tests, benchmarks and comparisons, never for the product. Entry points:
//! [`EtcdServer::start`] for tests, which panic if it fails, and [`EtcdServer::launch`].

mod ports;
mod server;

use std::ffi::OsString;
use std::path::PathBuf;

pub use ports::free_ports;
pub use server::EtcdServer;

/// How to run a server.
#[derive(Debug, Clone)]
pub struct EtcdConfig {
    pub binary: OsString,
    /// The directory of its data and its log. `None` for a temporary one.
    pub directory: Option<PathBuf>,
    /// Further arguments.
    pub arguments: Vec<String>,
    /// Of the client endpoint: `http` or `https`.
    pub scheme: &'static str,
}

impl Default for EtcdConfig {
    /// etcd's own settings, with the binary that `RHUMB_TEST_ETCD` names, or `etcd` on the `PATH`.
    fn default() -> EtcdConfig {
        EtcdConfig {
            binary: std::env::var_os("RHUMB_TEST_ETCD").unwrap_or_else(|| "etcd".into()),
            directory: None,
            arguments: Vec::new(),
            scheme: "http",
        }
    }
}

impl EtcdConfig {
    /// Adds arguments. Later ones take precedence.
    #[must_use]
    pub fn with_arguments(mut self, arguments: &[&str]) -> EtcdConfig {
        let arguments = arguments.iter().map(|&argument| argument.to_owned());
        self.arguments.extend(arguments);
        self
    }
}
