//! The running agent: turns watch events into kernel rules, and reports to the API server what the kernel enforces.
//!
//! ```text
//!  watches ──► sync_loop: one task, PolicyEngine ──► all queued events in one transaction ──► kernel
//!                  └──► report, after the kernel has committed ──► report_writer ──► server
//! ```

mod observed_state;
mod report_publisher;
mod report_writer;
mod retry_backoff;
mod sync_loop;
mod watches;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::DeleteParams;
use kube::{Api, Client};
use rhumb_client::error::none_if_not_found;
use rhumb_netpol::PluginCapabilities;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use self::sync_loop::SyncLoop;
use crate::AgentError;
use crate::metrics::AgentMetrics;
use crate::nft::{self, KernelTable, NftTable, NftablesConnection};
use crate::probe::{self, HostProbe};
use observed_state::ObservedState;
use report_publisher::NodeReportPublisher;
use rhumb_netpol::node_report::{NetworkPolicyNode, UnimplementedFeature};

/// Default interval of checks whether another process changed the rules.
pub const DEFAULT_INSPECTION_INTERVAL: Duration = Duration::from_secs(10);
/// Limit for reporting a failed start to the server.
const STARTUP_FAILURE_REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Configuration of an agent.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// The node whose pods the agent protects.
    pub node: String,
    /// The agent's name in the report.
    pub agent: String,
    /// The policy versions that it supports.
    pub versions: Vec<String>,
    pub table: NftTable,
    /// Whether addresses of the node's pod CIDRs are blocked while no known pod has them.
    pub block_unknown_pods: bool,
    pub inspection_interval: Duration,
    /// How often the report is renewed if nothing changes.
    pub heartbeat_interval: Duration,
    pub metrics: Arc<AgentMetrics>,
}

/// An agent that has probed the node and is ready to run.
#[derive(Debug)]
pub struct NetworkPolicyAgent {
    options: AgentOptions,
    kernel: KernelTable,
    host: HostProbe,
    unimplemented: Vec<UnimplementedFeature>,
}

impl NetworkPolicyAgent {
    /// Probes the kernel without changing it. If the node cannot enforce policies, this is written to its report, since
    /// an earlier report may claim that it does.
    pub async fn prepare(
        options: AgentOptions,
        connection: Result<NftablesConnection, nft::NftablesError>,
        client: &Client,
    ) -> Result<NetworkPolicyAgent, AgentError> {
        match NetworkPolicyAgent::probe(&options, connection).await {
            Ok((kernel, system, unimplemented)) => Ok(NetworkPolicyAgent {
                options,
                kernel,
                host: system,
                unimplemented,
            }),
            Err(error) => {
                if !matches!(error, AgentError::PermissionDenied) {
                    report_startup_failure(client, &options, &error).await;
                }
                Err(error)
            }
        }
    }

    async fn probe(
        options: &AgentOptions,
        connection: Result<NftablesConnection, nft::NftablesError>,
    ) -> Result<(KernelTable, HostProbe, Vec<UnimplementedFeature>), AgentError> {
        let system = HostProbe::default();
        let connection = connection.map_err(AgentError::from_probe)?;
        let kernel = KernelTable::new(connection, options.table.clone());
        let unimplemented = system.probe(&kernel).await?;
        Ok((kernel, system, unimplemented))
    }

    /// Features that the agent supports but cannot enforce on this node.
    pub fn unimplemented(&self) -> &[UnimplementedFeature] {
        &self.unimplemented
    }

    /// Enforces policies until `stop` is cancelled. The rules stay in the kernel.
    pub async fn run(self, client: Client, stop: CancellationToken) {
        let options = self.options;
        let has_sctp = |it: &UnimplementedFeature| it.feature != probe::SCTP_FEATURE;
        let capabilities = PluginCapabilities {
            versions: options.versions.iter().cloned().collect(),
            sctp: self.unimplemented.iter().all(has_sctp),
        };
        let mut report = NetworkPolicyNode::new(&options.node, options.agent, options.versions);
        report.boot_id = self.host.boot_id();
        report.unimplemented = self.unimplemented;
        let (publisher, reports) = NodeReportPublisher::new(report);
        let mut work = JoinSet::new();
        let events = watches::start_watches(&client, &options.node, &mut work);
        work.spawn(report_writer::run_report_writer(
            client,
            options.node.clone(),
            reports,
            options.heartbeat_interval,
        ));
        let core = SyncLoop {
            observed: ObservedState::new(options.node, capabilities, options.block_unknown_pods),
            kernel: self.kernel,
            host: self.host,
            metrics: &options.metrics,
            report_publisher: publisher,
            backoff: SyncLoop::new_backoff(),
            retry_at: None,
            pending_since: Vec::new(),
            has_synced: false,
            consecutive_repairs: 0,
            inspections_to_skip: 0,
            has_unrepaired_change: false,
            started_at: Instant::now(),
        };
        core.run(events, options.inspection_interval, &stop).await;
    }
}

/// Removes all rules of an agent. Returns whether there were any.
pub async fn remove_rules(
    connection: NftablesConnection,
    table: &NftTable,
) -> Result<bool, AgentError> {
    let system = HostProbe::default();
    if !system.has_net_admin_capability() {
        return Err(AgentError::PermissionDenied);
    }
    let mut kernel = KernelTable::new(connection, table.clone());
    Ok(kernel.remove().await?)
}

/// Deletes the report of a node. Returns whether there was one.
pub async fn delete_node_report(client: Client, node: &str) -> Result<bool, rhumb_client::Error> {
    let api: Api<NetworkPolicyNode> = Api::all(client);
    let deleted = none_if_not_found(api.delete(node, &DeleteParams::default()).await)?;
    Ok(deleted.is_some())
}

async fn report_startup_failure(client: &Client, options: &AgentOptions, error: &AgentError) {
    let versions = options.versions.clone();
    let mut report = NetworkPolicyNode::new(&options.node, options.agent.clone(), versions);
    report.boot_id = HostProbe::default().boot_id();
    report.problem = Some(error.to_string());
    report.set_heartbeat(Timestamp::now(), options.heartbeat_interval);
    let api = Api::all(client.clone());
    // Best effort: the caller exits with the error in any case.
    let _ = timeout(
        STARTUP_FAILURE_REPORT_TIMEOUT,
        report_writer::write_report(&api, &options.node, &report),
    )
    .await;
}
