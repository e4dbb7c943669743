//! Scheduler configuration: reads KubeSchedulerConfiguration files and turns them into run options.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rhumb_client::LeaderElectionConfig;
use rhumb_client::leader::LeaseTimings;
use rhumb_meta::validation::dns1123_subdomain;
use rhumb_scheduler::config::SchedulerConfig;
use rhumb_scheduler::engine::{SchedulerCore, SchedulerCoreSettings};
use rhumb_scheduler::metrics::{Metrics, PluginTimingSampler};
use rhumb_scheduler::run::RunOptions;

use crate::pki;

/// The configuration in a file, or the default one.
pub(crate) fn read_config(path: Option<&Path>) -> Result<SchedulerConfig> {
    let Some(path) = path else {
        return Ok(SchedulerConfig::default());
    };
    let what = || format!("scheduler configuration {}", path.display());
    let text = std::fs::read_to_string(path).with_context(what)?;
    SchedulerConfig::read(&text).with_context(what)
}

/// The options of a scheduler process; `identity` is its leader election identity.
pub(crate) fn options(
    config: SchedulerConfig,
    identity: String,
    metrics: Arc<Metrics>,
) -> Result<RunOptions> {
    let election = &config.leader_election;
    for (what, name) in [
        ("name", &election.resource_name),
        ("namespace", &election.resource_namespace),
    ] {
        if let Some(problem) = dns1123_subdomain(name).into_iter().next() {
            bail!("the {what} of the scheduler's lease {name:?}: {problem}");
        }
    }
    let election = election.leader_elect.then(|| LeaderElectionConfig {
        identity,
        namespace: election.resource_namespace.clone(),
        name: election.resource_name.clone(),
        component: "the scheduler",
        timings: LeaseTimings {
            lease_duration: election.lease_duration,
            renew_deadline: election.renew_deadline,
            retry_period: election.retry_period,
        },
    });
    let names = config.profiles.iter();
    let names: HashSet<Box<str>> = names
        .map(|profile| profile.scheduler_name.as_str().into())
        .collect();
    let counted = metrics.clone();
    Ok(RunOptions {
        election,
        scheduler_names: names,
        host_name: pki::host_name().unwrap_or_default().into(),
        engine: Arc::new(move || {
            SchedulerCore::new(SchedulerCoreSettings {
                observer: Some(Arc::new(PluginTimingSampler::new(counted.clone()))),
                ..config.settings()
            })
        }),
        metrics,
        health: Arc::default(),
    })
}
