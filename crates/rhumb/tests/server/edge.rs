//! What stands between connections and resources: metrics, WebSockets, limits.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::{SinkExt, StreamExt};
use http::{Method, StatusCode};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::program::NO_CONTROLLERS;
use crate::support::{As, CONFIG_MAPS, NOBODY, Server, config_map};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_count_requests_and_clients_cannot_make_labels() {
    let server = Server::start(&[NO_CONTROLLERS]);
    let mut admin = server.http2(As::Admin).await;
    for number in 0..20 {
        admin
            .ask(Method::GET, &format!("/apis/g{number}/v1/things"), "")
            .await;
        admin.ask(Method::GET, &format!("/path{number}"), "").await;
    }
    admin
        .ask(Method::POST, CONFIG_MAPS, &config_map("counted"))
        .await;
    let watch = admin.request(Method::GET, "/api/v1/pods?watch=true", "");
    let _watch = admin.send(watch).await.unwrap();
    let list = format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=1");
    let events = admin.ask(Method::GET, &list, "").await;
    let (count, bytes) = (events.text().lines().count(), events.body.len());
    assert!(count > 0, "the watch tells of what there is");
    let labels = "group=\"\",version=\"v1\",resource=\"configmaps\"";
    let counted = [
        format!("apiserver_watch_events_total{{{labels}}} {count}\n"),
        format!("apiserver_watch_events_sizes_count{{{labels}}} {count}\n"),
        format!("apiserver_watch_events_sizes_sum{{{labels}}} {bytes}.0\n"),
        format!("apiserver_watch_events_sizes_bucket{{le=\"1024.0\",{labels}}} {count}\n"),
        format!("apiserver_watch_events_sizes_bucket{{le=\"+Inf\",{labels}}} {count}\n"),
    ];
    let text = admin.ask(Method::GET, "/metrics", "").await.text();
    for part in counted.iter().map(String::as_str).chain([
        "apiserver_request_total{verb=\"POST\",group=\"\",version=\"v1\",resource=\"configmaps\",subresource=\"\",scope=\"namespace\",component=\"apiserver\",dry_run=\"\",code=\"201\"} 1\n",
        "resource=\"other\",subresource=\"\",scope=\"cluster\",component=\"apiserver\",dry_run=\"\",code=\"404\"} 20\n",
        "apiserver_longrunning_requests{verb=\"WATCH\",group=\"\",version=\"v1\",resource=\"pods\",subresource=\"\",scope=\"cluster\",component=\"apiserver\"} 1\n",
        "apiserver_current_inflight_requests{request_kind=\"readOnly\"} 1\n",
        "apiserver_current_inflight_requests{request_kind=\"mutating\"} 0\n",
        "apiserver_storage_objects{group=\"\",resource=\"configmaps\"}",
        "apiserver_request_duration_seconds_bucket{le=\"0.005\"",
        "rhumb_watchers{group=\"\",resource=\"pods\"} 1\n",
        "rhumb_connections 1\n",
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        "process_open_fds",
    ]) {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("path1") && !text.contains("g1"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keys_of_tokens_are_published() {
    let server = Server::start(&[]);
    let configuration = server.get("/.well-known/openid-configuration").await.json();
    assert_eq!(configuration["issuer"], "https://kubernetes.default.svc");
    let keys = server.get("/openid/v1/jwks").await;
    assert_eq!(keys.headers["content-type"], "application/jwk-set+json");
    assert!(keys.json()["keys"][0]["kid"].is_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_can_be_a_websocket() {
    let server = Server::start(&[]);
    let made = server
        .ask(As::Admin, Method::POST, CONFIG_MAPS, &config_map("first"))
        .await;
    assert_eq!(made.code, StatusCode::CREATED);
    let url = format!(
        "wss://{}{CONFIG_MAPS}?watch=true&fieldSelector=metadata.name%3Dfirst",
        server.address
    );
    let stream = server.tls(As::Admin, b"http/1.1").await.unwrap();
    let (mut socket, response) = tokio_tungstenite::client_async(url.as_str(), stream)
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    let event = async |socket: &mut tokio_tungstenite::WebSocketStream<_>| -> Value {
        loop {
            match socket.next().await.unwrap().unwrap() {
                Message::Text(text) => {
                    assert!(!text.ends_with('\n'));
                    return serde_json::from_str(&text).unwrap();
                }
                Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    let first = event(&mut socket).await;
    assert_eq!(first["type"], "ADDED");
    assert_eq!(first["object"]["metadata"]["name"], "first");
    socket
        .send(Message::Ping("still there?".into()))
        .await
        .unwrap();
    assert_eq!(
        socket.next().await.unwrap().unwrap(),
        Message::Pong("still there?".into())
    );
    server
        .ask(
            As::Admin,
            Method::DELETE,
            &format!("{CONFIG_MAPS}/first"),
            "",
        )
        .await;
    assert_eq!(event(&mut socket).await["type"], "DELETED");
    // A client that talks too much is shown the door.
    let _ = socket.send(Message::Text("x".repeat(100_000).into())).await;
    let end = tokio::time::timeout(Duration::from_secs(5), async {
        while let Some(Ok(_)) = socket.next().await {}
    });
    end.await.expect("the socket ends");
    assert_eq!(server.get("/readyz").await.code, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_websocket_brings_its_token_among_its_protocols() {
    let server = Server::start(&[]);
    let attempt = async |token: &str| {
        let url = format!(
            "wss://{}{CONFIG_MAPS}?watch=true&timeoutSeconds=1",
            server.address
        );
        let mut request = url.into_client_request().unwrap();
        let token = URL_SAFE_NO_PAD.encode(token);
        let offered =
            format!("base64url.bearer.authorization.k8s.io.{token}, base64.binary.k8s.io");
        request
            .headers_mut()
            .insert("sec-websocket-protocol", offered.parse().unwrap());
        let stream = server.tls(As::Anonymous, b"http/1.1").await.unwrap();
        match tokio_tungstenite::client_async(request, stream).await {
            Ok((_, response)) => response.status().as_u16(),
            Err(tokio_tungstenite::tungstenite::Error::Http(response)) => {
                response.status().as_u16()
            }
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(attempt("wrong").await, 401);
    assert_eq!(attempt(NOBODY).await, 403);
    let binding = r#"{"kind":"ClusterRoleBinding","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"b"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"nobody"}]}"#;
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let bound = server.ask(As::Admin, Method::POST, path, binding).await;
    assert_eq!(bound.code, StatusCode::CREATED, "{}", bound.text());
    // Policy follows writes a moment later, as everywhere.
    let mut code = attempt(NOBODY).await;
    for _ in 0..50 {
        if code == 101 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        code = attempt(NOBODY).await;
    }
    assert_eq!(code, 101);
}

#[tokio::test]
async fn a_client_that_names_no_protocol_is_answered_in_http_1() {
    let server = Server::start(&[]);
    let mut stream = server.tls(As::Admin, b"").await.unwrap();
    let request = "GET /version HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // The server may close the connection without a farewell of TLS, after all has been said.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}
