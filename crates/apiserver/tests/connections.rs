//! Connection limits of the HTTPS server, with timeouts short enough for tests.

mod support;

use std::time::{Duration, Instant};

use rhumb_server::{ConnectionLimits, InFlightLimits};
use support::{RunningTestServer, start, start_with};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const TIMEOUT: Duration = Duration::from_millis(500);

/// The bytes that the server answers before it closes the connection.
async fn reply_to(server: &RunningTestServer, sent: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(sent).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut reply = Vec::new();
    // The server may reset the connection after its alert.
    let _ = tokio::time::timeout(20 * TIMEOUT, stream.read_to_end(&mut reply))
        .await
        .expect("timed out waiting for the server to close the connection");
    reply
}

#[tokio::test]
async fn malformed_handshakes_are_answered_with_an_alert() {
    const ALERT: u8 = 21;
    const HANDSHAKE: u8 = 22;
    let server = start(ConnectionLimits::default()).await;
    // A handshake record that claims more bytes than TLS allows, and a ClientHello that cannot be decoded.
    let oversized = [&[HANDSHAKE, 3, 1, 0xff, 0xff][..], &[0; 64]].concat();
    let garbage = [&[HANDSHAKE, 3, 1, 0, 64, 1, 0, 0, 60][..], &[0xa5; 60]].concat();
    for sent in [b"GET /api HTTP/1.1\r\n\r\n".to_vec(), oversized, garbage] {
        let reply = reply_to(&server, &sent).await;
        assert_eq!(reply.first(), Some(&ALERT), "{sent:?}: {reply:?}");
    }
    // Half a record is only closed.
    assert_eq!(
        reply_to(&server, &[HANDSHAKE, 3, 1, 1]).await,
        Vec::<u8>::new()
    );
    server
        .connect()
        .await
        .expect("the server still accepts connections");
}

/// Waits until the server closes the connection: soon after the timeout, and not before.
async fn closed_after_the_limit(stream: &mut (impl AsyncReadExt + Unpin), begun: Instant) {
    let mut rest = Vec::new();
    tokio::time::timeout(20 * TIMEOUT, stream.read_to_end(&mut rest))
        .await
        .expect("timed out waiting for the server to close the connection")
        .ok();
    assert!(begun.elapsed() >= TIMEOUT, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_slow_with_headers_or_the_handshake_is_cut_off() {
    let running = start(ConnectionLimits {
        header_timeout: TIMEOUT,
        handshake_timeout: TIMEOUT,
        ..ConnectionLimits::default()
    })
    .await;
    let begun = Instant::now();
    let mut silent = TcpStream::connect(running.address).await.unwrap();
    let mut slow = running.connect().await.unwrap();
    slow.write_all(b"GET /version HTTP/1.1\r\nhost: a\r\nx: ")
        .await
        .unwrap();
    closed_after_the_limit(&mut silent, begun).await;
    closed_after_the_limit(&mut slow, begun).await;
    // Sending header bytes slowly does not extend the timeout.
    let begun = Instant::now();
    let mut trickle = running.connect().await.unwrap();
    trickle
        .write_all(b"GET /version HTTP/1.1\r\n")
        .await
        .unwrap();
    while trickle.write_all(b"x").await.is_ok() && trickle.flush().await.is_ok() {
        assert!(
            begun.elapsed() < 20 * TIMEOUT,
            "the slow connection is still open"
        );
        tokio::time::sleep(TIMEOUT / 10).await;
    }
    assert!(begun.elapsed() >= TIMEOUT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_are_closed_and_those_in_use_are_not() {
    let running = start(ConnectionLimits {
        idle_timeout: TIMEOUT,
        ..ConnectionLimits::default()
    })
    .await;
    let begun = Instant::now();
    let mut silent = running.connect().await.unwrap();
    let mut busy = running.connect().await.unwrap();
    // The body of this request is still to come, so the connection is in use.
    busy.write_all(b"POST /version HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n")
        .await
        .unwrap();
    closed_after_the_limit(&mut silent, begun).await;
    tokio::time::sleep(3 * TIMEOUT).await;
    busy.write_all(b"{\"a\": 12}").await.unwrap();
    let mut answer = [0; 12];
    busy.read_exact(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 "), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_server_closes_idle_connections() {
    let running = start(ConnectionLimits::default()).await;
    let mut unused = running.connect().await.unwrap();
    let mut used = running.connect().await.unwrap();
    used.write_all(b"GET /version HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    let mut answer = [0; 12];
    used.read_exact(&mut answer).await.unwrap();
    running.stop.cancel();
    // Long before the idle timeout.
    for connection in [&mut unused, &mut used] {
        let mut rest = Vec::new();
        let end = connection.read_to_end(&mut rest);
        let end = tokio::time::timeout(Duration::from_secs(10), end).await;
        let _ = end.expect("timed out waiting for the server to close the connection");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_limited_and_places_are_given_back() {
    let running = start(ConnectionLimits {
        connections_max: 3,
        ..ConnectionLimits::default()
    })
    .await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(running.connect().await.unwrap());
    }
    assert!(
        running.connect().await.is_err(),
        "the fourth connection is rejected"
    );
    drop(held.pop());
    let begun = Instant::now();
    while running.connect().await.is_err() {
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "the permit was not released"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_are_limited_as_long_as_they_last() {
    let inflight = InFlightLimits::default().with_watches_max(1);
    let running = start_with(ConnectionLimits::default(), inflight).await;
    let watch = async || {
        let mut stream = running.connect().await.unwrap();
        let request = b"GET /api/v1/configmaps?watch=true HTTP/1.1\r\nhost: a\r\nauthorization: Bearer secret\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut line = [0; 12];
        stream.read_exact(&mut line).await.unwrap();
        (String::from_utf8_lossy(&line).into_owned(), stream)
    };
    let (line, held) = watch().await;
    assert_eq!(line, "HTTP/1.1 200");
    for _ in 0..3 {
        assert_eq!(watch().await.0, "HTTP/1.1 429");
    }
    drop(held);
    let begun = Instant::now();
    while watch().await.0 != "HTTP/1.1 200" {
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "the permit was not released"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
