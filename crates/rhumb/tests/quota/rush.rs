//! Many who want the same room at once.

use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::etcd_server::EtcdServer;
use crate::make::object;
use crate::space::{CONTROLLERS, Space, forbidden, pod, pod_requesting, start};
use crate::support::Server;

const CROWD: usize = 100;

/// What came of a rush.
#[derive(Debug, Default)]
pub(crate) struct Rushed {
    /// The names of the pods that got in.
    pub(crate) created: Vec<String>,
    /// The name of each pod that did not, and what was said.
    pub(crate) refused: Vec<(String, String)>,
}

/// Everybody creates a pod of their own at once, each at the next server. Nobody is told anything but that it is made,
/// or that a quota is exceeded.
pub(crate) async fn rush(spaces: &[Space], pods: Vec<Value>) -> Rushed {
    let mut creations = JoinSet::new();
    for (pod, space) in pods.into_iter().zip(spaces.iter().cycle()) {
        let space = space.clone();
        creations.spawn(async move {
            let name = object::<Pod>(pod.clone()).name_any();
            (name, space.create(pod).await)
        });
    }
    let mut rushed = Rushed::default();
    for (name, result) in creations.join_all().await {
        if result.is_ok() {
            rushed.created.push(name);
            continue;
        }
        let message = forbidden(result);
        let begins = format!("pods \"{name}\" is forbidden: exceeded quota: ");
        assert!(message.starts_with(&begins), "{message}");
        rushed.refused.push((name, message));
    }
    rushed.created.sort_unstable();
    rushed
}

pub(crate) fn crowd(round: usize) -> Vec<Value> {
    let names = (0..CROWD).map(|place| format!("r{round}-{place}"));
    names.map(|name| pod(&name)).collect()
}

/// Five of a hundred get in, exactly those who were told so, and the quota says so on every server.
async fn check_five_get_in(spaces: &[Space], rounds: usize) {
    spaces[0]
        .make_quota("q", json!({"hard": {"pods": "5"}}))
        .await;
    for round in 0..rounds {
        let rushed = rush(spaces, crowd(round)).await;
        let numbers = (rushed.created.len(), rushed.refused.len());
        assert_eq!(numbers, (5, CROWD - 5), "round {round}");
        for (_, message) in &rushed.refused {
            let ends = "exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5";
            assert!(message.ends_with(ends), "{message}");
        }
        for space in spaces {
            assert_eq!(space.names().await, rushed.created);
            assert_eq!(space.used("q").await, json!({"pods": "5"}));
        }
        spaces[round % spaces.len()].delete_all().await;
    }
}

#[tokio::test]
async fn of_a_hundred_at_once_five_get_in() {
    let server = start();
    let space = Space::make(&server.client().await, "a").await;
    check_five_get_in(&[space], 4).await;
}

/// Three servers on one etcd.
pub(crate) struct Trio {
    pub(crate) servers: Vec<Server>,
    pub(crate) clients: Vec<Client>,
    _etcd: EtcdServer,
}

impl Trio {
    pub(crate) async fn start() -> Trio {
        let etcd = EtcdServer::start().await;
        let endpoint = format!("--etcd-servers={}", etcd.endpoint());
        let mut servers = Vec::new();
        let mut clients = Vec::new();
        for _ in 0..3 {
            let server = Server::start_with(&[&endpoint, CONTROLLERS]);
            clients.push(server.client().await);
            servers.push(server);
        }
        Trio {
            servers,
            clients,
            _etcd: etcd,
        }
    }

    /// A new namespace, as seen by each of the servers.
    pub(crate) async fn make_spaces(&self, namespace: &str) -> Vec<Space> {
        Space::make(&self.clients[0], namespace).await;
        let clients = self.clients.iter();
        clients.map(|client| Space::of(client, namespace)).collect()
    }
}

#[tokio::test]
async fn servers_that_share_an_etcd_share_the_room() {
    let trio = Trio::start().await;
    check_five_get_in(&trio.make_spaces("a").await, 4).await;
    check_several_quotas(&trio.make_spaces("b").await).await;
}

#[tokio::test]
async fn everybody_fits_into_all_quotas_or_is_told_which_one_is_full() {
    let server = start();
    let space = Space::make(&server.client().await, "a").await;
    check_several_quotas(&[space]).await;
}

/// Thousandths of a core that a pod of the mixed crowd requests; 0 is none.
fn millicores(place: usize) -> i64 {
    [0, 100, 250, 0, 400][place % 5]
}

/// Pods of several sizes, some without any, and quotas of which each sees others of them.
async fn check_several_quotas(spaces: &[Space]) {
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
        spaces[0].make_quota(name, spec).await;
    }
    for round in 0..3 {
        let of = |name: &str| {
            let (_, place) = name.rsplit_once('-').expect("a place");
            millicores(place.parse().expect("a number"))
        };
        let crowd = (0..CROWD).map(|place| {
            let name = format!("r{round}-{place}");
            match millicores(place) {
                0 => pod(&name),
                some => pod_requesting(&name, some),
            }
        });
        let rushed = rush(spaces, crowd.collect()).await;
        let sizes: Vec<i64> = rushed.created.iter().map(|name| of(name)).collect();
        let small = sizes.iter().filter(|&&size| size == 0).count();
        let cores: i64 = sizes.iter().sum();
        assert!(sizes.len() <= PODS_MAX, "{} pods", sizes.len());
        assert!(cores <= MILLICORES_MAX, "{cores} millicores");
        assert_eq!(small, SMALL_MAX);
        // Nothing went in the meantime, so whoever was refused does not fit in the end either.
        for (name, message) in &rushed.refused {
            let size = of(name);
            let is_full = sizes.len() == PODS_MAX
                || if size == 0 {
                    small == SMALL_MAX
                } else {
                    cores + size > MILLICORES_MAX
                };
            assert!(is_full, "{cores} millicores are used: {message}");
        }
        for space in spaces {
            assert_eq!(space.names().await, rushed.created);
            let pods = json!({"pods": sizes.len().to_string()});
            assert_eq!(space.used("all").await, pods);
            assert_eq!(
                space.used("small").await,
                json!({"pods": small.to_string()})
            );
            let used = space.used("cores").await;
            assert_eq!(thousandths(&used["requests.cpu"]), cores);
        }
        spaces[0].delete_all().await;
    }
}

/// A quantity of cores, which is written without thousandths if there are none.
fn thousandths(quantity: &Value) -> i64 {
    let text = quantity.as_str().expect("a quantity");
    match text.strip_suffix('m') {
        Some(thousandths) => thousandths.parse().expect("thousandths"),
        None => 1000 * text.parse::<i64>().expect("a number"),
    }
}
