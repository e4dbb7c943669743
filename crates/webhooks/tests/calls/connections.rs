//! Connections: which are made, which are used again, and what ends them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Response, Version};
use http_body_util::BodyExt;
use rhumb_webhooks::{CallError, Client, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::server::{Authority, Server, full};
use crate::{Directory, HASTY, by_service, by_url, call, client};

#[tokio::test]
async fn a_request_has_the_headers_and_the_query_of_upstream() {
    let authority = Authority::new();
    let server = Server::http(
        &authority.identity(|_| {}),
        &["http/1.1"],
        |request| async {
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
        },
    )
    .await;
    let directory = Arc::new(Directory::default());
    directory.put(&[&server]);
    let answer = Client::new(directory)
        .post(
            &by_service(&authority.pem()),
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
async fn connections_are_used_again() {
    let authority = Authority::new();
    let server = Server::agreeing(&authority.identity(|_| {})).await;
    let client = client();
    for _ in 0..5 {
        // A configuration that is read again is another target, but the same server.
        let target = by_url(&server, &authority.pem());
        assert_eq!(call(&client.clone(), &target).await.unwrap(), "yes");
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn http1_is_spoken_where_it_can_be_and_http2_with_those_who_speak_nothing_else() {
    let authority = Authority::new();
    for (protocols, version) in [
        (&["h2", "http/1.1"][..], Version::HTTP_11),
        (&["http/1.1"][..], Version::HTTP_11),
        (&[][..], Version::HTTP_11),
        (&["h2"][..], Version::HTTP_2),
    ] {
        let identity = authority.identity(|_| {});
        let server = Server::http(&identity, protocols, |request| async move {
            Response::new(full(format!("{:?}", request.version())))
        })
        .await;
        let client = client();
        let target = by_url(&server, &authority.pem());
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
async fn calls_share_a_connection_where_that_can_be() {
    let authority = Authority::new();
    let identity = authority.identity(|_| {});
    let server = Server::http(&identity, &["h2"], |_| async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Response::new(full("yes"))
    })
    .await;
    let client = client();
    let target = by_url(&server, &authority.pem());
    call(&client, &target).await.unwrap();
    let before = server.connections();
    for answer in join_all((0..50).map(|_| call(&client, &target))).await {
        answer.unwrap();
    }
    assert_eq!(server.connections(), before);
}

#[tokio::test]
async fn a_service_that_moves_is_found_with_the_next_call() {
    let authority = Authority::new();
    let identity = authority.identity(|_| {});
    let (old, new) = (
        Server::agreeing(&identity).await,
        Server::agreeing(&identity).await,
    );
    let directory = Arc::new(Directory::default());
    let client = Client::new(directory.clone());
    let target = by_service(&authority.pem());
    assert_eq!(
        call(&client, &target).await.unwrap_err().to_string(),
        "Post \"https://hook.ns.svc:443/path?timeout=10s\": service \"hook\" not found"
    );
    directory.put(&[&old]);
    call(&client, &target).await.unwrap();
    directory.put(&[&new]);
    call(&client, &target).await.unwrap();
    assert_eq!((old.connections(), new.connections()), (1, 1));
}

#[tokio::test]
async fn of_many_addresses_one_that_answers_is_used() {
    let authority = Authority::new();
    let identity = authority.identity(|_| {});
    let server = Server::agreeing(&identity).await;
    let gone = Server::agreeing(&identity).await;
    let directory = Arc::new(Directory::default());
    directory.put(&[&gone, &server]);
    // An address that is kept for documentation: nobody is there, and mostly nobody says so.
    directory.0.lock().unwrap().push(rhumb_webhooks::Address {
        host: "192.0.2.1".into(),
        port: 443,
    });
    drop(gone);
    for _ in 0..3 {
        let client = Client::new(directory.clone());
        let answer = call(&client, &by_service(&authority.pem())).await;
        assert_eq!(answer.unwrap(), "yes");
    }
}

#[tokio::test]
async fn a_connection_that_the_server_closed_while_it_was_idle_is_replaced() {
    let authority = Authority::new();
    // Answers once on each connection, and closes it without having said that it would.
    let server = Server::tls(&authority.identity(|_| {}), |mut stream| async move {
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
    let target = by_url(&server, &authority.pem());
    for _ in 0..20 {
        assert_eq!(call(&client, &target).await.unwrap(), "yes");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(server.connections(), 20);
}

#[tokio::test]
async fn a_request_that_was_sent_is_not_sent_again() {
    let authority = Authority::new();
    let (seen, mut requests) = mpsc::unbounded_channel();
    // Takes a second request on each connection, and ends it without an answer.
    let server = Server::tls(&authority.identity(|_| {}), move |mut stream| {
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
    let target = by_url(&server, &authority.pem());
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
async fn a_connection_that_nobody_uses_is_closed() {
    let authority = Authority::new();
    let (ended, mut ends) = mpsc::unbounded_channel();
    let server = Server::tls(&authority.identity(|_| {}), move |mut stream| {
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
    let target = by_url(&server, &authority.pem());
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
async fn a_call_that_is_dropped_ends_its_connection() {
    let authority = Authority::new();
    let (ended, mut ends) = mpsc::unbounded_channel();
    let server = Server::tls(&authority.identity(|_| {}), move |mut stream| {
        let ended = ended.clone();
        async move {
            let mut buffer = [0; 4096];
            while matches!(stream.read(&mut buffer).await, Ok(length) if length > 0) {}
            let _ = ended.send(());
        }
    })
    .await;
    let target = by_url(&server, &authority.pem());
    let client = client();
    let dropped = tokio::time::timeout(HASTY, call(&client, &target)).await;
    assert!(dropped.is_err());
    let end = tokio::time::timeout(Duration::from_secs(5), ends.recv()).await;
    assert_eq!(end, Ok(Some(())));
}

#[tokio::test]
async fn a_call_that_is_dropped_ends_its_stream_and_no_other() {
    struct Ended(mpsc::UnboundedSender<()>);
    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let authority = Authority::new();
    let (ended, mut ends) = mpsc::unbounded_channel();
    let server = Server::http(&authority.identity(|_| {}), &["h2"], move |request| {
        let ended = Ended(ended.clone());
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
    let target = by_url(&server, &authority.pem());
    let client = client();
    call(&client, &target).await.unwrap();
    let hanging = client.post(&target, "hang".into(), Duration::from_secs(30));
    assert!(tokio::time::timeout(HASTY, hanging).await.is_err());
    let end = tokio::time::timeout(Duration::from_secs(5), ends.recv()).await;
    assert_eq!(end, Ok(Some(())));
    call(&client, &target).await.unwrap();
    // The first was offered HTTP/1.1.
    assert_eq!(server.connections(), 2);
}

/// How many calls a server has at once.
const SHARE: usize = 128;

fn begin(calls: usize, client: &Client, target: &Target) -> JoinSet<Result<Bytes, CallError>> {
    (0..calls)
        .map(|_| {
            let (client, target) = (client.clone(), target.clone());
            async move { call(&client, &target).await }
        })
        .collect()
}

async fn reached(server: &Server, connections: usize) {
    while server.connections() < connections {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_server_that_hangs_gets_no_more_than_its_share_of_calls() {
    let authority = Authority::new();
    let hung = Server::silent().await;
    let good = Server::agreeing(&authority.identity(|_| {})).await;
    let client = client();
    let mut hanging = begin(SHARE + 50, &client, &by_url(&hung, &authority.pem()));
    reached(&hung, SHARE).await;
    let target = by_url(&good, &authority.pem());
    assert_eq!(call(&client, &target).await.unwrap(), "yes");
    tokio::time::sleep(HASTY).await;
    assert_eq!(hung.connections(), SHARE);
    assert!(hanging.try_join_next().is_none());
}

#[tokio::test]
async fn a_service_that_hangs_gets_no_other_share_by_moving() {
    let authority = Authority::new();
    let (first, second) = (Server::silent().await, Server::silent().await);
    let good = Server::agreeing(&authority.identity(|_| {})).await;
    let directory = Arc::new(Directory::default());
    let client = Client::new(directory.clone());
    let target = by_service(&authority.pem());

    directory.put(&[&first]);
    let hanging = begin(SHARE, &client, &target);
    reached(&first, SHARE).await;
    directory.put(&[&second]);
    let waiting = begin(10, &client, &target);
    tokio::time::sleep(HASTY).await;
    assert_eq!(second.connections(), 0);

    // A service that is nowhere is not waited for.
    directory.put(&[]);
    let nowhere = tokio::time::timeout(HASTY, call(&client, &target)).await;
    let text = nowhere.unwrap().unwrap_err().to_string();
    assert!(text.ends_with("service \"hook\" not found"), "{text}");

    // Whoever waited is sent where the service is now.
    directory.put(&[&good]);
    drop(hanging);
    for answer in waiting.join_all().await {
        assert_eq!(answer.unwrap(), "yes");
    }
    assert_eq!(second.connections(), 0);
}
