//! Which connections are opened, reused and closed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Response, Version};
use http_body_util::BodyExt;
use rhumb_webhooks::{WebhookCallError, WebhookClient, WebhookTarget};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::server::{FakeWebhookServer, TestCertificateAuthority, full};
use crate::{FakeServiceResolver, SHORT_TIMEOUT, call, client, service_target, url_target};

#[tokio::test]
async fn request_headers_and_query_match_upstream() {
    let authority = TestCertificateAuthority::new();
    let server =
        FakeWebhookServer::http(&authority.issue(|_| {}), &["http/1.1"], |request| async {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let header = |name: &str| head.headers[name].to_str().unwrap().to_owned();
            let text = format!(
                "{} {} {} {} {} {} {body:?}",
                head.method,
                head.uri,
                header("host"),
                header("accept"),
                header("content-type"),
                header("user-agent")
            );
            Response::new(full(text))
        })
        .await;
    let directory = Arc::new(FakeServiceResolver::default());
    directory.set_servers(&[&server]);
    let answer = WebhookClient::new(directory)
        .post(
            &service_target(&authority.pem()),
            "body".into(),
            Duration::from_millis(4500),
        )
        .await;
    assert_eq!(
        answer.unwrap(),
        "POST /path?timeout=5s hook.ns.svc application/json, */* application/json kube-apiserver-admission \
         b\"body\""
    );
}

#[tokio::test]
async fn connections_are_reused() {
    let authority = TestCertificateAuthority::new();
    let server = FakeWebhookServer::answering_yes(&authority.issue(|_| {})).await;
    let client = client();
    for _ in 0..5 {
        // A configuration that was parsed again is another target, but the same server.
        let target = url_target(&server, &authority.pem());
        assert_eq!(call(&client.clone(), &target).await.unwrap(), "yes");
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn http1_is_preferred_and_http2_used_if_it_is_the_only_protocol() {
    let authority = TestCertificateAuthority::new();
    for (protocols, version) in [
        (&["h2", "http/1.1"][..], Version::HTTP_11),
        (&["http/1.1"][..], Version::HTTP_11),
        (&[][..], Version::HTTP_11),
        (&["h2"][..], Version::HTTP_2),
    ] {
        let identity = authority.issue(|_| {});
        let server = FakeWebhookServer::http(&identity, protocols, |request| async move {
            Response::new(full(format!("{:?}", request.version())))
        })
        .await;
        let client = client();
        let target = url_target(&server, &authority.pem());
        let version = format!("{version:?}");
        assert_eq!(call(&client, &target).await.unwrap(), version);
        let before = server.connections();
        for _ in 0..5 {
            assert_eq!(call(&client, &target).await.unwrap(), version);
        }
        assert_eq!(server.connections(), before, "{protocols:?}");
    }
}

#[tokio::test]
async fn http2_calls_share_a_connection() {
    let authority = TestCertificateAuthority::new();
    let identity = authority.issue(|_| {});
    let server = FakeWebhookServer::http(&identity, &["h2"], |_| async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Response::new(full("yes"))
    })
    .await;
    let client = client();
    let target = url_target(&server, &authority.pem());
    call(&client, &target).await.unwrap();
    let before = server.connections();
    for answer in join_all((0..50).map(|_| call(&client, &target))).await {
        answer.unwrap();
    }
    assert_eq!(server.connections(), before);
}

#[tokio::test]
async fn moved_service_is_resolved_on_the_next_call() {
    let authority = TestCertificateAuthority::new();
    let identity = authority.issue(|_| {});
    let (old, new) = (
        FakeWebhookServer::answering_yes(&identity).await,
        FakeWebhookServer::answering_yes(&identity).await,
    );
    let directory = Arc::new(FakeServiceResolver::default());
    let client = WebhookClient::new(directory.clone());
    let target = service_target(&authority.pem());
    assert_eq!(
        call(&client, &target).await.unwrap_err().to_string(),
        "Post \"https://hook.ns.svc:443/path?timeout=10s\": service \"hook\" not found"
    );
    directory.set_servers(&[&old]);
    call(&client, &target).await.unwrap();
    directory.set_servers(&[&new]);
    call(&client, &target).await.unwrap();
    assert_eq!((old.connections(), new.connections()), (1, 1));
}

#[tokio::test]
async fn first_reachable_address_is_used() {
    let authority = TestCertificateAuthority::new();
    let identity = authority.issue(|_| {});
    let server = FakeWebhookServer::answering_yes(&identity).await;
    let gone = FakeWebhookServer::answering_yes(&identity).await;
    let directory = Arc::new(FakeServiceResolver::default());
    directory.set_servers(&[&gone, &server]);
    // A documentation address (RFC 5737): connecting to it usually times out.
    directory
        .0
        .lock()
        .unwrap()
        .push(rhumb_webhooks::TargetAddress {
            host: "192.0.2.1".into(),
            port: 443,
        });
    drop(gone);
    for _ in 0..3 {
        let client = WebhookClient::new(directory.clone());
        let answer = call(&client, &service_target(&authority.pem())).await;
        assert_eq!(answer.unwrap(), "yes");
    }
}

#[tokio::test]
async fn idle_connection_closed_by_the_server_is_replaced() {
    let authority = TestCertificateAuthority::new();
    // Responds once per connection, then closes it without `Connection: close`.
    let server = FakeWebhookServer::tls(&authority.issue(|_| {}), |mut stream| async move {
        let mut buffer = [0; 4096];
        if matches!(stream.read(&mut buffer).await, Ok(length) if length > 0) {
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes")
                .await;
            let _ = stream.shutdown().await;
        }
    })
    .await;
    let client = client();
    let target = url_target(&server, &authority.pem());
    for _ in 0..20 {
        assert_eq!(call(&client, &target).await.unwrap(), "yes");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(server.connections(), 20);
}

#[tokio::test]
async fn sent_requests_are_not_retried() {
    let authority = TestCertificateAuthority::new();
    let (seen, mut requests) = mpsc::unbounded_channel();
    // Reads a second request on each connection, then closes it without a response.
    let server = FakeWebhookServer::tls(&authority.issue(|_| {}), move |mut stream| {
        let seen = seen.clone();
        async move {
            let mut buffer = [0; 4096];
            for answer in [true, false] {
                if !matches!(stream.read(&mut buffer).await, Ok(length) if length > 0) {
                    return;
                }
                let _ = seen.send(());
                if answer {
                    let _ = stream
                        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes")
                        .await;
                }
            }
        }
    })
    .await;
    let client = client();
    let target = url_target(&server, &authority.pem());
    call(&client, &target).await.unwrap();
    let text = call(&client, &target).await.unwrap_err().to_string();
    assert!(text.ends_with(": EOF"), "{text}");
    assert_eq!(server.connections(), 1);
    assert_eq!(
        (requests.recv().await, requests.recv().await),
        (Some(()), Some(()))
    );
    assert!(requests.try_recv().is_err());
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let authority = TestCertificateAuthority::new();
    let (ended, mut ends) = mpsc::unbounded_channel();
    let server = FakeWebhookServer::tls(&authority.issue(|_| {}), move |mut stream| {
        let ended = ended.clone();
        async move {
            let mut buffer = [0; 4096];
            while matches!(stream.read(&mut buffer).await, Ok(length) if length > 0) {
                let _ = stream
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes")
                    .await;
            }
            let _ = ended.send(());
        }
    })
    .await;
    let client = client();
    let target = url_target(&server, &authority.pem());
    call(&client, &target).await.unwrap();
    call(&client, &target).await.unwrap();
    assert_eq!(server.connections(), 1);
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(ends.try_recv().is_err());
    tokio::time::sleep(Duration::from_secs(41)).await;
    tokio::time::resume();
    let end = tokio::time::timeout(Duration::from_secs(5), ends.recv()).await;
    assert_eq!(end, Ok(Some(())));
}

#[tokio::test]
async fn dropped_call_closes_its_http1_connection() {
    let authority = TestCertificateAuthority::new();
    let (ended, mut ends) = mpsc::unbounded_channel();
    let server = FakeWebhookServer::tls(&authority.issue(|_| {}), move |mut stream| {
        let ended = ended.clone();
        async move {
            let mut buffer = [0; 4096];
            while matches!(stream.read(&mut buffer).await, Ok(length) if length > 0) {}
            let _ = ended.send(());
        }
    })
    .await;
    let target = url_target(&server, &authority.pem());
    let client = client();
    let dropped = tokio::time::timeout(SHORT_TIMEOUT, call(&client, &target)).await;
    assert!(dropped.is_err());
    let end = tokio::time::timeout(Duration::from_secs(5), ends.recv()).await;
    assert_eq!(end, Ok(Some(())));
}

#[tokio::test]
async fn dropped_call_resets_only_its_http2_stream() {
    struct DropNotifier(mpsc::UnboundedSender<()>);
    impl Drop for DropNotifier {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let authority = TestCertificateAuthority::new();
    let (ended, mut ends) = mpsc::unbounded_channel();
    let server = FakeWebhookServer::http(&authority.issue(|_| {}), &["h2"], move |request| {
        let ended = DropNotifier(ended.clone());
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            if body == "hang" {
                std::future::pending::<()>().await;
            }
            std::mem::forget(ended);
            Response::new(full("yes"))
        }
    })
    .await;
    let target = url_target(&server, &authority.pem());
    let client = client();
    call(&client, &target).await.unwrap();
    let hanging = client.post(&target, "hang".into(), Duration::from_secs(30));
    assert!(tokio::time::timeout(SHORT_TIMEOUT, hanging).await.is_err());
    let end = tokio::time::timeout(Duration::from_secs(5), ends.recv()).await;
    assert_eq!(end, Ok(Some(())));
    call(&client, &target).await.unwrap();
    // The first connection offered HTTP/1.1 and was rejected.
    assert_eq!(server.connections(), 2);
}

/// Maximum number of concurrent calls to one server.
const MAX_CALLS_PER_SERVER: usize = 128;

fn spawn_calls(
    calls: usize,
    client: &WebhookClient,
    target: &WebhookTarget,
) -> JoinSet<Result<Bytes, WebhookCallError>> {
    (0..calls)
        .map(|_| {
            let (client, target) = (client.clone(), target.clone());
            async move { call(&client, &target).await }
        })
        .collect()
}

async fn wait_for_connections(server: &FakeWebhookServer, connections: usize) {
    while server.connections() < connections {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn calls_to_a_hanging_server_are_limited() {
    let authority = TestCertificateAuthority::new();
    let hung = FakeWebhookServer::silent().await;
    let good = FakeWebhookServer::answering_yes(&authority.issue(|_| {})).await;
    let client = client();
    let mut hanging = spawn_calls(
        MAX_CALLS_PER_SERVER + 50,
        &client,
        &url_target(&hung, &authority.pem()),
    );
    wait_for_connections(&hung, MAX_CALLS_PER_SERVER).await;
    let target = url_target(&good, &authority.pem());
    assert_eq!(call(&client, &target).await.unwrap(), "yes");
    tokio::time::sleep(SHORT_TIMEOUT).await;
    assert_eq!(hung.connections(), MAX_CALLS_PER_SERVER);
    assert!(hanging.try_join_next().is_none());
}

#[tokio::test]
async fn moving_a_hanging_service_does_not_reset_its_limit() {
    let authority = TestCertificateAuthority::new();
    let (first, second) = (
        FakeWebhookServer::silent().await,
        FakeWebhookServer::silent().await,
    );
    let good = FakeWebhookServer::answering_yes(&authority.issue(|_| {})).await;
    let directory = Arc::new(FakeServiceResolver::default());
    let client = WebhookClient::new(directory.clone());
    let target = service_target(&authority.pem());

    directory.set_servers(&[&first]);
    let hanging = spawn_calls(MAX_CALLS_PER_SERVER, &client, &target);
    wait_for_connections(&first, MAX_CALLS_PER_SERVER).await;
    directory.set_servers(&[&second]);
    let waiting = spawn_calls(10, &client, &target);
    tokio::time::sleep(SHORT_TIMEOUT).await;
    assert_eq!(second.connections(), 0);

    // A Service without addresses fails without waiting for a permit.
    directory.set_servers(&[]);
    let nowhere = tokio::time::timeout(SHORT_TIMEOUT, call(&client, &target)).await;
    let text = nowhere.unwrap().unwrap_err().to_string();
    assert!(text.ends_with("service \"hook\" not found"), "{text}");

    // Waiting calls use the Service's current address.
    directory.set_servers(&[&good]);
    drop(hanging);
    for answer in waiting.join_all().await {
        assert_eq!(answer.unwrap(), "yes");
    }
    assert_eq!(second.connections(), 0);
}
