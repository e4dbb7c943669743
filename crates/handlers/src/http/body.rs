//! Response bodies: bytes in memory, chunks produced on demand, or an endless stream (watch).

use std::any::Any;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use http_body::{Frame, SizeHint};

use super::connection_activity::ActiveRequest;

/// Produces a body in chunks, on demand.
pub trait BodyChunks: Send {
    fn next_chunk(&mut self) -> Option<Bytes>;
}

/// The body of a response.
pub struct ResponseBody {
    kind: BodyKind,
    /// Dropped with the body, when the response is complete.
    _guard: Option<Box<dyn Any + Send>>,
    /// Marks the connection as active.
    _active_request: Option<ActiveRequest>,
}

/// The source of the bytes of a body.
enum BodyKind {
    Full(Option<Bytes>),
    /// Produced on demand, with the number of remaining bytes, if known.
    Chunks(Box<dyn BodyChunks>, Option<u64>),
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl ResponseBody {
    fn new(kind: BodyKind) -> ResponseBody {
        ResponseBody {
            kind,
            _guard: None,
            _active_request: None,
        }
    }

    pub fn empty() -> ResponseBody {
        ResponseBody::new(BodyKind::Full(None))
    }

    pub fn full(bytes: impl Into<Bytes>) -> ResponseBody {
        let bytes = bytes.into();
        ResponseBody::new(BodyKind::Full((!bytes.is_empty()).then_some(bytes)))
    }

    pub fn chunks(chunks: impl BodyChunks + 'static, bytes_total: Option<u64>) -> ResponseBody {
        ResponseBody::new(BodyKind::Chunks(Box::new(chunks), bytes_total))
    }

    pub fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> ResponseBody {
        ResponseBody::new(BodyKind::Stream(Box::pin(stream)))
    }

    /// Keeps a value alive as long as the body.
    pub fn with_guard(self, held: Box<dyn Any + Send>) -> ResponseBody {
        ResponseBody {
            _guard: Some(held),
            ..self
        }
    }

    /// Marks the connection as active as long as the body lives.
    pub fn with_active_request(self, request: ActiveRequest) -> ResponseBody {
        ResponseBody {
            _active_request: Some(request),
            ..self
        }
    }

    /// The remaining length, if known.
    pub fn bytes_total(&self) -> Option<u64> {
        match &self.kind {
            BodyKind::Full(bytes) => Some(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            BodyKind::Chunks(_, total) => *total,
            BodyKind::Stream(_) => None,
        }
    }

    pub fn is_stream(&self) -> bool {
        matches!(self.kind, BodyKind::Stream(_))
    }

    /// Copies a whole body that is not a stream, which can still be sent afterwards. `None` if it is empty.
    pub fn collect(&mut self) -> Option<Bytes> {
        if self.is_stream() {
            return None;
        }
        let mut whole = self.next_chunk()?;
        if let Some(chunk) = self.next_chunk() {
            let mut chunks = BytesMut::from(whole);
            chunks.extend_from_slice(&chunk);
            while let Some(chunk) = self.next_chunk() {
                chunks.extend_from_slice(&chunk);
            }
            whole = chunks.freeze();
        }
        self.kind = BodyKind::Full(Some(whole.clone()));
        Some(whole)
    }

    /// The next chunk of a body that is not a stream.
    pub fn next_chunk(&mut self) -> Option<Bytes> {
        match &mut self.kind {
            BodyKind::Full(bytes) => bytes.take(),
            BodyKind::Chunks(chunks, total) => {
                let chunk = chunks.next_chunk()?;
                if let Some(total) = total {
                    *total = total.saturating_sub(chunk.len() as u64);
                }
                Some(chunk)
            }
            BodyKind::Stream(_) => None,
        }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes_total() {
            Some(total) => write!(f, "Body({total} bytes)"),
            None => f.write_str("Body(stream)"),
        }
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut self.kind {
            BodyKind::Stream(stream) => match stream.as_mut().poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(next) => next,
            },
            _ => self.next_chunk(),
        };
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.kind, BodyKind::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self.bytes_total() {
            Some(total) => SizeHint::with_exact(total),
            None => SizeHint::default(),
        }
    }
}
