//! Acknowledged writes persist, with concurrent writers and after any exit of the server.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::task::JoinSet;

use crate::make::{config_map, value_of};
use crate::support::TestServer;

/// Of a hundred writers with the same resource version, one succeeds and the others get a conflict.
#[tokio::test]
async fn one_of_many_writers_with_the_same_version_wins() {
    const WRITERS: usize = 100;
    let server = TestServer::start();
    let client = server.client().await;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let made = api
        .create(&PostParams::default(), &config_map("a", "none"))
        .await
        .expect("a creation");
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (api, mut mine) = (api.clone(), made.clone());
        mine.data = Some([("value".to_owned(), writer.to_string())].into());
        writers.spawn(async move { api.replace("a", &PostParams::default(), &mine).await });
    }
    let mut winners = Vec::new();
    let mut conflicts = 0;
    while let Some(ended) = writers.join_next().await {
        match ended.expect("a writer") {
            Ok(written) => winners.push(written),
            Err(kube::Error::Api(status)) if status.is_conflict() => conflicts += 1,
            Err(other) => panic!("neither written nor refused: {other}"),
        }
    }
    assert_eq!((winners.len(), conflicts), (1, WRITERS - 1));
    assert_eq!(api.get("a").await.expect("a read"), winners[0]);
}

/// Patches without a resource version are all applied.
#[tokio::test]
async fn no_concurrent_patch_is_lost() {
    const WRITERS: usize = 24;
    let server = TestServer::start();
    let api: Api<ConfigMap> = Api::namespaced(server.client().await, "default");
    api.create(&PostParams::default(), &config_map("a", ""))
        .await
        .expect("a creation");
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let api = api.clone();
        writers.spawn(async move {
            let patch = Patch::Merge(json!({"data": {format!("by-{writer}"): "x"}}));
            api.patch("a", &PatchParams::default(), &patch)
                .await
                .expect("a patch");
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.expect("a writer");
    }
    let data = api.get("a").await.expect("a read").data.expect("data");
    assert_eq!(data.len(), 1 + WRITERS);
}

/// Writers continue until the server is killed. Acknowledged writes must exist afterwards.
#[tokio::test]
async fn kill_loses_no_acknowledged_write() {
    const WRITERS: usize = 6;
    let mut server = TestServer::start();
    let client = server.client().await;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        writers.spawn(async move {
            let mut answered = BTreeMap::new();
            for write in 0.. {
                // Every other write updates the object of the previous one.
                let (name, value) = (format!("map-{writer}-{}", write / 2), write.to_string());
                let map = config_map(&name, &value);
                let post = PostParams::default();
                let result = match write % 2 {
                    0 => api.create(&post, &map).await,
                    _ => api.replace(&name, &post, &map).await,
                };
                match result {
                    Ok(_) => answered.insert(name, write),
                    Err(_) => break,
                };
            }
            answered
        });
    }
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    server.kill();
    let mut answered: BTreeMap<String, i32> = BTreeMap::new();
    while let Some(ended) = writers.join_next().await {
        answered.extend(ended.expect("a writer"));
    }
    assert!(
        answered.len() > WRITERS,
        "the writers were busy: {}",
        answered.len()
    );
    server.start_again();
    let api: Api<ConfigMap> = Api::namespaced(server.client().await, "default");
    let kept = api
        .list(&ListParams::default())
        .await
        .expect("a list")
        .items;
    let kept: BTreeMap<String, i32> = kept
        .iter()
        .filter(|map| map.name_any().starts_with("map-"))
        .map(|map| (map.name_any(), value_of(map).parse().expect("a number")))
        .collect();
    for (name, write) in answered {
        // One later write may have been committed without acknowledgement.
        let found = kept.get(&name).copied();
        assert!(
            found == Some(write) || found == Some(write + 1),
            "{name}: wrote {write}, found {found:?}"
        );
    }
}

#[tokio::test]
async fn restart_keeps_objects_versions_and_uids() {
    let mut server = TestServer::start();
    let client = server.client().await;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let post = PostParams::default();
    for index in 0..10 {
        api.create(&post, &config_map(&format!("map-{index}"), "1"))
            .await
            .expect("a creation");
    }
    api.delete("map-3", &Default::default())
        .await
        .expect("a deletion");
    let all = ListParams::default();
    let before = api.list(&all).await.expect("a list");
    server.stop();
    server.start_again();
    let after = api
        .list(&all)
        .await
        .expect("the same client and certificate go on");
    assert_eq!(after.items, before.items);
    let version = |text: Option<String>| {
        text.and_then(|text| text.parse::<u64>().ok())
            .expect("a number")
    };
    let (old, new) = (
        version(before.metadata.resource_version),
        version(after.metadata.resource_version),
    );
    assert!(new >= old, "versions never go back: {old}, then {new}");
    let next = api
        .create(&post, &config_map("next", "1"))
        .await
        .expect("a creation");
    assert!(version(next.resource_version()) > new);
}
