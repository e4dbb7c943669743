//! Test support: a controller context on a fake client, and discovery documents.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use rhumb_client::leader::LeaseTimings;
pub(crate) use rhumb_client::testing::{
    fake_client, is_watch, list_response, ok_response, recording_fake_client, status_response,
};
use serde_json::{Value, json};

use crate::{ControllerContext, ControllerOptions, LeaderElectionConfig};

/// A context whose client and reader are both `client`.
pub(crate) fn context(client: Client) -> ControllerContext {
    ControllerContext {
        reader: client.clone(),
        client,
        options: Arc::new(ControllerOptions {
            election: LeaderElectionConfig {
                identity: String::new(),
                namespace: String::new(),
                name: String::new(),
                component: "the controllers",
                timings: LeaseTimings::default(),
            },
            root_ca: None,
            token_signer: None,
            node_monitor_grace_period: Duration::from_secs(50),
            node_startup_grace_period: Duration::from_secs(60),
            node_quarantine: Duration::from_secs(40),
            network_policy_grace_period: Duration::from_secs(40),
            network_policy_metrics: Arc::default(),
            terminated_pods_max: 0,
        }),
    }
}

/// Aggregated discovery document of a group that serves these namespaced resources in `v1`.
pub(crate) fn discovery<'a>(
    group: &str,
    freshness: &str,
    kinds: impl IntoIterator<Item = &'a str>,
) -> Value {
    let resources: Vec<Value> = kinds
        .into_iter()
        .map(|kind| {
            let singular = kind.trim_end_matches('s');
            let (first, rest) = singular.split_at(1);
            json!({
                "resource": kind, "singularResource": singular, "scope": "Namespaced",
                "responseKind": {"group": group, "version": "v1", "kind": first.to_uppercase() + rest},
                "verbs": ["get", "list", "watch", "delete", "deletecollection", "patch"],
            })
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": [{
            "metadata": {"name": group},
            "versions": [{"version": "v1", "freshness": freshness, "resources": resources}],
        }],
    })
}
