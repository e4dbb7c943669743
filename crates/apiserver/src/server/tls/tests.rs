//! Real sockets on the loopback, and a client of the usual kind.

use std::io::ErrorKind;
use std::time::Duration;

use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio_rustls::{TlsConnector, client};

use super::*;

mod damage;
mod hostile;
mod keys;
mod sealed;

const TLS12: &SupportedProtocolVersion = &rustls::version::TLS12;
const TLS13: &SupportedProtocolVersion = &rustls::version::TLS13;

/// What both sides know of each other. The client shows a certificate, too.
struct Ends {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    client_certificate: CertificateDer<'static>,
}

impl Ends {
    fn new(version: &'static SupportedProtocolVersion) -> Ends {
        Ends::with(version, |_| {})
    }

    fn with(
        version: &'static SupportedProtocolVersion,
        change: impl FnOnce(&mut ClientConfig),
    ) -> Ends {
        let (serving, serving_key) = certificate("localhost");
        let (client_certificate, client_key) = certificate("somebody");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(
            Arc::new(roots(&client_certificate)),
            provider.clone(),
        )
        .build()
        .unwrap();
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![serving.clone()], serving_key)
            .unwrap();
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots(&serving))
            .with_client_auth_cert(vec![client_certificate.clone()], client_key)
            .unwrap();
        client.alpn_protocols = vec![b"h2".to_vec()];
        change(&mut client);
        Ends {
            server: Arc::new(server),
            client: Arc::new(client),
            client_certificate,
        }
    }

    /// Both ends of a connection whose sockets hold little.
    async fn connect(&self) -> (TlsStream, client::TlsStream<TcpStream>) {
        let (socket, client) = sockets().await;
        let (stream, client) = self.shake_hands(socket, client).await;
        (stream.unwrap(), client.unwrap())
    }

    async fn shake_hands(
        &self,
        socket: TcpStream,
        client: TcpStream,
    ) -> (
        io::Result<TlsStream>,
        io::Result<client::TlsStream<TcpStream>>,
    ) {
        let accept = TlsStream::accept(self.server.clone(), socket);
        soon(async { tokio::join!(accept, self.greet(client)) }).await
    }

    async fn greet<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        socket: S,
    ) -> io::Result<client::TlsStream<S>> {
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(self.client.clone())
            .connect(name, socket)
            .await
    }
}

fn certificate(name: &str) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    (made.cert.der().clone(), PrivateKeyDer::Pkcs8(key))
}

fn roots(certificate: &CertificateDer<'static>) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    roots
}

async fn sockets() -> (TcpStream, TcpStream) {
    const BUFFER_BYTES: u32 = 8 * 1024;
    let listening = TcpSocket::new_v4().unwrap();
    listening.set_send_buffer_size(BUFFER_BYTES).unwrap();
    listening.set_recv_buffer_size(BUFFER_BYTES).unwrap();
    listening.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener: TcpListener = listening.listen(1).unwrap();
    let calling = TcpSocket::new_v4().unwrap();
    calling.set_send_buffer_size(BUFFER_BYTES).unwrap();
    calling.set_recv_buffer_size(BUFFER_BYTES).unwrap();
    let address = listener.local_addr().unwrap();
    let (accepted, called) = tokio::join!(listener.accept(), calling.connect(address));
    let called = called.unwrap();
    called.set_nodelay(true).unwrap();
    (accepted.unwrap().0, called)
}

/// What does not come soon does not come at all.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), work)
        .await
        .expect("it hangs")
}

/// Sends and reads the same at the same time, over two halves.
async fn exchange(stream: impl AsyncRead + AsyncWrite, sent: &[u8]) -> Vec<u8> {
    let mut arrived = vec![0; sent.len()];
    let (mut reads, mut writes) = tokio::io::split(stream);
    let write = async {
        writes.write_all(sent).await?;
        writes.flush().await
    };
    let (wrote, read) = soon(async { tokio::join!(write, reads.read_exact(&mut arrived)) }).await;
    wrote.unwrap();
    read.unwrap();
    arrived
}

/// Bytes in which no two places look alike.
fn text(count: usize) -> Vec<u8> {
    (0_u32..).flat_map(u32::to_be_bytes).take(count).collect()
}

/// Lengths around those at which buffers and records end.
const LENGTHS: &[usize] = &[
    0, 1, 22, 255, 256, 4_095, 4_096, 16_383, 16_384, 16_385, 16_393, 18_437, 65_535, 65_536,
    65_537, 300_000, 3_000_000,
];

#[tokio::test]
async fn what_is_sent_arrives_in_both_directions_at_once() {
    for version in [TLS12, TLS13] {
        let ends = Ends::new(version);
        let (mut stream, mut client) = ends.connect().await;
        assert_eq!(stream.protocol(), Some(&b"h2"[..]));
        assert_eq!(stream.certificate(), Some(&ends.client_certificate));
        assert_eq!(stream.session.held_bytes(), 0, "after the handshake");
        for &count in LENGTHS {
            let sent = text(count);
            let (at_server, at_client) =
                tokio::join!(exchange(&mut stream, &sent), exchange(&mut client, &sent));
            assert!(at_server == sent && at_client == sent, "{count} bytes");
        }
        assert_eq!(stream.session.held_bytes(), 0, "while nothing is under way");
    }
}

#[tokio::test]
async fn parts_go_out_together_and_in_order() {
    let (mut stream, mut client) = Ends::new(TLS13).connect().await;
    let sent = text(100_000);
    let parts = [
        IoSlice::new(&[]),
        IoSlice::new(&sent[..9]),
        IoSlice::new(&sent[9..30_000]),
        IoSlice::new(&[]),
        IoSlice::new(&sent[30_000..]),
    ];
    let count = stream.write_vectored(&parts).await.unwrap();
    assert_eq!(count, 64 * 1024, "as much as is sealed at a time");
    let mut arrived = vec![0; count];
    let both = async { tokio::join!(stream.flush(), client.read_exact(&mut arrived)) };
    let (flushed, read) = soon(both).await;
    flushed.unwrap();
    read.unwrap();
    assert!(arrived == sent[..count]);
    let count = stream.write_vectored(&parts[..2]).await.unwrap();
    assert_eq!(count, 9);
    assert_eq!(stream.write_vectored(&parts[..1]).await.unwrap(), 0);
    client.read_exact(&mut arrived[..9]).await.unwrap();
    assert!(arrived[..9] == sent[..9]);
}

#[tokio::test]
async fn who_reads_little_at_a_time_gets_all() {
    let (mut stream, mut client) = Ends::new(TLS13).connect().await;
    let sent = text(50_000);
    let mut arrived = Vec::new();
    let write = async {
        client.write_all(&sent).await?;
        client.flush().await
    };
    let read = async {
        let mut some = [0; 7];
        while arrived.len() < sent.len() {
            let count = stream.read(&mut some).await.unwrap();
            arrived.extend_from_slice(&some[..count]);
        }
    };
    let (wrote, ()) = soon(async { tokio::join!(write, read) }).await;
    wrote.unwrap();
    assert!(arrived == sent);
}

#[tokio::test]
async fn a_client_that_does_not_read_costs_little_and_loses_nothing() {
    let (mut stream, mut client) = Ends::new(TLS13).connect().await;
    let sent = text(1_000);
    let mut count = 0;
    // Nothing is ready at once only when neither the socket nor the stream takes more.
    while tokio::time::timeout(Duration::from_millis(200), stream.write_all(&sent))
        .await
        .is_ok()
    {
        count += 1;
        assert!(count < 100_000, "somebody keeps it all");
    }
    let held = stream.session.held_bytes();
    assert!((1..70_000).contains(&held), "{held} bytes");
    let mut arrived = vec![0; count * sent.len()];
    let both = async { tokio::join!(stream.flush(), client.read_exact(&mut arrived)) };
    let (flushed, read) = soon(both).await;
    flushed.unwrap();
    read.unwrap();
    assert!(arrived.chunks(sent.len()).all(|chunk| chunk == sent));
    assert_eq!(stream.session.held_bytes(), 0);
}

#[tokio::test]
async fn a_handshake_in_small_pieces_is_understood() {
    for version in [TLS12, TLS13] {
        let ends = Ends::with(version, |client| client.max_fragment_size = Some(64));
        let (mut stream, mut client) = ends.connect().await;
        assert_eq!(stream.certificate(), Some(&ends.client_certificate));
        client.write_all(b"hello").await.unwrap();
        let mut arrived = [0; 5];
        stream.read_exact(&mut arrived).await.unwrap();
        assert_eq!(&arrived, b"hello");
    }
}

#[tokio::test]
async fn both_sides_say_farewell() {
    for version in [TLS12, TLS13] {
        let (mut stream, mut client) = Ends::new(version).connect().await;
        client.write_all(b"last words").await.unwrap();
        client.shutdown().await.unwrap();
        let mut arrived = Vec::new();
        soon(stream.read_to_end(&mut arrived)).await.unwrap();
        assert_eq!(arrived, b"last words");
        // Who has nothing more to say may still listen.
        stream.write_all(b"farewell").await.unwrap();
        stream.shutdown().await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(
            stream.write(b"x").await.unwrap_err().kind(),
            ErrorKind::BrokenPipe
        );
        let mut arrived = Vec::new();
        soon(client.read_to_end(&mut arrived)).await.unwrap();
        assert_eq!(arrived, b"farewell");
        let (socket, _) = client.get_mut();
        assert_eq!(soon(socket.read(&mut [0])).await.unwrap(), 0, "hung up");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn halves_in_tasks_of_their_own_do_not_wake_each_other_in_vain() {
    const CONNECTIONS: usize = 20;
    let talk = |version| async move {
        let (stream, client) = Ends::new(version).connect().await;
        let sent = text(500_000);
        let (mut reads, mut writes) = tokio::io::split(stream);
        let text = sent.clone();
        let writing = tokio::spawn(async move {
            for part in text.chunks(11_111) {
                writes.write_all(part).await.unwrap();
            }
            writes.flush().await.unwrap();
            writes
        });
        let mut arrived = vec![0; sent.len()];
        let reading = tokio::spawn(async move {
            reads.read_exact(&mut arrived).await.unwrap();
            (reads, arrived)
        });
        assert!(exchange(client, &sent).await == sent);
        let (reads, arrived) = soon(reading).await.unwrap();
        let stream = reads.unsplit(soon(writing).await.unwrap());
        assert!(arrived == sent);
        assert_eq!(stream.session.held_bytes(), 0);
    };
    let talks: Vec<_> = [TLS12, TLS13]
        .into_iter()
        .cycle()
        .take(CONNECTIONS)
        .map(|version| tokio::spawn(talk(version)))
        .collect();
    for talk in talks {
        talk.await.unwrap();
    }
}
