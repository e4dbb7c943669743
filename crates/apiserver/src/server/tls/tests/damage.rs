//! Bytes that change on their way, and bytes that come one by one.

use super::*;

/// Lets one byte through at a time.
#[derive(Debug)]
pub(super) struct Trickle<S>(pub(super) S);

/// Turns one bit of what is written.
#[derive(Debug)]
struct Damaged {
    socket: TcpStream,
    /// Which byte, counted from one; none any more where it is zero.
    at: usize,
}

/// How long either side is waited for: one that was told a length that is too great waits for the rest.
const PATIENCE: Duration = Duration::from_millis(100);

#[tokio::test]
async fn a_turned_bit_anywhere_never_changes_what_arrives() {
    const SENT: usize = 3_000;
    for version in [TLS12, TLS13] {
        let ends = Ends::new(version);
        let (mut at, mut unnoticed) = (1, 0);
        loop {
            let (socket, client) = sockets().await;
            let damaged = Damaged { socket: client, at };
            let talk = async {
                let mut client = ends.greet(damaged).await.ok()?;
                client.write_all(&text(SENT)).await.ok()?;
                client.shutdown().await.ok()?;
                Some(client.get_ref().0.at)
            };
            let (arrived, left) = tokio::join!(
                tokio::time::timeout(PATIENCE, arrived(&ends, socket, SENT)),
                tokio::time::timeout(PATIENCE, talk)
            );
            if let Ok(Ok(arrived)) = arrived {
                assert!(arrived == text(SENT), "a bit of byte {at}");
                unnoticed += 1;
            }
            // All was sent before it was that byte's turn.
            if matches!(left, Ok(Some(left)) if left > 0) {
                break;
            }
            // A third of the handshake, and some of the long record behind it.
            at += if at < 1_500 { 3 } else { 97 };
        }
        assert!(at > SENT, "the bytes have an end: {at}");
        // The version in a record's header is not looked at, for middleboxes' sake.
        assert!(unnoticed < 20, "{unnoticed} of {at}");
    }
}

async fn arrived(ends: &Ends, socket: TcpStream, count: usize) -> io::Result<Vec<u8>> {
    let mut stream = TlsStream::accept(ends.server.clone(), socket).await?;
    let mut arrived = vec![0; count];
    stream.read_exact(&mut arrived).await?;
    Ok(arrived)
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Trickle<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let first = &bytes[..bytes.len().min(1)];
        Pin::new(&mut self.get_mut().0).poll_write(context, first)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Trickle<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(context, into)
    }
}

impl AsyncWrite for Damaged {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let mut bytes = bytes.to_vec();
        if let Some(byte) = this.at.checked_sub(1).and_then(|at| bytes.get_mut(at)) {
            *byte ^= 1 << (this.at % 8);
        }
        let sent = ready!(Pin::new(&mut this.socket).poll_write(context, &bytes))?;
        this.at = this.at.saturating_sub(sent);
        Poll::Ready(Ok(sent))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }
}

impl AsyncRead for Damaged {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_read(context, into)
    }
}
