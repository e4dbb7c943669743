//! The agent as a client of an API server: what the server shows becomes rules of the kernel, and what the kernel has
//! is told to the server.
//!
//! ```text
//!  watches ──► core: one task, Engine ──► all that waits, together ──► kernel
//!                                                              └──► report, once the kernel has it ──► server
//! ```

mod core;
mod patience;
mod reporting;
mod statement;
mod watches;
mod world;

use std::sync::Arc;
use std::time::Duration;

use kube::api::DeleteParams;
use kube::{Api, Client};
use rhumb_client::error::found;
use rhumb_netpol::Knowledge;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use self::core::Core;
use crate::Error;
use crate::metrics::Metrics;
use crate::nft::{self, Connection, Kernel, Table};
use crate::probe::{self, System};
use rhumb_netpol::report::{NetworkPolicyNode, Unimplemented};
use statement::Statement;
use world::World;

/// How often it is looked whether somebody else changed the rules.
pub const INSPECT_EVERY: Duration = Duration::from_secs(10);
/// How long a server may take to hear that there are no rules.
const LAST_WORD_MAX: Duration = Duration::from_secs(5);

/// What an agent needs to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The node whose pods are looked after.
    pub node: String,
    /// Who enforces, for the report.
    pub agent: String,
    /// The versions of policies that it knows.
    pub versions: Vec<String>,
    pub table: Table,
    /// Whether addresses of this node that no known pod has are cut off.
    pub hold_unknown_pods: bool,
    pub inspect_every: Duration,
    pub metrics: Arc<Metrics>,
}

/// One that has found out what can be had on this node.
#[derive(Debug)]
pub struct Agent {
    options: Options,
    kernel: Kernel,
    system: System,
    unimplemented: Vec<Unimplemented>,
}

impl Agent {
    /// Changes nothing in the kernel that the connection leads to. If this node cannot have rules, the server is told so:
    /// an earlier report would say that it has.
    pub async fn prepare(
        options: Options,
        connection: Result<Connection, nft::Error>,
        client: &Client,
    ) -> Result<Agent, Error> {
        match Agent::probe(&options, connection).await {
            Ok((kernel, system, unimplemented)) => Ok(Agent {
                options,
                kernel,
                system,
                unimplemented,
            }),
            Err(error) => {
                if !matches!(error, Error::NotAllowed) {
                    last_word(client, &options, &error).await;
                }
                Err(error)
            }
        }
    }

    async fn probe(
        options: &Options,
        connection: Result<Connection, nft::Error>,
    ) -> Result<(Kernel, System, Vec<Unimplemented>), Error> {
        let system = System::default();
        let connection = connection.map_err(Error::of_kernel)?;
        let kernel = Kernel::new(connection, options.table.clone());
        let unimplemented = system.probe(&kernel).await?;
        Ok((kernel, system, unimplemented))
    }

    /// What it knows, and cannot do on this node.
    pub fn unimplemented(&self) -> &[Unimplemented] {
        &self.unimplemented
    }

    /// Sees to policies until `stop`. The rules stay.
    pub async fn run(self, client: Client, stop: CancellationToken) {
        let options = self.options;
        let has_sctp = |it: &Unimplemented| it.feature != probe::SCTP;
        let knowledge = Knowledge {
            versions: options.versions.iter().cloned().collect(),
            sctp: self.unimplemented.iter().all(has_sctp),
        };
        let mut report = NetworkPolicyNode::new(&options.node, options.agent, options.versions);
        report.boot_id = self.system.boot_id();
        report.unimplemented = self.unimplemented;
        let (statement, told) = Statement::new(report);
        let mut work = JoinSet::new();
        let heard = watches::start(&client, &options.node, &mut work);
        work.spawn(reporting::run(client, options.node.clone(), told));
        let core = Core {
            world: World::new(options.node, knowledge, options.hold_unknown_pods),
            kernel: self.kernel,
            system: self.system,
            metrics: &options.metrics,
            statement,
            patience: Core::patience(),
            retry_at: None,
            waiting: Vec::new(),
            has_written: false,
            repairs: 0,
            left_out: 0,
            is_touched: false,
            began: Instant::now(),
        };
        core.run(heard, options.inspect_every, &stop).await;
    }
}

/// Removes all rules of an agent; whether there were any.
pub async fn clean_up(connection: Connection, table: &Table) -> Result<bool, Error> {
    let system = System::default();
    if !system.may_change_rules() {
        return Err(Error::NotAllowed);
    }
    let mut kernel = Kernel::new(connection, table.clone());
    Ok(kernel.remove().await?)
}

/// Deletes the report of a node; whether there was one.
pub async fn forget(client: Client, node: &str) -> Result<bool, rhumb_client::Error> {
    let api: Api<NetworkPolicyNode> = Api::all(client);
    let deleted = found(api.delete(node, &DeleteParams::default()).await)?;
    Ok(deleted.is_some())
}

async fn last_word(client: &Client, options: &Options, error: &Error) {
    let versions = options.versions.clone();
    let mut report = NetworkPolicyNode::new(&options.node, options.agent.clone(), versions);
    report.boot_id = System::default().boot_id();
    report.problem = Some(error.to_string());
    let api = Api::all(client.clone());
    // If nobody hears it, the process ends all the same, and says why.
    let _ = timeout(
        LAST_WORD_MAX,
        reporting::write(&api, &options.node, &report),
    )
    .await;
}
