//! Controller flags, named as those of kube-controller-manager.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use rhumb_client::leader::LeaseTimings;
use rhumb_controllers::{
    CONTROLLERS, Controller, ControllerOptions, LeaderElectionConfig, TokenSigner,
};
use rhumb_meta::validation::dns1123_subdomain;

use super::LegacyTokenSigner;
use crate::duration::duration;

/// With this controller enabled, the API server itself brings the status of quotas up to date before it is read.
const QUOTA_STATUS: &str = "resourcequota-controller";

#[derive(Args, Debug)]
pub(crate) struct ControllerFlags {
    /// Controllers to run: * enables all, NAME enables one, -NAME disables one.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true
    )]
    controllers: Vec<String>,
    /// How long a node may go without a heartbeat before it is marked unhealthy.
    #[arg(long, value_name = "DURATION", default_value = "50s", value_parser = duration, allow_hyphen_values = true)]
    node_monitor_grace_period: Duration,
    /// How long a new node may go without a heartbeat before it is marked unhealthy.
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = duration, allow_hyphen_values = true)]
    node_startup_grace_period: Duration,
    /// How long the network policy agent of a node may go without a heartbeat before policies do not count as programmed
    /// there.
    #[arg(long, value_name = "DURATION", default_value = "40s", value_parser = duration, allow_hyphen_values = true)]
    network_policy_agent_grace_period: Duration,
    /// How long a pod may be bound to a node that does not exist before the pod is deleted. Upstream has no such flag;
    /// tests set it.
    #[arg(long, hide = true, value_name = "DURATION", default_value = "40s", value_parser = duration)]
    node_quarantine: Duration,
    /// Number of terminated pods to keep; the oldest beyond it are deleted. 0 disables the limit.
    #[arg(long, value_name = "N", default_value_t = 12_500)]
    terminated_pod_gc_threshold: usize,
    /// Name of the Lease for leader election.
    #[arg(long, value_name = "NAME", default_value = "rhumb-controllers")]
    leader_elect_resource_name: String,
    /// Namespace of the Lease for leader election.
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    leader_elect_resource_namespace: String,
}

impl ControllerFlags {
    /// The enabled controllers, after validation of the flags.
    pub(crate) fn select(&self) -> Result<Vec<&'static Controller>> {
        let names = || CONTROLLERS.iter().map(|controller| controller.name);
        for entry in self.controllers.iter().filter(|entry| *entry != "*") {
            let name = entry.strip_prefix('-').unwrap_or(entry);
            if !entry.is_empty() && !names().any(|known| known == name) {
                let known: Vec<&str> = names().collect();
                bail!(
                    "--controllers: there is no controller {name:?}; there are {}",
                    known.join(", ")
                );
            }
        }
        for (flag, value) in [
            ("name", &self.leader_elect_resource_name),
            ("namespace", &self.leader_elect_resource_namespace),
        ] {
            if let Some(problem) = dns1123_subdomain(value).into_iter().next() {
                bail!("--leader-elect-resource-{flag} {value:?}: {problem}");
            }
        }
        let is_wanted = |controller: &&Controller| self.enables(controller.name);
        Ok(CONTROLLERS.iter().filter(is_wanted).collect())
    }

    /// Whether the server brings the status of ResourceQuotas up to date before it is read.
    pub(crate) fn wants_quota_status(&self) -> bool {
        self.enables(QUOTA_STATUS)
    }

    /// Whether all controllers are enabled by default.
    pub(crate) fn enables_all(&self) -> bool {
        self.controllers.iter().any(|entry| entry == "*")
    }

    /// Whether any controllers are named. An empty list is none.
    pub(crate) fn enables_some(&self) -> bool {
        let mut entries = self.controllers.iter();
        entries.any(|entry| !entry.is_empty() && !entry.starts_with('-'))
    }

    fn enables(&self, name: &str) -> bool {
        let has = |text: &str| self.controllers.iter().any(|entry| entry == text);
        has(name) || (has("*") && !has(&format!("-{name}")))
    }

    pub(crate) fn options(
        &self,
        identity: String,
        root_ca: Option<String>,
        signer: Option<LegacyTokenSigner>,
    ) -> ControllerOptions {
        ControllerOptions {
            election: LeaderElectionConfig {
                identity,
                namespace: self.leader_elect_resource_namespace.clone(),
                name: self.leader_elect_resource_name.clone(),
                component: "the controllers",
                timings: LeaseTimings::default(),
            },
            root_ca,
            token_signer: signer.map(|signer| Arc::new(signer) as Arc<dyn TokenSigner>),
            node_monitor_grace_period: self.node_monitor_grace_period,
            node_startup_grace_period: self.node_startup_grace_period,
            node_quarantine: self.node_quarantine,
            network_policy_grace_period: self.network_policy_agent_grace_period,
            network_policy_metrics: Arc::default(),
            terminated_pods_max: self.terminated_pod_gc_threshold,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_selected_as_upstream_does() {
        let chosen = |given: &[&str]| {
            let flags = ControllerFlags {
                controllers: given.iter().map(|&given| given.to_owned()).collect(),
                node_monitor_grace_period: Duration::from_secs(50),
                node_startup_grace_period: Duration::from_secs(60),
                node_quarantine: Duration::from_secs(40),
                network_policy_agent_grace_period: Duration::from_secs(40),
                terminated_pod_gc_threshold: 0,
                leader_elect_resource_name: "it".to_owned(),
                leader_elect_resource_namespace: "here".to_owned(),
            };
            let chosen = flags.select().ok()?;
            Some(chosen.iter().map(|own| own.name).collect::<Vec<_>>())
        };
        let all: Vec<&str> = CONTROLLERS.iter().map(|own| own.name).collect();
        assert_eq!(chosen(&["*"]), Some(all.clone()));
        assert_eq!(chosen(&[""]), Some(vec![]));
        assert_eq!(chosen(&["-namespace-controller"]), Some(vec![]));
        assert_eq!(
            chosen(&["namespace-controller"]),
            Some(vec!["namespace-controller"])
        );
        assert_eq!(
            chosen(&["*", "-namespace-controller"]),
            Some(all[1..].to_vec())
        );
        assert_eq!(chosen(&["nonsense"]), None);
    }
}
