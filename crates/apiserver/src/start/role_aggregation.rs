//! Aggregated ClusterRoles: rewrites the rules of a role with an `aggregationRule` when a selected role changes
//! (upstream: the clusterrole-aggregation controller).

use std::sync::{Arc, Weak};

use rhumb_api::JsonObject;
use tokio::sync::Notify;

use rhumb_handlers::ServerState;
use rhumb_registry::Registry;
use rhumb_registry::write::{ObjectReference, ServerChange, write_as_server};

/// Spawns the task that writes stale roles, now and after every change of a cluster role. It ends with the server. An
/// aggregate of aggregates converges, because each write is a change that wakes the task again.
pub(super) fn spawn(state: &Arc<ServerState>, changed: Arc<Notify>) {
    let state: Weak<ServerState> = Arc::downgrade(state);
    changed.notify_one();
    tokio::spawn(async move {
        loop {
            changed.notified().await;
            let Some(state) = state.upgrade() else { return };
            for (name, rules) in state.policy.policy().stale_aggregates() {
                if let Err(error) =
                    write_rules(&state.registry, &name, &serde_json::json!(rules)).await
                {
                    tracing::warn!(
                        role = name,
                        error,
                        "failed to write the rules of an aggregated cluster role; retrying after the next role change"
                    );
                }
            }
        }
    });
}

/// A concurrent change of the role wins; it wakes the task again.
async fn write_rules(
    registry: &Arc<Registry>,
    name: &str,
    rules: &serde_json::Value,
) -> Result<(), String> {
    let reference = ObjectReference {
        group: "rbac.authorization.k8s.io",
        plural: "clusterroles",
        namespace: None,
        name,
    };
    let set_rules = |role: Option<&JsonObject>| {
        let mut role = role?.clone();
        role.insert("rules".into(), rules.clone());
        Some(ServerChange::Update(role))
    };
    write_as_server(registry, reference, set_rules)
        .await
        .map(|_| ())
}
