//! Which service has which port of the nodes. No resource of the API shows these; upstream has a bitmap of its
//! own elsewhere and reads nothing here.

use rhumb_cache::{Cache, Entry};
use rhumb_meta::Status;
use rhumb_store::{Expect, Operation};
use serde_json::{Value, json};

use super::records::{self, Owner};

/// Below the store's root. It has no dot, so it can be no group of custom resources.
pub const NODE_PORTS: &str = "rhumb-node-ports";

pub(super) fn put(cache: &Cache, port: u16, owner: &Owner<'_>) -> Result<Operation, Status> {
    let record = json!({"namespace": owner.namespace, "name": owner.name, "uid": owner.uid});
    Ok(Operation::Put {
        key: cache
            .prefix()
            .object(&records::key(&port.to_string())?)
            .into(),
        value: record.to_string().into(),
        expect: Expect::Absent,
    })
}

pub(super) fn is_of(record: &Entry, owner: &Owner<'_>) -> bool {
    serde_json::from_slice::<Value>(record.json_slice())
        .is_ok_and(|record| record["uid"] == owner.uid)
}
