//! Malicious and broken clients get errors and do not affect others.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::Full;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{CONFIG_MAPS, ClientCredentials, HttpResponse, TestServer, config_map};

/// Path, content type, body and allowed status codes.
type MalformedRequestCase<'a> = ((Method, &'a str), &'a str, Vec<u8>, &'a [u16]);

/// Sends a body with a content type to a path.
async fn send(
    server: &TestServer,
    method: Method,
    path: &str,
    kind: &str,
    body: Vec<u8>,
) -> HttpResponse {
    let mut client = server.http1(ClientCredentials::Admin).await;
    let mut request = client.request(method, path, "");
    request
        .headers_mut()
        .insert("content-type", kind.parse().unwrap());
    *request.body_mut() = Full::new(Bytes::from(body));
    HttpResponse::read(client.send(request).await.expect("an answer")).await
}

/// Writes raw bytes and reads until the server closes or is silent for a while.
async fn raw(server: &TestServer, bytes: &[u8]) -> Vec<u8> {
    let mut stream = server
        .tls(ClientCredentials::Admin, b"http/1.1")
        .await
        .unwrap();
    let _ = stream.write_all(bytes).await;
    let mut http_response = vec![0; 64 * 1024];
    let read =
        tokio::time::timeout(Duration::from_millis(1000), stream.read(&mut http_response)).await;
    let length = match read {
        Ok(Ok(length)) => length,
        _ => 0,
    };
    http_response.truncate(length);
    http_response
}

async fn is_well(server: &TestServer) {
    let started = Instant::now();
    assert_eq!(server.get("/readyz").await.code, StatusCode::OK);
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_and_malformed_bodies_are_rejected() {
    let server = TestServer::start(&[]);
    let created = server.create_config_map("target").await;
    assert_eq!(created.code, 201, "{}", created.text());
    let target = format!("{CONFIG_MAPS}/target");
    let before = server.resident_bytes();
    let (json, yaml, patch) = (
        "application/json",
        "application/yaml",
        "application/json-patch+json",
    );
    let post = || (Method::POST, CONFIG_MAPS);
    let change = || (Method::PATCH, target.as_str());
    let operations = |count: usize| {
        let one = json!({"op": "add", "path": "/data/x", "value": "y"});
        serde_json::to_vec(&vec![one; count]).unwrap()
    };
    let mut copies = vec![json!({"op": "add", "path": "/data/k0", "value": "x".repeat(1000)})];
    copies.extend((0..60).map(|_| json!({"op": "copy", "from": "", "path": "/data/nested"})));
    let aliases: String = (1..12)
        .map(|at| {
            let last = at - 1;
            format!(
                "a{at}: &a{at} [{}]\n",
                vec![format!("*a{last}"); 10].join(",")
            )
        })
        .collect();
    let aliases = format!("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n{aliases}");
    let deep = "[".repeat(100_000);
    let cases: Vec<MalformedRequestCase<'_>> = vec![
        (post(), json, vec![b' '; 3 * 1024 * 1024 + 1], &[413]),
        (post(), json, format!("{{\"a\":{deep}").into_bytes(), &[400]),
        (post(), yaml, format!("a: {deep}").into_bytes(), &[400]),
        (post(), yaml, aliases.into_bytes(), &[400]),
        (
            post(),
            json,
            b"{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"\xff\xfe\"}}"
                .to_vec(),
            &[400, 422],
        ),
        (post(), json, b"{\"kind\":\"ConfigMap\"".to_vec(), &[400]),
        (post(), json, b"".to_vec(), &[400]),
        (post(), json, b"null".to_vec(), &[422]),
        (
            post(),
            "application/vnd.kubernetes.protobuf",
            b"k8s\0\xff\xff\xff\xff".to_vec(),
            &[400, 415],
        ),
        (post(), "text/plain", b"hello".to_vec(), &[415]),
        (change(), patch, operations(10_001), &[413]),
        (
            change(),
            patch,
            serde_json::to_vec(&copies).unwrap(),
            &[400, 413, 422],
        ),
        (change(), patch, b"[{\"op\":\"no\"}]".to_vec(), &[400, 422]),
        (
            change(),
            "application/merge-patch+json",
            format!("{{\"a\":{deep}").into_bytes(),
            &[400],
        ),
        (
            change(),
            "application/strategic-merge-patch+json",
            b"[1]".to_vec(),
            &[400, 422],
        ),
        (
            change(),
            "application/apply-patch+yaml",
            b"a: [".to_vec(),
            &[400, 415],
        ),
    ];
    let mut wrong = Vec::new();
    for (at, ((method, path), kind, body, codes)) in cases.into_iter().enumerate() {
        let http_response = send(&server, method, path, kind, body).await;
        if !codes.contains(&http_response.code.as_u16()) {
            let text: String = http_response.text().chars().take(300).collect();
            wrong.push(format!(
                "case {at} ({kind}): {} instead of {codes:?}: {text}",
                http_response.code
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    is_well(&server).await;
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 200 * 1024 * 1024, "memory grew by {grown} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_requests_are_rejected() {
    let server = TestServer::start(&[]);
    let first_line = |http_response: &[u8]| {
        let text = String::from_utf8_lossy(http_response).into_owned();
        text.lines().next().unwrap_or_default().to_owned()
    };
    let many = "a: b\r\n".repeat(200);
    let long = "x".repeat(70_000);
    let huge = "x".repeat(2 * 1024 * 1024);
    let chunked = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let big_chunk = format!("{chunked}400000\r\n{}\r\n0\r\n\r\n", " ".repeat(0x40_0000));
    let cases: Vec<(String, &[&str])> = vec![
        (format!("GET / HTTP/1.1\r\nhost: a\r\n{many}\r\n"), &["431"]),
        (format!("GET /{long} HTTP/1.1\r\nhost: a\r\n\r\n"), &["414"]),
        (
            format!("GET / HTTP/1.1\r\nhost: a\r\nbig: {huge}\r\n\r\n"),
            &["431", ""],
        ),
        ("GET / HTTP/9.9\r\n\r\n".to_owned(), &["400", "505", ""]),
        ("nonsense\r\n\r\n".to_owned(), &["400", ""]),
        (format!("{chunked}zz\r\n"), &["400", ""]),
        (big_chunk, &["413"]),
        (
            // Like upstream, a parameter with an invalid escape is ignored.
            "GET /api/v1/pods?a=%zz HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
            &["200"],
        ),
        (
            "GET /api/v1/namespaces/%ff/pods HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
            &["400", "404"],
        ),
        (
            "GET /api/v1/pods?labelSelector=%3d%3d HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
            &["400"],
        ),
        (
            "GET /api/v1/pods?limit=-9223372036854775809 HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
            &["400"],
        ),
        (
            "BREW /api/v1/pods HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
            &["405", "403"],
        ),
        (
            "GET /api/v1/../../../etc/passwd HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
            &["404", "400"],
        ),
    ];
    for (request, codes) in cases {
        let line = first_line(&raw(&server, request.as_bytes()).await);
        let code = line.split(' ').nth(1).unwrap_or_default();
        let shown: String = request.chars().take(60).collect();
        assert!(codes.contains(&code), "{shown:?}: {line:?}, not {codes:?}");
    }
    is_well(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_survives_a_thousand_corrupted_requests() {
    let server = TestServer::start(&[]);
    let good = format!(
        "POST {CONFIG_MAPS}?fieldManager=m&dryRun=All HTTP/1.1\r\nhost: a\r\naccept: application/json\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{}",
        config_map("x").len(),
        config_map("x")
    );
    // A seeded RNG, so that failures are reproducible.
    let mut state: u64 = 42;
    let mut random = move |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..20 {
        let mangled: Vec<Vec<u8>> = (0..50)
            .map(|_| {
                let mut bytes = good.clone().into_bytes();
                for _ in 0..=random(6) {
                    let at = random(bytes.len());
                    match random(4) {
                        0 => bytes[at] = random(256) as u8,
                        1 => bytes.truncate(at.max(1)),
                        2 => bytes.insert(at, b"{}[]\"\\:,%\r\n\0"[random(12)]),
                        _ => {
                            let end = bytes.len().min(at + random(40));
                            let part = bytes[at..end].to_vec();
                            bytes.splice(at..at, part);
                        }
                    }
                }
                bytes
            })
            .collect();
        let sent = mangled.iter().map(|bytes| raw(&server, bytes));
        for (bytes, http_response) in mangled
            .iter()
            .zip(futures_util::future::join_all(sent).await)
        {
            let text = String::from_utf8_lossy(&http_response);
            assert!(
                !text.contains("the server failed while"),
                "a panic by {:?}",
                String::from_utf8_lossy(bytes)
            );
        }
    }
    is_well(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn excess_requests_get_retry_after() {
    let server = TestServer::start(&[
        "--max-mutating-requests-inflight",
        "1",
        "--request-timeout",
        "2s",
    ]);
    // An admitted request that never sends its body occupies the only permit.
    let mut slow = server
        .tls(ClientCredentials::Admin, b"http/1.1")
        .await
        .unwrap();
    let head = format!(
        "POST {CONFIG_MAPS} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n"
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let refused = server.create_config_map("a").await;
    assert_eq!(refused.code, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(
        server.get(CONFIG_MAPS).await.code,
        200,
        "reads have their own room"
    );
    // The request times out and its permit is released.
    let mut http_response = vec![0; 4096];
    let length = slow.read(&mut http_response).await.unwrap();
    let http_response = String::from_utf8_lossy(&http_response[..length]).into_owned();
    assert!(http_response.starts_with("HTTP/1.1 504"), "{http_response}");
    assert!(
        http_response.contains("request did not complete within the allotted timeout"),
        "{http_response}"
    );
    let created = server.create_config_map("a").await;
    assert_eq!(created.code, StatusCode::CREATED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rapid_resets_are_bounded() {
    let server = TestServer::start(&[]);
    let before = server.resident_bytes();
    for _ in 0..20 {
        let mut client = server.http2(ClientCredentials::Admin).await;
        for _ in 0..200 {
            let request = client.request(Method::GET, "/api/v1/pods", "");
            // Dropped before the response: the stream is reset.
            let sent = tokio::time::timeout(Duration::from_micros(1), client.send(request)).await;
            if matches!(sent, Ok(Err(_))) {
                break;
            }
        }
    }
    is_well(&server).await;
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 100 * 1024 * 1024, "memory grew by {grown} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_use_little_memory() {
    const CONNECTIONS: usize = 1000;
    let server = TestServer::start(&[]);
    let before = server.resident_bytes();
    let mut idle = Vec::new();
    for _ in 0..CONNECTIONS / 50 {
        let more = (0..50).map(|_| server.tls(ClientCredentials::Anonymous, b"h2"));
        idle.extend(
            futures_util::future::join_all(more)
                .await
                .into_iter()
                .map(Result::unwrap),
        );
    }
    let each = server.resident_bytes().saturating_sub(before) / CONNECTIONS as u64;
    println!("an idle connection takes {each} bytes");
    assert!(each < 100 * 1024, "an idle connection takes {each} bytes");
    is_well(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_limited_to_a_hundred_streams() {
    let server = TestServer::start(&[]);
    let mut client = server.http2(ClientCredentials::Admin).await;
    let mut watches = Vec::new();
    for _ in 0..100 {
        let request = client.request(Method::GET, &format!("{CONFIG_MAPS}?watch=true"), "");
        watches.push(client.send(request).await.unwrap());
    }
    let one_more = client.request(Method::GET, "/version", "");
    let waits = tokio::time::timeout(Duration::from_millis(500), client.send(one_more)).await;
    assert!(waits.is_err(), "it waits for a free stream");
    drop(watches.pop());
    let request = client.request(Method::GET, "/version", "");
    let response = tokio::time::timeout(Duration::from_secs(5), client.send(request)).await;
    assert_eq!(response.expect("a free stream").unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_1_1_requires_exactly_one_host() {
    let server = TestServer::start(&[]);
    let table = [
        ("", "400 Bad Request: missing required Host header"),
        (
            "Host: a\r\nHost: b\r\n",
            "400 Bad Request: too many Host headers",
        ),
    ];
    for (hosts, expected) in table {
        let request = format!("GET /api/v1/namespaces HTTP/1.1\r\n{hosts}\r\n");
        let response = String::from_utf8(raw(&server, request.as_bytes()).await).unwrap();
        assert!(response.starts_with("HTTP/1.1 400"), "{response}");
        assert!(response.ends_with(expected), "{response}");
        assert!(!response.contains("kube-system"), "{response}");
    }
    let response = raw(&server, b"GET /version HTTP/1.0\r\n\r\n").await;
    assert!(
        response.starts_with(b"HTTP/1.0 200"),
        "HTTP/1.0 needs no host"
    );
}
