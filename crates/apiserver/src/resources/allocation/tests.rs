use std::collections::BTreeSet;
use std::sync::Arc;

use http::Method;
use rhumb_store::embedded::{self, Embedded};
use serde_json::{Value, json};

use crate::testing::{Server, Setup};

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

fn small() -> Setup {
    Setup {
        services: "10.0.0.0/28",
        node_ports: "30000-30009",
        ..Setup::default()
    }
}

/// The names of all IPAddress objects.
async fn addresses(server: &Server) -> BTreeSet<String> {
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

async fn create_many(servers: &[Server], count: usize, spec: Value) -> Vec<(u16, Value)> {
    let tasks: Vec<_> = (0..count)
        .map(|number| {
            let server = servers[number % servers.len()].clone();
            let service = service(&format!("s{number}"), spec.clone());
            tokio::spawn(async move { server.create(SERVICES, service).await })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.expect("no panic"));
    }
    answers
}

fn address_of(service: &Value) -> String {
    service["spec"]["clusterIP"]
        .as_str()
        .expect("an address")
        .to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_range_has_given_each_address_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Embedded::open(directory.path(), embedded::Options::default())
        .await
        .expect("a store");
    let store = Arc::new(store);
    let servers = [
        Server::on(store.clone(), small()).await,
        Server::on(store.clone(), small()).await,
    ];
    let answers = create_many(&servers, 100, json!({})).await;
    let given: Vec<String> = answers
        .iter()
        .filter(|(code, _)| *code == 201)
        .map(|(_, service)| address_of(service))
        .collect();
    // Fourteen addresses, and the first is the API server's own.
    let distinct: BTreeSet<&String> = given.iter().collect();
    assert_eq!((given.len(), distinct.len()), (13, 13), "{given:?}");
    for (code, status) in answers.iter().filter(|(code, _)| *code != 201) {
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
async fn what_is_deleted_is_free_again_and_nothing_is_lost_by_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::open(directory.path(), small()).await;
    let answers = create_many(std::slice::from_ref(&server), 13, json!({})).await;
    assert!(answers.iter().all(|(code, _)| *code == 201));
    let freed = address_of(&answers[4].1);
    assert_eq!(server.delete(&format!("{SERVICES}/s4")).await.0, 200);
    assert!(!addresses(&server).await.contains(&freed));
    let before = addresses(&server).await;
    server.close().await;

    let server = Server::open(directory.path(), small()).await;
    assert_eq!(addresses(&server).await, before);
    let (code, last) = server.create(SERVICES, service("last", json!({}))).await;
    assert_eq!((code, address_of(&last)), (201, freed));
    assert_eq!(
        server.create(SERVICES, service("more", json!({}))).await.0,
        422
    );
}

#[tokio::test]
async fn an_address_that_is_asked_for_is_given_or_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::open(directory.path(), Setup::default()).await;
    let asked = |name: &str, address: &str| service(name, json!({"clusterIP": address}));
    let (code, first) = server.create(SERVICES, asked("a", "10.0.0.10")).await;
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
        let (code, status) = server.create(SERVICES, asked("b", address)).await;
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
async fn only_one_of_many_gets_the_port_that_all_ask_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::open(directory.path(), Setup::default()).await;
    let spec = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]});
    let answers = create_many(std::slice::from_ref(&server), 20, spec).await;
    let given = answers.iter().filter(|(code, _)| *code == 201).count();
    assert_eq!(given, 1);
    for (_, status) in answers.iter().filter(|(code, _)| *code != 201) {
        let message = status["message"].as_str().expect("a message");
        assert!(
            message.ends_with(
                "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated"
            ),
            "{message}"
        );
    }
    // Those that were refused have left no address behind.
    assert_eq!(addresses(&server).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_of_nodes_are_given_once_and_come_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let setup = Setup {
        node_ports: "30000-30009",
        ..Setup::default()
    };
    let server = Server::open(directory.path(), setup).await;
    let spec = json!({"type": "NodePort"});
    let answers = create_many(std::slice::from_ref(&server), 30, spec.clone()).await;
    let ports: Vec<i64> = answers
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
    let (_, one) = answers.iter().find(|(code, _)| *code == 201).expect("one");
    let path = format!(
        "{SERVICES}/{}",
        one["metadata"]["name"].as_str().expect("a name")
    );
    let (code, changed) = server
        .ask(Method::PATCH, &path, json!({"spec": {"type": "ClusterIP"}}))
        .await;
    assert_eq!(code, 200, "{changed}");
    assert_eq!(changed["spec"]["ports"][0].get("nodePort"), None);
    assert_eq!(changed["spec"]["clusterIP"], one["spec"]["clusterIP"]);
    let (code, next) = server.create(SERVICES, service("y", spec)).await;
    assert_eq!(code, 201, "{next}");
    assert_eq!(
        next["spec"]["ports"][0]["nodePort"],
        one["spec"]["ports"][0]["nodePort"]
    );
}

#[tokio::test]
async fn a_dry_run_gives_nothing_away() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::open(directory.path(), Setup::default()).await;
    let path = format!("{SERVICES}?dryRun=All");
    let spec = json!({"type": "NodePort"});
    let (code, shown) = server.create(&path, service("a", spec)).await;
    assert_eq!(code, 201, "{shown}");
    assert!(address_of(&shown).starts_with("10.0.0."));
    assert!(shown["spec"]["ports"][0]["nodePort"].is_i64());
    assert_eq!(addresses(&server).await.len(), 1);
}

#[tokio::test]
async fn the_server_has_its_own_service() {
    let directory = tempfile::tempdir().expect("a directory");
    for _ in 0..2 {
        let server = Server::open(directory.path(), Setup::default()).await;
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
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::open(directory.path(), small()).await;
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
    let (code, given) = server.create(SERVICES, service("x", json!({}))).await;
    assert_eq!(code, 201, "{given}");
    assert!(address_of(&given).starts_with("10.7.0."));
}

#[tokio::test]
async fn services_of_strangers_get_their_records_at_the_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::open(directory.path(), Setup::default()).await;
    let spec = json!({"type": "NodePort", "clusterIP": "10.0.0.20", "ports": [{"port": 80, "nodePort": 30020}]});
    assert_eq!(
        server.create(SERVICES, service("a", spec.clone())).await.0,
        201
    );
    for key in [
        "/registry/ipaddresses/10.0.0.20",
        "/registry/rhumb-node-ports/30020",
    ] {
        let removal = rhumb_store::Transaction::new().delete(key, rhumb_store::Expect::Any);
        server.api.store.commit(removal).await.expect("a commit");
    }
    server.close().await;
    let server = Server::open(directory.path(), Setup::default()).await;
    assert!(addresses(&server).await.contains("10.0.0.20"));
    let again = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30020}]});
    assert_eq!(server.create(SERVICES, service("b", again)).await.0, 422);
}

#[tokio::test]
async fn an_address_that_is_in_use_comes_back_when_it_is_deleted() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::open(directory.path(), Setup::default()).await;
    let (_, record) = server.get(&format!("{ADDRESSES}/10.0.0.1")).await;
    let (code, _) = server.delete(&format!("{ADDRESSES}/10.0.0.1")).await;
    assert_eq!(code, 200);
    let mut restored = Value::Null;
    for _ in 0..500 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        let (code, found) = server.get(&format!("{ADDRESSES}/10.0.0.1")).await;
        if code == 200 {
            restored = found;
            break;
        }
    }
    assert_eq!(restored["spec"], record["spec"]);
    assert_ne!(restored["metadata"]["uid"], record["metadata"]["uid"]);
}

#[tokio::test]
async fn a_service_that_became_external_gives_its_address_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::open(directory.path(), Setup::default()).await;
    let (_, made) = server.create(SERVICES, service("a", json!({}))).await;
    let address = address_of(&made);
    assert!(addresses(&server).await.contains(&address));
    let change = json!({"spec": {"type": "ExternalName", "externalName": "example.com", "clusterIP": null, "clusterIPs": null}});
    let (code, changed) = server
        .ask(Method::PATCH, &format!("{SERVICES}/a"), change)
        .await;
    assert_eq!(code, 200, "{changed}");
    assert!(!addresses(&server).await.contains(&address));
}

#[tokio::test]
async fn two_families_give_two_addresses() {
    let directory = tempfile::tempdir().expect("a directory");
    let setup = Setup {
        services: "10.0.0.0/24,fd00::/112",
        ..Setup::default()
    };
    let server = Server::open(directory.path(), setup).await;
    let spec = json!({"ipFamilyPolicy": "RequireDualStack"});
    let (code, made) = server.create(SERVICES, service("a", spec)).await;
    assert_eq!(code, 201, "{made}");
    let given: Vec<&str> = made["spec"]["clusterIPs"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(
        given[0].starts_with("10.0.0.") && given[1].starts_with("fd00::"),
        "{given:?}"
    );
    let all = addresses(&server).await;
    assert!(
        given.iter().all(|address| all.contains(*address)),
        "{all:?}"
    );
    let change = json!({"spec": {"ipFamilyPolicy": "SingleStack"}});
    let (code, changed) = server
        .ask(Method::PATCH, &format!("{SERVICES}/a"), change)
        .await;
    assert_eq!(code, 200, "{changed}");
    let left = addresses(&server).await;
    assert!(
        left.contains(given[0]) && !left.contains(given[1]),
        "{left:?}"
    );
}
