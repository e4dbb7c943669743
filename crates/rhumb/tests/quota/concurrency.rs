//! Concurrent creates that compete for a quota.

use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::make::object;
use crate::quota_namespace::{CONTROLLERS, TestNamespace, forbidden, pod, pod_requesting, start};
use crate::support::TestServer;
use rhumb_etcd_harness::EtcdServer;

const CONCURRENT_PODS: usize = 100;

/// The result of concurrent creates.
#[derive(Debug, Default)]
pub(crate) struct ConcurrentCreateResult {
    /// Names of the created pods.
    pub(crate) created: Vec<String>,
    /// Names of the denied pods, with the messages.
    pub(crate) refused: Vec<(String, String)>,
}

/// Creates all pods concurrently, distributed over the servers. Every create must succeed or exceed the quota.
pub(crate) async fn create_concurrently(
    namespaces: &[TestNamespace],
    pods: Vec<Value>,
) -> ConcurrentCreateResult {
    let mut creations = JoinSet::new();
    for (pod, ns) in pods.into_iter().zip(namespaces.iter().cycle()) {
        let ns = ns.clone();
        creations.spawn(async move {
            let name = object::<Pod>(pod.clone()).name_any();
            (name, ns.create(pod).await)
        });
    }
    let mut creates = ConcurrentCreateResult::default();
    for (name, result) in creations.join_all().await {
        if result.is_ok() {
            creates.created.push(name);
            continue;
        }
        let message = forbidden(result);
        let begins = format!("pods \"{name}\" is forbidden: exceeded quota: ");
        assert!(message.starts_with(&begins), "{message}");
        creates.refused.push((name, message));
    }
    creates.created.sort_unstable();
    creates
}

pub(crate) fn pods_of_round(round: usize) -> Vec<Value> {
    let names = (0..CONCURRENT_PODS).map(|index| format!("r{round}-{index}"));
    names.map(|name| pod(&name)).collect()
}

/// Five of a hundred creates succeed, exactly the acknowledged pods exist, and every server shows that usage.
async fn check_five_succeed(namespaces: &[TestNamespace], rounds: usize) {
    namespaces[0]
        .make_quota("q", json!({"hard": {"pods": "5"}}))
        .await;
    for round in 0..rounds {
        let creates = create_concurrently(namespaces, pods_of_round(round)).await;
        let numbers = (creates.created.len(), creates.refused.len());
        assert_eq!(numbers, (5, CONCURRENT_PODS - 5), "round {round}");
        for (_, message) in &creates.refused {
            let ends = "exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5";
            assert!(message.ends_with(ends), "{message}");
        }
        for ns in namespaces {
            assert_eq!(ns.names().await, creates.created);
            assert_eq!(ns.used("q").await, json!({"pods": "5"}));
        }
        namespaces[round % namespaces.len()].delete_all().await;
    }
}

#[tokio::test]
async fn five_of_a_hundred_concurrent_creates_succeed() {
    let server = start();
    let ns = TestNamespace::make(&server.client().await, "a").await;
    check_five_succeed(&[ns], 4).await;
}

/// Three servers on one etcd.
pub(crate) struct ThreeServersOnEtcd {
    pub(crate) servers: Vec<TestServer>,
    pub(crate) clients: Vec<Client>,
    _etcd: EtcdServer,
}

impl ThreeServersOnEtcd {
    pub(crate) async fn start() -> ThreeServersOnEtcd {
        let etcd = EtcdServer::start().await;
        let endpoint = format!("--etcd-servers={}", etcd.endpoint());
        let mut servers = Vec::new();
        let mut clients = Vec::new();
        for _ in 0..3 {
            let server = TestServer::start_with(&[&endpoint, CONTROLLERS]);
            clients.push(server.client().await);
            servers.push(server);
        }
        ThreeServersOnEtcd {
            servers,
            clients,
            _etcd: etcd,
        }
    }

    /// Creates a namespace; returns it as seen by each server.
    pub(crate) async fn create_namespaces(&self, namespace: &str) -> Vec<TestNamespace> {
        TestNamespace::make(&self.clients[0], namespace).await;
        let clients = self.clients.iter();
        clients
            .map(|client| TestNamespace::of(client, namespace))
            .collect()
    }
}

#[tokio::test]
async fn servers_on_one_etcd_share_the_quota() {
    let three_servers = ThreeServersOnEtcd::start().await;
    check_five_succeed(&three_servers.create_namespaces("a").await, 4).await;
    check_several_quotas(&three_servers.create_namespaces("b").await).await;
}

#[tokio::test]
async fn creates_fit_all_quotas_or_name_the_exceeded_one() {
    let server = start();
    let ns = TestNamespace::make(&server.client().await, "a").await;
    check_several_quotas(&[ns]).await;
}

/// CPU requests of the mixed pods in millicores; 0 is none.
fn millicores(index: usize) -> i64 {
    [0, 100, 250, 0, 400][index % 5]
}

/// Pods of several sizes, some without requests, and quotas with different scopes.
async fn check_several_quotas(namespaces: &[TestNamespace]) {
    const PODS_MAX: usize = 30;
    const SMALL_MAX: usize = 6;
    const MILLICORES_MAX: i64 = 1900;
    let quotas = [
        ("all", json!({"hard": {"pods": PODS_MAX.to_string()}})),
        (
            "cores",
            json!({"hard": {"requests.cpu": "1900m"}, "scopes": ["NotBestEffort"]}),
        ),
        (
            "small",
            json!({"hard": {"pods": SMALL_MAX.to_string()}, "scopes": ["BestEffort"]}),
        ),
    ];
    for (name, spec) in quotas {
        namespaces[0].make_quota(name, spec).await;
    }
    for round in 0..3 {
        let of = |name: &str| {
            let (_, index) = name.rsplit_once('-').expect("a place");
            millicores(index.parse().expect("a number"))
        };
        let pods_of_round = (0..CONCURRENT_PODS).map(|index| {
            let name = format!("r{round}-{index}");
            match millicores(index) {
                0 => pod(&name),
                some => pod_requesting(&name, some),
            }
        });
        let creates = create_concurrently(namespaces, pods_of_round.collect()).await;
        let sizes: Vec<i64> = creates.created.iter().map(|name| of(name)).collect();
        let small = sizes.iter().filter(|&&size| size == 0).count();
        let cores: i64 = sizes.iter().sum();
        assert!(sizes.len() <= PODS_MAX, "{} pods", sizes.len());
        assert!(cores <= MILLICORES_MAX, "{cores} millicores");
        assert_eq!(small, SMALL_MAX);
        // Nothing was deleted meanwhile, so denied pods still do not fit.
        for (name, message) in &creates.refused {
            let size = of(name);
            let is_full = sizes.len() == PODS_MAX
                || if size == 0 {
                    small == SMALL_MAX
                } else {
                    cores + size > MILLICORES_MAX
                };
            assert!(is_full, "{cores} millicores are used: {message}");
        }
        for ns in namespaces {
            assert_eq!(ns.names().await, creates.created);
            let pods = json!({"pods": sizes.len().to_string()});
            assert_eq!(ns.used("all").await, pods);
            assert_eq!(ns.used("small").await, json!({"pods": small.to_string()}));
            let used = ns.used("cores").await;
            assert_eq!(thousandths(&used["requests.cpu"]), cores);
        }
        namespaces[0].delete_all().await;
    }
}

/// A quantity of cores, without the milli suffix if possible.
fn thousandths(quantity: &Value) -> i64 {
    let text = quantity.as_str().expect("a quantity");
    match text.strip_suffix('m') {
        Some(thousandths) => thousandths.parse().expect("thousandths"),
        None => 1000 * text.parse::<i64>().expect("a number"),
    }
}
