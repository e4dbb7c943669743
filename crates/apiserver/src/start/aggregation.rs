//! Cluster roles that are the sum of others: their rules are written anew whenever one of the others changes.

use std::sync::{Arc, Weak};

use rhumb_meta::ObjectKey;
use tokio::sync::Notify;

use super::amend::amend;
use crate::Api;

/// Writes what is out of date, now and after every change, for as long as there is a server. A sum of sums is
/// written once its parts are: they are changes too.
pub(super) fn keep(api: &Arc<Api>, changed: Arc<Notify>) {
    let api: Weak<Api> = Arc::downgrade(api);
    changed.notify_one();
    tokio::spawn(async move {
        loop {
            changed.notified().await;
            let Some(api) = api.upgrade() else { return };
            for (name, rules) in api.policy.policy().stale_aggregates() {
                if let Err(problem) = write(&api, &name, &serde_json::json!(rules)).await {
                    tracing::warn!(
                        role = name,
                        problem,
                        "the rules of an aggregated cluster role are out of date"
                    );
                }
            }
        }
    });
}

/// Should somebody change the role meanwhile, that change comes by here as well.
async fn write(api: &Arc<Api>, name: &str, rules: &serde_json::Value) -> Result<(), String> {
    let key = ObjectKey::cluster(name).map_err(|error| error.to_string())?;
    let resource = ("rbac.authorization.k8s.io", "clusterroles");
    amend(api, resource, &key, |mut role| {
        role.insert("rules".into(), rules.clone());
        Some(role)
    })
    .await
    .map(|_| ())
}
