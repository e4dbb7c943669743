//! What is said of servers that cannot be reached, break off or answer nonsense.

use std::time::{Duration, Instant};

use http::Response;
use rhumb_webhooks::{CallError, MAX_ANSWER_BYTES, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::server::{Authority, Server, full};
use crate::{HASTY, PATIENT, by_url, call, client, failure};

#[tokio::test]
async fn nobody_is_there() {
    let authority = Authority::new();
    let server = Server::agreeing(&authority.identity(|_| {})).await;
    let address = server.address;
    let target = by_url(&server, &authority.pem());
    drop(server);
    // The port is closed when the runtime has come to dropping the listener.
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
    assert_eq!(error.code(), 503);
}

#[tokio::test]
async fn nobody_has_that_name() {
    let authority = Authority::new();
    let bundle = authority.pem();
    let target = Target::url("https://nobody.invalid/", Some(bundle.as_bytes())).unwrap();
    assert_eq!(
        call(&client(), &target).await.unwrap_err().to_string(),
        "Post \"https://nobody.invalid/?timeout=10s\": dial tcp: lookup nobody.invalid: no such host"
    );
}

#[tokio::test]
async fn the_time_is_over_wherever_the_call_is_then() {
    let authority = Authority::new();
    let identity = authority.identity(|_| {});
    let expect = "Post \"https://SERVER/path?timeout=1s\": context deadline exceeded";
    let silent = Server::silent().await;
    let without_head = Server::tls(&identity, |stream| async move {
        let _stream = stream;
        std::future::pending::<()>().await;
    })
    .await;
    let without_end = Server::tls(&identity, |mut stream| async move {
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nye")
            .await;
        std::future::pending::<()>().await;
    })
    .await;
    // Every byte comes soon after the one before it, but the answer never ends.
    let dripping = Server::tls(&identity, |mut stream| async move {
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
        assert_eq!(failure(&server, &authority.pem(), HASTY).await, expect);
        assert!((HASTY..HASTY * 10).contains(&began.elapsed()));
    }
}

#[tokio::test]
async fn what_breaks_off_or_is_not_http_is_told_apart() {
    let authority = Authority::new();
    let identity = authority.identity(|_| {});
    let not_tls = Server::tcp(|mut connection| async move {
        let _ = connection.write_all(b"220 mail.example ESMTP\r\n").await;
        let _ = connection.read(&mut [0; 4096]).await;
    })
    .await;
    let closes_in_tls = Server::tcp(|mut connection| async move {
        let _ = connection.read(&mut [0; 4096]).await;
    })
    .await;
    let resets_in_tls = Server::tcp(|mut connection| async move {
        let _ = connection.read(&mut [0; 1]).await;
    })
    .await;
    let closes = Server::tls(&identity, |mut stream| async move {
        let _ = stream.read(&mut [0; 4096]).await;
        let _ = stream.shutdown().await;
    })
    .await;
    let not_http = Server::tls(&identity, |mut stream| async move {
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
            failure(&server, &authority.pem(), PATIENT).await,
            format!("Post \"https://SERVER/path?timeout=10s\": {expect}")
        );
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_answer() {
    let authority = Authority::new();
    let server = Server::tls(&authority.identity(|_| {}), |mut stream| async move {
        let _ = stream.read(&mut [0; 4096]).await;
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nye")
            .await;
        let _ = stream.shutdown().await;
    })
    .await;
    assert_eq!(
        failure(&server, &authority.pem(), PATIENT).await,
        "unexpected error when reading response body. Please retry. Original error: EOF"
    );
}

#[tokio::test]
async fn answers_that_are_too_long_or_empty_are_refused() {
    let authority = Authority::new();
    let of_length = |length: usize| {
        let identity = authority.identity(|_| {});
        async move {
            Server::http(&identity, &[], move |_| async move {
                Response::new(full(vec![b'y'; length]))
            })
            .await
        }
    };
    let longest = of_length(MAX_ANSWER_BYTES).await;
    let target = by_url(&longest, &authority.pem());
    assert_eq!(
        call(&client(), &target).await.unwrap().len(),
        MAX_ANSWER_BYTES
    );
    let too_long = of_length(MAX_ANSWER_BYTES + 1).await;
    assert_eq!(
        failure(&too_long, &authority.pem(), PATIENT).await,
        "the response body is longer than 7340032 bytes"
    );
    let empty = of_length(0).await;
    assert_eq!(
        failure(&empty, &authority.pem(), PATIENT).await,
        "0-length response with status code: 200 and content type: application/json"
    );
}

#[tokio::test]
async fn an_endless_answer_is_not_kept() {
    let authority = Authority::new();
    let server = Server::tls(&authority.identity(|_| {}), |mut stream| async move {
        let _ = stream.read(&mut [0; 4096]).await;
        let mut chunk = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        while stream.write_all(&chunk).await.is_ok() {
            chunk = format!("10000\r\n{}\r\n", "y".repeat(0x10000)).into_bytes();
        }
    })
    .await;
    assert_eq!(
        failure(&server, &authority.pem(), PATIENT).await,
        "the response body is longer than 7340032 bytes"
    );
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let authority = Authority::new();
    let identity = authority.identity(|_| {});
    let inside = Server::agreeing(&identity).await;
    for code in [301, 302, 303, 307, 308] {
        let location = inside.url();
        let server = Server::http(&identity, &[], move |_| {
            let answer = Response::builder()
                .status(code)
                .header("location", &location);
            let answer = answer.body(full("see there")).unwrap();
            async { answer }
        })
        .await;
        let location = inside.url();
        assert_eq!(
            failure(&server, &authority.pem(), PATIENT).await,
            format!(
                "the server responded with a redirect ({code}) to \"{location}\", and redirects are not followed"
            )
        );
    }
    assert_eq!(inside.connections(), 0);
}

#[tokio::test]
async fn answers_other_than_success_are_told_as_upstream_tells_them() {
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
    let authority = Authority::new();
    let identity = authority.identity(|_| {});
    for (code, media, body, text, seen_code) in cases {
        let server = Server::http(&identity, &[], move |_| async move {
            let answer = Response::builder()
                .status(code)
                .header("content-type", media);
            answer.body(full(body)).unwrap()
        })
        .await;
        let outcome = call(&client(), &by_url(&server, &authority.pem())).await;
        if text.is_empty() {
            assert_eq!(outcome.unwrap(), body);
            continue;
        }
        let error = outcome.unwrap_err();
        assert_eq!(
            (error.to_string(), error.code()),
            (text.to_owned(), seen_code)
        );
        assert!(matches!(error, CallError::Answer { .. }));
    }
}
