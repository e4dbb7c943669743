//! Waiting for the effects of controllers.

use std::fmt::Debug;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::make::object;
use crate::program::{NO_CONTROLLERS, poll_until};
use crate::support::TestServer;

/// The object once it exists and satisfies the predicate.
pub(crate) async fn wait_for<K>(api: &Api<K>, name: &str, is_right: impl Fn(&K) -> bool) -> K
where
    K: Clone + Debug + DeserializeOwned,
{
    poll_until(name, async || {
        api.get_opt(name).await.expect("a read").filter(&is_right)
    })
    .await
}

pub(crate) async fn wait_until_deleted<K>(api: &Api<K>, name: &str)
where
    K: Clone + Debug + DeserializeOwned,
{
    poll_until(&format!("the end of {name}"), async || {
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
    let created = namespaces.create(&PostParams::default(), &namespace).await;
    created.expect("a namespace");
    namespaces
}

/// Deletions after which the server is killed: more than the test itself requested.
const SOME: usize = 10;

/// Runs an action that deletes config maps, kills the server after the first deletions, and returns the number of
/// config maps left. Nothing is deleted before the server is restarted.
pub(crate) async fn kill_during_deletions(
    server: &mut TestServer,
    namespace: &str,
    begin: impl AsyncFnOnce(),
) -> usize {
    let list = async |server: &TestServer| {
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
