//! What a changed pod costs where many policies select many pods: their summaries are what statuses are made of.

use std::time::Instant;

use anyhow::{Context, Result};
use rhumb_netpol::{Engine, Knowledge, Pod, Scope};
use serde::Serialize;
use serde_json::{Value, json};

const PODS: usize = 10_000;
const POLICIES: usize = 1_000;
const NODES: usize = 100;
const ROUNDS: usize = 200;

#[derive(Debug, Serialize)]
pub(super) struct Crowd {
    pub(super) pods: usize,
    pub(super) policies: usize,
    /// A pod is replaced by another on a node that has more of them: the mean.
    pub(super) same_node_us: f64,
    /// A pod comes as the first on a node, or goes as the last, and all policies are looked at: the mean.
    pub(super) other_node_us: f64,
}

/// All policies select all pods of one namespace.
pub(super) fn run() -> Result<Crowd> {
    let mut engine = Engine::new(Scope::Cluster, Knowledge::all());
    for number in 0..POLICIES {
        engine.set_policy(&serde_json::from_value(policy(number))?);
    }
    for number in 0..PODS {
        engine.set_pod(&pod(number, number % NODES)?);
    }
    engine.take_touched_beyond_counts();
    let replaced = (0..ROUNDS).map(|round| pod(round, (round + 1) % NODES));
    let replaced: Vec<Pod> = replaced.collect::<Result<_>>()?;
    let same_node_us = mean_us(&mut engine, &replaced)?;
    let lonely = (0..ROUNDS).map(|round| pod(PODS, NODES + round));
    let lonely: Vec<Pod> = lonely.collect::<Result<_>>()?;
    let other_node_us = mean_us(&mut engine, &lonely)?;
    Ok(Crowd {
        pods: PODS,
        policies: POLICIES,
        same_node_us,
        other_node_us,
    })
}

/// How long a change takes with all that is told of it.
fn mean_us(engine: &mut Engine, pods: &[Pod]) -> Result<f64> {
    let begin = Instant::now();
    for pod in pods {
        engine.set_pod(pod);
        for policy in engine.take_touched_beyond_counts() {
            engine.summary(&policy).context("a policy is gone")?;
        }
    }
    Ok(begin.elapsed().as_secs_f64() * 1e6 / pods.len() as f64)
}

fn policy(number: usize) -> Value {
    json!({
        "metadata": {"namespace": "crowd", "name": format!("policy-{number}"), "uid": number.to_string()},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": {}}]}]},
    })
}

fn pod(number: usize, node: usize) -> Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {"namespace": "crowd", "name": format!("pod-{number}"), "uid": number.to_string()},
        "spec": {"nodeName": format!("node-{node}")},
        "status": {"phase": "Running"},
    }))?)
}
