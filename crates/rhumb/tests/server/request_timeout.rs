//! `--request-timeout`, and the query parameter `timeout` of clients.

use http::Method;

use super::support::{ClientCredentials, TestServer};

/// A list that waits three seconds for a revision that does not come.
const FUTURE_LIST: &str = "/api/v1/pods?resourceVersion=1000000000";

const TIMED_OUT: &str = "Timeout: request did not complete within the allotted timeout";

async fn check(server: &TestServer, timeout: &str, expected: &str) {
    let response = server
        .get(&format!("{FUTURE_LIST}&timeout={timeout}"))
        .await;
    assert_eq!(response.code, 504, "{timeout}");
    let message = response.json()["message"].clone();
    let message = message.as_str().unwrap_or_default();
    assert!(message.starts_with(expected), "{timeout}: {message}");
}

#[tokio::test]
async fn a_client_may_shorten_the_timeout_of_a_request() {
    let server = TestServer::start(&[]);
    let waited = "Timeout: Too large resource version";
    tokio::join!(
        check(&server, "200ms", TIMED_OUT),
        check(&server, "1h", waited),
        check(&server, "0", waited),
        check(&server, "-1s", waited),
        check(&server, "", waited),
    );
    // Watches have timeoutSeconds.
    let path = "/api/v1/pods?watch=true&timeoutSeconds=1&timeout=1ms";
    assert_eq!(server.get(path).await.code, 200);
    assert_eq!(server.get(&format!("{path}nonsense")).await.code, 200);
}

#[tokio::test]
async fn a_client_cannot_extend_the_timeout_of_a_request() {
    let server = TestServer::start(&["--request-timeout=500ms"]);
    tokio::join!(
        check(&server, "1h", TIMED_OUT),
        check(&server, "0", TIMED_OUT),
    );
}

/// As upstream, before the client is authenticated.
#[tokio::test]
async fn an_invalid_timeout_is_rejected() {
    let server = TestServer::start(&[]);
    for (path, expected) in [
        (
            "/api/v1/pods?timeout=soon",
            "time: invalid duration \"soon\"",
        ),
        (
            "/healthz?timeout=60",
            "time: missing unit in duration \"60\"",
        ),
        (
            "/api/v1/pods?timeout=1d",
            "time: unknown unit \"d\" in duration \"1d\"",
        ),
    ] {
        for who in [ClientCredentials::Admin, ClientCredentials::Token("wrong")] {
            let response = server.send_request(who, Method::GET, path, "").await;
            assert_eq!(response.code, 400, "{path}");
            let status = response.json();
            assert_eq!(status["reason"], "BadRequest");
            assert_eq!(
                status["message"],
                format!("invalid timeout specified in the request URL - {expected}")
            );
        }
    }
}
