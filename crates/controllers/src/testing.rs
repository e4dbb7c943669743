//! What controllers are tried with: a server that is not one, and what it shows.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use rhumb_client::leader::Times;
pub(crate) use rhumb_client::testing::{client, is_watch, list, ok, refused, server};
use serde_json::{Value, json};

use crate::{Context, Election, Options};

/// For a controller that does all it does by this client.
pub(crate) fn context(client: Client) -> Context {
    Context {
        reader: client.clone(),
        client,
        options: Arc::new(Options {
            election: Election {
                identity: String::new(),
                namespace: String::new(),
                name: String::new(),
                led: "the controllers",
                times: Times::default(),
            },
            root_ca: None,
            token_signer: None,
            node_monitor_grace_period: Duration::from_secs(50),
            node_startup_grace_period: Duration::from_secs(60),
            node_quarantine: Duration::from_secs(40),
            terminated_pods_max: 0,
        }),
    }
}

/// What discovery shows of a group that has these kinds at `v1`, all in namespaces.
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
