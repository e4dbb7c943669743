//! Flags about the scheduler, with the names that kube-scheduler gives them.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rhumb_client::Election;
use rhumb_client::leader::Times;
use rhumb_meta::validation::dns1123_subdomain;
use rhumb_scheduler::config::Config;
use rhumb_scheduler::engine::{Engine, Settings};
use rhumb_scheduler::metrics::{Metrics, Stopwatch};
use rhumb_scheduler::run::Options;

/// What a file says, or what holds where none is named.
pub(crate) fn read_config(path: Option<&Path>) -> Result<Config> {
    let Some(path) = path else {
        return Ok(Config::default());
    };
    let what = || format!("the configuration of the scheduler {}", path.display());
    let text = std::fs::read_to_string(path).with_context(what)?;
    Config::read(&text).with_context(what)
}

/// What the scheduler runs with. It leads under this identity.
pub(crate) fn options(config: Config, identity: String, metrics: Arc<Metrics>) -> Result<Options> {
    let election = &config.leader_election;
    for (what, name) in [
        ("name", &election.resource_name),
        ("namespace", &election.resource_namespace),
    ] {
        if let Some(problem) = dns1123_subdomain(name).into_iter().next() {
            bail!("the {what} of the scheduler's lease {name:?}: {problem}");
        }
    }
    let election = election.leader_elect.then(|| Election {
        identity,
        namespace: election.resource_namespace.clone(),
        name: election.resource_name.clone(),
        led: "the scheduler",
        times: Times {
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
    Ok(Options {
        election,
        scheduler_names: names,
        engine: Arc::new(move || {
            Engine::new(Settings {
                observer: Some(Arc::new(Stopwatch::new(counted.clone()))),
                ..config.settings()
            })
        }),
        metrics,
        health: Arc::default(),
    })
}
