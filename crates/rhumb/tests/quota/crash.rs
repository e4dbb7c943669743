//! A server is killed during concurrent creates. Usage needs no recovery afterwards, and the limit holds.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::concurrency::{ThreeServersOnEtcd, create_concurrently, pods_of_round};
use crate::make::object;
use crate::quota_namespace::{TestNamespace, forbidden, pod, start};

const ROUNDS: usize = 3;
const HARD: usize = 40;

/// Responses after which a server is killed: it has started, but is far from done.
const BEGUN: usize = 4;

/// Minimum number of requests in flight when a server is killed.
const CAUGHT: usize = 20;

/// Maximum number of additional requests that a server gets until it is killed.
const LATE_MAX: usize = 500;

/// Creates pods on all servers concurrently and kills one server meanwhile. Returns the names of the pods whose
/// creation was acknowledged. Requests to the other servers must succeed or exceed the quota.
async fn create_until_crash(
    namespaces: &[TestNamespace],
    round: usize,
    victim: usize,
    kill: impl FnOnce(),
) -> BTreeSet<String> {
    let mut creations = JoinSet::new();
    let create = |creations: &mut JoinSet<_>, at: usize, pod: Value| {
        let namespace = namespaces[at].clone();
        creations.spawn(async move {
            let name = object::<Pod>(pod.clone()).name_any();
            (at, name, namespace.create(pod).await)
        });
    };
    for (index, pod) in pods_of_round(round).into_iter().enumerate() {
        create(&mut creations, index % namespaces.len(), pod);
    }
    let mut late = 0;
    let mut kill = Some(kill);
    let mut created = BTreeSet::new();
    let mut unanswered = 0;
    while let Some(finished) = creations.join_next().await {
        let (at, name, result) = finished.expect("an end");
        match result {
            Ok(_) => {
                created.insert(name);
            }
            Err(kube::Error::Api(_)) => {
                let message = forbidden(result);
                assert!(message.contains("exceeded quota: q, "), "{message}");
            }
            Err(_) if at == victim => unanswered += 1,
            Err(other) => panic!("a server that is well does not answer: {other}"),
        }
        if created.len() >= BEGUN
            && let Some(kill) = kill.take()
        {
            // It may have answered all requests by now, so it gets more, and is killed while they are in flight.
            for more in 0..CAUGHT {
                let pod = pod(&format!("caught-{round}-{more}"));
                create(&mut creations, victim, pod);
            }
            tokio::task::yield_now().await;
            kill();
        }
        // Keeps the server busy, so that it is always killed during requests.
        if at == victim && kill.is_some() && late < LATE_MAX {
            late += 1;
            create(&mut creations, at, pod(&format!("late-{round}-{late}")));
        }
    }
    assert!(unanswered > 0, "it was killed too late");
    created
}

/// Checks that all acknowledged pods exist, that the limit holds, and that the status is correct. Returns the number
/// of pods.
async fn check_kept(namespace: &TestNamespace, acknowledged: &BTreeSet<String>) -> usize {
    let names: BTreeSet<String> = namespace.names().await.into_iter().collect();
    assert!(acknowledged.is_subset(&names), "{acknowledged:?} {names:?}");
    assert!(names.len() <= HARD, "{names:?}");
    let used = json!({"pods": names.len().to_string()});
    assert_eq!(namespace.used("q").await, used);
    names.len()
}

#[tokio::test]
async fn usage_equals_existing_objects_after_a_crash() {
    let mut server = start();
    let mut namespace = TestNamespace::make(&server.client().await, "a").await;
    let spec = json!({"hard": {"pods": HARD.to_string()}});
    namespace.make_quota("q", spec).await;
    for round in 0..ROUNDS {
        let namespaces = [namespace.clone()];
        let acknowledged = create_until_crash(&namespaces, round, 0, || server.kill()).await;
        server.start_again();
        namespace = TestNamespace::of(&server.client().await, "a");
        let existing = check_kept(&namespace, &acknowledged).await;
        let creates =
            create_concurrently(&[namespace.clone()], pods_of_round(ROUNDS + round)).await;
        assert_eq!(existing + creates.created.len(), HARD, "round {round}");
        namespace.delete_all().await;
    }
}

#[tokio::test]
async fn usage_is_exact_after_one_of_three_servers_crashes() {
    let mut three_servers = ThreeServersOnEtcd::start().await;
    let mut namespaces = three_servers.create_namespaces("a").await;
    let spec = json!({"hard": {"pods": HARD.to_string()}});
    namespaces[0].make_quota("q", spec).await;
    for round in 0..ROUNDS {
        let victim = round % namespaces.len();
        let server = &mut three_servers.servers[victim];
        let acknowledged = create_until_crash(&namespaces, round, victim, || server.kill()).await;
        // The other servers continue.
        let mut others = namespaces.clone();
        others.remove(victim);
        let existing = check_kept(&others[0], &acknowledged).await;
        let creates = create_concurrently(&others, pods_of_round(ROUNDS + round)).await;
        assert_eq!(existing + creates.created.len(), HARD, "round {round}");

        server.start_again();
        namespaces[victim] = TestNamespace::of(&server.client().await, "a");
        let back = &namespaces[victim];
        assert_eq!(check_kept(back, &acknowledged).await, HARD);
        back.delete_all().await;
    }
    // The server that was killed last admits as many as the others.
    let creates = create_concurrently(&namespaces[ROUNDS - 1..], pods_of_round(2 * ROUNDS)).await;
    assert_eq!(creates.created.len(), HARD);
}
