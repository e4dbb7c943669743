//! Bytes that change on their way, and bytes that come one by one.

use super::*;

/// A client's socket that sends something else than it is given.
pub(super) struct Altered<F> {
    socket: TcpStream,
    sent: usize,
    /// What to send instead, at most as much. Is told how much was sent before.
    alter: F,
}

impl<F: FnMut(usize, &[u8]) -> Vec<u8>> Altered<F> {
    pub(super) fn new(socket: TcpStream, alter: F) -> Altered<F> {
        Altered {
            socket,
            sent: 0,
            alter,
        }
    }
}

/// Lets one byte through at a time.
pub(super) fn trickle(_: usize, bytes: &[u8]) -> Vec<u8> {
    bytes[..bytes.len().min(1)].to_vec()
}

/// Turns a bit of that byte.
fn turn_bit(at: usize) -> impl FnMut(usize, &[u8]) -> Vec<u8> {
    move |sent, bytes| {
        let mut bytes = bytes.to_vec();
        if let Some(byte) = at.checked_sub(sent).and_then(|at| bytes.get_mut(at)) {
            *byte ^= 1 << (at % 8);
        }
        bytes
    }
}

/// How long either side is waited for: one that was told a length that is too great waits for the rest.
const PATIENCE: Duration = Duration::from_millis(100);

#[tokio::test]
async fn a_turned_bit_anywhere_never_changes_what_arrives() {
    const SENT: usize = 3_000;
    for version in [TLS12, TLS13] {
        let ends = Ends::new(version);
        let (mut at, mut unnoticed) = (0, 0);
        loop {
            let (socket, client) = sockets().await;
            let damaged = Altered::new(client, turn_bit(at));
            let talk = async {
                let mut client = ends.greet(damaged).await.ok()?;
                client.write_all(&text(SENT)).await.ok()?;
                client.shutdown().await.ok()?;
                Some(client.get_ref().0.sent)
            };
            let (arrived, sent) = tokio::join!(
                tokio::time::timeout(PATIENCE, arrived(&ends, socket, SENT)),
                tokio::time::timeout(PATIENCE, talk)
            );
            if let Ok(Ok(arrived)) = arrived {
                assert!(arrived == text(SENT), "a bit of byte {at}");
                unnoticed += 1;
            }
            // All was sent before it was that byte's turn.
            if matches!(sent, Ok(Some(sent)) if sent <= at) {
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

impl<F: FnMut(usize, &[u8]) -> Vec<u8> + Unpin> AsyncWrite for Altered<F> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let bytes = (this.alter)(this.sent, bytes);
        let sent = ready!(Pin::new(&mut this.socket).poll_write(context, &bytes))?;
        this.sent += sent;
        Poll::Ready(Ok(sent))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }
}

impl<F: Unpin> AsyncRead for Altered<F> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_read(context, into)
    }
}
