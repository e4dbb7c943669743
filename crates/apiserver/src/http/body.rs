//! The body of an answer: bytes at hand, bytes made as they are sent, or a stream without end.

use std::any::Any;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use http_body::{Frame, SizeHint};

use crate::server::Activity;

/// Makes the next piece of a body whose length is known before it is made.
pub trait Chunks: Send {
    fn next(&mut self) -> Option<Bytes>;
}

/// The body of an answer.
pub struct Body {
    kind: Kind,
    /// Dropped with the body, which is when the answer is over.
    _held: Option<Box<dyn Any + Send>>,
    /// Shows the connection that it is in use.
    _connection: Option<Arc<Activity>>,
}

enum Kind {
    Full(Option<Bytes>),
    /// Made piece by piece; the length is what is still to come, if that is known.
    Chunks(Box<dyn Chunks>, Option<u64>),
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl Body {
    fn new(kind: Kind) -> Body {
        Body {
            kind,
            _held: None,
            _connection: None,
        }
    }

    pub fn empty() -> Body {
        Body::new(Kind::Full(None))
    }

    pub fn full(bytes: impl Into<Bytes>) -> Body {
        let bytes = bytes.into();
        Body::new(Kind::Full((!bytes.is_empty()).then_some(bytes)))
    }

    pub fn chunks(chunks: impl Chunks + 'static, bytes_total: Option<u64>) -> Body {
        Body::new(Kind::Chunks(Box::new(chunks), bytes_total))
    }

    pub fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Body {
        Body::new(Kind::Stream(Box::pin(stream)))
    }

    /// Keeps something as long as the body lives.
    pub fn holding(self, held: Box<dyn Any + Send>) -> Body {
        Body {
            _held: Some(held),
            ..self
        }
    }

    /// The body of an answer on this connection.
    pub(crate) fn of(self, connection: Arc<Activity>) -> Body {
        Body {
            _connection: Some(connection),
            ..self
        }
    }

    /// How long it is, if that is known.
    pub fn bytes_total(&self) -> Option<u64> {
        match &self.kind {
            Kind::Full(bytes) => Some(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Kind::Chunks(_, total) => *total,
            Kind::Stream(_) => None,
        }
    }

    pub fn is_stream(&self) -> bool {
        matches!(self.kind, Kind::Stream(_))
    }

    /// All of a body that is not a stream; it is sent all the same. `None` if it is empty.
    pub fn whole(&mut self) -> Option<Bytes> {
        if self.is_stream() {
            return None;
        }
        let mut whole = self.next_chunk()?;
        if let Some(more) = self.next_chunk() {
            let mut chunks = BytesMut::from(whole);
            chunks.extend_from_slice(&more);
            while let Some(more) = self.next_chunk() {
                chunks.extend_from_slice(&more);
            }
            whole = chunks.freeze();
        }
        self.kind = Kind::Full(Some(whole.clone()));
        Some(whole)
    }

    /// The next piece of a body that is not a stream.
    pub fn next_chunk(&mut self) -> Option<Bytes> {
        match &mut self.kind {
            Kind::Full(bytes) => bytes.take(),
            Kind::Chunks(chunks, total) => {
                let chunk = chunks.next()?;
                if let Some(total) = total {
                    *total = total.saturating_sub(chunk.len() as u64);
                }
                Some(chunk)
            }
            Kind::Stream(_) => None,
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes_total() {
            Some(total) => write!(f, "Body({total} bytes)"),
            None => f.write_str("Body(stream)"),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut self.kind {
            Kind::Stream(stream) => match stream.as_mut().poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(next) => next,
            },
            _ => self.next_chunk(),
        };
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.kind, Kind::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self.bytes_total() {
            Some(total) => SizeHint::with_exact(total),
            None => SizeHint::default(),
        }
    }
}
