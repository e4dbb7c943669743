//! Health endpoints report a store that cannot be written to.

use std::time::Duration;

use http::StatusCode;
use rhumb_etcd_harness::EtcdServer;

use crate::program::{NO_CONTROLLERS, poll_until};
use crate::support::TestServer;

/// Less than the time after which an unresponsive store fails its check.
const PROBE_TIMEOUT: Duration = Duration::from_millis(1900);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_etcd_fails_the_store_check_until_it_continues() {
    let etcd = EtcdServer::start().await;
    let endpoint = format!("--etcd-servers={}", etcd.endpoint());
    let server = TestServer::start(&[NO_CONTROLLERS, &endpoint]);
    let verbose = server.get("/readyz?verbose").await;
    assert_eq!(verbose.code, StatusCode::OK);
    for name in ["ping", "store", "caches", "shutdown"] {
        assert!(
            verbose.text().contains(&format!("[+]{name} ok\n")),
            "{}",
            verbose.text()
        );
    }
    etcd.freeze();
    for path in ["/readyz", "/livez", "/healthz", "/readyz/store"] {
        poll_until("the check fails", async || {
            let response = server.get(path).await;
            (response.code == StatusCode::INTERNAL_SERVER_ERROR).then_some(())
        })
        .await;
    }
    for path in ["/livez/ping", "/livez?exclude=store"] {
        let response = tokio::time::timeout(PROBE_TIMEOUT, server.get(path)).await;
        let response = response.expect("the store is not asked");
        assert_eq!(response.code, StatusCode::OK, "{path}");
    }
    let one = server.get("/readyz/store").await.text();
    assert!(one.contains("the store did not answer within 2 s"), "{one}");
    etcd.thaw();
    poll_until("the server is ready again", async || {
        (server.get("/readyz").await.code == StatusCode::OK).then_some(())
    })
    .await;
}
