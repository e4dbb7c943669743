//! Allocation of cluster IPs and node ports through the API.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::Method;
use rhumb_store::embedded::{self, EmbeddedStore};
use serde_json::{Value, json};

use crate::testing::{TestServer, TestServerOptions};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";

fn service(name: &str, spec: Value) -> Value {
    let mut service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        service["spec"][field] = value.clone();
    }
    service
}

fn small_ranges() -> TestServerOptions {
    TestServerOptions {
        services: "10.0.0.0/28",
        node_ports: "30000-30009",
        ..TestServerOptions::default()
    }
}

/// The names of all IPAddress objects.
async fn addresses(server: &TestServer) -> BTreeSet<String> {
    let (_, list) = server.get(ADDRESSES).await;
    names(&list)
}

fn names(list: &Value) -> BTreeSet<String> {
    list["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|item| {
            item["metadata"]["name"]
                .as_str()
                .expect("a name")
                .to_owned()
        })
        .collect()
}

async fn create_many(servers: &[TestServer], count: usize, spec: Value) -> Vec<(u16, Value)> {
    let tasks: Vec<_> = (0..count)
        .map(|number| {
            let server = servers[number % servers.len()].clone();
            let service = service(&format!("s{number}"), spec.clone());
            tokio::spawn(async move { server.create(SERVICES, service).await })
        })
        .collect();
    let mut responses = Vec::new();
    for task in tasks {
        responses.push(task.await.expect("task panicked"));
    }
    responses
}

fn address_of(service: &Value) -> String {
    service["spec"]["clusterIP"]
        .as_str()
        .expect("an address")
        .to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_servers_allocate_each_address_once() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let store = EmbeddedStore::open(directory.path(), embedded::EmbeddedOptions::default())
        .await
        .expect("open store");
    let store = Arc::new(store);
    let servers = [
        TestServer::with_store(store.clone(), small_ranges()).await,
        TestServer::with_store(store.clone(), small_ranges()).await,
    ];
    let responses = create_many(&servers, 100, json!({})).await;
    let cluster_ips: Vec<String> = responses
        .iter()
        .filter(|(code, _)| *code == 201)
        .map(|(_, service)| address_of(service))
        .collect();
    // Fourteen usable addresses, the first of which the kubernetes service has.
    let distinct: BTreeSet<&String> = cluster_ips.iter().collect();
    assert_eq!(
        (cluster_ips.len(), distinct.len()),
        (13, 13),
        "{cluster_ips:?}"
    );
    for (code, status) in responses.iter().filter(|(code, _)| *code != 201) {
        assert_eq!(*code, 422, "{status}");
        let message = status["message"].as_str().expect("a message");
        assert!(
            message.ends_with("failed to allocate IP: range is full"),
            "{message}"
        );
    }
    assert_eq!(addresses(&servers[0]).await.len(), 14);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_services_release_addresses_across_a_restart() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let server = TestServer::open(directory.path(), small_ranges()).await;
    let responses = create_many(std::slice::from_ref(&server), 13, json!({})).await;
    assert!(responses.iter().all(|(code, _)| *code == 201));
    let released_address = address_of(&responses[4].1);
    assert_eq!(server.delete(&format!("{SERVICES}/s4")).await.0, 200);
    assert!(!addresses(&server).await.contains(&released_address));
    let addresses_before = addresses(&server).await;
    server.close().await;

    let server = TestServer::open(directory.path(), small_ranges()).await;
    assert_eq!(addresses(&server).await, addresses_before);
    let (code, last_service) = server.create(SERVICES, service("last", json!({}))).await;
    assert_eq!((code, address_of(&last_service)), (201, released_address));
    assert_eq!(
        server.create(SERVICES, service("more", json!({}))).await.0,
        422
    );
}

#[tokio::test]
async fn a_requested_cluster_ip_is_allocated_or_rejected() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let server = TestServer::open(directory.path(), TestServerOptions::default()).await;
    let service_with_ip = |name: &str, address: &str| service(name, json!({"clusterIP": address}));
    let (code, first) = server
        .create(SERVICES, service_with_ip("a", "10.0.0.10"))
        .await;
    assert_eq!((code, address_of(&first)), (201, "10.0.0.10".to_owned()));
    assert_eq!(first["spec"]["clusterIPs"], json!(["10.0.0.10"]));
    let table = [
        (
            "10.0.0.10",
            "failed to allocate IP 10.0.0.10: provided IP is already allocated",
        ),
        (
            "10.0.0.1",
            "failed to allocate IP 10.0.0.1: provided IP is already allocated",
        ),
        (
            "10.1.0.1",
            "failed to allocate IP 10.1.0.1: the provided network does not match the current range",
        ),
        (
            "10.0.0.0",
            "failed to allocate IP 10.0.0.0: the provided IP (10.0.0.0) is not in the valid range. The range of valid IPs is 10.0.0.0/24",
        ),
    ];
    for (address, reason) in table {
        let (code, status) = server.create(SERVICES, service_with_ip("b", address)).await;
        let want = format!(
            "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [{address:?}]: {reason}"
        );
        assert_eq!(
            (code, status["message"].as_str()),
            (422, Some(want.as_str()))
        );
    }
    let (_, record) = server.get(&format!("{ADDRESSES}/10.0.0.10")).await;
    assert_eq!(
        record["metadata"]["labels"],
        json!({
            "ipaddress.kubernetes.io/ip-family": "IPv4",
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        })
    );
    assert_eq!(
        record["spec"]["parentRef"],
        json!({"resource": "services", "namespace": "default", "name": "a"})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requested_node_port_is_allocated_once() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let server = TestServer::open(directory.path(), TestServerOptions::default()).await;
    let spec = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]});
    let responses = create_many(std::slice::from_ref(&server), 20, spec).await;
    let created_count = responses.iter().filter(|(code, _)| *code == 201).count();
    assert_eq!(created_count, 1);
    for (_, status) in responses.iter().filter(|(code, _)| *code != 201) {
        let message = status["message"].as_str().expect("a message");
        assert!(
            message.ends_with(
                "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated"
            ),
            "{message}"
        );
    }
    // Rejected creates leave no IPAddress behind.
    assert_eq!(addresses(&server).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn node_ports_are_allocated_once_and_released() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let setup = TestServerOptions {
        node_ports: "30000-30009",
        ..TestServerOptions::default()
    };
    let server = TestServer::open(directory.path(), setup).await;
    let spec = json!({"type": "NodePort"});
    let responses = create_many(std::slice::from_ref(&server), 30, spec.clone()).await;
    let ports: Vec<i64> = responses
        .iter()
        .filter(|(code, _)| *code == 201)
        .filter_map(|(_, service)| service["spec"]["ports"][0]["nodePort"].as_i64())
        .collect();
    let distinct: BTreeSet<i64> = ports.iter().copied().collect();
    assert_eq!((ports.len(), distinct.len()), (10, 10));
    let (code, status) = server.create(SERVICES, service("x", spec.clone())).await;
    assert_eq!(code, 500);
    assert_eq!(
        status["message"],
        "Internal error occurred: failed to allocate a nodePort: range is full"
    );
    let (_, first_service) = responses
        .iter()
        .find(|(code, _)| *code == 201)
        .expect("one was created");
    let path = format!(
        "{SERVICES}/{}",
        first_service["metadata"]["name"].as_str().expect("a name")
    );
    let (code, changed) = server
        .request(Method::PATCH, &path, json!({"spec": {"type": "ClusterIP"}}))
        .await;
    assert_eq!(code, 200, "{changed}");
    assert_eq!(changed["spec"]["ports"][0].get("nodePort"), None);
    assert_eq!(
        changed["spec"]["clusterIP"],
        first_service["spec"]["clusterIP"]
    );
    let (code, next) = server.create(SERVICES, service("y", spec)).await;
    assert_eq!(code, 201, "{next}");
    assert_eq!(
        next["spec"]["ports"][0]["nodePort"],
        first_service["spec"]["ports"][0]["nodePort"]
    );
}

#[tokio::test]
async fn a_dry_run_allocates_nothing() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let server = TestServer::open(directory.path(), TestServerOptions::default()).await;
    let path = format!("{SERVICES}?dryRun=All");
    let spec = json!({"type": "NodePort"});
    let (code, created) = server.create(&path, service("a", spec)).await;
    assert_eq!(code, 201, "{created}");
    assert!(address_of(&created).starts_with("10.0.0."));
    assert!(created["spec"]["ports"][0]["nodePort"].is_i64());
    assert_eq!(addresses(&server).await.len(), 1);
}

#[tokio::test]
async fn the_kubernetes_service_is_created_at_startup() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    for _ in 0..2 {
        let server = TestServer::open(directory.path(), TestServerOptions::default()).await;
        let (code, service) = server.get(&format!("{SERVICES}/kubernetes")).await;
        assert_eq!((code, address_of(&service)), (200, "10.0.0.1".to_owned()));
        assert_eq!(
            addresses(&server).await,
            BTreeSet::from(["10.0.0.1".to_owned()])
        );
        let (_, endpoints) = server
            .get("/api/v1/namespaces/default/endpoints/kubernetes")
            .await;
        assert_eq!(
            endpoints["subsets"],
            json!([{
                "addresses": [{"ip": "192.0.2.7"}],
                "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}],
            }])
        );
        let (_, slice) = server
            .get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes")
            .await;
        assert_eq!(slice["endpoints"][0]["addresses"], json!(["192.0.2.7"]));
        let (_, cidr) = server
            .get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes")
            .await;
        assert_eq!(cidr["spec"]["cidrs"], json!(["10.0.0.0/24"]));
        assert_eq!(cidr["status"]["conditions"][0]["status"], "True");
        server.close().await;
    }
}

#[tokio::test]
async fn other_ranges_are_used_when_the_first_is_full() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let server = TestServer::open(directory.path(), small_ranges()).await;
    create_many(std::slice::from_ref(&server), 13, json!({})).await;
    assert_eq!(
        server.create(SERVICES, service("x", json!({}))).await.0,
        422
    );
    let cidr = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": "more"},
        "spec": {"cidrs": ["10.7.0.0/24"]},
    });
    let (code, _) = server
        .create("/apis/networking.k8s.io/v1/servicecidrs", cidr)
        .await;
    assert_eq!(code, 201);
    let (code, created) = server.create(SERVICES, service("x", json!({}))).await;
    assert_eq!(code, 201, "{created}");
    assert!(address_of(&created).starts_with("10.7.0."));
}

#[tokio::test]
async fn missing_allocation_records_are_repaired_at_startup() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let server = TestServer::open(directory.path(), TestServerOptions::default()).await;
    let spec = json!({"type": "NodePort", "clusterIP": "10.0.0.20", "ports": [{"port": 80, "nodePort": 30020}]});
    assert_eq!(
        server.create(SERVICES, service("a", spec.clone())).await.0,
        201
    );
    for key in [
        "/registry/ipaddresses/10.0.0.20",
        "/registry/rhumb-node-ports/30020",
    ] {
        let removal =
            rhumb_store::Transaction::new().delete(key, rhumb_store::ExpectedRevision::Any);
        server
            .state
            .registry
            .store
            .commit(removal)
            .await
            .expect("commit succeeds");
    }
    server.close().await;
    let server = TestServer::open(directory.path(), TestServerOptions::default()).await;
    assert!(addresses(&server).await.contains("10.0.0.20"));
    let same_port_spec = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30020}]});
    assert_eq!(
        server
            .create(SERVICES, service("b", same_port_spec))
            .await
            .0,
        422
    );
}

#[tokio::test]
async fn a_deleted_ip_address_in_use_is_recreated() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let server = TestServer::open(directory.path(), TestServerOptions::default()).await;
    let (_, record) = server.get(&format!("{ADDRESSES}/10.0.0.1")).await;
    let (code, _) = server.delete(&format!("{ADDRESSES}/10.0.0.1")).await;
    assert_eq!(code, 200);
    let mut recreated = Value::Null;
    for _ in 0..500 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        let (code, ip_address) = server.get(&format!("{ADDRESSES}/10.0.0.1")).await;
        if code == 200 {
            recreated = ip_address;
            break;
        }
    }
    assert_eq!(recreated["spec"], record["spec"]);
    assert_ne!(recreated["metadata"]["uid"], record["metadata"]["uid"]);
}

#[tokio::test]
async fn changing_to_external_name_releases_the_cluster_ip() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let server = TestServer::open(directory.path(), TestServerOptions::default()).await;
    let (_, created) = server.create(SERVICES, service("a", json!({}))).await;
    let address = address_of(&created);
    assert!(addresses(&server).await.contains(&address));
    let change = json!({"spec": {"type": "ExternalName", "externalName": "example.com", "clusterIP": null, "clusterIPs": null}});
    let (code, changed) = server
        .request(Method::PATCH, &format!("{SERVICES}/a"), change)
        .await;
    assert_eq!(code, 200, "{changed}");
    assert!(!addresses(&server).await.contains(&address));
}

#[tokio::test]
async fn dual_stack_services_get_two_cluster_ips() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let setup = TestServerOptions {
        services: "10.0.0.0/24,fd00::/112",
        ..TestServerOptions::default()
    };
    let server = TestServer::open(directory.path(), setup).await;
    let spec = json!({"ipFamilyPolicy": "RequireDualStack"});
    let (code, created) = server.create(SERVICES, service("a", spec)).await;
    assert_eq!(code, 201, "{created}");
    let cluster_ips: Vec<&str> = created["spec"]["clusterIPs"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(
        cluster_ips[0].starts_with("10.0.0.") && cluster_ips[1].starts_with("fd00::"),
        "{cluster_ips:?}"
    );
    let all = addresses(&server).await;
    assert!(
        cluster_ips.iter().all(|address| all.contains(*address)),
        "{all:?}"
    );
    let change = json!({"spec": {"ipFamilyPolicy": "SingleStack"}});
    let (code, changed) = server
        .request(Method::PATCH, &format!("{SERVICES}/a"), change)
        .await;
    assert_eq!(code, 200, "{changed}");
    let remaining = addresses(&server).await;
    assert!(
        remaining.contains(cluster_ips[0]) && !remaining.contains(cluster_ips[1]),
        "{remaining:?}"
    );
}
