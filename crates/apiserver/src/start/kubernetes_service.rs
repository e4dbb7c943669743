//! Bootstraps in-cluster access to the API server: the ServiceCIDR `kubernetes`, the Service `default/kubernetes`, and
//! its Endpoints and EndpointSlice (upstream: the kubernetesservice and defaultservicecidr controllers).

use std::net::SocketAddr;
use std::sync::Arc;

use rhumb_api::service_allocation::IpFamily;
use rhumb_api::{JsonObject, fields};
use serde_json::{Value, json};

use super::bootstrap::create_if_absent;
use rhumb_registry::Registry;
use rhumb_registry::service_allocation::ServiceAllocationRanges;
use rhumb_registry::write::{BatchChange, BatchObjectRef, WriteBatch, write_as_server};

const NAME: &str = "kubernetes";
const NAMESPACE: &str = "default";

pub(super) async fn bootstrap_service_access(
    registry: &Arc<Registry>,
    ranges: &ServiceAllocationRanges,
    advertised: Option<SocketAddr>,
) -> Result<(), String> {
    create_cidr(registry, ranges).await?;
    // An older service may have the cluster IP. An administrator has to resolve that; everything else works meanwhile.
    if let Err(error) = create_service(registry, ranges, advertised).await {
        tracing::warn!(
            error,
            "failed to create service default/kubernetes; retrying periodically"
        );
    }
    if let Some(address) = advertised {
        if Some(IpFamily::of_address(address.ip())) == ranges.families().first().copied() {
            if let Err(error) = set_endpoints(registry, address).await {
                tracing::warn!(
                    error,
                    "failed to write the endpoints of service default/kubernetes; retrying at the next start"
                );
            }
        } else {
            tracing::warn!(
                %address,
                "advertised address is not of the primary service IP family; default/kubernetes gets no endpoints"
            );
        }
    }
    Ok(())
}

async fn create_cidr(
    registry: &Arc<Registry>,
    ranges: &ServiceAllocationRanges,
) -> Result<(), String> {
    let cidrs: Vec<String> = ranges
        .configured()
        .iter()
        .map(ToString::to_string)
        .collect();
    let reference = BatchObjectRef {
        group: "networking.k8s.io",
        plural: "servicecidrs",
        namespace: None,
        name: NAME,
    };
    let object = json!({"metadata": {"name": NAME}, "spec": {"cidrs": cidrs}});
    let create = |existing: Option<&JsonObject>| create_if_absent(existing, object);
    write_as_server(registry, reference, create).await?;
    let now = registry.clock.wall().rfc3339().to_string();
    let mark_ready = |existing: Option<&JsonObject>| {
        let mut object = existing?.clone();
        let has_same_cidrs = fields::get(&object, "spec.cidrs") == Some(&json!(cidrs));
        let has_ready_condition = fields::items(&object, "status.conditions")
            .iter()
            .any(|condition| condition["type"] == "Ready");
        if !has_same_cidrs || has_ready_condition {
            return None;
        }
        fields::set(
            &mut object,
            "status.conditions",
            json!([{
                "type": "Ready",
                "status": "True",
                "lastTransitionTime": now,
                "reason": "",
                "message": "Kubernetes default Service CIDR is ready",
            }]),
        );
        Some(BatchChange::UpdateStatus(object))
    };
    if let Err(error) = write_as_server(registry, reference, mark_ready).await {
        tracing::warn!(
            error,
            "failed to mark the ServiceCIDR kubernetes as ready; retrying at the next start"
        );
    }
    Ok(())
}

pub(super) async fn create_service(
    registry: &Arc<Registry>,
    ranges: &ServiceAllocationRanges,
    advertised: Option<SocketAddr>,
) -> Result<(), String> {
    let Some(address) = ranges.api_server_address() else {
        return Ok(());
    };
    let target = advertised.map_or(443, |address| address.port());
    let service = json!({
        "metadata": {
            "name": NAME,
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": address.to_string(),
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": target}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
    });
    let create = |existing: Option<&JsonObject>| create_if_absent(existing, service);
    write_as_server(registry, reference("", "services"), create).await?;
    Ok(())
}

/// The object of this resource that belongs to the service.
fn reference(group: &'static str, plural: &'static str) -> BatchObjectRef<'static> {
    BatchObjectRef {
        group,
        plural,
        namespace: Some(NAMESPACE),
        name: NAME,
    }
}

/// Points the Endpoints and the EndpointSlice of the service to this server.
async fn set_endpoints(registry: &Arc<Registry>, address: SocketAddr) -> Result<(), String> {
    let ports = json!([{"name": "https", "port": address.port(), "protocol": "TCP"}]);
    let ip = address.ip().to_string();
    let endpoints = json!({
        "metadata": {
            "name": NAME,
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{"addresses": [{"ip": ip}], "ports": ports}],
    });
    let slice = json!({
        "metadata": {
            "name": NAME,
            "labels": {"kubernetes.io/service-name": NAME},
        },
        "addressType": IpFamily::of_address(address.ip()).as_str(),
        "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
        "ports": ports,
    });
    let mut batch = WriteBatch::new(registry);
    create_or_update(
        &mut batch,
        reference("", "endpoints"),
        endpoints,
        &["subsets"],
    )
    .await?;
    let slices = reference("discovery.k8s.io", "endpointslices");
    create_or_update(&mut batch, slices, slice, &["endpoints", "ports"]).await?;
    batch.commit().await.map(|_| ())
}

/// Creates the object, or replaces these top-level fields of an existing one if they differ.
async fn create_or_update(
    batch: &mut WriteBatch<'_>,
    reference: BatchObjectRef<'_>,
    desired: Value,
    parts: &[&str],
) -> Result<(), String> {
    let Value::Object(desired) = desired else {
        return Ok(());
    };
    let decide = |existing: Option<&JsonObject>| {
        let Some(existing) = existing else {
            return Some(BatchChange::Create(desired));
        };
        let mut object = existing.clone();
        for &part in parts {
            if let Some(value) = desired.get(part) {
                object.insert(part.to_owned(), value.clone());
            }
        }
        (object != *existing).then_some(BatchChange::Update(object))
    };
    batch.add(reference, decide).await
}
