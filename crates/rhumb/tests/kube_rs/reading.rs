//! Lists: selectors, pages, and past and future resource versions.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{GetParams, ListParams, PostParams, VersionMatch, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};

use crate::make::{code, config_map, labelled, pod, refusal, value_of};
use crate::program::NO_CONTROLLERS;
use crate::support::TestServer;

async fn create_config_maps(client: &Client, count: usize) -> Api<ConfigMap> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    for index in 0..count {
        let map = labelled(
            &format!("map-{index:02}"),
            "parity",
            if index % 2 == 0 { "even" } else { "odd" },
        );
        api.create(&PostParams::default(), &map)
            .await
            .expect("a creation");
    }
    api
}

async fn names(api: &Api<ConfigMap>, params: &ListParams) -> Vec<String> {
    let list = api.list(params).await.expect("a list");
    list.items.iter().map(ResourceExt::name_any).collect()
}

#[tokio::test]
async fn label_and_field_selectors_filter_lists() {
    let server = TestServer::start();
    let client = server.client_for_pods().await;
    let maps = create_config_maps(&client, 4).await;
    let by_labels = |selector: &str| ListParams::default().labels(selector);
    for (selector, picked) in [
        ("parity=even", vec!["map-00", "map-02"]),
        ("parity!=even,parity", vec!["map-01", "map-03"]),
        ("parity in (odd)", vec!["map-01", "map-03"]),
        (
            "parity in (odd, even)",
            vec!["map-00", "map-01", "map-02", "map-03"],
        ),
        ("parity=none", vec![]),
    ] {
        assert_eq!(
            names(&maps, &by_labels(selector)).await,
            picked,
            "{selector}"
        );
    }
    let one = ListParams::default().fields("metadata.name=map-03");
    assert_eq!(names(&maps, &one).await, ["map-03"]);
    assert_eq!(
        code(maps.list(&by_labels("parity in (")).await),
        (400, "BadRequest".into())
    );
    let pods: Api<Pod> = Api::namespaced(client, "default");
    for name in ["a", "b"] {
        let mut pod = pod(name);
        if let Some(spec) = &mut pod.spec {
            spec.node_name = (name == "b").then(|| "node-1".into());
        }
        pods.create(&PostParams::default(), &pod)
            .await
            .expect("a creation");
    }
    let here = pods
        .list(&ListParams::default().fields("spec.nodeName=node-1"))
        .await
        .expect("a list");
    assert_eq!(
        here.items
            .iter()
            .map(ResourceExt::name_any)
            .collect::<Vec<_>>(),
        ["b"]
    );
    let unknown = pods
        .list(&ListParams::default().fields("spec.color=red"))
        .await;
    assert_eq!(code(unknown), (400, "BadRequest".into()));
}

#[tokio::test]
async fn pages_are_of_one_resource_version() {
    let server = TestServer::start_with(&[NO_CONTROLLERS]);
    let client = server.client().await;
    let maps = create_config_maps(&client, 10).await;
    let mut params = ListParams::default().labels("parity").limit(4);
    let first = maps.list(&params).await.expect("a page");
    maps.delete("map-05", &Default::default())
        .await
        .expect("a deletion");
    maps.create(
        &PostParams::default(),
        &labelled("map-06a", "parity", "new"),
    )
    .await
    .expect("a creation");
    let mut seen: Vec<String> = first.items.iter().map(ResourceExt::name_any).collect();
    let mut token = first.metadata.continue_.clone();
    while let Some(next) = token.filter(|token| !token.is_empty()) {
        params = params.continue_token(&next);
        let page = maps.list(&params).await.expect("a page");
        assert_eq!(
            page.metadata.resource_version,
            first.metadata.resource_version
        );
        seen.extend(page.items.iter().map(ResourceExt::name_any));
        token = page.metadata.continue_;
    }
    let expected: Vec<String> = (0..10).map(|index| format!("map-{index:02}")).collect();
    assert_eq!(
        seen, expected,
        "as if nothing had happened between the pages"
    );
}

#[tokio::test]
async fn remaining_item_count_is_exact() {
    let server = TestServer::start_with(&[NO_CONTROLLERS]);
    let client = server.client().await;
    create_config_maps(&client, 10).await;
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let page = maps
        .list(&ListParams::default().limit(4))
        .await
        .expect("a page");
    assert_eq!(page.metadata.remaining_item_count, Some(6));
    let token = page.metadata.continue_.expect("a token");
    let page = maps
        .list(&ListParams::default().limit(4).continue_token(&token))
        .await
        .expect("a page");
    assert_eq!(page.metadata.remaining_item_count, Some(2));
}

#[tokio::test]
async fn list_at_an_exact_resource_version() {
    let server = TestServer::start_with(&[NO_CONTROLLERS]);
    let client = server.client().await;
    let maps = create_config_maps(&client, 3).await;
    let then = maps
        .list(&ListParams::default())
        .await
        .expect("a list")
        .metadata
        .resource_version;
    let then = then.expect("a version");
    maps.delete("map-01", &Default::default())
        .await
        .expect("a deletion");
    let exactly = ListParams::default()
        .at(&then)
        .matching(VersionMatch::Exact);
    assert_eq!(names(&maps, &exactly).await, ["map-00", "map-01", "map-02"]);
    let since = ListParams::default()
        .at(&then)
        .matching(VersionMatch::NotOlderThan);
    assert_eq!(names(&maps, &since).await, ["map-00", "map-02"]);
    assert_eq!(
        names(&maps, &ListParams::default().match_any()).await,
        ["map-00", "map-02"]
    );
}

#[tokio::test]
async fn future_resource_version_times_out_with_retry_hint() {
    let server = TestServer::start_with(&[NO_CONTROLLERS]);
    let maps = create_config_maps(&server.client().await, 1).await;
    let begun = Instant::now();
    let future = "9000000000";
    let (one, all) = (GetParams::at(future), ListParams::default().at(future));
    let (read, listed) = tokio::join!(maps.get_with("map-00", &one), maps.list(&all));
    let took = begun.elapsed();
    assert!(
        took > Duration::from_secs(2) && took < Duration::from_secs(8),
        "{took:?}"
    );
    for status in [refusal(read), refusal(listed)] {
        assert_eq!((status.code, status.reason.as_str()), (504, "Timeout"));
        let details = status.details.expect("details");
        assert!(details.retry_after_seconds >= 1);
        assert_eq!(details.causes[0].reason, "ResourceVersionTooLarge");
    }
}

/// A continue token expires with the history of its resource, which is limited in bytes.
#[tokio::test]
async fn expired_continue_token_has_an_inconsistent_replacement() {
    const VALUE_BYTES: usize = 1_000_000;
    /// Together larger than the history limit of one resource.
    const CHANGES: usize = 80;
    let server = TestServer::start_with(&[NO_CONTROLLERS]);
    let client = server.client().await;
    let maps = create_config_maps(&client, 4).await;
    let page = maps
        .list(&ListParams::default().limit(2))
        .await
        .expect("a page");
    let token = page.metadata.continue_.expect("a token");
    let post = PostParams::default();
    maps.create(&post, &config_map("zz", ""))
        .await
        .expect("a creation");
    for letter in ('a'..='z').cycle().take(CHANGES) {
        let value = String::from(letter).repeat(VALUE_BYTES);
        maps.replace("zz", &post, &config_map("zz", &value))
            .await
            .expect("a change");
    }
    let expired = refusal(
        maps.list(&ListParams::default().limit(2).continue_token(&token))
            .await,
    );
    assert_eq!((expired.code, expired.reason.as_str()), (410, "Expired"));
    let again = expired
        .metadata
        .and_then(|metadata| metadata.continue_)
        .expect("a token to go on");
    let rest = ListParams::default().limit(2).continue_token(&again);
    assert_eq!(names(&maps, &rest).await, ["map-02", "map-03"]);
    let then = page.metadata.resource_version.expect("a version");
    let old = ListParams::default()
        .at(&then)
        .matching(VersionMatch::Exact);
    assert_eq!(code(maps.list(&old).await), (410, "Expired".into()));
    let watch = maps.watch(&WatchParams::default(), &then).await;
    let first = watch.expect("a stream").boxed().try_next().await;
    assert!(
        matches!(&first, Ok(Some(WatchEvent::Error(status))) if status.code == 410),
        "{first:?}"
    );
}

#[tokio::test]
async fn writers_read_their_own_writes() {
    const WRITERS: usize = 8;
    const WRITES: usize = 12;
    let server = TestServer::start_with(&[NO_CONTROLLERS]);
    let client = server.client().await;
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        tasks.spawn(async move {
            let (name, post) = (format!("own-{writer}"), PostParams::default());
            maps.create(&post, &config_map(&name, ""))
                .await
                .expect("a creation");
            for write in 0..WRITES {
                let value = write.to_string();
                maps.replace(&name, &post, &config_map(&name, &value))
                    .await
                    .expect("a write");
                assert_eq!(value_of(&maps.get(&name).await.expect("a read")), value);
                // Also from the cache without consistency, and in a list.
                let any = maps
                    .get_with(&name, &GetParams::any())
                    .await
                    .expect("a read");
                assert_eq!(value_of(&any), value);
                let one = ListParams::default()
                    .fields(&format!("metadata.name={name}"))
                    .match_any();
                let listed = maps.list(&one).await.expect("a list");
                assert_eq!(value_of(&listed.items[0]), value);
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("a writer");
    }
}
