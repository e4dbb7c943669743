//! Flags about controllers, with the names that kube-controller-manager gives them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use rhumb_client::leader::Times;
use rhumb_controllers::{ALL, Controller, Election, Options, SignToken};
use rhumb_meta::validation::dns1123_subdomain;

use super::Signer;
use crate::duration::duration;

/// What needs to know all types is a part of the server, and a controller by its name only.
const POLICY_STATUS: &str = "validatingadmissionpolicy-status-controller";
const QUOTA_STATUS: &str = "resourcequota-controller";

#[derive(Args, Debug)]
pub(crate) struct ControllerFlags {
    /// The controllers to run: * is all, a name is one, -name leaves one out.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true
    )]
    controllers: Vec<String>,
    /// How long a node may be silent before it counts as lost.
    #[arg(long, value_name = "DURATION", default_value = "50s", value_parser = duration, allow_hyphen_values = true)]
    node_monitor_grace_period: Duration,
    /// How long a new node may take until it first says something.
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = duration, allow_hyphen_values = true)]
    node_startup_grace_period: Duration,
    /// How long a node that pods name may be unknown before they go. Upstream has no flag for it; tests are less
    /// patient.
    #[arg(long, hide = true, value_name = "DURATION", default_value = "40s", value_parser = duration)]
    node_quarantine: Duration,
    /// How many pods that have finished are kept; the oldest of more are deleted. 0 is no limit.
    #[arg(long, value_name = "N", default_value_t = 12_500)]
    terminated_pod_gc_threshold: usize,
    /// The Lease by which one process at a time runs the controllers.
    #[arg(long, value_name = "NAME", default_value = "rhumb-controllers")]
    leader_elect_resource_name: String,
    /// The namespace of that Lease.
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    leader_elect_resource_namespace: String,
}

impl ControllerFlags {
    /// The controllers that were asked for.
    pub(crate) fn select(&self) -> Result<Vec<&'static Controller>> {
        let names = || {
            let own = ALL.iter().map(|controller| controller.name);
            own.chain([POLICY_STATUS, QUOTA_STATUS])
        };
        for said in self.controllers.iter().filter(|said| *said != "*") {
            let name = said.strip_prefix('-').unwrap_or(said);
            if !said.is_empty() && !names().any(|known| known == name) {
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
        let is_wanted = |controller: &&Controller| self.wants(controller.name);
        Ok(ALL.iter().filter(is_wanted).collect())
    }

    /// Whether the server is to tell policies what a type checker thinks of them.
    pub(crate) fn wants_policy_status(&self) -> bool {
        self.wants(POLICY_STATUS)
    }

    /// Whether the server is to tell quotas what is used.
    pub(crate) fn wants_quota_status(&self) -> bool {
        self.wants(QUOTA_STATUS)
    }

    /// Whether nobody chose among them.
    pub(crate) fn wants_all(&self) -> bool {
        self.controllers.iter().any(|said| said == "*")
    }

    fn wants(&self, name: &str) -> bool {
        let says = |text: &str| self.controllers.iter().any(|said| said == text);
        says(name) || (says("*") && !says(&format!("-{name}")))
    }

    pub(crate) fn options(
        &self,
        identity: String,
        root_ca: Option<String>,
        signer: Option<Signer>,
    ) -> Options {
        Options {
            election: Election {
                identity,
                namespace: self.leader_elect_resource_namespace.clone(),
                name: self.leader_elect_resource_name.clone(),
                led: "the controllers",
                times: Times::default(),
            },
            root_ca,
            token_signer: signer.map(|signer| Arc::new(signer) as Arc<dyn SignToken>),
            node_monitor_grace_period: self.node_monitor_grace_period,
            node_startup_grace_period: self.node_startup_grace_period,
            node_quarantine: self.node_quarantine,
            terminated_pods_max: self.terminated_pod_gc_threshold,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_chosen_as_upstream_has_it() {
        let chosen = |said: &[&str]| {
            let flags = ControllerFlags {
                controllers: said.iter().map(|&said| said.to_owned()).collect(),
                node_monitor_grace_period: Duration::from_secs(50),
                node_startup_grace_period: Duration::from_secs(60),
                node_quarantine: Duration::from_secs(40),
                terminated_pod_gc_threshold: 0,
                leader_elect_resource_name: "it".to_owned(),
                leader_elect_resource_namespace: "here".to_owned(),
            };
            let chosen = flags.select().ok()?;
            Some(chosen.iter().map(|own| own.name).collect::<Vec<_>>())
        };
        let all: Vec<&str> = ALL.iter().map(|own| own.name).collect();
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
