//! Small changes that the server makes to objects by itself.

use std::sync::Arc;

use rhumb_api::Object;
use rhumb_meta::ObjectKey;
use rhumb_store::{Error, Expect, Transaction};

use crate::Api;

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Amended {
    Written,
    /// There was nothing to change.
    Same,
    /// Somebody else changed it meanwhile, and nothing was written.
    Overtaken,
}

/// Changes an object as the cache has it, if it is there and `edit` wants another. If somebody else changes it
/// meanwhile, nothing is written: the caller comes by again with that change.
pub(super) async fn amend(
    api: &Arc<Api>,
    resource: (&str, &str),
    key: &ObjectKey,
    edit: impl FnOnce(Object) -> Option<Object>,
) -> Result<Amended, String> {
    let transaction = amendment(api, resource, key, Transaction::new(), edit)?;
    commit(api, transaction).await
}

/// The same of several objects at once: all of them, or none.
pub(crate) async fn amend_all<E: FnOnce(Object) -> Option<Object>>(
    api: &Arc<Api>,
    resource: (&str, &str),
    edits: impl Iterator<Item = (&ObjectKey, E)>,
) -> Result<Amended, String> {
    let mut transaction = Transaction::new();
    for (key, edit) in edits {
        transaction = amendment(api, resource, key, transaction, edit)?;
    }
    commit(api, transaction).await
}

/// The transaction, which also makes the change.
fn amendment(
    api: &Arc<Api>,
    (group, plural): (&str, &str),
    key: &ObjectKey,
    transaction: Transaction,
    edit: impl FnOnce(Object) -> Option<Object>,
) -> Result<Transaction, String> {
    let storage = api
        .registry
        .find(group, plural)
        .and_then(|resource| resource.storage.as_ref())
        .ok_or_else(|| format!("{plural} are not stored"))?;
    let entry = storage.cache.get(key).map_err(|error| error.to_string())?;
    let Some(entry) = entry else {
        return Ok(transaction);
    };
    let object = serde_json::from_slice(entry.json_slice()).map_err(|error| error.to_string())?;
    let Some(mut object) = edit(object) else {
        return Ok(transaction);
    };
    rhumb_schema::conform(api.table, storage.schema, &mut object);
    let bytes = storage.encoder.stored(&mut object);
    let path = storage.prefix.object(key);
    Ok(transaction.put(path, bytes, Expect::At(entry.revision())))
}

async fn commit(api: &Arc<Api>, transaction: Transaction) -> Result<Amended, String> {
    if transaction.operations().is_empty() {
        return Ok(Amended::Same);
    }
    match api.store.commit(transaction).await {
        Ok(revision) => {
            api.seen(revision).await;
            Ok(Amended::Written)
        }
        Err(Error::Conflict(_)) => Ok(Amended::Overtaken),
        Err(error) => Err(error.to_string()),
    }
}
