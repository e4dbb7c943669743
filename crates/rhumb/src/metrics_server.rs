//! HTTP server for `/metrics`, `/healthz`, `/livez` and `/readyz` of a component that runs in its own process. Entry
//! points: [`bind`] and [`serve`].
//!
//! The endpoints are read-only and contain no secrets, so they need no authentication. By default they are bound to
//! localhost.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

const CONNECTIONS_MAX: usize = 64;
/// Maximum lifetime of a connection, and time limit for reading request headers.
const CONNECTION_MAX: Duration = Duration::from_secs(300);
const HEADER_MAX: Duration = Duration::from_secs(10);
/// Delay after `accept` failed, for example because too many files are open.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A component whose metrics and readiness are served.
pub(crate) trait MonitoredComponent: Send + Sync + 'static {
    /// The text of `/metrics`; `None` if encoding failed.
    fn metrics(&self) -> Option<String>;
    /// Why the component is not ready; `None` if it is.
    fn unready(&self) -> Option<String>;
}

pub(crate) async fn bind(address: &str) -> Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => anyhow!(
                "{address} is in use; choose another with --metrics-address, or none with --metrics-address="
            ),
            _ => error.into(),
        })
        .with_context(|| format!("--metrics-address {address}"))
}

pub(crate) async fn serve(listener: TcpListener, component: impl MonitoredComponent) {
    let component = Arc::new(component);
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = connections.clone().acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        let component = component.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let response = answer(&request, &*component);
                async { Ok::<_, Infallible>(response) }
            });
            let mut server = http1::Builder::new();
            server
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_MAX);
            let connection = server.serve_connection(TokioIo::new(stream), service);
            // Errors and timeouts only end this connection.
            let _ = timeout(CONNECTION_MAX, connection).await;
            drop(permit);
        });
    }
}

fn answer<B>(request: &Request<B>, component: &impl MonitoredComponent) -> Response<Full<Bytes>> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    match request.uri().path() {
        _ if !is_read => text_response(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned()),
        "/metrics" => match component.metrics() {
            Some(text) => {
                let mut response = text_response(StatusCode::OK, text);
                let headers = response.headers_mut();
                headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(OPENMETRICS));
                response
            }
            None => text_response(StatusCode::INTERNAL_SERVER_ERROR, String::new()),
        },
        "/readyz" => match component.unready() {
            Some(reason) => text_response(StatusCode::SERVICE_UNAVAILABLE, reason + "\n"),
            None => text_response(StatusCode::OK, "ok".to_owned()),
        },
        "/healthz" | "/livez" => text_response(StatusCode::OK, "ok".to_owned()),
        _ => text_response(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
    }
}

fn text_response(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    struct FakeComponent(bool);

    impl MonitoredComponent for FakeComponent {
        fn metrics(&self) -> Option<String> {
            Some("x 1\n".to_owned())
        }

        fn unready(&self) -> Option<String> {
            (!self.0).then(|| "not yet".to_owned())
        }
    }

    #[test]
    fn endpoints_answer_with_the_expected_status() {
        for (is_ready, method, path, code) in [
            (true, "GET", "/readyz", 200),
            (false, "GET", "/readyz", 503),
            (false, "GET", "/livez", 200),
            (false, "HEAD", "/healthz", 200),
            (true, "GET", "/metrics", 200),
            (true, "POST", "/metrics", 405),
            (true, "GET", "/other", 404),
        ] {
            let request = Request::builder().method(method).uri(path);
            let response = answer(&request.body(()).unwrap(), &FakeComponent(is_ready));
            assert_eq!(response.status().as_u16(), code, "{method} {path}");
        }
    }
}
