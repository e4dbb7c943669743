//! Cluster roles that are the sum of others: their rules are written anew whenever one of the others changes.

use std::sync::{Arc, Weak};

use rhumb_api::Object;
use rhumb_meta::ObjectKey;
use rhumb_store::{Error, Expect, Transaction};
use tokio::sync::Notify;

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

async fn write(api: &Arc<Api>, name: &str, rules: &serde_json::Value) -> Result<(), String> {
    let storage = api
        .registry
        .find("rbac.authorization.k8s.io", "clusterroles")
        .and_then(|resource| resource.storage.as_ref())
        .ok_or("cluster roles are not stored")?;
    let key = ObjectKey::cluster(name).map_err(|error| error.to_string())?;
    let entry = storage.cache.get(&key).map_err(|error| error.to_string())?;
    let Some(entry) = entry else {
        return Ok(());
    };
    let mut role: Object =
        serde_json::from_slice(entry.json_slice()).map_err(|error| error.to_string())?;
    role.insert("rules".into(), rules.clone());
    rhumb_schema::conform(api.table, storage.schema, &mut role);
    let bytes = storage
        .encoder
        .stored(&mut role)
        .map_err(|error| error.to_string())?;
    let put = Transaction::new().put(
        storage.prefix.object(&key),
        bytes,
        Expect::At(entry.revision()),
    );
    match api.store.commit(put).await {
        Ok(revision) => {
            api.seen(revision).await;
            Ok(())
        }
        // Somebody changed the role meanwhile; that change comes by here as well.
        Err(Error::Conflict(_)) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
