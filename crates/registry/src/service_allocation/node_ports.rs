//! Node port records: which service has which node port. They are internal to rhumb and not visible in the API.
//! Upstream keeps a bitmap under another key, which is neither read nor written here.

use rhumb_cache::{CacheEntry, ResourceCache};
use rhumb_meta::Status;
use rhumb_store::{ExpectedRevision, TransactionOp};
use serde_json::{Value, json};

use super::records::{self, AllocationOwner};

/// The storage path of the records. It has no dot, so it cannot collide with a group of custom resources.
pub const NODE_PORTS_PATH: &str = "rhumb-node-ports";

/// Creates the record of a port, on condition that it does not exist.
pub(super) fn create_node_port(
    cache: &ResourceCache,
    port: u16,
    owner: &AllocationOwner<'_>,
) -> Result<TransactionOp, Status> {
    let record = json!({"namespace": owner.namespace, "name": owner.name, "uid": owner.uid});
    Ok(TransactionOp::Put {
        key: cache
            .prefix()
            .object(&records::record_key(&port.to_string())?)
            .into(),
        value: record.to_string().into(),
        expect: ExpectedRevision::Absent,
    })
}

/// Whether a record belongs to the service.
pub(super) fn is_owned_node_port(record: &CacheEntry, owner: &AllocationOwner<'_>) -> bool {
    serde_json::from_slice::<Value>(record.json_slice())
        .is_ok_and(|record| record["uid"] == owner.uid)
}
