//! Watches over WebSockets: one message per event, text for JSON and binary for protobuf (upstream:
//! `WatchServer.HandleWS`). Also accepts bearer tokens in `Sec-WebSocket-Protocol`, which browsers need.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::{SinkExt, StreamExt};
use http::StatusCode;
use http::header::{
    AUTHORIZATION, CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use rhumb_meta::Status;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Message, Utf8Bytes};

use rhumb_handlers::http::{Reply, ResponseBody};
use rhumb_handlers::request::MediaType;
use rhumb_handlers::resources::WatchStream;

/// Maximum number of open WebSockets.
const SOCKETS_MAX: u32 = 10_000;

/// Watch clients send only control frames.
const INCOMING_BYTES_MAX: usize = 4 * 1024;

/// Length prefix of a protobuf frame in an HTTP stream.
const LENGTH_BYTES: usize = 4;

/// Interval between keep-alive pings.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// How long sending one message may take before the connection is dropped.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// Subprotocol prefix of a bearer token: browsers cannot set the `Authorization` header of a WebSocket.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Limits open WebSockets, and lets a server that shuts down wait for them.
#[derive(Debug)]
pub(super) struct OpenWebSockets(Arc<Semaphore>);

impl Default for OpenWebSockets {
    fn default() -> Self {
        OpenWebSockets(Arc::new(Semaphore::new(SOCKETS_MAX as usize)))
    }
}

impl OpenWebSockets {
    /// Waits until all WebSockets are closed.
    pub(super) async fn wait_until_closed(&self) {
        let _ = self.0.acquire_many(SOCKETS_MAX).await;
    }
}

pub(super) fn is_upgrade_request(headers: &HeaderMap) -> bool {
    let has = |name: HeaderName, token: &str| {
        headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|part| part.trim().eq_ignore_ascii_case(token))
    };
    headers.contains_key(UPGRADE) && has(UPGRADE, "websocket") && has(CONNECTION, "upgrade")
}

/// Moves a token from the offered subprotocols into the `Authorization` header, so that later stages never see it as a
/// subprotocol.
pub(super) fn move_token_to_header(headers: &mut HeaderMap) -> Result<(), Status> {
    if !headers.contains_key(SEC_WEBSOCKET_PROTOCOL) || headers.contains_key(AUTHORIZATION) {
        return Ok(());
    }
    let protocol_list = protocols(headers);
    let (tokens, others): (Vec<&String>, Vec<&String>) = protocol_list
        .iter()
        .partition(|protocol| protocol.starts_with(TOKEN_PROTOCOL));
    let Some(token) = tokens.first() else {
        return Ok(());
    };
    let unauthorized = || Status::unauthorized("Unauthorized");
    // The response must select a subprotocol, and that must not be the token.
    if tokens.len() > 1 || others.is_empty() {
        return Err(unauthorized());
    }
    let decoded = URL_SAFE_NO_PAD
        .decode(&token[TOKEN_PROTOCOL.len()..])
        .map_err(|_| unauthorized())?;
    let bearer = [b"Bearer ", decoded.as_slice()].concat();
    let bearer = HeaderValue::from_bytes(&bearer).map_err(|_| unauthorized())?;
    let others: Vec<&str> = others.iter().map(|protocol| protocol.as_str()).collect();
    let others = HeaderValue::from_str(&others.join(", ")).map_err(|_| unauthorized())?;
    headers.insert(AUTHORIZATION, bearer);
    headers.insert(SEC_WEBSOCKET_PROTOCOL, others);
    Ok(())
}

fn protocols(headers: &HeaderMap) -> Vec<String> {
    headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|protocol| protocol.trim().to_owned())
        .filter(|protocol| !protocol.is_empty())
        .collect()
}

/// Answers with 101 and serves the watch on the upgraded connection.
pub(super) fn serve(
    sockets: &OpenWebSockets,
    headers: &HeaderMap,
    upgrade: OnUpgrade,
    frames: WatchStream,
) -> Result<Reply, Status> {
    let key = headers
        .get(SEC_WEBSOCKET_KEY)
        .filter(|_| {
            headers
                .get(SEC_WEBSOCKET_VERSION)
                .is_some_and(|version| version == "13")
        })
        .ok_or_else(|| Status::bad_request("not a WebSocket handshake of version 13"))?;
    let permit =
        sockets.0.clone().try_acquire_owned().map_err(|_| {
            Status::too_many_requests("Too many requests, please try again later.", 1)
        })?;
    let accept = derive_accept_key(key.as_bytes());
    let mut reply = Reply::new(
        StatusCode::SWITCHING_PROTOCOLS,
        "application/json",
        ResponseBody::empty(),
    )
    .header(UPGRADE, "websocket")
    .header(CONNECTION, "Upgrade")
    .header(SEC_WEBSOCKET_ACCEPT, &accept);
    if let Some(protocol) = protocols(headers).first() {
        reply = reply.header(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    let (closed_sender, closed_receiver) = tokio::sync::oneshot::channel();
    reply.guard_sender = Some(closed_sender);
    tokio::spawn(async move {
        let _kept = closed_receiver.await;
        match upgrade.await {
            Ok(upgraded) => run(upgraded, frames, permit).await,
            Err(error) => tracing::debug!(%error, "failed to upgrade a connection to WebSocket"),
        }
    });
    Ok(reply)
}

async fn run(upgraded: Upgraded, mut frames: WatchStream, permit: OwnedSemaphorePermit) {
    let config = WebSocketConfig::default()
        .max_message_size(Some(INCOMING_BYTES_MAX))
        .max_frame_size(Some(INCOMING_BYTES_MAX))
        .read_buffer_size(INCOMING_BYTES_MAX);
    let io = TokioIo::new(upgraded);
    let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
    let media = frames.media();
    let mut pings = tokio::time::interval(PING_INTERVAL);
    pings.reset();
    loop {
        let message = tokio::select! {
            frame = frames.next() => match frame {
                Some(frame) => to_message(frame, media),
                None => break,
            },
            received = socket.next() => match received {
                // The library answers pings; other messages are ignored.
                Some(Ok(message)) if !message.is_close() => continue,
                _ => break,
            },
            _ = pings.tick() => Message::Ping(Bytes::new()),
        };
        match tokio::time::timeout(SEND_TIMEOUT, socket.send(message)).await {
            Ok(Ok(())) => {}
            _ => return,
        }
    }
    let _ = tokio::time::timeout(SEND_TIMEOUT, socket.close(None)).await;
    drop(permit);
}

/// Strips the stream framing (length prefix or newline): WebSocket messages are delimited already.
fn to_message(frame: Bytes, media: MediaType) -> Message {
    if media == MediaType::Protobuf {
        return Message::Binary(frame.slice(frame.len().min(LENGTH_BYTES)..));
    }
    let end = frame.len() - usize::from(frame.ends_with(b"\n"));
    match Utf8Bytes::try_from(frame.slice(..end)) {
        Ok(text) => Message::Text(text),
        Err(_) => Message::Binary(frame),
    }
}

#[cfg(test)]
mod tests {
    use rhumb_schema::protobuf::watch_frame;

    use super::*;

    #[test]
    fn the_media_type_determines_the_message_type() {
        let json = Bytes::from_static(b"{\"type\":\"ADDED\"}\n");
        assert_eq!(
            to_message(json, MediaType::Json),
            Message::Text("{\"type\":\"ADDED\"}".into())
        );
        // The bytes of a short protobuf message may be valid UTF-8.
        let frame = watch_frame("ADDED", b"x");
        assert!(std::str::from_utf8(&frame).is_ok());
        let rest = Bytes::copy_from_slice(&frame[4..]);
        assert_eq!(
            to_message(frame.into(), MediaType::Protobuf),
            Message::Binary(rest)
        );
        assert_eq!(
            to_message(Bytes::new(), MediaType::Protobuf),
            Message::Binary(Bytes::new())
        );
    }

    #[test]
    fn a_token_in_the_subprotocols_becomes_a_header() {
        let token = format!("{TOKEN_PROTOCOL}c2VjcmV0");
        let check = |protocol_list: &str, want: Result<(Option<&str>, &str), i32>| {
            let mut headers = HeaderMap::from_iter([(
                SEC_WEBSOCKET_PROTOCOL,
                HeaderValue::from_str(protocol_list).unwrap(),
            )]);
            let got = move_token_to_header(&mut headers).map_err(|status| status.code);
            let text = |name| {
                headers
                    .get(&name)
                    .and_then(|value: &HeaderValue| value.to_str().ok())
            };
            let got = got.map(|()| {
                let protocols = text(SEC_WEBSOCKET_PROTOCOL).unwrap_or_default();
                (text(AUTHORIZATION), protocols)
            });
            assert_eq!(got, want, "{protocol_list}");
        };
        check("v4.x", Ok((None, "v4.x")));
        check(
            &format!("{token}, base64.binary.k8s.io"),
            Ok((Some("Bearer secret"), "base64.binary.k8s.io")),
        );
        check(&token, Err(401));
        check(&format!("{token}, {token}, a"), Err(401));
        check(&format!("{TOKEN_PROTOCOL}!!, a"), Err(401));
    }
}
