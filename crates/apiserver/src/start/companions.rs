//! Objects that someone else wrote, who knows nothing of companions, get theirs.

use std::sync::Arc;

use rhumb_api::Object;
use rhumb_store::{Error, Transaction};

use crate::Api;
use crate::objects::Metadata;
use crate::resources::{Companions, with};

/// Nothing stops at what cannot be put right: it was so before this server came.
pub(super) async fn repair(api: &Arc<Api>) {
    for (group, plural, companions) in api.companions.iter() {
        let storage = api
            .registry
            .find(group, plural)
            .and_then(|resource| resource.storage.as_ref());
        let Some(storage) = storage else {
            continue;
        };
        let snapshot = storage.cache.snapshot();
        for entry in snapshot.range(None, None) {
            let Ok(object) = serde_json::from_slice::<Object>(entry.json_slice()) else {
                continue;
            };
            if let Err(problem) = repair_one(api, companions, &object).await {
                tracing::warn!(
                    resource = plural,
                    namespace = object.namespace(),
                    name = object.name(),
                    problem,
                    "what belongs to an object could not be stored with it"
                );
            }
        }
    }
}

async fn repair_one(
    api: &Arc<Api>,
    companions: &dyn Companions,
    object: &Object,
) -> Result<(), String> {
    let missing = companions
        .missing(api, api.clock.wall(), object)
        .map_err(|status| status.message)?;
    for operation in missing {
        match api
            .store
            .commit(with(Transaction::new(), vec![operation]))
            .await
        {
            Ok(revision) => api.seen(revision).await,
            // Another server that starts now does the same.
            Err(Error::Conflict(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}
