//! The controllers of kube-controller-manager that rhumb provides: namespace deletion, garbage collection, node
//! lifecycle, taint eviction, pod garbage collection, storage protection, service accounts, aggregation of cluster roles,
//! the status of quotas, admission policies and NetworkPolicies.
//!
//! Entry point: [`run`]. Every controller is only a client of the API server: it gets a [`kube::Client`] with the
//! identity of its own service account, connected in-process or over HTTPS. Leader election
//! ([`rhumb_client::leader`]) ensures that one process runs them at a time. A failed controller is restarted and
//! rebuilds its state from the API. To add one: a module with a `run` function, and an entry in the list below.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod api_resources;
mod cluster_role_aggregation;
mod garbage_collector;
mod namespaced_name;
mod namespaces;
mod network_policy_status;
mod node_lifecycle;
mod partial_objects;
mod per_namespace;
mod pod_garbage;
mod pod_writes;
mod resource_quota;
mod service_accounts;
mod storage_protection;
mod supervisor;
mod taint_eviction;
#[cfg(test)]
mod testing;
mod validating_policy_status;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use kube::Client;

pub use network_policy_status::NetworkPolicyStatusCollector;
pub use rhumb_client::{Error, LeaderElectionConfig};
pub use supervisor::run;

/// Configuration shared by all controllers.
#[derive(Debug, Clone)]
pub struct ControllerOptions {
    /// Leader election settings. A restarted process with the same identity resumes its lease at once.
    pub election: LeaderElectionConfig,
    /// CA bundle (PEM) that pods use to verify the API server; without it `kube-root-ca.crt` is not published.
    pub root_ca: Option<String>,
    /// Signs tokens for service account token secrets; without it the secrets get no token.
    pub token_signer: Option<Arc<dyn TokenSigner>>,
    /// How long a node may send no heartbeat before it is marked unhealthy.
    pub node_monitor_grace_period: Duration,
    /// The same for a new node that has not reported a status yet.
    pub node_startup_grace_period: Duration,
    /// How long a node must be missing before the pods bound to it are deleted.
    pub node_quarantine: Duration,
    /// How long the network policy agent of a node may send no heartbeat before policies do not count as programmed
    /// there.
    pub network_policy_grace_period: Duration,
    /// What the controller of the status of network policies counts.
    pub network_policy_metrics: Arc<NetworkPolicyStatusCollector>,
    /// Number of finished pods to keep; the oldest ones beyond it are deleted. 0 means no limit.
    pub terminated_pods_max: usize,
}

/// Signs service account tokens that are stored in secrets.
pub trait TokenSigner: fmt::Debug + Send + Sync {
    /// `None` if signing fails.
    fn sign(&self, namespace: &str, account: &str, uid: &str, secret: &str) -> Option<String>;
}

/// Creates clients that authenticate as a controller's service account.
pub trait ClientFactory: fmt::Debug + Send + Sync {
    /// `account` is a service account in `kube-system`; `None` is the control plane itself.
    fn client(&self, account: Option<&'static str>) -> Client;
}

/// What a controller is started with.
struct ControllerContext {
    /// Authenticates as the controller's service account, with upstream's RBAC rules.
    client: Client,
    /// Lists and watches as the control plane itself, because the service accounts lack those permissions.
    reader: Client,
    options: Arc<ControllerOptions>,
}

/// A controller that can be enabled or disabled.
pub struct Controller {
    /// Its name in upstream's `--controllers` flag.
    pub name: &'static str,
    /// The service account that it authenticates as.
    pub account: Option<&'static str>,
    /// Runs until dropped; safe to drop at any await point.
    run: fn(ControllerContext) -> BoxFuture<'static, Result<(), Error>>,
}

impl fmt::Debug for Controller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

/// All controllers.
pub const CONTROLLERS: &[Controller] = &[
    Controller {
        name: "namespace-controller",
        account: Some("namespace-controller"),
        run: |context| Box::pin(namespaces::run(context)),
    },
    Controller {
        name: "garbage-collector-controller",
        account: Some("generic-garbage-collector"),
        run: |context| Box::pin(garbage_collector::run(context)),
    },
    Controller {
        name: "node-lifecycle-controller",
        account: Some("node-controller"),
        run: |context| Box::pin(node_lifecycle::run(context)),
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
        run: |context| Box::pin(network_policy_status::run(context)),
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
        run: |context| Box::pin(service_accounts::run_default_account(context)),
    },
    Controller {
        name: "root-ca-certificate-publisher-controller",
        account: Some("root-ca-cert-publisher"),
        run: |context| Box::pin(service_accounts::run_root_ca(context)),
    },
    Controller {
        name: "serviceaccount-token-controller",
        account: None,
        run: |context| Box::pin(service_accounts::token_secrets::run(context)),
    },
    Controller {
        name: "clusterrole-aggregation-controller",
        account: Some("clusterrole-aggregation-controller"),
        run: |context| Box::pin(cluster_role_aggregation::run(context)),
    },
    Controller {
        name: "resourcequota-controller",
        account: Some("resourcequota-controller"),
        run: |context| Box::pin(resource_quota::run(context)),
    },
    Controller {
        name: "validatingadmissionpolicy-status-controller",
        account: Some("validatingadmissionpolicy-status-controller"),
        run: |context| Box::pin(validating_policy_status::run(context)),
    },
];
