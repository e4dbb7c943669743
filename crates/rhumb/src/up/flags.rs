//! The flags of `rhumb up`. Those that kube-apiserver has too have its names.

use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use rhumb_admission::critical::CriticalResources;
use rhumb_apiserver::Api;
use rhumb_apiserver::admission::{self, Configured, Limited};
use rhumb_apiserver::audit::{self, AuditLog, Policy};
use rhumb_apiserver::resources::allocation::ServiceRanges;
use rhumb_apiserver::server::{InFlight, READS_MAX, Service, WRITES_MAX};
use rhumb_apiserver::start::Indexes;

use crate::controllers::ControllerFlags;
use crate::duration::{duration, duration_or_zero};
use crate::simulation::SimulationFlags;

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
    /// Labels to index for lists, comma-separated: resource[.group]#labelName, as in pods#spark-app-selector,pods#app.
    #[arg(
        long,
        value_name = "LABELS",
        default_value = "",
        hide_default_value = true
    )]
    index_labels: String,
    /// Index further labels and fields by itself, where lists by them are frequent.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    index_labels_auto: bool,
    /// What service-account tokens name as their issuer.
    #[arg(
        long,
        value_name = "URL",
        default_value = "https://kubernetes.default.svc"
    )]
    pub(super) service_account_issuer: String,
    /// Where services get their addresses: a CIDR, or two of different families.
    #[arg(long, value_name = "CIDRS", default_value = "10.0.0.0/24")]
    service_cluster_ip_range: String,
    /// The ports of nodes that services can have.
    #[arg(long, value_name = "FIRST-LAST", default_value = "30000-32767")]
    service_node_port_range: String,
    /// Where pods find the server [default: --bind-address, or the address of this machine].
    #[arg(long, value_name = "ADDRESS")]
    advertise_address: Option<IpAddr>,
    /// Admission plugins to turn on beside those that are on by default.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    enable_admission_plugins: Vec<String>,
    /// Admission plugins to turn off although they are on by default.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    disable_admission_plugins: Vec<String>,
    /// The configuration of admission plugins: a file with an AdmissionConfiguration of apiserver.config.k8s.io/v1. Only
    /// ResourceQuota can be configured.
    #[arg(long, value_name = "FILE")]
    admission_control_config_file: Option<PathBuf>,
    /// What no webhook should be able to stop: a file with CriticalResources of admission.rhumb/v1 [default: leases,
    /// nodes, reviews and the like].
    #[arg(long, value_name = "FILE")]
    critical_resources_file: Option<PathBuf>,
    /// How many requests that only read are handled at a time; 0 is no limit.
    #[arg(long, value_name = "N", default_value_t = READS_MAX)]
    max_requests_inflight: usize,
    /// How many requests that write are handled at a time; 0 is no limit.
    #[arg(long, value_name = "N", default_value_t = WRITES_MAX)]
    max_mutating_requests_inflight: usize,
    /// How long a request may take that is not a watch: 30s, 1m0s.
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = duration, allow_hyphen_values = true)]
    request_timeout: Duration,
    /// How long an event is kept that nobody writes again; 0 is for ever.
    #[arg(long, value_name = "DURATION", default_value = "1h0m0s", value_parser = duration_or_zero, allow_hyphen_values = true)]
    pub(super) event_ttl: Duration,
    /// Write who did what, one line of JSON a request, to this file; - is standard output.
    #[arg(long, value_name = "FILE")]
    audit_log_path: Option<PathBuf>,
    /// Which requests the audit log has, and which bodies: a file with a Policy of audit.k8s.io/v1 [default: all
    /// requests, no bodies].
    #[arg(long, value_name = "FILE", requires = "audit_log_path")]
    audit_policy_file: Option<PathBuf>,
    /// Begin a new audit log after this many megabytes; 0 is never.
    #[arg(long, value_name = "N", default_value_t = 0)]
    audit_log_maxsize: u64,
    /// How many full audit logs are kept; 0 keeps all.
    #[arg(long, value_name = "N", default_value_t = 0)]
    audit_log_maxbackup: usize,
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
    #[command(flatten)]
    pub(super) simulation: SimulationFlags,
    #[command(flatten)]
    pub(super) controllers: ControllerFlags,
}

impl Flags {
    pub(super) fn services(&self) -> Result<ServiceRanges> {
        Ok(ServiceRanges::parse(
            &self.service_cluster_ip_range,
            &self.service_node_port_range,
        )?)
    }

    pub(super) fn indexes(&self) -> Result<Indexes> {
        Indexes::parse(&self.index_labels, self.index_labels_auto).context("--index-labels")
    }

    pub(super) fn admission(&self) -> Result<admission::Chain> {
        let (enable, disable) = (
            &self.enable_admission_plugins,
            &self.disable_admission_plugins,
        );
        let selection = admission::Selection::new(enable, disable)?;
        let selection = match &self.critical_resources_file {
            Some(path) => selection.with_critical(critical_resources(path)?),
            None => selection,
        };
        let selection = match &self.admission_control_config_file {
            Some(path) => selection.with_limited(limited_resources(path)?),
            None => selection,
        };
        Ok(selection.chain())
    }

    /// An address that others reach this machine by; `None` if it has none.
    pub(super) fn advertised(&self) -> Option<IpAddr> {
        self.advertise_address.or_else(|| {
            let is_own = self.bind_address.is_loopback() || self.bind_address.is_unspecified();
            if is_own {
                address_of_machine(self.bind_address.is_ipv6())
            } else {
                Some(self.bind_address)
            }
        })
    }

    /// What answers requests, with the limits that were asked for.
    pub(super) fn service(&self, api: Arc<Api>) -> Result<Service> {
        let mut service = Service::new(api);
        service.inflight = InFlight::new(
            self.max_requests_inflight,
            self.max_mutating_requests_inflight,
        );
        service.request_timeout = self.request_timeout;
        service.audit = self.audit_log()?;
        Ok(service)
    }

    fn audit_log(&self) -> Result<Option<Arc<AuditLog>>> {
        let Some(path) = &self.audit_log_path else {
            return Ok(None);
        };
        let log = AuditLog::open(audit::Options {
            path: path.clone(),
            bytes_max: self.audit_log_maxsize.saturating_mul(1024 * 1024),
            backups_max: self.audit_log_maxbackup,
            policy: match &self.audit_policy_file {
                Some(path) => audit_policy(path)?,
                None => Policy::default(),
            },
        })
        .with_context(|| {
            let path = path.display();
            format!("the audit log {path} cannot be written; choose another with --audit-log-path")
        })?;
        Ok(Some(Arc::new(log)))
    }

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

/// The address from which this machine would send to far away. Nothing is sent: connecting a UDP socket only
/// asks for the route.
fn address_of_machine(v6: bool) -> Option<IpAddr> {
    let (from, far) = if v6 {
        ("[::]:0", "[2001:db8::1]:9")
    } else {
        ("0.0.0.0:0", "192.0.2.1:9")
    };
    let socket = UdpSocket::bind(from).ok()?;
    socket.connect(far).ok()?;
    let address = socket.local_addr().ok()?.ip();
    Some(address).filter(|address| !address.is_loopback() && !address.is_unspecified())
}

fn audit_policy(path: &Path) -> Result<Policy> {
    let what = || format!("the audit policy {}", path.display());
    let text = std::fs::read_to_string(path).with_context(what)?;
    Policy::parse(&text)
        .map_err(anyhow::Error::msg)
        .with_context(what)
}

fn critical_resources(path: &Path) -> Result<CriticalResources> {
    let what = || format!("the critical resources {}", path.display());
    let text = std::fs::read_to_string(path).with_context(what)?;
    admission::read_critical_resources(&text).with_context(what)
}

/// What is limited by default, from the configuration itself or from the file that it names.
fn limited_resources(path: &Path) -> Result<Vec<Limited>> {
    let what = || format!("the admission configuration {}", path.display());
    let text = std::fs::read_to_string(path).with_context(what)?;
    let named = match admission::read_configuration(&text).with_context(what)? {
        Configured::Here(limited) => return Ok(limited),
        Configured::In(named) => path.parent().unwrap_or(Path::new("")).join(named),
    };
    let what = || format!("the configuration of ResourceQuota {}", named.display());
    let text = std::fs::read_to_string(&named).with_context(what)?;
    admission::read_limited(&text).with_context(what)
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
