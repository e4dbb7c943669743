//! A socket over which the kernel is told what to do. It does it while it is told: all answers are there when the call
//! returns that sends.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::sockopt::{
    set_socket_recv_buffer_size_force, set_socket_send_buffer_size_force, socket_send_buffer_size,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, getsockname, recv, sendto,
    socket_with,
};

use super::batch::{Batch, Ending};
use super::read::{Messages, number};
use super::write::{Header, Writer};
use super::{ACK, DUMP, NFTABLES};

/// Larger than any datagram that has to be read to its end. Complaints repeat what they are about, and are cut off.
const DATAGRAM_BYTES: usize = 64 * 1024;
/// Room for complaints. If there are more than fit, the first are there.
const COMPLAINTS_BYTES: usize = 1024 * 1024;
/// Room for what happens. If more does, it is told that something is lost.
const NEWS_BYTES: usize = 8 * 1024 * 1024;
/// What the kernel itself needs in the buffer for sending, and more.
const SENDING_EXTRA_BYTES: usize = 4096;

/// Kinds of messages that are about others.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// The kernel has no errors with greater numbers.
const ERROR_MAX: i32 = 4095;

/// It belongs to the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    port: u32,
    buffer: Vec<u8>,
}

/// What the kernel made of a batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Messages that it refused, by their numbers, and why. 0 stands for the whole batch.
    pub(crate) refused: Vec<(u32, Errno)>,
    /// It has looked at the last message.
    pub(crate) is_complete: bool,
}

/// What there is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// Of so many bytes.
    Datagram(usize),
    /// Some that did not fit are not there.
    Loss,
    Nothing,
}

/// Asks for something that there is.
#[derive(Debug)]
pub(crate) struct Request(Writer);

impl Request {
    /// For the one object that the attributes name.
    pub(crate) fn one(kind: u8, family: u8, body: impl FnOnce(&mut Writer)) -> Request {
        Request::new(kind, family, ACK, body)
    }

    /// For all objects of a sort that have these attributes.
    pub(crate) fn all(kind: u8, family: u8, body: impl FnOnce(&mut Writer)) -> Request {
        Request::new(kind, family, DUMP, body)
    }

    fn new(kind: u8, family: u8, flags: u16, body: impl FnOnce(&mut Writer)) -> Request {
        let header = Header {
            kind: u16::from(NFTABLES) << 8 | u16::from(kind),
            flags,
            sequence: 1,
            family,
            number: 0,
        };
        let mut writer = Writer::default();
        writer.message(header, body);
        Request(writer)
    }
}

impl Socket {
    /// For telling the kernel something.
    pub(crate) fn open() -> io::Result<Socket> {
        Socket::new(0, COMPLAINTS_BYTES)
    }

    /// One that hears what happens in these groups, a bit for each.
    pub(crate) fn listen(groups: u32) -> io::Result<Socket> {
        Socket::new(groups, NEWS_BYTES)
    }

    fn new(groups: u32, room_bytes: usize) -> io::Result<Socket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            flags,
            Some(NETFILTER),
        )?;
        bind(&fd, &SocketAddrNetlink::new(0, groups))?;
        let address = SocketAddrNetlink::try_from(getsockname(&fd)?)?;
        // Who may not have it has the usual one.
        let _ = set_socket_recv_buffer_size_force(&fd, room_bytes);
        Ok(Socket {
            fd,
            port: address.pid(),
            buffer: vec![0; DATAGRAM_BYTES],
        })
    }

    /// By which the kernel knows this socket, and says who did something.
    pub(crate) fn port(&self) -> u32 {
        self.port
    }

    pub(crate) fn carry_out(&mut self, batch: Batch, ending: Ending) -> io::Result<Answer> {
        let last = batch.count();
        let writer = batch.finish(ending);
        if writer.is_too_long() {
            return Err(Errno::MSGSIZE.into());
        }
        self.send(writer.as_bytes())?;
        let mut answer = Answer::default();
        while let Some(datagram) = self.answer()? {
            for message in Messages(datagram).filter(|message| message.kind == ERROR) {
                if let Some(error) = error(message.body) {
                    answer.refused.push((message.sequence, error));
                }
                answer.is_complete |= message.sequence == last;
            }
        }
        Ok(answer)
    }

    /// The bodies of the answers, one after the other; they are messages. Fails if there is no such object, and if what
    /// there is does not come to its end.
    pub(crate) fn ask(&mut self, request: &Request) -> io::Result<Vec<u8>> {
        self.send(request.0.as_bytes())?;
        let mut all = Vec::new();
        while let Some(datagram) = self.answer()? {
            let mut is_end = false;
            for message in Messages(datagram).filter(|it| matches!(it.kind, ERROR | DONE)) {
                if let Some(error) = error(message.body) {
                    return Err(error.into());
                }
                is_end = true;
            }
            all.extend_from_slice(datagram);
            if is_end {
                return Ok(all);
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    /// All of it is one datagram: of a batch that came in pieces the kernel would forget each.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        // Nobody waits for what is still there.
        while self.answer().is_ok_and(|datagram| datagram.is_some()) {}
        let needed = bytes.len() + SENDING_EXTRA_BYTES;
        if socket_send_buffer_size(&self.fd)? < needed {
            set_socket_send_buffer_size_force(&self.fd, needed)?;
        }
        let kernel = SocketAddrNetlink::new(0, 0);
        loop {
            match sendto(&self.fd, bytes, SendFlags::empty(), &kernel) {
                Err(Errno::INTR) => {}
                sent => return Ok(sent.map(|_| ())?),
            }
        }
    }

    /// The next datagram, if there is one. What did not fit into the kernel's buffer is lost, and the rest can be read.
    fn answer(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            match self.receive()? {
                Received::Datagram(length) => return Ok(self.buffer.get(..length)),
                Received::Nothing => return Ok(None),
                Received::Loss => {}
            }
        }
    }

    /// A datagram, which [`Socket::datagram`] has then. One that is too long is cut off.
    pub(crate) fn receive(&mut self) -> io::Result<Received> {
        loop {
            match recv(&self.fd, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((length, _)) => return Ok(Received::Datagram(length)),
                Err(Errno::AGAIN) => return Ok(Received::Nothing),
                Err(Errno::NOBUFS) => return Ok(Received::Loss),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The last one that was received, of that length.
    pub(crate) fn datagram(&self, length: usize) -> &[u8] {
        self.buffer.get(..length).unwrap_or_default()
    }
}

/// For whoever waits until there is something to be read.
impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// What a message of that sort says, with the sign turned around; `None` if nothing is wrong.
fn error(body: &[u8]) -> Option<Errno> {
    match number(body, 0)?.cast_signed().saturating_neg() {
        0 => None,
        code @ 1..=ERROR_MAX => Some(Errno::from_raw_os_error(code)),
        _ => Some(Errno::PROTO),
    }
}
