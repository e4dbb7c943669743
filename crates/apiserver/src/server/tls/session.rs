//! TLS without a socket: what came is opened, what goes out is sealed.

use std::io;
use std::sync::Arc;
use std::task::{Poll, ready};

use bytes::{Buf, BytesMut};
use rustls::ServerConfig;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError, WriteTraffic,
};
use tokio::io::ReadBuf;

use super::scratch::{INCOMPLETE_MAX, READ_MAX};

/// An alert of two bytes, whatever the cipher.
const FAREWELL_BYTES_MAX: usize = 256;

/// One side of a TLS connection. While nothing is under way it holds no buffer at all.
pub(super) struct Session {
    tls: UnbufferedServerConnection,
    peer: Peer,
    /// Whether the client was told that nothing more comes.
    farewell_said: bool,
    /// The beginning of a record or of a message of the handshake whose rest is to come. Must be shown to `tls` again
    /// as it is: `tls` remembers places in it.
    incomplete: Vec<u8>,
    /// Opened, and not yet read by anyone.
    received: BytesMut,
    /// Sealed, and not yet taken by the socket.
    pub(super) outgoing: BytesMut,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Peer {
    Talking,
    /// It said that nothing more comes from it.
    Closed,
    /// It broke the rules or hung up in the middle of something: `tls` may not be asked again.
    Failed,
}

impl Session {
    pub(super) fn new(config: Arc<ServerConfig>) -> Result<Session, rustls::Error> {
        Ok(Session {
            tls: UnbufferedServerConnection::new(config)?,
            peer: Peer::Talking,
            farewell_said: false,
            incomplete: Vec::new(),
            received: BytesMut::new(),
            outgoing: BytesMut::new(),
        })
    }

    /// What the handshake agreed on.
    pub(super) fn agreed(&self) -> &rustls::CommonState {
        &self.tls
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.incomplete.capacity() + self.received.capacity() + self.outgoing.capacity()
    }

    /// Whether nothing more comes from the client.
    pub(super) fn is_closed(&self) -> bool {
        self.peer == Peer::Closed
    }

    /// Gives what was opened before; whether there was any.
    pub(super) fn give(&mut self, into: &mut ReadBuf<'_>) -> bool {
        if self.received.is_empty() {
            return false;
        }
        let count = self.received.len().min(into.remaining());
        into.put_slice(&self.received[..count]);
        self.received.advance(count);
        if self.received.is_empty() {
            self.received = BytesMut::new();
        }
        true
    }

    /// Reads once and opens all that is whole, into `into` as far as it goes. An error leaves its alert in `outgoing`.
    pub(super) fn receive(
        &mut self,
        room: &mut [u8],
        into: &mut ReadBuf<'_>,
        read: impl FnOnce(&mut ReadBuf<'_>) -> Poll<io::Result<()>>,
    ) -> Poll<io::Result<()>> {
        self.check_not_failed()?;
        let kept = self.incomplete.len();
        room[..kept].copy_from_slice(&self.incomplete);
        let mut unread = ReadBuf::new(&mut room[kept..kept + READ_MAX]);
        ready!(read(&mut unread))?;
        let end = kept + unread.filled().len();
        if end == kept {
            self.peer = Peer::Failed;
            let why = "the client hung up without the farewell of TLS";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, why)));
        }
        let opened = match self.open(&mut room[..end], into) {
            Ok(opened) if end - opened <= INCOMPLETE_MAX => opened,
            Ok(_) => return Poll::Ready(Err(self.fail("a message of the handshake is too long"))),
            Err(error) => return Poll::Ready(Err(error)),
        };
        self.incomplete = room[opened..end].to_vec();
        Poll::Ready(Ok(()))
    }

    /// Says how much of `incoming` is done with.
    fn open(&mut self, incoming: &mut [u8], into: &mut ReadBuf<'_>) -> io::Result<usize> {
        let mut opened = 0;
        loop {
            let status = self.tls.process_tls_records(&mut incoming[opened..]);
            let mut done = status.discard;
            match status.state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(invalid)?;
                        done += record.discard;
                        let here = match self.received.is_empty() {
                            true => record.payload.len().min(into.remaining()),
                            false => 0,
                        };
                        into.put_slice(&record.payload[..here]);
                        self.received.extend_from_slice(&record.payload[here..]);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(data)) => self.outgoing.extend(encode(data)?),
                // It is on its way: all that goes out later goes behind it.
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.peer = Peer::Closed,
                // Whatever comes behind a farewell is nobody's.
                Ok(_) if self.peer == Peer::Closed => return Ok(incoming.len()),
                Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => {
                    return Ok(opened + done);
                }
                Ok(other) => {
                    let why = format!("a state of TLS that nobody asked for: {other:?}");
                    return Err(self.fail(why));
                }
                Err(error) => {
                    self.take_alerts(&mut incoming[opened + done..])?;
                    return Err(self.fail(error));
                }
            }
            opened += done;
        }
    }

    /// The client is told what is wrong with what it sent.
    fn take_alerts(&mut self, rest: &mut [u8]) -> io::Result<()> {
        // What is wrong must not be looked at again.
        while self.tls.wants_write()
            && let Ok(ConnectionState::EncodeTlsData(data)) =
                self.tls.process_tls_records(rest).state
        {
            self.outgoing.extend(encode(data)?);
        }
        Ok(())
    }

    /// Seals into the front of `sealed`, which grows where it must; says how much of it.
    pub(super) fn seal(&mut self, plain: &[u8], sealed: &mut Vec<u8>) -> io::Result<usize> {
        if self.farewell_said {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.write(sealed, |traffic, room| traffic.encrypt(plain, room))
    }

    /// Puts the farewell behind all that goes out, once. A client that failed gets none.
    pub(super) fn say_farewell(&mut self) -> io::Result<()> {
        if self.farewell_said || self.peer == Peer::Failed {
            return Ok(());
        }
        self.farewell_said = true;
        // With too little room it would be half said: it cannot be asked for twice.
        let mut sealed = vec![0; FAREWELL_BYTES_MAX];
        let count = self.write(&mut sealed, |traffic, room| {
            traffic.queue_close_notify(room)
        })?;
        self.outgoing.extend_from_slice(&sealed[..count]);
        Ok(())
    }

    fn write(
        &mut self,
        sealed: &mut Vec<u8>,
        write: impl Fn(&mut Traffic<'_>, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> io::Result<usize> {
        self.check_not_failed()?;
        let mut count = 0;
        loop {
            let status = self.tls.process_tls_records(&mut self.incomplete);
            match status.state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    match write(&mut traffic, &mut sealed[count..]) {
                        Ok(written) => return Ok(count + written),
                        Err(EncryptError::InsufficientSize(InsufficientSizeError {
                            required_size,
                        })) => sealed.resize(count + required_size, 0),
                        Err(error) => return Err(self.fail(error)),
                    }
                }
                // New keys, mostly.
                Ok(ConnectionState::EncodeTlsData(data)) => {
                    let data = encode(data)?;
                    let end = count + data.len();
                    sealed.resize(sealed.len().max(end), 0);
                    sealed[count..end].copy_from_slice(&data);
                    count = end;
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(other) => {
                    let why = format!("a state of TLS in which nothing is sent: {other:?}");
                    return Err(self.fail(why));
                }
                Err(error) => return Err(self.fail(error)),
            }
        }
    }

    fn check_not_failed(&self) -> io::Result<()> {
        match self.peer {
            Peer::Failed => Err(io::ErrorKind::BrokenPipe.into()),
            Peer::Talking | Peer::Closed => Ok(()),
        }
    }

    fn fail(&mut self, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
        self.peer = Peer::Failed;
        invalid(why)
    }
}

type Traffic<'a> = WriteTraffic<'a, ServerConnectionData>;

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn encode(mut data: EncodeTlsData<'_, ServerConnectionData>) -> io::Result<Vec<u8>> {
    let mut encoded = Vec::new();
    if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut encoded) {
        encoded.resize(size.required_size, 0);
        data.encode(&mut encoded).map_err(invalid)?;
    }
    Ok(encoded)
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("peer", &self.peer)
            .field("farewell_said", &self.farewell_said)
            .finish_non_exhaustive()
    }
}
