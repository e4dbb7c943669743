//! The cost of requests does not depend on the number of objects.
//!
//! The server's CPU time is measured, because it depends less on other load than wall time. The bounds allow for an
//! unoptimized build; a cost that grows with the number of objects would be ten times as high.
//! `cargo xtask bench api` measures up to 100,000 objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::TestServer;

const OBJECTS: usize = 10_000;
/// Number of requests compared at the beginning and at the end.
const PART: usize = 1_000;
const WRITERS: usize = 16;
/// Memory for the store's file cache and recent changes, independent of the number of objects.
const STORE_BUFFERS_BYTES: f64 = ((16 + 8) << 20) as f64;
/// The kernel counts CPU time in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

/// CPU time so far, and resident bytes.
fn usage(server: &TestServer) -> (Duration, f64) {
    let read = |file: &str| {
        let path = format!("/proc/{}/{file}", server.process_id());
        std::fs::read_to_string(path).expect("the server runs")
    };
    let stat = read("stat");
    let (_, numbers) = stat.rsplit_once(')').expect("a name in brackets");
    let fields: Vec<&str> = numbers.split_whitespace().collect();
    let ticks = |index: usize| fields[index].parse::<u32>().expect("a number");
    let status = read("status");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = resident.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    (
        TICK * (ticks(11) + ticks(12)),
        kib.expect("a size") * 1024.0,
    )
}

fn name(index: usize) -> String {
    format!("map-{index:05}")
}

fn map(index: usize) -> ConfigMap {
    let json = json!({
        "metadata": {"name": name(index), "labels": {"app": format!("app-{}", index % 100)}},
        "data": {"text": "v".repeat(1000)},
    });
    serde_json::from_value(json).expect("a config map")
}

/// Sends a request for each index, many concurrently; returns the server's CPU time.
async fn cost<F, R>(server: &TestServer, indices: std::ops::Range<usize>, request: F) -> Duration
where
    F: Fn(usize) -> R + Clone + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let (before, _) = usage(server);
    let next = Arc::new(AtomicUsize::new(indices.start));
    let mut tasks = JoinSet::new();
    for _ in 0..WRITERS {
        let (next, request, end) = (next.clone(), request.clone(), indices.end);
        tasks.spawn(async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= end {
                    return;
                }
                request(index).await;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("requests that succeed");
    }
    usage(server).0 - before
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cost_of_a_request_does_not_grow_with_the_number_of_objects() {
    let server = TestServer::start();
    let maps: Api<ConfigMap> = Api::namespaced(server.client().await, "default");
    let create = {
        let maps = maps.clone();
        move |index| {
            let maps = maps.clone();
            async move {
                maps.create(&PostParams::default(), &map(index))
                    .await
                    .expect("a creation");
            }
        }
    };
    let get = {
        let maps = maps.clone();
        move |index| {
            let maps = maps.clone();
            async move {
                maps.get(&name(index)).await.expect("a read");
            }
        }
    };
    // Warm-up: connections and first-time code are not measured.
    cost(&server, 0..PART, create.clone()).await;
    cost(&server, 0..PART, get.clone()).await;
    let (_, bytes_before) = usage(&server);
    let first_creates = cost(&server, PART..2 * PART, create.clone()).await;
    let first_gets = cost(&server, 0..PART, get.clone()).await;
    cost(&server, 2 * PART..OBJECTS - PART, create.clone()).await;
    let last_creates = cost(&server, OBJECTS - PART..OBJECTS, create).await;
    let last_gets = cost(&server, OBJECTS - PART..OBJECTS, get).await;
    let (_, bytes_after) = usage(&server);
    let growth = |first: Duration, last: Duration| last.as_secs_f64() / first.as_secs_f64();
    let (creates, gets) = (
        growth(first_creates, last_creates),
        growth(first_gets, last_gets),
    );
    println!("CPU of the last requests over the first: creates {creates:.2}, gets {gets:.2}");
    assert!(
        creates < 3.0,
        "{first_creates:?}, then {last_creates:?} for {PART} creates"
    );
    assert!(
        gets < 3.0,
        "{first_gets:?}, then {last_gets:?} for {PART} gets"
    );

    let listed = maps
        .list(&ListParams::default().labels("app").limit(1))
        .await
        .expect("a page");
    let json = serde_json::to_vec(&listed.items[0]).expect("JSON").len() as f64;
    let (objects, bytes) = ((OBJECTS - PART) as f64, bytes_after - bytes_before);
    println!("{objects} objects of {json} bytes take {bytes} bytes");
    let wanted = objects * (1.5 * json + 1024.0) + STORE_BUFFERS_BYTES;
    assert!(bytes <= wanted, "{bytes} bytes, at most {wanted}");
}
