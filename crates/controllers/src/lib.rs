//! What keeps a cluster in order when nobody looks: namespaces end, garbage goes, accounts and nodes are kept.
//!
//! Every controller is a client of the API server and nothing more. It gets a [`kube::Client`] that acts as the
//! controller's own account, whatever is behind it: the server in the same process, or any server over HTTPS.
//! Only one process runs them at a time ([`rhumb_client::leader`]). A controller that fails is started again (`supervise`); it
//! keeps nothing but what it can read anew. To add one: a folder with a `run(Context)`, and a line in [`ALL`].

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod accounts;
mod garbage;
mod namespaces;
mod network_policies;
mod nodes;
mod per_namespace;
mod pod_garbage;
mod pods;
mod queue;
mod resources;
mod storage_protection;
mod supervise;
mod taint_eviction;
#[cfg(test)]
mod testing;
mod views;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use kube::Client;

pub use rhumb_client::{Election, Error};
pub use supervise::run;

/// What an operator can say about all controllers.
#[derive(Debug, Clone)]
pub struct Options {
    /// Who wants to lead. A process that was here before under the same name goes on at once.
    pub election: Election,
    /// The certificates by which pods know the API server, as PEM; without them no config map tells.
    pub root_ca: Option<String>,
    /// What signs tokens for secrets; without it they get none.
    pub token_signer: Option<Arc<dyn SignToken>>,
    /// How long a node may be silent.
    pub node_monitor_grace_period: Duration,
    /// How long a new node may take until it first says something.
    pub node_startup_grace_period: Duration,
    /// How long a node that pods name may be unknown before they go.
    pub node_quarantine: Duration,
    /// How many pods that have finished are kept; the oldest of more are deleted. 0 is no limit.
    pub terminated_pods_max: usize,
}

/// Signs the tokens of service accounts that secrets hold.
pub trait SignToken: fmt::Debug + Send + Sync {
    /// `None` if it cannot be signed.
    fn sign(&self, namespace: &str, account: &str, uid: &str, secret: &str) -> Option<String>;
}

/// Gives each controller a client that acts as its own account.
pub trait Connect: fmt::Debug + Send + Sync {
    /// `account` is a service account of `kube-system`; `None` is the control plane itself.
    fn client(&self, account: Option<&'static str>) -> Client;
}

/// What a controller works with.
struct Context {
    /// Acts as the controller's own account, which may do what upstream lets it do.
    client: Client,
    /// Lists and watches everything, as the control plane itself: accounts have no right to that.
    reader: Client,
    options: Arc<Options>,
}

/// One part of the control plane.
pub struct Controller {
    /// As upstream's `--controllers` names it.
    pub name: &'static str,
    /// The service account that it acts as.
    pub account: Option<&'static str>,
    /// Goes on until it is dropped. It may be dropped at any await.
    run: fn(Context) -> BoxFuture<'static, Result<(), Error>>,
}

impl fmt::Debug for Controller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

/// All that there are.
pub const ALL: &[Controller] = &[
    Controller {
        name: "namespace-controller",
        account: Some("namespace-controller"),
        run: |context| Box::pin(namespaces::run(context)),
    },
    Controller {
        name: "garbage-collector-controller",
        account: Some("generic-garbage-collector"),
        run: |context| Box::pin(garbage::run(context)),
    },
    Controller {
        name: "node-lifecycle-controller",
        account: Some("node-controller"),
        run: |context| Box::pin(nodes::run(context)),
    },
    Controller {
        name: "taint-eviction-controller",
        account: Some("node-controller"),
        run: |context| Box::pin(taint_eviction::run(context)),
    },
    Controller {
        name: "pod-garbage-collector-controller",
        account: Some("pod-garbage-collector"),
        run: |context| Box::pin(pod_garbage::run(context)),
    },
    Controller {
        name: "networkpolicy-status-controller",
        account: Some("networkpolicy-status-controller"),
        run: |context| Box::pin(network_policies::run(context)),
    },
    Controller {
        name: "persistentvolumeclaim-protection-controller",
        account: Some("pvc-protection-controller"),
        run: |context| Box::pin(storage_protection::run_claims(context)),
    },
    Controller {
        name: "persistentvolume-protection-controller",
        account: Some("pv-protection-controller"),
        run: |context| Box::pin(storage_protection::run_volumes(context)),
    },
    Controller {
        name: "volumeattributesclass-protection-controller",
        account: Some("volumeattributesclass-protection-controller"),
        run: |context| Box::pin(storage_protection::run_classes(context)),
    },
    Controller {
        name: "serviceaccount-controller",
        account: Some("service-account-controller"),
        run: |context| Box::pin(accounts::run_default_account(context)),
    },
    Controller {
        name: "root-ca-certificate-publisher-controller",
        account: Some("root-ca-cert-publisher"),
        run: |context| Box::pin(accounts::run_root_ca(context)),
    },
    Controller {
        name: "serviceaccount-token-controller",
        account: None,
        run: |context| Box::pin(accounts::tokens::run(context)),
    },
];
