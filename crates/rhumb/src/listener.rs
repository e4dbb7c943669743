//! Metrics and health of a component that runs alone. There is nothing secret in them and nothing to be done with them,
//! so they are shown without asking who looks, and only on this machine unless the operator says otherwise.

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
/// How long a connection may last, and how long a client may take to say what it wants.
const CONNECTION_MAX: Duration = Duration::from_secs(300);
const HEADER_MAX: Duration = Duration::from_secs(10);
/// After a connection could not be taken: there may be too many files open.
const PAUSE: Duration = Duration::from_millis(100);
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What there is to be seen of a component.
pub(crate) trait Component: Send + Sync + 'static {
    /// The text of `/metrics`; `None` if it cannot be written.
    fn metrics(&self) -> Option<String>;
    /// Why it does not do yet what it is there for; `None` if it does.
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

pub(crate) async fn serve(listener: TcpListener, component: impl Component) {
    let component = Arc::new(component);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
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
            // However it ends, it is over.
            let _ = timeout(CONNECTION_MAX, connection).await;
            drop(place);
        });
    }
}

fn answer<B>(request: &Request<B>, component: &impl Component) -> Response<Full<Bytes>> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    match request.uri().path() {
        _ if !is_read => say(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned()),
        "/metrics" => match component.metrics() {
            Some(text) => {
                let mut response = say(StatusCode::OK, text);
                let headers = response.headers_mut();
                headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(OPENMETRICS));
                response
            }
            None => say(StatusCode::INTERNAL_SERVER_ERROR, String::new()),
        },
        "/readyz" => match component.unready() {
            Some(why) => say(StatusCode::SERVICE_UNAVAILABLE, why + "\n"),
            None => say(StatusCode::OK, "ok".to_owned()),
        },
        "/healthz" | "/livez" => say(StatusCode::OK, "ok".to_owned()),
        _ => say(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
    }
}

fn say(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Ready(bool);

    impl Component for Ready {
        fn metrics(&self) -> Option<String> {
            Some("x 1\n".to_owned())
        }

        fn unready(&self) -> Option<String> {
            (!self.0).then(|| "not yet".to_owned())
        }
    }

    #[test]
    fn what_is_asked_is_answered() {
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
            let response = answer(&request.body(()).unwrap(), &Ready(is_ready));
            assert_eq!(response.status().as_u16(), code, "{method} {path}");
        }
    }
}
