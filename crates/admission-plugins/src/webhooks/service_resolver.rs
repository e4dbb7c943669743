//! Resolves the Services of webhooks to addresses, from the caches of Services and EndpointSlices (upstream:
//! `ServiceResolver`).

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use rhumb_cache::{ListQuery, ResourceCache};
use rhumb_meta::ObjectKey;
use rhumb_meta::fields::Selector as FieldSelector;
use rhumb_meta::labels::Selector;
use rhumb_webhooks::{ServiceResolver, TargetAddress, TargetService};
use serde_json::Value;

use crate::cache_derived_value::CacheDerivedValue;
use rhumb_registry::ResourceTable;

const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Maximum number of cached resolutions; configurations rarely name as many Services.
const MAX_RESOLVED_SERVICES: usize = 1024;

/// Resolves Services from the server's caches, once they are attached.
#[derive(Debug, Default)]
pub(crate) struct ClusterServiceResolver(OnceLock<ServiceCaches>);

/// The caches that Services are resolved from.
#[derive(Debug)]
struct ServiceCaches {
    services: ResourceCache,
    slices: ResourceCache,
    /// Cached resolutions: each call resolves its Service, and both caches change far less often.
    resolved: CacheDerivedValue<CacheDerivedValue<ResolvedServices>>,
}

impl ClusterServiceResolver {
    /// Attaches the caches.
    pub(crate) fn attach_caches(&self, resources: &ResourceTable) {
        let cache = |group: &str, plural: &str| {
            let storage = resources.find(group, plural)?.storage.as_ref()?;
            Some(storage.cache.clone())
        };
        if let (Some(services), Some(slices)) = (
            cache("", "services"),
            cache("discovery.k8s.io", "endpointslices"),
        ) {
            let _ = self.0.set(ServiceCaches {
                services,
                slices,
                resolved: CacheDerivedValue::default(),
            });
        }
    }
}

impl ServiceResolver for ClusterServiceResolver {
    fn resolve(&self, service: &TargetService) -> Result<Vec<TargetAddress>, String> {
        let caches = self.0.get().ok_or("the service cache is not ready yet")?;
        let resolved = caches.resolved();
        if let Some(resolution) = resolved.get(service) {
            return resolution;
        }
        let resolution = caches.find(service).and_then(|service_object| {
            resolve_service(service, &service_object, || caches.slices_of(service))
        });
        resolved.put(service, &resolution);
        resolution
    }
}

/// Resolved Services, valid while neither Services nor EndpointSlices change.
#[derive(Debug, Default)]
struct ResolvedServices(Mutex<HashMap<TargetService, ServiceResolution>>);

type ServiceResolution = Result<Vec<TargetAddress>, String>;

impl ResolvedServices {
    fn get(&self, service: &TargetService) -> Option<ServiceResolution> {
        let resolved = self.0.lock();
        resolved.get(service).cloned()
    }

    fn put(&self, service: &TargetService, resolution: &ServiceResolution) {
        let mut resolved = self.0.lock();
        if resolved.len() < MAX_RESOLVED_SERVICES {
            resolved.insert(service.clone(), resolution.clone());
        }
    }
}

impl ServiceCaches {
    fn find(&self, service: &TargetService) -> Result<Value, String> {
        let missing = || format!("service {:?} not found", service.name);
        let key = ObjectKey::new(Some(&service.namespace), &service.name).map_err(|_| missing())?;
        let entry = self.services.get(&key).map_err(|error| error.to_string())?;
        let entry = entry.ok_or_else(missing)?;
        serde_json::from_slice(entry.json_slice()).map_err(|error| error.to_string())
    }

    fn slices_of(&self, service: &TargetService) -> Vec<Value> {
        let snapshot = self.slices.snapshot();
        let labels = Selector::from_labels([(SERVICE_NAME, &*service.name)]);
        let all_fields = FieldSelector::everything();
        let query = ListQuery {
            namespace: Some(&service.namespace),
            labels: &labels,
            fields: &all_fields,
            after: None,
            limit: usize::MAX,
        };
        let slices = self.slices.list(&snapshot, &query);
        slices
            .filter_map(|entry| serde_json::from_slice(entry.json_slice()).ok())
            .collect()
    }

    fn resolved(&self) -> Arc<ResolvedServices> {
        let of_services = self
            .resolved
            .get(&self.services, |_, _| CacheDerivedValue::default());
        of_services.get(&self.slices, |_, _| ResolvedServices::default())
    }
}

/// Resolves to ready endpoints, so that kube-proxy need not run on the server's host. Without a ready endpoint nothing
/// would respond at the cluster IP either, and calls would only time out. The cluster IP is used only if the Service
/// has neither a selector nor EndpointSlices, because its endpoints may then be managed elsewhere.
fn resolve_service(
    service: &TargetService,
    service_object: &Value,
    slices: impl FnOnce() -> Vec<Value>,
) -> ServiceResolution {
    let spec = &service_object["spec"];
    let address_of = |host: &str| {
        vec![TargetAddress {
            host: host.to_owned(),
            port: service.port,
        }]
    };
    if spec["type"] == "ExternalName" {
        return Ok(address_of(text(&spec["externalName"])));
    }
    let port = port_name(service_object, service.port).ok_or_else(|| {
        format!(
            "no service port {} found for service {:?}",
            service.port, service.name
        )
    })?;
    let slices = slices();
    let ready: Vec<TargetAddress> = slices
        .iter()
        .flat_map(|slice| ready_addresses(slice, port))
        .collect();
    if !ready.is_empty() {
        return Ok(ready);
    }
    let has_selector = spec["selector"].as_object().is_some_and(|s| !s.is_empty());
    match text(&spec["clusterIP"]) {
        address if slices.is_empty() && !has_selector && !matches!(address, "" | "None") => {
            Ok(address_of(address))
        }
        _ => Err(format!(
            "no endpoints available for service {:?}",
            service.name
        )),
    }
}

/// The name of a service port; may be empty.
fn port_name(service: &Value, number: u16) -> Option<&str> {
    let ports = service["spec"]["ports"].as_array()?;
    let port = ports.iter().find(|port| port["port"] == number)?;
    Some(text(&port["name"]))
}

fn ready_addresses(slice: &Value, port: &str) -> Vec<TargetAddress> {
    let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let number = items(&slice["ports"])
        .iter()
        .find(|slice_port| text(&slice_port["name"]) == port)
        .and_then(|slice_port| slice_port["port"].as_u64()?.try_into().ok());
    let Some(number) = number else {
        return Vec::new();
    };
    items(&slice["endpoints"])
        .iter()
        .filter(|endpoint| endpoint["conditions"]["ready"] != false)
        .flat_map(|endpoint| items(&endpoint["addresses"]))
        .filter_map(|address| {
            Some(TargetAddress {
                host: address.as_str()?.to_owned(),
                port: number,
            })
        })
        .collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use rhumb_registry::testing::TestCaches;

    fn service(spec: Value) -> Value {
        let mut service = json!({"spec": {
            "type": "ClusterIP",
            "clusterIP": "10.0.0.1",
            "ports": [{"port": 443, "name": "https"}, {"port": 80}],
        }});
        for (field, value) in spec.as_object().unwrap() {
            service["spec"][field] = value.clone();
        }
        service
    }

    /// An EndpointSlice with these addresses and, if known, their readiness.
    fn slice(port: &str, endpoints: &[(&str, Option<bool>)]) -> Value {
        let endpoint = |&(address, ready): &(&str, Option<bool>)| {
            json!({
                "addresses": [address],
                "conditions": {"ready": ready},
            })
        };
        json!({
            "ports": [{"name": port, "port": 8443}],
            "endpoints": endpoints.iter().map(endpoint).collect::<Vec<_>>(),
        })
    }

    fn resolve(port: u16, service_object: &Value, slices: &[Value]) -> Result<String, String> {
        let service = TargetService {
            namespace: "ns".into(),
            name: "hook".into(),
            port,
        };
        let resolution = resolve_service(&service, service_object, || slices.to_vec())?;
        let addresses: Vec<String> = resolution.iter().map(TargetAddress::to_string).collect();
        Ok(addresses.join(" "))
    }

    /// The requested port, the Service, its EndpointSlices, and the expected resolution.
    type ResolutionCase<'c> = (u16, &'c Value, &'c [&'c Value], Result<&'c str, &'c str>);

    #[test]
    fn services_resolve_to_ready_endpoints() {
        let plain = service(json!({}));
        let selecting = service(json!({"selector": {"app": "hook"}}));
        let headless = service(json!({"clusterIP": "None"}));
        let external = service(json!({"type": "ExternalName", "externalName": "a.example"}));
        let ready = slice(
            "https",
            &[("1.1.1.1", Some(true)), ("1.1.1.2", Some(false))],
        );
        let unknown = slice("https", &[("1.1.1.3", None)]);
        let unready = slice("https", &[("1.1.1.4", Some(false))]);
        let empty = slice("https", &[]);
        let other_port = slice("http", &[("1.1.1.5", Some(true))]);
        let nameless = slice("", &[("1.1.1.6", Some(true))]);
        let no_endpoints = Err("no endpoints available for service \"hook\"");

        let cases: &[ResolutionCase<'_>] = &[
            (443, &plain, &[&ready], Ok("1.1.1.1:8443")),
            (
                443,
                &selecting,
                &[&unready, &ready, &unknown],
                Ok("1.1.1.1:8443 1.1.1.3:8443"),
            ),
            (443, &headless, &[&ready], Ok("1.1.1.1:8443")),
            (80, &plain, &[&ready, &nameless], Ok("1.1.1.6:8443")),
            // There are EndpointSlices or a selector, but no ready endpoint.
            (443, &plain, &[&unready], no_endpoints),
            (443, &plain, &[&empty], no_endpoints),
            (443, &plain, &[&other_port], no_endpoints),
            (443, &selecting, &[], no_endpoints),
            (443, &selecting, &[&unready], no_endpoints),
            (443, &headless, &[], no_endpoints),
            // There are neither EndpointSlices nor a selector.
            (443, &plain, &[], Ok("10.0.0.1:443")),
            (
                443,
                &service(json!({"selector": {}})),
                &[],
                Ok("10.0.0.1:443"),
            ),
            (443, &external, &[], Ok("a.example:443")),
            (
                444,
                &plain,
                &[&ready],
                Err("no service port 444 found for service \"hook\""),
            ),
        ];
        for (port, service_object, slices, expect) in cases {
            let slices: Vec<Value> = slices.iter().map(|&slice| slice.clone()).collect();
            let resolution = resolve(*port, service_object, &slices);
            let resolution = resolution.as_deref().map_err(String::as_str);
            assert_eq!(resolution, *expect, "{port} {service_object} {slices:?}");
        }
    }

    /// A change of a Service or its endpoints invalidates cached resolutions.
    #[tokio::test]
    async fn resolutions_follow_service_changes() {
        let directory = tempfile::tempdir().unwrap();
        let caches = TestCaches::open(directory.path()).await;
        let services = ClusterServiceResolver::default();
        let webhook = TargetService {
            namespace: "default".into(),
            name: "hook".into(),
            port: 443,
        };
        let check = |expect: Result<&str, &str>| {
            for _ in 0..2 {
                let resolution = services.resolve(&webhook);
                let resolution = resolution.map(|addresses| addresses[0].to_string());
                assert_eq!(resolution.as_deref().map_err(String::as_str), expect);
            }
        };
        check(Err("the service cache is not ready yet"));
        services.attach_caches(&caches.resources);
        check(Err("service \"hook\" not found"));

        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "hook", "namespace": "default", "uid": "1"},
            "spec": {"type": "ClusterIP", "clusterIP": "10.0.0.9", "ports": [{"port": 443}]},
        });
        caches.put("services/specs/default/hook", &service).await;
        check(Ok("10.0.0.9:443"));

        let path = "endpointslices/default/hook-1";
        let mut slice = slice("", &[("192.0.2.1", Some(true))]);
        slice["apiVersion"] = "discovery.k8s.io/v1".into();
        slice["kind"] = "EndpointSlice".into();
        slice["metadata"] = json!({
            "name": "hook-1",
            "namespace": "default",
            "uid": "2",
            "labels": {SERVICE_NAME: "hook"},
        });
        slice["addressType"] = "IPv4".into();
        caches.put(path, &slice).await;
        check(Ok("192.0.2.1:8443"));

        slice["endpoints"] = json!([{"addresses": ["192.0.2.1"], "conditions": {"ready": false}}]);
        caches.put(path, &slice).await;
        check(Err("no endpoints available for service \"hook\""));
        caches.close().await;
    }
}
