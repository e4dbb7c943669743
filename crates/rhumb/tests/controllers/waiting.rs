//! Waiting for what controllers do.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::make::object;

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
