//! What stands between connections and resources: the audit log, metrics, WebSockets, limits.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::{SinkExt, StreamExt};
use http::{Method, StatusCode};
use serde_json::Value;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::support::{Answer, As, CONFIG_MAPS, NOBODY, Server, config_map};

fn audit_lines(path: &Path) -> Vec<Value> {
    std::fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect()
}

/// Waits until the log has the lines of a request.
async fn audited(path: &Path, id: &str, count: usize) -> Vec<Value> {
    for _ in 0..200 {
        let mut lines = audit_lines(path);
        lines.retain(|line| line["auditID"] == id);
        if lines.len() >= count {
            return lines;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the audit log has no {count} lines for {id}");
}

fn id(answer: &Answer) -> String {
    answer.headers["audit-id"].to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_log_tells_who_did_what_and_no_secrets() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("audit.log");
    let server = Server::start(&["--audit-log-path", log.to_str().unwrap()]);
    let secret = r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s"},"stringData":{"password":"hunter2"}}"#;
    let path = "/api/v1/namespaces/default/secrets";
    let made = server.ask(As::Admin, Method::POST, path, secret).await;
    assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
    let line = &audited(&log, &id(&made), 1).await[0];
    assert_eq!(line["kind"], "Event");
    assert_eq!(line["apiVersion"], "audit.k8s.io/v1");
    assert_eq!(line["level"], "Metadata");
    assert_eq!(line["stage"], "ResponseComplete");
    assert_eq!(line["verb"], "create");
    assert_eq!(line["requestURI"], path);
    assert_eq!(line["user"]["username"], "kubernetes-admin");
    assert_eq!(line["sourceIPs"][0], "127.0.0.1");
    assert_eq!(line["objectRef"]["resource"], "secrets");
    assert_eq!(line["objectRef"]["namespace"], "default");
    assert_eq!(line["objectRef"]["apiVersion"], "v1");
    assert_eq!(line["responseStatus"]["code"], 201);
    assert_eq!(
        line["annotations"]["authorization.k8s.io/decision"],
        "allow"
    );
    // Microseconds and a Z: 2026-01-01T00:00:00.000000Z.
    assert_eq!(line["requestReceivedTimestamp"].as_str().unwrap().len(), 27);

    let refused = server.ask(As::Token(NOBODY), Method::GET, path, "").await;
    let line = &audited(&log, &id(&refused), 1).await[0];
    assert_eq!(line["user"]["username"], "nobody");
    assert_eq!(
        line["annotations"]["authorization.k8s.io/decision"],
        "forbid"
    );
    assert_eq!(line["responseStatus"]["reason"], "Forbidden");

    let mut client = server.http1(As::Admin).await;
    let mut request = client.request(Method::GET, "/api/v1/pods", "");
    request
        .headers_mut()
        .insert("impersonate-user", "ann".parse().unwrap());
    request
        .headers_mut()
        .insert("audit-id", "chosen-by-the-client".parse().unwrap());
    let acted = Answer::read(client.send(request).await.unwrap()).await;
    assert_eq!(id(&acted), "chosen-by-the-client");
    let line = &audited(&log, "chosen-by-the-client", 1).await[0];
    assert_eq!(line["user"]["username"], "kubernetes-admin");
    assert_eq!(line["impersonatedUser"]["username"], "ann");

    let watched = server.get("/api/v1/pods?watch=true&timeoutSeconds=1").await;
    let stages: Vec<Value> = audited(&log, &id(&watched), 2)
        .await
        .iter()
        .map(|line| line["stage"].clone())
        .collect();
    assert_eq!(stages, ["ResponseStarted", "ResponseComplete"]);
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(!text.contains("hunter2") && !text.contains(NOBODY));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_count_requests_and_clients_cannot_make_labels() {
    let server = Server::start(&[]);
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
