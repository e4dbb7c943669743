//! Where the services of the cluster are, for calls to webhooks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rhumb_cache::{Asked, Cache};
use rhumb_meta::ObjectKey;
use rhumb_meta::fields::Selector as FieldSelector;
use rhumb_meta::labels::Selector;
use rhumb_webhooks::{Address, Resolver, Service};
use serde_json::Value;

use crate::admission::derived::Derived;
use crate::resources::Registry;

const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// How many services are remembered; configurations rarely name as many.
const KNOWN_MAX: usize = 1024;

/// Finds services in the caches of the server, once it has some.
#[derive(Debug, Default)]
pub(crate) struct Services(OnceLock<Caches>);

#[derive(Debug)]
struct Caches {
    services: Cache,
    slices: Cache,
    /// Every call asks where its service is, and both caches change far less often.
    known: Derived<Derived<Known>>,
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
            let _ = self.0.set(Caches {
                services,
                slices,
                known: Derived::default(),
            });
        }
    }
}

impl Resolver for Services {
    fn resolve(&self, service: &Service) -> Result<Vec<Address>, String> {
        let caches = self.0.get().ok_or("services are not known yet")?;
        let known = caches.known();
        if let Some(place) = known.get(service) {
            return place;
        }
        let place = caches
            .find(service)
            .and_then(|found| place_of(service, &found, || caches.slices_of(service)));
        known.put(service, &place);
        place
    }
}

/// Where services are, as long as neither services nor endpoint slices change.
#[derive(Debug, Default)]
struct Known(Mutex<HashMap<Service, Place>>);

type Place = Result<Vec<Address>, String>;

impl Known {
    fn get(&self, service: &Service) -> Option<Place> {
        let places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        places.get(service).cloned()
    }

    fn put(&self, service: &Service, place: &Place) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() < KNOWN_MAX {
            places.insert(service.clone(), place.clone());
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

    fn slices_of(&self, service: &Service) -> Vec<Value> {
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
            .filter_map(|entry| serde_json::from_slice(entry.json_slice()).ok())
            .collect()
    }

    fn known(&self) -> Arc<Known> {
        let of_services = self.known.get(&self.services, |_, _| Derived::default());
        of_services.get(&self.slices, |_, _| Known::default())
    }
}

/// The endpoints that are ready: nothing stands between the server and them, so that no proxy has to run where the
/// server does. Where none is ready, nobody would answer at the cluster address either, and it would be waited for
/// in vain. Only if nobody says where the endpoints are, it may be that they are there.
fn place_of(service: &Service, found: &Value, slices: impl FnOnce() -> Vec<Value>) -> Place {
    let spec = &found["spec"];
    let at = |host: &str| {
        vec![Address {
            host: host.to_owned(),
            port: service.port,
        }]
    };
    if spec["type"] == "ExternalName" {
        return Ok(at(text(&spec["externalName"])));
    }
    let port = port_of(found, service.port).ok_or_else(|| {
        format!(
            "no service port {} found for service {:?}",
            service.port, service.name
        )
    })?;
    let slices = slices();
    let ready: Vec<Address> = slices
        .iter()
        .flat_map(|slice| addresses_of(slice, port))
        .collect();
    if !ready.is_empty() {
        return Ok(ready);
    }
    let selects = spec["selector"].as_object().is_some_and(|s| !s.is_empty());
    match text(&spec["clusterIP"]) {
        address if slices.is_empty() && !selects && !matches!(address, "" | "None") => {
            Ok(at(address))
        }
        _ => Err(format!(
            "no endpoints available for service {:?}",
            service.name
        )),
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

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use super::*;
    use crate::testing::{Server, Setup};

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

    /// Endpoints by their addresses, and whether they are ready if that is known.
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

    fn place(port: u16, found: &Value, slices: &[Value]) -> Result<String, String> {
        let service = Service {
            namespace: "ns".into(),
            name: "hook".into(),
            port,
        };
        let place = place_of(&service, found, || slices.to_vec())?;
        let addresses: Vec<String> = place.iter().map(Address::to_string).collect();
        Ok(addresses.join(" "))
    }

    /// The port that is asked for, the service, its slices, and where it is called.
    type Case<'c> = (u16, &'c Value, &'c [&'c Value], Result<&'c str, &'c str>);

    #[test]
    fn services_are_called_where_somebody_answers() {
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
        let elsewhere = slice("http", &[("1.1.1.5", Some(true))]);
        let nameless = slice("", &[("1.1.1.6", Some(true))]);
        let nobody = Err("no endpoints available for service \"hook\"");

        let cases: &[Case<'_>] = &[
            (443, &plain, &[&ready], Ok("1.1.1.1:8443")),
            (
                443,
                &selecting,
                &[&unready, &ready, &unknown],
                Ok("1.1.1.1:8443 1.1.1.3:8443"),
            ),
            (443, &headless, &[&ready], Ok("1.1.1.1:8443")),
            (80, &plain, &[&ready, &nameless], Ok("1.1.1.6:8443")),
            // Somebody says where the endpoints are, and that there is none.
            (443, &plain, &[&unready], nobody),
            (443, &plain, &[&empty], nobody),
            (443, &plain, &[&elsewhere], nobody),
            (443, &selecting, &[], nobody),
            (443, &selecting, &[&unready], nobody),
            (443, &headless, &[], nobody),
            // Nobody does.
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
        for (port, found, slices, expect) in cases {
            let slices: Vec<Value> = slices.iter().map(|&slice| slice.clone()).collect();
            let place = place(*port, found, &slices);
            let place = place.as_deref().map_err(String::as_str);
            assert_eq!(place, *expect, "{port} {found} {slices:?}");
        }
    }

    /// What is remembered is forgotten with the next change, of a service or of its endpoints.
    #[tokio::test]
    async fn services_are_followed() {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::open(directory.path(), Setup::default()).await;
        let services = Services::default();
        let hook = Service {
            namespace: "default".into(),
            name: "hook".into(),
            port: 443,
        };
        let check = |expect: Result<&str, &str>| {
            for _ in 0..2 {
                let place = services.resolve(&hook);
                let place = place.map(|addresses| addresses[0].to_string());
                assert_eq!(place.as_deref().map_err(String::as_str), expect);
            }
        };
        check(Err("services are not known yet"));
        services.follow(&server.api.registry);
        check(Err("service \"hook\" not found"));

        let at = "/api/v1/namespaces/default/services";
        let service = json!({
            "metadata": {"name": "hook"},
            "spec": {"clusterIP": "10.0.0.9", "ports": [{"port": 443}]},
        });
        server.create(at, service).await;
        check(Ok("10.0.0.9:443"));

        let at = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        let mut slice = slice("", &[("192.0.2.1", Some(true))]);
        slice["metadata"] = json!({"name": "hook-1", "labels": {SERVICE_NAME: "hook"}});
        slice["addressType"] = "IPv4".into();
        server.create(at, slice).await;
        check(Ok("192.0.2.1:8443"));

        let unready = json!([{"addresses": ["192.0.2.1"], "conditions": {"ready": false}}]);
        let change = json!({"endpoints": unready});
        server
            .ask(Method::PATCH, &format!("{at}/hook-1"), change)
            .await;
        check(Err("no endpoints available for service \"hook\""));
        server.close().await;
    }
}
