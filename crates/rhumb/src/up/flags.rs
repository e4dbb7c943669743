//! The flags of `rhumb up`. Those that kube-apiserver has too have its names.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct Flags {
    /// Where certificates, the kubeconfig and the embedded store are kept [default: ~/.local/share/rhumb].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The port to serve on; 0 takes a free one.
    #[arg(long, value_name = "N", default_value_t = 6443)]
    pub(super) secure_port: u16,
    /// The address to serve on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(super) bind_address: IpAddr,
    /// Static tokens: a CSV file of token,user,uid,"group1,group2".
    #[arg(long, value_name = "CSV")]
    pub(super) token_auth_file: Option<PathBuf>,
    /// Features to turn on or off: Name=true,Other=false.
    #[arg(
        long,
        value_name = "GATES",
        default_value = "",
        hide_default_value = true
    )]
    pub(super) feature_gates: String,
    /// What service-account tokens name as their issuer.
    #[arg(
        long,
        value_name = "URL",
        default_value = "https://kubernetes.default.svc"
    )]
    pub(super) service_account_issuer: String,
    /// Keep objects in this etcd instead of the embedded store: comma-separated URLs of its members.
    #[arg(long, value_name = "URLS", value_delimiter = ',')]
    pub(super) etcd_servers: Vec<String>,
    /// The authority that etcd's certificate is checked against.
    #[arg(long, value_name = "FILE", requires = "etcd_servers")]
    pub(super) etcd_cafile: Option<PathBuf>,
    /// The certificate to show to etcd.
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    pub(super) etcd_certfile: Option<PathBuf>,
    /// The key of that certificate.
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub(super) etcd_keyfile: Option<PathBuf>,
}

impl Flags {
    /// The data directory, as an absolute path: it is shown to people who are elsewhere.
    pub(super) fn data_dir(&self) -> Result<PathBuf> {
        let directory = match &self.data_dir {
            Some(directory) => directory.clone(),
            None => default_directory()?,
        };
        std::path::absolute(&directory)
            .with_context(|| format!("the directory {}", directory.display()))
    }
}

fn default_directory() -> Result<PathBuf> {
    let variable = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    variable("XDG_DATA_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".local/share")))
        .map(|base| base.join("rhumb"))
        .context("there is no home directory; say where data goes with --data-dir")
}
