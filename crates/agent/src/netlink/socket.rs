//! A NETLINK_NETFILTER socket. The kernel processes a batch synchronously in `sendto`: all answers are queued when the
//! call returns.

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

use super::batch::{BatchMode, NetlinkBatch};
use super::decode::{NetlinkMessages, read_u32};
use super::encode::{NetlinkHeader, NetlinkWriter};
use super::{ACK, DUMP, NFTABLES};

/// Larger than any datagram that must be read completely. Error messages repeat the request and may be truncated.
const DATAGRAM_BYTES: usize = 64 * 1024;
/// Receive buffer for error messages. If it overflows, the first ones are kept.
const ERROR_BUFFER_BYTES: usize = 1024 * 1024;
/// Receive buffer for notifications. If it overflows, the next receive fails with ENOBUFS.
const NOTIFICATION_BUFFER_BYTES: usize = 8 * 1024 * 1024;
/// The kernel's overhead in the send buffer, rounded up.
const SENDING_EXTRA_BYTES: usize = 4096;

/// Control message types (NLMSG_*).
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// MAX_ERRNO of the kernel.
const ERROR_MAX: i32 = 4095;

/// A netlink socket. It belongs to the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct NetlinkSocket {
    fd: OwnedFd,
    port: u32,
    buffer: Vec<u8>,
}

/// The kernel's answer to a batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchResponse {
    /// Sequence numbers of rejected messages, with the error. 0 is the whole batch.
    pub(crate) rejected: Vec<(u32, Errno)>,
    /// The last message was acknowledged or rejected, so the answer is complete.
    pub(crate) is_complete: bool,
}

/// Outcome of reading from the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReceiveOutcome {
    /// A datagram of this length.
    Datagram(usize),
    /// Datagrams were lost because the receive buffer was full (ENOBUFS).
    Overrun,
    Nothing,
}

/// A query for existing objects.
#[derive(Debug)]
pub(crate) struct NetlinkGetRequest(NetlinkWriter);

impl NetlinkGetRequest {
    /// Queries the one object that the attributes name.
    pub(crate) fn get(
        kind: u8,
        family: u8,
        body: impl FnOnce(&mut NetlinkWriter),
    ) -> NetlinkGetRequest {
        NetlinkGetRequest::new(kind, family, ACK, body)
    }

    /// Queries all objects of a type that have these attributes (NLM_F_DUMP).
    pub(crate) fn dump(
        kind: u8,
        family: u8,
        body: impl FnOnce(&mut NetlinkWriter),
    ) -> NetlinkGetRequest {
        NetlinkGetRequest::new(kind, family, DUMP, body)
    }

    fn new(
        kind: u8,
        family: u8,
        flags: u16,
        body: impl FnOnce(&mut NetlinkWriter),
    ) -> NetlinkGetRequest {
        let header = NetlinkHeader {
            kind: u16::from(NFTABLES) << 8 | u16::from(kind),
            flags,
            sequence: 1,
            family,
            resource_id: 0,
        };
        let mut writer = NetlinkWriter::default();
        writer.message(header, body);
        NetlinkGetRequest(writer)
    }
}

impl NetlinkSocket {
    /// A socket for requests.
    pub(crate) fn open() -> io::Result<NetlinkSocket> {
        NetlinkSocket::new(0, ERROR_BUFFER_BYTES)
    }

    /// A socket that receives the notifications of these multicast groups (a bit mask).
    pub(crate) fn listen(groups: u32) -> io::Result<NetlinkSocket> {
        NetlinkSocket::new(groups, NOTIFICATION_BUFFER_BYTES)
    }

    fn new(groups: u32, receive_buffer_bytes: usize) -> io::Result<NetlinkSocket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            flags,
            Some(NETFILTER),
        )?;
        bind(&fd, &SocketAddrNetlink::new(0, groups))?;
        let address = SocketAddrNetlink::try_from(getsockname(&fd)?)?;
        // Best effort: without CAP_NET_ADMIN the default size stays.
        let _ = set_socket_recv_buffer_size_force(&fd, receive_buffer_bytes);
        Ok(NetlinkSocket {
            fd,
            port: address.pid(),
            buffer: vec![0; DATAGRAM_BYTES],
        })
    }

    /// The netlink port id, by which notifications identify the socket that caused a change.
    pub(crate) fn port(&self) -> u32 {
        self.port
    }

    pub(crate) fn send_batch(
        &mut self,
        batch: NetlinkBatch,
        ending: BatchMode,
    ) -> io::Result<BatchResponse> {
        let last = batch.count();
        let writer = batch.finish(ending);
        if writer.is_too_long() {
            return Err(Errno::MSGSIZE.into());
        }
        self.send(writer.as_bytes())?;
        let mut answer = BatchResponse::default();
        while let Some(datagram) = self.next_datagram()? {
            for message in NetlinkMessages(datagram).filter(|message| message.kind == ERROR) {
                if let Some(error) = parse_error(message.body) {
                    answer.rejected.push((message.sequence, error));
                }
                answer.is_complete |= message.sequence == last;
            }
        }
        Ok(answer)
    }

    /// Returns all response messages, concatenated. Fails if the object does not exist or the response is incomplete.
    pub(crate) fn query(&mut self, request: &NetlinkGetRequest) -> io::Result<Vec<u8>> {
        self.send(request.0.as_bytes())?;
        let mut all = Vec::new();
        while let Some(datagram) = self.next_datagram()? {
            let mut is_end = false;
            for message in NetlinkMessages(datagram).filter(|it| matches!(it.kind, ERROR | DONE)) {
                if let Some(error) = parse_error(message.body) {
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

    /// Sends everything as one datagram: the kernel would abort each part of a split batch.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        // Discard leftover answers to earlier requests.
        while self
            .next_datagram()
            .is_ok_and(|datagram| datagram.is_some())
        {}
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

    /// The next datagram, if there is one. Lost datagrams are skipped.
    fn next_datagram(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            match self.receive()? {
                ReceiveOutcome::Datagram(length) => return Ok(self.buffer.get(..length)),
                ReceiveOutcome::Nothing => return Ok(None),
                ReceiveOutcome::Overrun => {}
            }
        }
    }

    /// Receives a datagram, to be read with [`NetlinkSocket::datagram`]. Longer ones are truncated.
    pub(crate) fn receive(&mut self) -> io::Result<ReceiveOutcome> {
        loop {
            match recv(&self.fd, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((length, _)) => return Ok(ReceiveOutcome::Datagram(length)),
                Err(Errno::AGAIN) => return Ok(ReceiveOutcome::Nothing),
                Err(Errno::NOBUFS) => return Ok(ReceiveOutcome::Overrun),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The last received datagram, which had this length.
    pub(crate) fn datagram(&self, length: usize) -> &[u8] {
        self.buffer.get(..length).unwrap_or_default()
    }
}

/// For tokio's `AsyncFd`.
impl AsRawFd for NetlinkSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// The error in an NLMSG_ERROR or NLMSG_DONE message, which has a negated errno; `None` for success.
fn parse_error(body: &[u8]) -> Option<Errno> {
    match read_u32(body, 0)?.cast_signed().saturating_neg() {
        0 => None,
        code @ 1..=ERROR_MAX => Some(Errno::from_raw_os_error(code)),
        _ => Some(Errno::PROTO),
    }
}
