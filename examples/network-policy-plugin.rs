//! A network plugin that reports to rhumb which network policies are in force on its node. rhumb derives the status of
//! the policies from the reports of all nodes: see docs/network-policy-plugins.md. Run it on each node:
//!   NODE_NAME=node-a cargo run --example network-policy-plugin
use std::time::Duration;

use k8s_openapi::api::{core::v1::Pod, networking::v1::NetworkPolicy};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, PostParams};
use kube::{Client, core::GroupVersionKind};
use serde_json::{Value, json};

const VERSIONS: [&str; 2] = ["1.3", "1.8"];
const RULES_MAX: usize = 100;
const HEARTBEAT_SECONDS: u64 = 5;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let node = std::env::var("NODE_NAME")?;
    Err(run(Client::try_default().await?, &node).await.into())
}

/// Reports every few seconds. A real plugin watches, and reports when something changed.
pub(crate) async fn run(client: Client, node: &str) -> kube::Error {
    loop {
        if let Err(error) = report(&client, node).await {
            return error;
        }
        tokio::time::sleep(Duration::from_secs(HEARTBEAT_SECONDS)).await;
    }
}

async fn report(client: &Client, node: &str) -> kube::Result<DynamicObject> {
    let all = ListParams::default();
    // First the pods, then the policies: the report must not claim pods that the plugin has not seen.
    let pods = Api::<Pod>::all(client.clone()).list(&all).await?;
    let kind = ApiResource::erase::<NetworkPolicy>(&());
    let policies: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let (mut applied, mut problems) = (Vec::new(), Vec::new());
    for policy in policies.list(&all).await? {
        let metadata = &policy.metadata;
        let mut entry = json!({
            "namespace": metadata.namespace, "name": metadata.name,
            "uid": metadata.uid, "generation": metadata.generation,
        });
        let spec = &policy.data["spec"];
        // A policy of a version that the plugin does not know is ignored as a whole.
        if VERSIONS
            .iter()
            .any(|version| spec["minVersion"] == *version)
        {
            // Here the plugin writes the rules of the policy for the selected pods of its node.
            applied.push(entry.clone());
        }
        if spec["ingress"]
            .as_array()
            .is_some_and(|rules| rules.len() > RULES_MAX)
        {
            entry["reason"] = "TooManyRules".into();
            entry["message"] = format!("rules after the first {RULES_MAX} are slow").into();
            problems.push(entry);
        }
    }
    let kind = GroupVersionKind::gvk("networking.rhumb.dev", "v1alpha1", "NetworkPolicyNode");
    let kind = ApiResource::from_gvk_with_plural(&kind, "networkpolicynodes");
    let reports: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let report = DynamicObject::new(node, &kind).data(json!({
        "agent": "example 1.0", "versions": VERSIONS, "applied": applied, "policyProblems": problems,
        "podsResourceVersion": pods.metadata.resource_version,
        "lastHeartbeatTime": Time(k8s_openapi::jiff::Timestamp::now()),
        "heartbeatSeconds": HEARTBEAT_SECONDS,
        "problem": Value::Null,
    }));
    reports.replace(node, &PostParams::default(), &report).await
}
