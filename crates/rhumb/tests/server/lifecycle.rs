//! Shutdown of a server, and the data after a restart.

use std::time::Duration;

use http::Method;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{CONFIG_MAPS, ClientCredentials, TestServer, config_map};

const ENDS_WITHIN: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_ends_streams_cleanly_and_exits_with_success() {
    let mut server = TestServer::start(&[]);
    let mut streams = Vec::new();
    for mut client in [
        server.http1(ClientCredentials::Admin).await,
        server.http2(ClientCredentials::Admin).await,
    ] {
        let request = client.request(Method::GET, &format!("{CONFIG_MAPS}?watch=true"), "");
        let response = client.send(request).await.unwrap();
        assert_eq!(response.status(), 200);
        streams.push((client, response.into_body()));
    }
    let url = format!("wss://{}{CONFIG_MAPS}?watch=true", server.address);
    let stream = server
        .tls(ClientCredentials::Admin, b"http/1.1")
        .await
        .unwrap();
    let (mut socket, _) = tokio_tungstenite::client_async(url.as_str(), stream)
        .await
        .unwrap();
    server.program.terminate();
    for (_client, body) in streams {
        let end = tokio::time::timeout(ENDS_WITHIN, body.collect()).await;
        // An aborted stream is an error here; an ended stream is not.
        end.expect("the stream ends")
            .expect("the stream ends properly");
    }
    let closed = async {
        use futures_util::StreamExt;
        while let Some(message) = socket.next().await {
            if message.expect("the socket is closed properly").is_close() {
                return true;
            }
        }
        false
    };
    assert!(tokio::time::timeout(ENDS_WITHIN, closed).await.unwrap());
    let status = server
        .ended_within(ENDS_WITHIN)
        .await
        .expect("the server ends");
    assert!(status.success(), "{status}");
    assert!(server.tls(ClientCredentials::Admin, b"h2").await.is_err());
}

#[tokio::test]
async fn silent_clients_do_not_delay_shutdown() {
    let mut server = TestServer::start(&[]);
    let mut silent = Vec::new();
    for protocol in [&b"h2"[..], b"http/1.1", b""] {
        silent.push(
            server
                .tls(ClientCredentials::Anonymous, protocol)
                .await
                .unwrap(),
        );
    }
    // A client with a response, which shows that the others are connected as well.
    let _asked = server.get("/readyz").await;
    server.program.terminate();
    let status = server.ended_within(ENDS_WITHIN).await;
    assert!(status.expect("the server ends").success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn acknowledged_writes_survive_kill_9() {
    let mut server = TestServer::start(&[]);
    let mut acknowledged: Vec<String> = Vec::new();
    for round in 0..3 {
        let writers: Vec<_> =
            futures_util::future::join_all((0..8).map(|_| server.http2(ClientCredentials::Admin)))
                .await
                .into_iter()
                .enumerate()
                .map(|(writer, mut client)| {
                    tokio::spawn(async move {
                        let mut names = Vec::new();
                        for number in 0.. {
                            let name = format!("c{round}-{writer}-{number}");
                            let request =
                                client.request(Method::POST, CONFIG_MAPS, &config_map(&name));
                            match client.send(request).await {
                                Ok(response) if response.status() == 201 => names.push(name),
                                _ => break,
                            }
                        }
                        names
                    })
                })
                .collect();
        tokio::time::sleep(Duration::from_millis(700)).await;
        server.program.kill();
        for writer in writers {
            acknowledged.extend(writer.await.unwrap());
        }
        server = TestServer::start_in(server.directory.clone(), &[]);
    }
    assert!(acknowledged.len() > 100, "{} writes", acknowledged.len());
    let list = server.get(CONFIG_MAPS).await.json();
    let names: std::collections::HashSet<&str> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect();
    let lost: Vec<&String> = acknowledged
        .iter()
        .filter(|name| !names.contains(name.as_str()))
        .collect();
    assert!(lost.is_empty(), "{lost:?} of {} writes", acknowledged.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_flight_requests_finish_during_shutdown() {
    let mut server = TestServer::start(&[]);
    let mut stream = server
        .tls(ClientCredentials::Admin, b"http/1.1")
        .await
        .unwrap();
    let body = config_map("late");
    let head = format!(
        "POST {CONFIG_MAPS} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.program.terminate();
    tokio::time::sleep(Duration::from_millis(300)).await;
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut http_response = Vec::new();
    let _ = tokio::time::timeout(ENDS_WITHIN, stream.read_to_end(&mut http_response)).await;
    let http_response = String::from_utf8_lossy(&http_response).into_owned();
    assert!(http_response.starts_with("HTTP/1.1 201"), "{http_response}");
    assert!(server.ended_within(ENDS_WITHIN).await.unwrap().success());
    let server = TestServer::start_in(server.directory.clone(), &[]);
    assert_eq!(server.get(&format!("{CONFIG_MAPS}/late")).await.code, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_under_load_logs_no_warnings() {
    let mut server = TestServer::start(&["--scheduler=false"]);
    // Warnings about the configuration are logged at start.
    let start_log_bytes = server.program.log().len();
    let clients =
        futures_util::future::join_all((0..8).map(|_| server.http2(ClientCredentials::Admin)))
            .await;
    let writers: Vec<_> = clients
        .into_iter()
        .enumerate()
        .map(|(writer, mut client)| {
            tokio::spawn(async move {
                let mut codes = std::collections::BTreeSet::new();
                for number in 0.. {
                    let path =
                        format!("{CONFIG_MAPS}?resourceVersion=0&watch=true&timeoutSeconds=1");
                    let request = match number % 8 {
                        0 => client.request(Method::GET, &path, ""),
                        1 => client.request(Method::GET, CONFIG_MAPS, ""),
                        _ => {
                            let map = config_map(&format!("c{writer}-{number}"));
                            client.request(Method::POST, CONFIG_MAPS, &map)
                        }
                    };
                    match client.send(request).await {
                        Ok(response) => codes.insert(response.status().as_u16()),
                        Err(_) => break,
                    };
                }
                codes
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    server.program.terminate();
    for writer in writers {
        let codes = writer.await.unwrap();
        let fine = [200, 201, 503];
        assert!(codes.iter().all(|code| fine.contains(code)), "{codes:?}");
    }
    assert!(server.ended_within(ENDS_WITHIN).await.unwrap().success());
    let log = server.program.log();
    let log = &log[start_log_bytes..];
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
}
