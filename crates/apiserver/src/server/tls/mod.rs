//! TLS for ten thousand connections that are mostly silent.
//!
//! A stream of the usual kind keeps a page for what may come, for as long as it lives. Here a thread has one such room
//! for all its connections; a connection holds only what is really under way: half a record, or what its client has
//! not read yet.

mod scratch;
mod session;
#[cfg(test)]
mod tests;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::ServerConfig;
use rustls_pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use session::{Session, take_off};

#[derive(Debug)]
pub(super) struct TlsStream {
    socket: TcpStream,
    session: Session,
}

impl TlsStream {
    /// Answers a client's handshake. One that goes wrong is told why.
    pub(super) async fn accept(
        config: Arc<ServerConfig>,
        socket: TcpStream,
    ) -> io::Result<TlsStream> {
        let session = Session::new(config).map_err(io::Error::other)?;
        let mut stream = TlsStream { socket, session };
        std::future::poll_fn(|context| stream.poll_handshake(context)).await?;
        Ok(stream)
    }

    /// What the client wants to speak.
    pub(super) fn protocol(&self) -> Option<&[u8]> {
        self.session.agreed().alpn_protocol()
    }

    /// Who the client is, if it said so; checked.
    pub(super) fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.session.agreed().peer_certificates()?.first()
    }

    fn poll_handshake(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_send(context))?;
            if !self.session.agreed().is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_receive(context, &mut ReadBuf::new(&mut [])))?;
        }
    }

    fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let TlsStream { socket, session } = self;
        let received = scratch::with(|scratch| {
            session.receive(&mut scratch.incoming, into, |room| {
                Pin::new(socket).poll_read(context, room)
            })
        });
        if received.is_ready() {
            self.try_send();
        }
        received
    }

    /// What follows from what came, alerts mostly, goes out at once if it can, else with what is written next. It does
    /// not wait: a task that reads must not be woken in place of one that writes.
    fn try_send(&mut self) {
        let outgoing = &mut self.session.outgoing;
        if !outgoing.is_empty()
            && let Ok(sent) = self.socket.try_write(outgoing)
        {
            take_off(outgoing, sent);
        }
    }

    /// Sends all that is sealed.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outgoing = &mut self.session.outgoing;
        while !outgoing.is_empty() {
            let sent = ready!(Pin::new(&mut self.socket).poll_write(context, outgoing))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            take_off(outgoing, sent);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        let before = into.filled().len();
        if into.remaining() == 0 || stream.session.give(into) {
            return Poll::Ready(Ok(()));
        }
        while into.filled().len() == before && !stream.session.is_closed() {
            ready!(stream.poll_receive(context, into))?;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        plain: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(plain)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let stream = self.get_mut();
        ready!(stream.poll_send(context))?;
        let TlsStream { socket, session } = stream;
        scratch::with(|scratch| {
            let plain = scratch::gather(parts, &mut scratch.plain);
            let count = session.seal(plain, &mut scratch.sealed)?;
            let sealed = &scratch.sealed[..count];
            let sent = match Pin::new(socket).poll_write(context, sealed) {
                Poll::Ready(sent) => sent?,
                Poll::Pending => 0,
            };
            session.outgoing.extend_from_slice(&sealed[sent..]);
            Poll::Ready(Ok(plain.len()))
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_send(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        stream.session.say_farewell()?;
        ready!(stream.poll_send(context))?;
        match ready!(Pin::new(&mut stream.socket).poll_shutdown(context)) {
            // The client was quicker.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
            result => Poll::Ready(result),
        }
    }
}
