//! Small changes that the server makes to objects by itself.

use std::sync::Arc;

use rhumb_api::Object;
use rhumb_meta::ObjectKey;
use rhumb_store::{Error, Expect, Transaction};

use crate::Api;

/// Changes an object as the cache has it, if it is there and `edit` wants another. If somebody else changes it
/// meanwhile, nothing is written: the caller comes by again with that change.
pub(super) async fn amend(
    api: &Arc<Api>,
    (group, plural): (&str, &str),
    key: &ObjectKey,
    edit: impl FnOnce(Object) -> Option<Object>,
) -> Result<(), String> {
    let storage = api
        .registry
        .find(group, plural)
        .and_then(|resource| resource.storage.as_ref())
        .ok_or_else(|| format!("{plural} are not stored"))?;
    let entry = storage.cache.get(key).map_err(|error| error.to_string())?;
    let Some(entry) = entry else {
        return Ok(());
    };
    let object = serde_json::from_slice(entry.json_slice()).map_err(|error| error.to_string())?;
    let Some(mut object) = edit(object) else {
        return Ok(());
    };
    rhumb_schema::conform(api.table, storage.schema, &mut object);
    let bytes = storage.encoder.stored(&mut object);
    let bytes = bytes.map_err(|error| error.to_string())?;
    let path = storage.prefix.object(key);
    let put = Transaction::new().put(path, bytes, Expect::At(entry.revision()));
    match api.store.commit(put).await {
        Ok(revision) => {
            api.seen(revision).await;
            Ok(())
        }
        Err(Error::Conflict(_)) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
