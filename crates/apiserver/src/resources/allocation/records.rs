//! The IPAddress objects that say which service has which address.

use std::net::IpAddr;

use rhumb_api::Object;
use rhumb_api::service_allocation::Family;
use rhumb_cache::{Cache, Entry};
use rhumb_meta::{ObjectKey, Status, Timestamp};
use rhumb_store::{Expect, Operation};
use serde_json::{Value, json};

use crate::Api;
use crate::objects::Metadata;
use crate::resources::Storage;

/// The service that something was given to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Owner<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
}

impl<'a> Owner<'a> {
    pub(super) fn of(service: &'a Object) -> Owner<'a> {
        Owner {
            namespace: service.namespace(),
            name: service.name(),
            uid: service.uid(),
        }
    }
}

pub(super) fn key(name: &str) -> Result<ObjectKey, Status> {
    ObjectKey::cluster(name).map_err(Status::internal_error)
}

/// What cannot be read is there all the same.
pub(super) fn is_there(cache: &Cache, name: &str) -> bool {
    key(name).is_ok_and(|key| !matches!(cache.get(&key), Ok(None)))
}

pub(super) fn addresses(api: &Api) -> Result<&Storage, Status> {
    api.registry
        .find("networking.k8s.io", "ipaddresses")
        .and_then(|resource| resource.storage.as_ref())
        .ok_or_else(|| Status::internal_error("addresses are not stored"))
}

/// Writes that an address is the service's, if it is nobody's.
pub(super) fn put_address(
    api: &Api,
    now: Timestamp,
    address: IpAddr,
    owner: &Owner<'_>,
) -> Result<Operation, Status> {
    let storage = addresses(api)?;
    let name = address.to_string();
    let record = json!({
        "apiVersion": storage.api_version,
        "kind": "IPAddress",
        "metadata": {
            "name": name,
            "uid": uuid::Uuid::new_v4().to_string(),
            "creationTimestamp": now.rfc3339().to_string(),
            "labels": {
                "ipaddress.kubernetes.io/ip-family": Family::of(address).as_str(),
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {"parentRef": {
            "group": "",
            "resource": "services",
            "namespace": owner.namespace,
            "name": owner.name,
        }},
    });
    let Value::Object(mut record) = record else {
        return Err(Status::internal_error("an address is no object"));
    };
    rhumb_schema::conform(api.table, storage.schema, &mut record);
    let value = storage.encoder.stored(&mut record);
    Ok(Operation::Put {
        key: storage.prefix.object(&key(&name)?).into(),
        value,
        expect: Expect::Absent,
    })
}

pub(super) fn is_address_of(record: &Entry, owner: &Owner<'_>) -> bool {
    let Ok(record) = serde_json::from_slice::<Value>(record.json_slice()) else {
        return false;
    };
    let parent = &record["spec"]["parentRef"];
    parent["resource"] == "services"
        && parent["namespace"] == owner.namespace
        && parent["name"] == owner.name
}

/// Removes a record, if it is there and is the owner's: what was given to someone else meanwhile stays theirs.
pub(super) fn delete(
    cache: &Cache,
    name: &str,
    is_own: impl Fn(&Entry) -> bool,
) -> Result<Option<Operation>, Status> {
    let key = key(name)?;
    let record = cache.get(&key).map_err(Status::internal_error)?;
    Ok(record
        .filter(|record| is_own(record))
        .map(|record| Operation::Delete {
            key: cache.prefix().object(&key).into(),
            expect: Expect::At(record.revision()),
        }))
}
