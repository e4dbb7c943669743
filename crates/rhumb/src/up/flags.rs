//! The flags of `rhumb up`. Flags that kube-apiserver has, too, have its names and meaning.

use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use rhumb_admission::critical_resources::CriticalResources;
use rhumb_admission_plugins::{self as admission_plugins, LimitedResource, PluginConfigSource};
use rhumb_api::feature_gates::Feature;
use rhumb_apiserver::ListIndexConfig;
use rhumb_handlers::ServerState;
use rhumb_registry::service_allocation::ServiceAllocationRanges;
use rhumb_server::audit::{self, AuditLog, AuditPolicy};
use rhumb_server::{HttpService, InFlightLimits, READS_MAX, WRITES_MAX};

use crate::controllers::ControllerFlags;
use crate::duration::{duration, duration_or_zero};
use crate::logging::LoggingFlags;
use crate::simulation::SimulationFlags;

#[derive(Args, Debug)]
pub(crate) struct UpFlags {
    /// Directory for certificates, kubeconfigs and the embedded store [default: ~/.local/share/rhumb].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Port to serve HTTPS on; 0 picks a free one.
    #[arg(long, value_name = "N", default_value_t = 6443)]
    pub(super) secure_port: u16,
    /// Address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(super) bind_address: IpAddr,
    /// File with static tokens: CSV of token,user,uid,"group1,group2".
    #[arg(long, value_name = "CSV")]
    pub(super) token_auth_file: Option<PathBuf>,
    #[arg(
        long,
        value_name = "GATES",
        default_value = "",
        hide_default_value = true,
        help = feature_gates_help()
    )]
    pub(super) feature_gates: String,
    /// Labels to index for list requests, as comma-separated resource[.group]#label: pods#spark-app-selector,pods#app.
    /// "pods#spark-app-selector;app" is the same. May be repeated.
    #[arg(long, value_name = "LABELS")]
    index_labels: Vec<String>,
    /// Create further indexes automatically, for labels and fields that list requests often select on.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    index_labels_auto: bool,
    /// Issuer of service account tokens.
    #[arg(
        long,
        value_name = "URL",
        default_value = "https://kubernetes.default.svc"
    )]
    pub(super) service_account_issuer: String,
    /// Range of service cluster IPs: a CIDR, or two of different families.
    #[arg(long, value_name = "CIDRS", default_value = "10.0.0.0/24")]
    service_cluster_ip_range: String,
    /// Range of node ports.
    #[arg(long, value_name = "FIRST-LAST", default_value = "30000-32767")]
    service_node_port_range: String,
    /// Address at which pods reach the server [default: --bind-address, or the address of the default route].
    #[arg(long, value_name = "ADDRESS")]
    advertise_address: Option<IpAddr>,
    /// Admission plugins to enable in addition to the default ones.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    enable_admission_plugins: Vec<String>,
    /// Admission plugins to disable although they are enabled by default.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    disable_admission_plugins: Vec<String>,
    /// File with an AdmissionConfiguration (apiserver.config.k8s.io/v1). Only ResourceQuota can be configured.
    #[arg(long, value_name = "FILE")]
    admission_control_config_file: Option<PathBuf>,
    /// File with CriticalResources (admission.rhumb/v1): resources for which intercepting webhooks cause a warning
    /// [default: leases, nodes, reviews and others].
    #[arg(long, value_name = "FILE")]
    critical_resources_file: Option<PathBuf>,
    /// Maximum number of concurrent read requests; 0 disables the limit.
    #[arg(long, value_name = "N", default_value_t = READS_MAX)]
    max_requests_inflight: usize,
    /// Maximum number of concurrent mutating requests; 0 disables the limit.
    #[arg(long, value_name = "N", default_value_t = WRITES_MAX)]
    max_mutating_requests_inflight: usize,
    /// Time limit of a request, except watches: 30s, 1m0s.
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = duration, allow_hyphen_values = true)]
    request_timeout: Duration,
    /// How long an Event is kept after its last write; 0 keeps events forever.
    #[arg(long, value_name = "DURATION", default_value = "1h0m0s", value_parser = duration_or_zero, allow_hyphen_values = true)]
    pub(super) event_ttl: Duration,
    /// File for the audit log, one line of JSON per event; - is standard output.
    #[arg(long, value_name = "FILE")]
    audit_log_path: Option<PathBuf>,
    /// File with an audit Policy (audit.k8s.io/v1) [default: log the metadata of all requests].
    #[arg(long, value_name = "FILE", requires = "audit_log_path")]
    audit_policy_file: Option<PathBuf>,
    /// Size in megabytes at which the audit log is rotated; 0 disables rotation.
    #[arg(long, value_name = "N", default_value_t = 0)]
    audit_log_maxsize: u64,
    /// Number of rotated audit logs to keep; 0 keeps all.
    #[arg(long, value_name = "N", default_value_t = 0)]
    audit_log_maxbackup: usize,
    /// Use this etcd cluster instead of the embedded store: comma-separated URLs of its members.
    #[arg(long, value_name = "URLS", value_delimiter = ',')]
    pub(super) etcd_servers: Vec<String>,
    /// CA certificate to verify etcd's certificate.
    #[arg(long, value_name = "FILE", requires = "etcd_servers")]
    pub(super) etcd_cafile: Option<PathBuf>,
    /// Client certificate for etcd.
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    pub(super) etcd_certfile: Option<PathBuf>,
    /// Private key of the client certificate for etcd.
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub(super) etcd_keyfile: Option<PathBuf>,
    #[command(flatten)]
    pub(super) simulation: SimulationFlags,
    #[command(flatten)]
    pub(super) controllers: ControllerFlags,
    /// Run the scheduler [default: true if --controllers includes *].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    scheduler: Option<bool>,
    /// File with a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1).
    #[arg(long, value_name = "FILE")]
    pub(super) scheduler_config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) logging: LoggingFlags,
}

/// Lists the gates with their stages and defaults, as the help of kube-apiserver does.
fn feature_gates_help() -> String {
    let gates = Feature::settable().map(|feature| {
        let spec = feature.spec();
        let stage = match spec.stage.as_str() {
            "" => "GA",
            stage => stage,
        };
        format!(
            "{}=true|false ({stage} - default={})",
            spec.name, spec.default
        )
    });
    let gates: Vec<String> = gates.collect();
    format!(
        "Feature gates as Name=true,Name=false. Upstream's other gates are accepted without effect. Options are:\n{}",
        gates.join("\n")
    )
}

impl UpFlags {
    pub(super) fn services(&self) -> Result<ServiceAllocationRanges> {
        Ok(ServiceAllocationRanges::parse(
            &self.service_cluster_ip_range,
            &self.service_node_port_range,
        )?)
    }

    /// A user who selects single controllers does not want the scheduler either, unless `--scheduler` is set.
    pub(super) fn wants_scheduler(&self) -> bool {
        self.scheduler
            .unwrap_or_else(|| self.controllers.enables_all())
    }

    /// A warning if the selection of controllers turns the scheduler off without saying so.
    pub(super) fn scheduler_warning(&self) -> Option<&'static str> {
        let is_implied = self.scheduler.is_none() && !self.controllers.enables_all();
        (is_implied && self.controllers.enables_some()).then_some(
            "the scheduler is not started, because --controllers does not include *; set --scheduler to start it, or \
             --scheduler=false to run without it",
        )
    }

    pub(super) fn indexes(&self) -> Result<ListIndexConfig> {
        ListIndexConfig::parse(&self.index_labels.join(","), self.index_labels_auto)
            .context("--index-labels")
    }

    pub(super) fn admission(&self) -> Result<admission_plugins::AdmissionPlugins> {
        let (enable, disable) = (
            &self.enable_admission_plugins,
            &self.disable_admission_plugins,
        );
        let selection = admission_plugins::AdmissionOptions::new(enable, disable)?;
        let missing = selection.missing_defaults();
        if !missing.is_empty() {
            tracing::warn!(
                plugins = missing.join(","),
                "admission plugins that kube-apiserver enables by default are not implemented and enforce nothing"
            );
        }
        let selection = match &self.critical_resources_file {
            Some(path) => selection.with_critical_resources(critical_resources(path)?),
            None => selection,
        };
        let selection = match &self.admission_control_config_file {
            Some(path) => selection.with_limited_resources(limited_resources(path)?),
            None => selection,
        };
        Ok(selection.build())
    }

    /// The address at which pods and other machines reach the server; `None` if there is none.
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

    /// The request handler, with the limits and the audit log of the flags.
    pub(super) fn service(&self, api: Arc<ServerState>) -> Result<HttpService> {
        let mut service = HttpService::new(api);
        service.inflight = InFlightLimits::new(
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
        let log = AuditLog::open(audit::AuditLogOptions {
            path: path.clone(),
            bytes_max: self.audit_log_maxsize.saturating_mul(1024 * 1024),
            backups_max: self.audit_log_maxbackup,
            policy: match &self.audit_policy_file {
                Some(path) => audit_policy(path)?,
                None => AuditPolicy::default(),
            },
        })
        .with_context(|| {
            let path = path.display();
            format!("failed to open the audit log {path}; set another with --audit-log-path")
        })?;
        Ok(Some(Arc::new(log)))
    }

    /// The data directory as an absolute path, since it is printed for use in other directories.
    pub(super) fn data_dir(&self) -> Result<PathBuf> {
        let directory = match &self.data_dir {
            Some(directory) => directory.clone(),
            None => default_directory()?,
        };
        std::path::absolute(&directory)
            .with_context(|| format!("the directory {}", directory.display()))
    }
}

/// The source address of the default route. Connecting a UDP socket only looks up the route; no packet is sent.
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

fn audit_policy(path: &Path) -> Result<AuditPolicy> {
    let what = || format!("the audit policy {}", path.display());
    let text = std::fs::read_to_string(path).with_context(what)?;
    AuditPolicy::parse(&text)
        .map_err(anyhow::Error::msg)
        .with_context(what)
}

fn critical_resources(path: &Path) -> Result<CriticalResources> {
    let what = || format!("the critical resources {}", path.display());
    let text = std::fs::read_to_string(path).with_context(what)?;
    admission_plugins::read_critical_resources(&text).with_context(what)
}

/// The limited resources of the ResourceQuota plugin, inline or from the file that the configuration refers to.
fn limited_resources(path: &Path) -> Result<Vec<LimitedResource>> {
    let what = || format!("the admission configuration {}", path.display());
    let text = std::fs::read_to_string(path).with_context(what)?;
    let named = match admission_plugins::read_admission_configuration(&text).with_context(what)? {
        PluginConfigSource::Inline(limited) => return Ok(limited),
        PluginConfigSource::Path(named) => path.parent().unwrap_or(Path::new("")).join(named),
    };
    let what = || format!("the configuration of ResourceQuota {}", named.display());
    let text = std::fs::read_to_string(&named).with_context(what)?;
    admission_plugins::read_limited_resources(&text).with_context(what)
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
        .context("no home directory found; set --data-dir")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct TestCommand {
        #[command(flatten)]
        flags: UpFlags,
    }

    fn parse(arguments: &[&str]) -> UpFlags {
        TestCommand::parse_from([&["up"], arguments].concat()).flags
    }

    const FLAG_DOCUMENT: &str = include_str!("../../../../docs/flags.md");

    #[test]
    fn the_help_and_the_document_list_the_feature_gates() {
        use clap::CommandFactory as _;

        let help = TestCommand::command().render_help().to_string();
        for feature in Feature::settable() {
            let (name, default) = (feature.spec().name, feature.spec().default);
            assert!(
                help.contains(&format!("{name}=true|false")),
                "{name}: {help}"
            );
            let row = format!("| `{name}` | {default} |");
            assert!(FLAG_DOCUMENT.contains(&row), "docs/flags.md lacks {row}");
        }
        assert!(help.contains("PodAffinityNamespaceSelector=true|false (GA - default=true)"));
    }

    #[test]
    fn the_document_lists_all_flags() {
        use clap::CommandFactory as _;

        let command = TestCommand::command();
        let flags = command.get_arguments().filter(|flag| !flag.is_hide_set());
        for flag in flags.filter_map(clap::Arg::get_long) {
            let is_listed = [' ', '`', '='].iter().any(|end| {
                let dashes = if flag.len() == 1 { "-" } else { "--" };
                let start = format!("`{dashes}{flag}{end}");
                FLAG_DOCUMENT
                    .lines()
                    .any(|line| line.starts_with('|') && line.contains(&start))
            });
            assert!(is_listed, "docs/flags.md lacks --{flag}");
        }
    }

    #[test]
    fn a_selection_of_controllers_that_turns_the_scheduler_off_causes_a_warning() {
        for (arguments, is_scheduling, warns) in [
            (&[][..], true, false),
            (&["--controllers=*,-namespace-controller"], true, false),
            (&["--controllers=namespace-controller"], false, true),
            (
                &["--controllers=namespace-controller", "--scheduler"],
                true,
                false,
            ),
            (
                &["--controllers=namespace-controller", "--scheduler=false"],
                false,
                false,
            ),
            // Everything off, as for tests of controllers.
            (&["--controllers="], false, false),
        ] {
            let flags = parse(arguments);
            assert_eq!(flags.wants_scheduler(), is_scheduling, "{arguments:?}");
            assert_eq!(flags.scheduler_warning().is_some(), warns, "{arguments:?}");
        }
    }
}
