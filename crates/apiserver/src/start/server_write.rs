//! Read-modify-write of stored objects by the server's own background tasks, without admission or validation.

use std::sync::Arc;

use rhumb_api::JsonObject;
use rhumb_meta::ObjectKey;
use rhumb_store::{Error, ExpectedRevision, Transaction};

use crate::ServerState;

/// Result of a write by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerWriteResult {
    Written,
    /// No object needed a change.
    Unchanged,
    /// An object was changed concurrently; nothing was written.
    Conflict,
}

/// Replaces a cached object with the result of `update`; does nothing if it does not exist or `update` returns `None`.
/// After a concurrent change nothing is written: callers watch the object and try again with that change.
pub(super) async fn update_object(
    state: &Arc<ServerState>,
    resource: (&str, &str),
    key: &ObjectKey,
    update: impl FnOnce(JsonObject) -> Option<JsonObject>,
) -> Result<ServerWriteResult, String> {
    let transaction = add_update(state, resource, key, Transaction::new(), update)?;
    commit(state, transaction).await
}

/// As `update_object`, for several objects in one transaction.
pub(crate) async fn update_objects<E: FnOnce(JsonObject) -> Option<JsonObject>>(
    state: &Arc<ServerState>,
    resource: (&str, &str),
    updates: impl Iterator<Item = (&ObjectKey, E)>,
) -> Result<ServerWriteResult, String> {
    let mut transaction = Transaction::new();
    for (key, update) in updates {
        transaction = add_update(state, resource, key, transaction, update)?;
    }
    commit(state, transaction).await
}

/// Adds the update of one object to the transaction.
fn add_update(
    state: &Arc<ServerState>,
    (group, plural): (&str, &str),
    key: &ObjectKey,
    transaction: Transaction,
    update: impl FnOnce(JsonObject) -> Option<JsonObject>,
) -> Result<Transaction, String> {
    let storage = state
        .registry
        .find(group, plural)
        .and_then(|resource| resource.storage.as_ref())
        .ok_or_else(|| format!("{plural} are not stored"))?;
    let entry = storage.cache.get(key).map_err(|error| error.to_string())?;
    let Some(entry) = entry else {
        return Ok(transaction);
    };
    let object = serde_json::from_slice(entry.json_slice()).map_err(|error| error.to_string())?;
    let Some(mut object) = update(object) else {
        return Ok(transaction);
    };
    rhumb_schema::canonicalize(state.table, storage.schema, &mut object);
    let bytes = storage.encoder.encode_stored(&mut object);
    let path = storage.prefix.object(key);
    Ok(transaction.put(path, bytes, ExpectedRevision::At(entry.revision())))
}

async fn commit(
    state: &Arc<ServerState>,
    transaction: Transaction,
) -> Result<ServerWriteResult, String> {
    if transaction.operations().is_empty() {
        return Ok(ServerWriteResult::Unchanged);
    }
    match state.store.commit(transaction).await {
        Ok(revision) => {
            state.await_applied(revision).await;
            Ok(ServerWriteResult::Written)
        }
        Err(Error::Conflict(_)) => Ok(ServerWriteResult::Conflict),
        Err(error) => Err(error.to_string()),
    }
}
