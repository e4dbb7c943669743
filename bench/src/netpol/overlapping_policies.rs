//! Cost of a changed pod when many policies select the same many pods: each summary, from which the policy's status is
//! built, may change.

use std::time::Instant;

use anyhow::{Context, Result};
use rhumb_netpol::{EngineScope, PluginCapabilities, Pod, PolicyEngine};
use serde::Serialize;
use serde_json::{Value, json};

const PODS: usize = 10_000;
const POLICIES: usize = 1_000;
const NODES: usize = 100;
const ROUNDS: usize = 200;

#[derive(Debug, Serialize)]
pub(super) struct OverlapResult {
    pub(super) pods: usize,
    pub(super) policies: usize,
    /// Mean time if the pod moves between nodes that have other selected pods.
    pub(super) same_node_us: f64,
    /// Mean time if the pod is the only selected one on its node, so that all summaries change.
    pub(super) other_node_us: f64,
}

/// Runs the benchmark: all policies select all pods of one namespace.
pub(super) fn run() -> Result<OverlapResult> {
    let mut engine = PolicyEngine::new(EngineScope::Cluster, PluginCapabilities::all());
    for number in 0..POLICIES {
        engine.set_policy(&serde_json::from_value(policy(number))?);
    }
    for number in 0..PODS {
        engine.set_pod(&pod(number, number % NODES)?);
    }
    engine.take_changed_policies_ignoring_counts();
    let replaced = (0..ROUNDS).map(|round| pod(round, (round + 1) % NODES));
    let replaced: Vec<Pod> = replaced.collect::<Result<_>>()?;
    let same_node_us = mean_us(&mut engine, &replaced)?;
    let lonely = (0..ROUNDS).map(|round| pod(PODS, NODES + round));
    let lonely: Vec<Pod> = lonely.collect::<Result<_>>()?;
    let other_node_us = mean_us(&mut engine, &lonely)?;
    Ok(OverlapResult {
        pods: PODS,
        policies: POLICIES,
        same_node_us,
        other_node_us,
    })
}

/// Mean time of a change, including the summaries of the affected policies.
fn mean_us(engine: &mut PolicyEngine, pods: &[Pod]) -> Result<f64> {
    let begin = Instant::now();
    for pod in pods {
        engine.set_pod(pod);
        for policy in engine.take_changed_policies_ignoring_counts() {
            engine
                .summary(&policy)
                .context("engine has no summary for an affected policy")?;
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
