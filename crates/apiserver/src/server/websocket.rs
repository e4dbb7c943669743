//! Watches over WebSockets, for browsers and for clients that prefer them: one message for each event, as text or,
//! in protobuf, as bytes.

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

use crate::http::{Body, Reply};
use crate::request::Media;
use crate::resources::Frames;

/// How many sockets there may be at a time.
const SOCKETS_MAX: u32 = 10_000;

/// A client of a watch has nothing to say but pings and its farewell.
const INCOMING_BYTES_MAX: usize = 4 * 1024;

/// What stands before a message of protobuf in a stream.
const LENGTH_BYTES: usize = 4;

/// How often a silent client is asked whether it is still there.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// How long a client may take to read a message.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// A token as browsers send it, who cannot set other headers.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// The sockets that are open. A server that ends waits for them.
#[derive(Debug)]
pub(super) struct Sockets(Arc<Semaphore>);

impl Default for Sockets {
    fn default() -> Self {
        Sockets(Arc::new(Semaphore::new(SOCKETS_MAX as usize)))
    }
}

impl Sockets {
    /// Waits until all are closed.
    pub(super) async fn closed(&self) {
        let _ = self.0.acquire_many(SOCKETS_MAX).await;
    }
}

pub(super) fn is_request(headers: &HeaderMap) -> bool {
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

/// Makes a token among the protocols an ordinary one: nothing behind this may see it elsewhere.
pub(super) fn take_token(headers: &mut HeaderMap) -> Result<(), Status> {
    if !headers.contains_key(SEC_WEBSOCKET_PROTOCOL) || headers.contains_key(AUTHORIZATION) {
        return Ok(());
    }
    let offered = protocols(headers);
    let (tokens, others): (Vec<&String>, Vec<&String>) = offered
        .iter()
        .partition(|protocol| protocol.starts_with(TOKEN_PROTOCOL));
    let Some(token) = tokens.first() else {
        return Ok(());
    };
    let unauthorized = || Status::unauthorized("Unauthorized");
    // The answer must name a protocol, and never the token.
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

/// Takes the connection over for a watch.
pub(super) fn serve(
    sockets: &Sockets,
    headers: &HeaderMap,
    upgrade: OnUpgrade,
    frames: Frames,
) -> Result<Reply, Status> {
    let key = headers
        .get(SEC_WEBSOCKET_KEY)
        .filter(|_| {
            headers
                .get(SEC_WEBSOCKET_VERSION)
                .is_some_and(|it| it == "13")
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
        Body::empty(),
    )
    .header(UPGRADE, "websocket")
    .header(CONNECTION, "Upgrade")
    .header(SEC_WEBSOCKET_ACCEPT, &accept);
    if let Some(protocol) = protocols(headers).first() {
        reply = reply.header(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    let (keeper, kept) = tokio::sync::oneshot::channel();
    reply.keeper = Some(keeper);
    tokio::spawn(async move {
        let _kept = kept.await;
        match upgrade.await {
            Ok(upgraded) => run(upgraded, frames, permit).await,
            Err(error) => tracing::debug!(%error, "a connection did not become a WebSocket"),
        }
    });
    Ok(reply)
}

async fn run(upgraded: Upgraded, mut frames: Frames, permit: OwnedSemaphorePermit) {
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
                Some(frame) => message(frame, media),
                None => break,
            },
            received = socket.next() => match received {
                // Pings are answered by the library; anything else is of no interest.
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

/// A frame without what tells a stream where it ends: a message has an end by itself.
fn message(frame: Bytes, media: Media) -> Message {
    if media == Media::Protobuf {
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
    fn what_was_asked_for_says_what_a_message_is() {
        let json = Bytes::from_static(b"{\"type\":\"ADDED\"}\n");
        assert_eq!(
            message(json, Media::Json),
            Message::Text("{\"type\":\"ADDED\"}".into())
        );
        // A short message of protobuf is a text too, if one looks at its bytes.
        let frame = watch_frame("ADDED", b"x");
        assert!(std::str::from_utf8(&frame).is_ok());
        let rest = Bytes::copy_from_slice(&frame[4..]);
        assert_eq!(
            message(frame.into(), Media::Protobuf),
            Message::Binary(rest)
        );
        assert_eq!(
            message(Bytes::new(), Media::Protobuf),
            Message::Binary(Bytes::new())
        );
    }

    #[test]
    fn a_token_among_the_protocols_becomes_a_header() {
        let token = format!("{TOKEN_PROTOCOL}c2VjcmV0");
        let check = |offered: &str, want: Result<(Option<&str>, &str), i32>| {
            let mut headers = HeaderMap::from_iter([(
                SEC_WEBSOCKET_PROTOCOL,
                HeaderValue::from_str(offered).unwrap(),
            )]);
            let got = take_token(&mut headers).map_err(|status| status.code);
            let text = |name| {
                headers
                    .get(&name)
                    .and_then(|value: &HeaderValue| value.to_str().ok())
            };
            let got = got.map(|()| {
                let protocols = text(SEC_WEBSOCKET_PROTOCOL).unwrap_or_default();
                (text(AUTHORIZATION), protocols)
            });
            assert_eq!(got, want, "{offered}");
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
