//! IPAddress objects, which record the service that has a cluster IP, and helpers for all allocation records.

use std::net::IpAddr;
use std::sync::Arc;

use rhumb_api::JsonObject;
use rhumb_api::service_allocation::IpFamily;
use rhumb_cache::{CacheEntry, ResourceCache};
use rhumb_meta::{ObjectKey, Status, Timestamp};
use rhumb_store::{ExpectedRevision, TransactionOp};
use serde_json::{Value, json};

use crate::Registry;
use crate::ResourceStorage;
use crate::objects::ObjectMetadata;

/// The service that an allocation belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AllocationOwner<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
}

impl<'a> AllocationOwner<'a> {
    pub(super) fn for_service(service: &'a JsonObject) -> AllocationOwner<'a> {
        AllocationOwner {
            namespace: service.namespace(),
            name: service.name(),
            uid: service.uid(),
        }
    }
}

pub(super) fn record_key(name: &str) -> Result<ObjectKey, Status> {
    ObjectKey::cluster(name).map_err(Status::internal_error)
}

/// Whether a record exists, including corrupt ones.
pub(super) fn exists(cache: &ResourceCache, name: &str) -> bool {
    record_key(name).is_ok_and(|key| !matches!(cache.get(&key), Ok(None)))
}

/// The storage of IPAddress objects.
pub(super) fn ip_address_storage(registry: &Registry) -> Result<Arc<ResourceStorage>, Status> {
    registry
        .find("networking.k8s.io", "ipaddresses")
        .and_then(|resource| resource.storage.clone())
        .ok_or_else(|| {
            Status::internal_error("resource ipaddresses.networking.k8s.io is not registered")
        })
}

/// Creates the IPAddress object of a service, on condition that the address is free.
pub(super) fn create_ip_address(
    registry: &Registry,
    now: Timestamp,
    address: IpAddr,
    owner: &AllocationOwner<'_>,
) -> Result<TransactionOp, Status> {
    let storage = ip_address_storage(registry)?;
    let name = address.to_string();
    let record = json!({
        "apiVersion": storage.api_version,
        "kind": "IPAddress",
        "metadata": {
            "name": name,
            "uid": uuid::Uuid::new_v4().to_string(),
            "creationTimestamp": now.rfc3339().to_string(),
            "labels": {
                "ipaddress.kubernetes.io/ip-family": IpFamily::of_address(address).as_str(),
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
        return Err(Status::internal_error(
            "the IPAddress record is not a JSON object",
        ));
    };
    storage.schema.canonicalize(&mut record);
    let value = storage.encoder.encode_stored(&mut record);
    Ok(TransactionOp::Put {
        key: storage.prefix.object(&record_key(&name)?).into(),
        value,
        expect: ExpectedRevision::Absent,
    })
}

/// Whether an IPAddress object belongs to the service.
pub(super) fn is_owned_ip_address(record: &CacheEntry, owner: &AllocationOwner<'_>) -> bool {
    let Ok(record) = serde_json::from_slice::<Value>(record.json_slice()) else {
        return false;
    };
    let parent = &record["spec"]["parentRef"];
    parent["resource"] == "services"
        && parent["namespace"] == owner.namespace
        && parent["name"] == owner.name
}

/// Deletes a record if it exists and `is_own`: after a release, another service may have got the allocation.
pub(super) fn delete_if_owned(
    cache: &ResourceCache,
    name: &str,
    is_own: impl Fn(&CacheEntry) -> bool,
) -> Result<Option<TransactionOp>, Status> {
    let key = record_key(name)?;
    let record = cache.get(&key).map_err(Status::internal_error)?;
    Ok(record
        .filter(|record| is_own(record))
        .map(|record| TransactionOp::Delete {
            key: cache.prefix().object(&key).into(),
            expect: ExpectedRevision::At(record.revision()),
        }))
}
