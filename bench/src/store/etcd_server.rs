//! An etcd server as its users run it: with its default settings, so with fsync.

use std::path::Path;

use anyhow::{Context, Result};
use rhumb_etcd_harness::{EtcdConfig, EtcdServer, free_ports};

pub(crate) async fn start_etcd(program: &str, directory: &Path) -> Result<EtcdServer> {
    let config = EtcdConfig {
        binary: program.into(),
        directory: Some(directory.to_owned()),
        ..EtcdConfig::default()
    };
    let config = config.with_arguments(&["--quota-backend-bytes", "8589934592"]);
    let server = EtcdServer::launch(config).await;
    server.with_context(|| format!("failed to start {program}: install the package etcd-server"))
}

pub(crate) fn free_port() -> Result<u16> {
    let [port] = free_ports()?;
    Ok(port)
}
