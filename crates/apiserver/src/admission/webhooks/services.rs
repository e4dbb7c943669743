//! Where the services of the cluster are, for calls to webhooks.

use std::sync::OnceLock;

use rhumb_cache::{Asked, Cache};
use rhumb_meta::ObjectKey;
use rhumb_meta::fields::Selector as FieldSelector;
use rhumb_meta::labels::Selector;
use rhumb_webhooks::{Address, Resolver, Service};
use serde_json::Value;

use crate::resources::Registry;

const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Finds services in the caches of the server, once it has some.
#[derive(Debug, Default)]
pub(crate) struct Services(OnceLock<Caches>);

#[derive(Debug)]
struct Caches {
    services: Cache,
    slices: Cache,
}

impl Services {
    /// From now on services are found.
    pub(crate) fn follow(&self, registry: &Registry) {
        let cache = |group: &str, plural: &str| {
            let storage = registry.find(group, plural)?.storage.as_ref()?;
            Some(storage.cache.clone())
        };
        if let (Some(services), Some(slices)) = (
            cache("", "services"),
            cache("discovery.k8s.io", "endpointslices"),
        ) {
            let _ = self.0.set(Caches { services, slices });
        }
    }
}

impl Resolver for Services {
    fn resolve(&self, service: &Service) -> Result<Vec<Address>, String> {
        let caches = self.0.get().ok_or("services are not known yet")?;
        let found = caches.find(service)?;
        let port = port_of(&found, service.port);
        let spec = &found["spec"];
        if spec["type"] == "ExternalName" {
            return Ok(vec![Address {
                host: text(&spec["externalName"]).to_owned(),
                port: service.port,
            }]);
        }
        let port = port.ok_or_else(|| {
            format!(
                "no service port {} found for service {:?}",
                service.port, service.name
            )
        })?;
        let ready = caches.endpoints(service, port);
        if !ready.is_empty() {
            return Ok(ready);
        }
        match text(&spec["clusterIP"]) {
            "" | "None" => Err(format!(
                "no endpoints available for service {:?}",
                service.name
            )),
            address => Ok(vec![Address {
                host: address.to_owned(),
                port: service.port,
            }]),
        }
    }
}

impl Caches {
    fn find(&self, service: &Service) -> Result<Value, String> {
        let missing = || format!("service {:?} not found", service.name);
        let key = ObjectKey::new(Some(&service.namespace), &service.name).map_err(|_| missing())?;
        let entry = self.services.get(&key).map_err(|error| error.to_string())?;
        let entry = entry.ok_or_else(missing)?;
        serde_json::from_slice(entry.json_slice()).map_err(|error| error.to_string())
    }

    /// The endpoints that are ready, by the name of the port. Nothing stands between the server and them, so that no
    /// proxy has to run where the server does.
    fn endpoints(&self, service: &Service, port: &str) -> Vec<Address> {
        let snapshot = self.slices.snapshot();
        let labels = Selector::from_labels([(SERVICE_NAME, &*service.name)]);
        let everything = FieldSelector::everything();
        let asked = Asked {
            namespace: Some(&service.namespace),
            labels: &labels,
            fields: &everything,
            after: None,
            limit: usize::MAX,
        };
        let slices = self.slices.select(&snapshot, &asked);
        slices
            .filter_map(|entry| serde_json::from_slice::<Value>(entry.json_slice()).ok())
            .flat_map(|slice| addresses_of(&slice, port))
            .collect()
    }
}

/// The name of the port of a service; it may be empty.
fn port_of(service: &Value, number: u16) -> Option<&str> {
    let ports = service["spec"]["ports"].as_array()?;
    let port = ports.iter().find(|port| port["port"] == number)?;
    Some(text(&port["name"]))
}

fn addresses_of(slice: &Value, port: &str) -> Vec<Address> {
    let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let number = items(&slice["ports"])
        .iter()
        .find(|known| text(&known["name"]) == port)
        .and_then(|known| known["port"].as_u64()?.try_into().ok());
    let Some(number) = number else {
        return Vec::new();
    };
    items(&slice["endpoints"])
        .iter()
        .filter(|endpoint| endpoint["conditions"]["ready"] != false)
        .flat_map(|endpoint| items(&endpoint["addresses"]))
        .filter_map(|address| {
            Some(Address {
                host: address.as_str()?.to_owned(),
                port: number,
            })
        })
        .collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
