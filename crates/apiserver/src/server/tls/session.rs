//! TLS without a socket: what came is opened, what goes out is sealed.

use std::io;
use std::sync::Arc;
use std::task::{Poll, ready};

use bytes::{Buf, BytesMut};
use rustls::ServerConfig;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError, ReadTraffic,
    WriteTraffic,
};
use tokio::io::ReadBuf;

use super::scratch::READ_MAX;

/// How long a message of the handshake may be that comes in pieces.
const HANDSHAKE_MESSAGE_MAX: usize = 64 * 1024;

/// More than an alert or new keys take, whatever the cipher.
const SPARE: usize = 256;

/// One side of a TLS connection. While nothing is under way it holds no buffer at all.
pub(super) struct Session {
    tls: UnbufferedServerConnection,
    incoming: Incoming,
    /// Why it failed, while what came before that is not read yet.
    failure: Option<io::Error>,
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

/// What is to be expected of the client.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Incoming {
    Open,
    /// It said that nothing more comes from it.
    Closed,
    /// Somebody broke the rules, the client hung up without a word, or the keys are used up: nothing more is read or
    /// sealed, and `tls` is not asked again.
    Failed,
}

impl Session {
    pub(super) fn new(config: Arc<ServerConfig>) -> Result<Session, rustls::Error> {
        Ok(Session {
            tls: UnbufferedServerConnection::new(config)?,
            incoming: Incoming::Open,
            failure: None,
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

    /// Whether the client said that nothing more comes from it.
    pub(super) fn is_closed(&self) -> bool {
        self.incoming == Incoming::Closed
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.incomplete.capacity() + self.received.capacity() + self.outgoing.capacity()
    }

    /// Gives what was opened before; whether there was any.
    pub(super) fn give(&mut self, into: &mut ReadBuf<'_>) -> bool {
        if self.received.is_empty() {
            return false;
        }
        let count = self.received.len().min(into.remaining());
        into.put_slice(&self.received[..count]);
        take_off(&mut self.received, count);
        true
    }

    /// Reads once, by way of `room`, and opens all that is whole, into `into` as far as it goes. What is wrong is told
    /// when all that came before it is read; if TLS has an alert for it, that is in `outgoing`.
    pub(super) fn receive(
        &mut self,
        room: &mut [u8; READ_MAX],
        into: &mut ReadBuf<'_>,
        read: impl FnOnce(&mut ReadBuf<'_>) -> Poll<io::Result<()>>,
    ) -> Poll<io::Result<()>> {
        if let Some(failure) = self.failure.take() {
            return Poll::Ready(Err(failure));
        }
        self.check_not_failed()?;
        let mut unread = ReadBuf::new(room);
        ready!(read(&mut unread))?;
        let came = unread.filled_mut();
        if came.is_empty() {
            let why = self.fail("the client hung up without the farewell of TLS");
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, why)));
        }
        let before = into.filled().len();
        match self.take_in(came, into) {
            Err(error) if into.filled().len() > before || !self.received.is_empty() => {
                self.failure = Some(error);
                Poll::Ready(Ok(()))
            }
            result => Poll::Ready(result),
        }
    }

    /// Opens what came, together with what was left of what came before.
    fn take_in(&mut self, came: &mut [u8], into: &mut ReadBuf<'_>) -> io::Result<()> {
        if self.incomplete.is_empty() {
            let opened = self.open(came, into)?;
            self.incomplete = came[opened..].to_vec();
        } else {
            let mut all = std::mem::take(&mut self.incomplete);
            all.extend_from_slice(came);
            self.incomplete = match self.open(&mut all, into)? {
                0 => all,
                opened => all[opened..].to_vec(),
            };
        }
        // Behind the handshake there are only records, and messages of a few bytes.
        let limit = match self.tls.is_handshaking() {
            true => HANDSHAKE_MESSAGE_MAX,
            false => READ_MAX,
        };
        match self.incomplete.len() > limit {
            true => Err(self.fail("a message of the handshake is too long")),
            false => Ok(()),
        }
    }

    /// Says how much of `incoming` is done with.
    fn open(&mut self, incoming: &mut [u8], into: &mut ReadBuf<'_>) -> io::Result<usize> {
        let mut opened = 0;
        loop {
            let status = self.tls.process_tls_records(&mut incoming[opened..]);
            opened += status.discard;
            match status.state {
                Ok(ConnectionState::ReadTraffic(traffic)) => {
                    match take_records(traffic, into, &mut self.received) {
                        Ok(taken) => opened += taken,
                        Err(error) => return Err(self.fail(error)),
                    }
                }
                Ok(ConnectionState::EncodeTlsData(data)) => match encode(data) {
                    Ok(encoded) => self.outgoing.extend_from_slice(&encoded),
                    Err(error) => return Err(self.fail(error)),
                },
                // It is on its way: all that goes out later goes behind it.
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.incoming = Incoming::Closed,
                // Whatever comes behind a farewell is nobody's.
                Ok(_) if self.incoming == Incoming::Closed => return Ok(incoming.len()),
                Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => {
                    return Ok(opened);
                }
                Ok(other) => {
                    let why = format!("a state of TLS that nobody asked for: {other:?}");
                    return Err(self.fail(why));
                }
                Err(error) => return Err(self.fail(error)),
            }
        }
    }

    /// Seals into the front of `sealed`, which grows where it must; says how much of it.
    pub(super) fn seal(&mut self, plain: &[u8], sealed: &mut Vec<u8>) -> io::Result<usize> {
        if self.farewell_said {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.write(sealed, |traffic, room| traffic.encrypt(plain, room))
    }

    /// Puts the farewell behind all that goes out, once. There is none after a failure.
    pub(super) fn say_farewell(&mut self) -> io::Result<()> {
        if self.farewell_said || self.incoming == Incoming::Failed {
            return Ok(());
        }
        self.farewell_said = true;
        // With too little room it would be half said: it cannot be asked for twice.
        let mut sealed = vec![0; SPARE];
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
            match self.tls.process_tls_records(&mut self.incomplete).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    match write(&mut traffic, &mut sealed[count..]) {
                        Ok(written) => return Ok(count + written),
                        // With nothing to spare the next try could need room for new keys once more, and so on.
                        Err(EncryptError::InsufficientSize(InsufficientSizeError {
                            required_size,
                        })) => sealed.resize(count + required_size + SPARE, 0),
                        Err(error) => return Err(self.fail(error)),
                    }
                }
                // New keys that found no room.
                Ok(ConnectionState::EncodeTlsData(data)) => match encode(data) {
                    Ok(encoded) => {
                        let end = count + encoded.len();
                        sealed.resize(sealed.len().max(end), 0);
                        sealed[count..end].copy_from_slice(&encoded);
                        count = end;
                    }
                    Err(error) => return Err(self.fail(error)),
                },
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
        match self.incoming {
            Incoming::Failed => Err(io::ErrorKind::BrokenPipe.into()),
            Incoming::Open | Incoming::Closed => Ok(()),
        }
    }

    /// Ends it all. The client is told why, if TLS has a word for it.
    fn fail(&mut self, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
        self.incoming = Incoming::Failed;
        self.incomplete = Vec::new();
        // Only what waits to be sent is asked for: what is wrong must not be looked at again.
        while self.tls.wants_write()
            && let Ok(ConnectionState::EncodeTlsData(data)) =
                self.tls.process_tls_records(&mut []).state
            && let Ok(encoded) = encode(data)
        {
            self.outgoing.extend_from_slice(&encoded);
        }
        io::Error::new(io::ErrorKind::InvalidData, why)
    }
}

/// So much of the front is done with. Where that is all, nothing is kept for later.
pub(super) fn take_off(buffer: &mut BytesMut, count: usize) {
    buffer.advance(count);
    if buffer.is_empty() {
        *buffer = BytesMut::new();
    }
}

type Traffic<'a> = WriteTraffic<'a, ServerConnectionData>;

/// Takes what was opened, in order; says how much more of what came is done with.
fn take_records(
    mut traffic: ReadTraffic<'_, '_, ServerConnectionData>,
    into: &mut ReadBuf<'_>,
    received: &mut BytesMut,
) -> Result<usize, rustls::Error> {
    let mut done = 0;
    while let Some(record) = traffic.next_record() {
        let record = record?;
        done += record.discard;
        // What does not fit fills `into`: there is nothing in `received` before it is full.
        let (here, rest) = record
            .payload
            .split_at(record.payload.len().min(into.remaining()));
        into.put_slice(here);
        received.extend_from_slice(rest);
    }
    Ok(done)
}

fn encode(mut data: EncodeTlsData<'_, ServerConnectionData>) -> Result<Vec<u8>, EncodeError> {
    let mut encoded = Vec::new();
    if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut encoded) {
        encoded.resize(size.required_size, 0);
        data.encode(&mut encoded)?;
    }
    Ok(encoded)
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("incoming", &self.incoming)
            .field("farewell_said", &self.farewell_said)
            .finish_non_exhaustive()
    }
}
