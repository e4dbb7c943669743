//! Claims, volumes and classes of volumes carry a finalizer of ours, and stay as long as somebody uses them.
//!
//! All three have one shape (`keeper`): an object that is being deleted is read, then whoever might hold it is read,
//! and the finalizer goes by an update of what was read if there is nobody. Those that are held wait until their
//! last holder goes (`state`). Of anything else nothing is kept, however many pods and claims there are.

mod claims;
mod classes;
mod keeper;
mod state;
mod views;
mod volumes;

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;

use crate::Error;

pub(crate) use claims::run as run_claims;
pub(crate) use classes::run as run_classes;
pub(crate) use volumes::run as run_volumes;

/// Objects that are read at once where all of a kind are looked through.
const PAGE: u32 = 500;

/// What holds each object, by the name of the object: UIDs.
type Holders = HashMap<String, HashSet<String>>;

/// A kind whose objects stay as long as they are used.
trait Protected: Send + Sync {
    const FINALIZER: &'static str;

    /// Objects of a namespace, or all if they have none.
    fn api(client: Client, namespace: &str) -> Api<DynamicObject>;

    /// Who uses any of these objects, which are being deleted and were read before.
    fn holders(
        reader: &Client,
        namespace: &str,
        going: &HashMap<String, DynamicObject>,
    ) -> impl Future<Output = Result<Holders, Error>> + Send;
}

/// What the finalizer of an object needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Add,
    /// If nobody uses the object.
    Remove,
}

fn task(metadata: &ObjectMeta, finalizer: &str) -> Option<Task> {
    let mut finalizers = metadata.finalizers.iter().flatten();
    let is_protected = finalizers.any(|own| own == finalizer);
    match (metadata.deletion_timestamp.is_some(), is_protected) {
        (true, true) => Some(Task::Remove),
        (false, false) => Some(Task::Add),
        _ => None,
    }
}

fn apply(task: Task, metadata: &mut ObjectMeta, finalizer: &str) {
    let finalizers = metadata.finalizers.get_or_insert_default();
    match task {
        Task::Add => finalizers.push(finalizer.to_owned()),
        Task::Remove => finalizers.retain(|own| own != finalizer),
    }
}

/// Reads all there are as of now, a page at a time.
async fn for_each<K>(api: &Api<K>, mut look: impl FnMut(K)) -> Result<(), Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = api.list(&params).await?;
        page.items.into_iter().for_each(&mut look);
        match page.metadata.continue_ {
            Some(next) if !next.is_empty() => params = params.continue_token(&next),
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn finalizers_are_added_to_what_stays_and_taken_from_what_goes() {
        let time = "2026-01-01T00:00:00Z";
        let table = [
            (json!({}), Some(Task::Add), json!(["ours"])),
            (
                json!({"finalizers": ["theirs"]}),
                Some(Task::Add),
                json!(["theirs", "ours"]),
            ),
            (json!({"finalizers": ["ours"]}), None, json!(["ours"])),
            (
                json!({"deletionTimestamp": time, "finalizers": ["ours", "theirs"]}),
                Some(Task::Remove),
                json!(["theirs"]),
            ),
            (
                json!({"deletionTimestamp": time, "finalizers": ["theirs"]}),
                None,
                json!(["theirs"]),
            ),
        ];
        for (metadata, wanted, after) in table {
            check(metadata, wanted, after);
        }
    }

    fn check(metadata: Value, wanted: Option<Task>, after: Value) {
        let mut metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
        assert_eq!(task(&metadata, "ours"), wanted, "{metadata:?}");
        if let Some(wanted) = wanted {
            apply(wanted, &mut metadata, "ours");
        }
        assert_eq!(json!(metadata.finalizers), after);
    }
}
