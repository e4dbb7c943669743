//! Error texts for servers that cannot be reached, close the connection or send invalid responses.

use std::time::{Duration, Instant};

use http::Response;
use rhumb_webhooks::{MAX_RESPONSE_BYTES, WebhookCallError, WebhookTarget};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::server::{FakeWebhookServer, TestCertificateAuthority, full};
use crate::{LONG_TIMEOUT, SHORT_TIMEOUT, call, call_error, client, url_target};

#[tokio::test]
async fn connection_refused_is_reported() {
    let authority = TestCertificateAuthority::new();
    let server = FakeWebhookServer::answering_yes(&authority.issue(|_| {})).await;
    let address = server.address;
    let target = url_target(&server, &authority.pem());
    drop(server);
    // The port is closed only once the runtime has dropped the listener.
    while tokio::net::TcpStream::connect(address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let error = call(&client(), &target).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "Post \"https://{address}/path?timeout=10s\": dial tcp {address}: connect: connection refused"
        )
    );
    assert_eq!(error.metrics_code(), 503);
}

#[tokio::test]
async fn unknown_host_is_reported() {
    let authority = TestCertificateAuthority::new();
    let bundle = authority.pem();
    let target =
        WebhookTarget::from_url("https://nobody.invalid/", Some(bundle.as_bytes())).unwrap();
    assert_eq!(
        call(&client(), &target).await.unwrap_err().to_string(),
        "Post \"https://nobody.invalid/?timeout=10s\": dial tcp: lookup nobody.invalid: no such host"
    );
}

#[tokio::test]
async fn timeout_applies_to_every_phase_of_the_call() {
    let authority = TestCertificateAuthority::new();
    let identity = authority.issue(|_| {});
    let expect = "Post \"https://SERVER/path?timeout=1s\": context deadline exceeded";
    let silent = FakeWebhookServer::silent().await;
    let without_head = FakeWebhookServer::tls(&identity, |stream| async move {
        let _stream = stream;
        std::future::pending::<()>().await;
    })
    .await;
    let without_end = FakeWebhookServer::tls(&identity, |mut stream| async move {
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nye")
            .await;
        std::future::pending::<()>().await;
    })
    .await;
    // Each byte comes soon after the previous one, but the response never ends.
    let dripping = FakeWebhookServer::tls(&identity, |mut stream| async move {
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
            .await;
        while stream.write_all(b"y").await.is_ok() {
            let _ = stream.flush().await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    for server in [silent, without_head, without_end, dripping] {
        let began = Instant::now();
        assert_eq!(
            call_error(&server, &authority.pem(), SHORT_TIMEOUT).await,
            expect
        );
        assert!((SHORT_TIMEOUT..SHORT_TIMEOUT * 10).contains(&began.elapsed()));
    }
}

#[tokio::test]
async fn aborted_and_non_http_responses_have_distinct_errors() {
    let authority = TestCertificateAuthority::new();
    let identity = authority.issue(|_| {});
    let not_tls = FakeWebhookServer::tcp(|mut connection| async move {
        let _ = connection.write_all(b"220 mail.example ESMTP\r\n").await;
        let _ = connection.read(&mut [0; 4096]).await;
    })
    .await;
    let closes_in_tls = FakeWebhookServer::tcp(|mut connection| async move {
        let _ = connection.read(&mut [0; 4096]).await;
    })
    .await;
    let resets_in_tls = FakeWebhookServer::tcp(|mut connection| async move {
        let _ = connection.read(&mut [0; 1]).await;
    })
    .await;
    let closes = FakeWebhookServer::tls(&identity, |mut stream| async move {
        let _ = stream.read(&mut [0; 4096]).await;
        let _ = stream.shutdown().await;
    })
    .await;
    let not_http = FakeWebhookServer::tls(&identity, |mut stream| async move {
        let _ = stream.read(&mut [0; 4096]).await;
        let _ = stream.write_all(b"220 mail.example ESMTP\r\n\r\n").await;
        let _ = stream.shutdown().await;
    })
    .await;
    for (server, expect) in [
        (
            not_tls,
            "tls: first record does not look like a TLS handshake",
        ),
        (closes_in_tls, "EOF"),
        (resets_in_tls, "read: connection reset by peer"),
        (closes, "EOF"),
        (
            not_http,
            "net/http: HTTP/1.x transport connection broken: malformed HTTP response: invalid HTTP version parsed",
        ),
    ] {
        assert_eq!(
            call_error(&server, &authority.pem(), LONG_TIMEOUT).await,
            format!("Post \"https://SERVER/path?timeout=10s\": {expect}")
        );
    }
}

#[tokio::test]
async fn truncated_response_is_an_error() {
    let authority = TestCertificateAuthority::new();
    let server = FakeWebhookServer::tls(&authority.issue(|_| {}), |mut stream| async move {
        let _ = stream.read(&mut [0; 4096]).await;
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nye")
            .await;
        let _ = stream.shutdown().await;
    })
    .await;
    assert_eq!(
        call_error(&server, &authority.pem(), LONG_TIMEOUT).await,
        "unexpected error when reading response body. Please retry. Original error: EOF"
    );
}

#[tokio::test]
async fn oversized_and_empty_responses_are_rejected() {
    let authority = TestCertificateAuthority::new();
    let of_length = |length: usize| {
        let identity = authority.issue(|_| {});
        async move {
            FakeWebhookServer::http(&identity, &[], move |_| async move {
                Response::new(full(vec![b'y'; length]))
            })
            .await
        }
    };
    let longest = of_length(MAX_RESPONSE_BYTES).await;
    let target = url_target(&longest, &authority.pem());
    assert_eq!(
        call(&client(), &target).await.unwrap().len(),
        MAX_RESPONSE_BYTES
    );
    let too_long = of_length(MAX_RESPONSE_BYTES + 1).await;
    assert_eq!(
        call_error(&too_long, &authority.pem(), LONG_TIMEOUT).await,
        "the response body is longer than 7340032 bytes"
    );
    let empty = of_length(0).await;
    assert_eq!(
        call_error(&empty, &authority.pem(), LONG_TIMEOUT).await,
        "0-length response with status code: 200 and content type: application/json"
    );
}

#[tokio::test]
async fn endless_response_is_not_buffered() {
    let authority = TestCertificateAuthority::new();
    let server = FakeWebhookServer::tls(&authority.issue(|_| {}), |mut stream| async move {
        let _ = stream.read(&mut [0; 4096]).await;
        let mut chunk = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        while stream.write_all(&chunk).await.is_ok() {
            chunk = format!("10000\r\n{}\r\n", "y".repeat(0x10000)).into_bytes();
        }
    })
    .await;
    assert_eq!(
        call_error(&server, &authority.pem(), LONG_TIMEOUT).await,
        "the response body is longer than 7340032 bytes"
    );
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let authority = TestCertificateAuthority::new();
    let identity = authority.issue(|_| {});
    let inside = FakeWebhookServer::answering_yes(&identity).await;
    for code in [301, 302, 303, 307, 308] {
        let location = inside.url();
        let server = FakeWebhookServer::http(&identity, &[], move |_| {
            let answer = Response::builder()
                .status(code)
                .header("location", &location);
            let answer = answer.body(full("see there")).unwrap();
            async { answer }
        })
        .await;
        let location = inside.url();
        assert_eq!(
            call_error(&server, &authority.pem(), LONG_TIMEOUT).await,
            format!(
                "the server responded with a redirect ({code}) to \"{location}\", and redirects are not followed"
            )
        );
    }
    assert_eq!(inside.connections(), 0);
}

#[tokio::test]
async fn error_statuses_have_upstreams_texts() {
    let status = r#"{"kind":"Status","status":"Failure","message":"no such hook","code":418}"#;
    let cases = [
        (201, "text/plain", "yes", "", 0),
        (
            400,
            "text/plain",
            "no",
            "the server rejected our request for an unknown reason",
            400,
        ),
        (403, "text/plain", " not you \n", "not you", 403),
        (
            404,
            "text/plain",
            "404 page not found",
            "the server could not find the requested resource",
            404,
        ),
        (404, "application/json", status, "no such hook", 418),
        (
            500,
            "text/plain; charset=utf-8",
            "it \"broke\"\n",
            "an error on the server (\"it \\\"broke\\\"\") has prevented the request from succeeding",
            500,
        ),
        (
            502,
            "application/json",
            "{}",
            "an error on the server (\"unknown\") has prevented the request from succeeding",
            502,
        ),
        (
            503,
            "text/plain",
            "",
            "the server is currently unable to handle the request",
            503,
        ),
        (
            418,
            "text/plain",
            "",
            "the server responded with the status code 418 but did not return more information",
            418,
        ),
    ];
    let authority = TestCertificateAuthority::new();
    let identity = authority.issue(|_| {});
    for (code, media, body, text, seen_code) in cases {
        let server = FakeWebhookServer::http(&identity, &[], move |_| async move {
            let answer = Response::builder()
                .status(code)
                .header("content-type", media);
            answer.body(full(body)).unwrap()
        })
        .await;
        let outcome = call(&client(), &url_target(&server, &authority.pem())).await;
        if text.is_empty() {
            assert_eq!(outcome.unwrap(), body);
            continue;
        }
        let error = outcome.unwrap_err();
        assert_eq!(
            (error.to_string(), error.metrics_code()),
            (text.to_owned(), seen_code)
        );
        assert!(matches!(error, WebhookCallError::ErrorResponse { .. }));
    }
}
