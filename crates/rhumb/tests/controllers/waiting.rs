//! Waiting for what controllers do.

use std::fmt::Debug;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::make::object;
use crate::program::NO_CONTROLLERS;
use crate::support::Server;

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// Asks until there is an answer.
pub(crate) async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "{what} did not come about");
        sleep(PAUSE).await;
    }
}

/// The object, once it is there and as it should be.
pub(crate) async fn found<K>(api: &Api<K>, name: &str, is_right: impl Fn(&K) -> bool) -> K
where
    K: Clone + Debug + DeserializeOwned,
{
    until(name, async || {
        api.get_opt(name).await.expect("a read").filter(&is_right)
    })
    .await
}

pub(crate) async fn gone<K>(api: &Api<K>, name: &str)
where
    K: Clone + Debug + DeserializeOwned,
{
    until(&format!("the end of {name}"), async || {
        api.get_opt(name)
            .await
            .expect("a read")
            .is_none()
            .then_some(())
    })
    .await;
}

pub(crate) async fn make_namespace(client: &Client, name: &str) -> Api<Namespace> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = object(json!({"metadata": {"name": name}}));
    let made = namespaces.create(&PostParams::default(), &namespace).await;
    made.expect("a namespace");
    namespaces
}

/// Deletions after which a server is killed: some, so that they are not only those that a test asked for itself.
const SOME: usize = 10;

/// Does what has config maps deleted, kills the server at the first of that, and tells how many are left then.
/// Nothing goes on before the server is started again.
pub(crate) async fn kill_amid_deletions(
    server: &mut Server,
    namespace: &str,
    begin: impl AsyncFnOnce(),
) -> usize {
    let list = async |server: &Server| {
        let maps: Api<ConfigMap> = Api::namespaced(server.client().await, namespace);
        let list = maps.list(&ListParams::default()).await.expect("a list");
        (maps, list)
    };
    let (maps, before) = list(server).await;
    let version = before.metadata.resource_version.expect("a version");
    let events = maps.watch_metadata(&WatchParams::default(), &version).await;
    let events = events.expect("a watch");
    let deletions = events.filter(|event| {
        let event = event.as_ref().expect("an event");
        std::future::ready(matches!(event, WatchEvent::Deleted(_)))
    });
    let some = deletions.take(SOME).count();
    let (some, ()) = futures_util::join!(some, begin());
    assert_eq!(some, SOME, "the watch ended");
    server.kill();
    server.start_again_with(&[NO_CONTROLLERS]);
    list(server).await.1.items.len()
}
