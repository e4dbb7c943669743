//! How pods find the server: the ServiceCIDR `kubernetes`, the service of that name, and where it leads.

use std::net::SocketAddr;
use std::sync::Arc;

use rhumb_api::service_allocation::Family;
use rhumb_api::{Object, fields};
use serde_json::{Value, json};

use super::bootstrap::Batch;
use crate::Api;
use crate::resources::allocation::ServiceRanges;

const NAME: &str = "kubernetes";
const NAMESPACE: &str = "default";

pub(super) async fn run(
    api: &Arc<Api>,
    ranges: &ServiceRanges,
    advertised: Option<SocketAddr>,
) -> Result<(), String> {
    create_cidr(api, ranges).await?;
    // Who has the address of the service may be an older service. That is for people to put right; until then
    // everything else works.
    if let Err(problem) = create_service(api, ranges, advertised).await {
        tracing::warn!(problem, "the service of the API server cannot be made");
    }
    if let Some(address) = advertised {
        if Some(Family::of(address.ip())) == ranges.families().first().copied() {
            set_endpoints(api, address).await?;
        } else {
            tracing::warn!(%address, "the kubernetes service has addresses of another family than the server");
        }
    }
    Ok(())
}

async fn create_cidr(api: &Arc<Api>, ranges: &ServiceRanges) -> Result<(), String> {
    let cidrs: Vec<String> = ranges
        .configured()
        .iter()
        .map(ToString::to_string)
        .collect();
    let mut batch = Batch::new(api);
    let object = json!({"metadata": {"name": NAME}, "spec": {"cidrs": cidrs}});
    batch
        .create("networking.k8s.io", "servicecidrs", None, object)
        .await?;
    batch.flush().await?;
    let now = api.clock.wall().rfc3339().to_string();
    let mark_ready = |existing: Option<&Object>| {
        let mut object = existing?.clone();
        let is_ours = fields::get(&object, "spec.cidrs") == Some(&json!(cidrs));
        let is_marked = fields::items(&object, "status.conditions")
            .iter()
            .any(|condition| condition["type"] == "Ready");
        if !is_ours || is_marked {
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
        Some(object)
    };
    batch
        .add("networking.k8s.io", "servicecidrs", None, NAME, mark_ready)
        .await?;
    batch.flush().await
}

pub(super) async fn create_service(
    api: &Arc<Api>,
    ranges: &ServiceRanges,
    advertised: Option<SocketAddr>,
) -> Result<(), String> {
    let Some(address) = ranges.first() else {
        return Ok(());
    };
    let target = advertised.map_or(443, |address| address.port());
    let mut batch = Batch::new(api);
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
    batch
        .create("", "services", Some(NAMESPACE), service)
        .await?;
    batch.flush().await
}

/// This server is where the service leads.
async fn set_endpoints(api: &Arc<Api>, at: SocketAddr) -> Result<(), String> {
    let ports = json!([{"name": "https", "port": at.port(), "protocol": "TCP"}]);
    let ip = at.ip().to_string();
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
        "addressType": Family::of(at.ip()).as_str(),
        "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
        "ports": ports,
    });
    let mut batch = Batch::new(api);
    replace(&mut batch, "", "endpoints", endpoints, &["subsets"]).await?;
    let parts = ["endpoints", "ports"];
    replace(
        &mut batch,
        "discovery.k8s.io",
        "endpointslices",
        slice,
        &parts,
    )
    .await?;
    batch.flush().await
}

/// Makes the object, or gives an existing one the parts that differ.
async fn replace(
    batch: &mut Batch<'_>,
    group: &str,
    plural: &str,
    wanted: Value,
    parts: &[&str],
) -> Result<(), String> {
    let Value::Object(wanted) = wanted else {
        return Ok(());
    };
    let decide = |existing: Option<&Object>| {
        let Some(existing) = existing else {
            return Some(wanted);
        };
        let mut object = existing.clone();
        for &part in parts {
            if let Some(value) = wanted.get(part) {
                object.insert(part.to_owned(), value.clone());
            }
        }
        (object != *existing).then_some(object)
    };
    batch
        .add(group, plural, Some(NAMESPACE), NAME, decide)
        .await
}
