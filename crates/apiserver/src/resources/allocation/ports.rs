//! Which service has which port of the nodes. No resource of the API shows these; upstream has a bitmap of its
//! own elsewhere and reads nothing here.

use std::sync::Arc;

use bytes::Bytes;
use rhumb_cache::{Cache, Entry, Projection, ProjectionError, Projector};
use rhumb_meta::{ObjectKey, Revision, Status};
use rhumb_store::{Expect, Operation};
use serde_json::{Value, json};

use super::records::{self, Owner};

/// Below the store's root. It has no dot, so it can be no group of custom resources.
pub const NODE_PORTS: &str = "rhumb-node-ports";

/// Keeps what is stored as it is.
#[derive(Debug)]
pub struct PortProjector;

impl Projector for PortProjector {
    fn fields(&self) -> &[Arc<str>] {
        &[]
    }

    fn project(
        &self,
        _key: &ObjectKey,
        stored: &Bytes,
        _revision: Revision,
    ) -> Result<Projection, ProjectionError> {
        Ok(Projection {
            json: stored.clone(),
            ..Projection::default()
        })
    }

    fn with_revision(&self, entry: &Entry, _revision: Revision) -> Bytes {
        entry.json()
    }
}

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
