//! Metrics, WebSockets and limits of connections.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::{SinkExt, StreamExt};
use http::{Method, StatusCode};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::metric_value::metric_value;
use crate::program::{NO_CONTROLLERS, poll_until};
use crate::support::{CONFIG_MAPS, ClientCredentials, NOBODY, TestServer, config_map};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_count_requests_with_bounded_labels() {
    let server = TestServer::start(&[NO_CONTROLLERS]);
    let mut admin = server.http2(ClientCredentials::Admin).await;
    for number in 0..20 {
        admin
            .send_request(Method::GET, &format!("/apis/g{number}/v1/things"), "")
            .await;
        admin
            .send_request(Method::GET, &format!("/path{number}"), "")
            .await;
    }
    admin
        .send_request(Method::POST, CONFIG_MAPS, &config_map("counted"))
        .await;
    let watch = admin.request(Method::GET, "/api/v1/pods?watch=true", "");
    let _watch = admin.send(watch).await.unwrap();
    let list = format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=1");
    let events = admin.send_request(Method::GET, &list, "").await;
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
    let text = admin.send_request(Method::GET, "/metrics", "").await.text();
    for part in counted.iter().map(String::as_str).chain([
        "apiserver_request_total{verb=\"POST\",group=\"\",version=\"v1\",resource=\"configmaps\",subresource=\"\",scope=\"resource\",component=\"apiserver\",dry_run=\"\",code=\"201\"} 1\n",
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
async fn token_signing_keys_are_published() {
    let server = TestServer::start(&[]);
    let configuration = server.get("/.well-known/openid-configuration").await.json();
    assert_eq!(configuration["issuer"], "https://kubernetes.default.svc");
    let keys = server.get("/openid/v1/jwks").await;
    assert_eq!(keys.headers["content-type"], "application/jwk-set+json");
    assert!(keys.json()["keys"][0]["kid"].is_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_works_over_websocket() {
    let server = TestServer::start(&[]);
    let created = server.create_config_map("first").await;
    assert_eq!(created.code, StatusCode::CREATED);
    let url = format!(
        "wss://{}{CONFIG_MAPS}?watch=true&fieldSelector=metadata.name%3Dfirst",
        server.address
    );
    let stream = server
        .tls(ClientCredentials::Admin, b"http/1.1")
        .await
        .unwrap();
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
        .send_request(
            ClientCredentials::Admin,
            Method::DELETE,
            &format!("{CONFIG_MAPS}/first"),
            "",
        )
        .await;
    assert_eq!(event(&mut socket).await["type"], "DELETED");
    // A client that sends too much is disconnected.
    let _ = socket.send(Message::Text("x".repeat(100_000).into())).await;
    let end = tokio::time::timeout(Duration::from_secs(5), async {
        while let Some(Ok(_)) = socket.next().await {}
    });
    end.await.expect("the socket ends");
    assert_eq!(server.get("/readyz").await.code, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn websocket_token_is_read_from_subprotocols() {
    let server = TestServer::start(&[]);
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
        let stream = server
            .tls(ClientCredentials::Anonymous, b"http/1.1")
            .await
            .unwrap();
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
    let bound = server
        .send_request(ClientCredentials::Admin, Method::POST, path, binding)
        .await;
    assert_eq!(bound.code, StatusCode::CREATED, "{}", bound.text());
    // The authorizer sees writes with a short delay.
    poll_until("permission to upgrade", async || {
        (attempt(NOBODY).await == 101).then_some(())
    })
    .await;
}

#[tokio::test]
async fn client_without_alpn_gets_http_1() {
    let server = TestServer::start(&[]);
    let mut stream = server.tls(ClientCredentials::Admin, b"").await.unwrap();
    let request = "GET /version HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut http_response = Vec::new();
    // The server may close the connection without a TLS close_notify after the response.
    let _ = stream.read_to_end(&mut http_response).await;
    let http_response = String::from_utf8_lossy(&http_response);
    assert!(
        http_response.starts_with("HTTP/1.1 200 OK"),
        "{http_response}"
    );
}

/// Idle connections of anonymous clients must leave enough file descriptors for everything else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_leave_file_descriptors_for_the_server() {
    const OPEN_FILES: u32 = 256;
    let server = TestServer::start_with_open_files(OPEN_FILES, &[NO_CONTROLLERS]);
    let mut admin = server.http2(ClientCredentials::Admin).await;
    let mut idle = Vec::new();
    for _ in 0..OPEN_FILES {
        idle.push(
            TcpStream::connect(server.address)
                .await
                .expect("the kernel accepts"),
        );
    }
    // The server closes the connections above its limit at once.
    poll_until("the limit on connections is reached", async || {
        let text = admin.send_request(Method::GET, "/metrics", "").await.text();
        let value = |name: &str| metric_value(&text, name, &[]);
        (value("rhumb_connections") >= value("rhumb_connections_max")
            && value("process_open_fds") < f64::from(OPEN_FILES) * 0.75)
            .then_some(())
    })
    .await;
    let created = admin
        .send_request(Method::POST, CONFIG_MAPS, &config_map("written"))
        .await;
    assert_eq!(created.code, StatusCode::CREATED, "{}", created.text());
    assert!(!server.program.log().contains("Too many open files"));
}
