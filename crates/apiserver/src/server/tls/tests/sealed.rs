//! Records that are sealed as they should be, with contents that no honest client sends.

use rustls::crypto::cipher::{MessageEncrypter, OutboundChunks, OutboundPlainMessage};
use rustls::{ConnectionTrafficSecrets, ContentType, ProtocolVersion, SupportedCipherSuite};

use super::*;

/// A client whose keys are known.
struct Forger {
    socket: TcpStream,
    keys: Box<dyn MessageEncrypter>,
    sequence: u64,
}

/// A message that asks for nothing but says that keys change.
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

const FATAL_ALERT: [u8; 2] = [2, 80];

impl Forger {
    async fn connect() -> (TlsStream, Forger) {
        let ends = Ends::with(TLS13, |client| client.enable_secret_extraction = true);
        let (mut stream, mut client) = ends.connect().await;
        // What comes before this is read with it.
        stream.write_all(b"x").await.unwrap();
        soon(client.read_exact(&mut [0])).await.unwrap();
        let (socket, client) = client.into_inner();
        let suite = client.negotiated_cipher_suite().unwrap();
        let (sequence, secrets) = client.dangerous_extract_secrets().unwrap().tx;
        let (ConnectionTrafficSecrets::Aes128Gcm { key, iv }
        | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
        | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv }) = secrets
        else {
            panic!("a cipher that is new here");
        };
        let SupportedCipherSuite::Tls13(suite) = suite else {
            panic!("TLS 1.3 was asked for");
        };
        let forger = Forger {
            socket,
            keys: suite.aead_alg.encrypter(key, iv),
            sequence,
        };
        (stream, forger)
    }

    fn record(&mut self, kind: ContentType, payload: &[u8]) -> Vec<u8> {
        let message = OutboundPlainMessage {
            typ: kind,
            version: ProtocolVersion::TLSv1_2,
            payload: OutboundChunks::Single(payload),
        };
        let record = self.keys.encrypt(message, self.sequence).unwrap();
        self.sequence += 1;
        record.encode()
    }

    async fn send(&mut self, kind: ContentType, payload: &[u8]) {
        let record = self.record(kind, payload);
        soon(self.socket.write_all(&record)).await.unwrap();
    }
}

/// Whether there is nothing to read yet.
async fn reads_nothing(stream: &mut TlsStream) -> bool {
    let mut one = [0];
    let read = tokio::time::timeout(Duration::from_millis(20), stream.read(&mut one));
    read.await.is_err()
}

#[tokio::test]
async fn what_came_before_an_error_is_read_before_it() {
    let (mut stream, mut forger) = Forger::connect().await;
    let sent = text(6_000);
    let mut bytes: Vec<u8> = sent
        .chunks(2_000)
        .flat_map(|chunk| forger.record(ContentType::ApplicationData, chunk))
        .collect();
    bytes.extend(forger.record(ContentType::Alert, &FATAL_ALERT));
    soon(forger.socket.write_all(&bytes)).await.unwrap();
    let mut arrived = Vec::new();
    let error = loop {
        let mut some = [0; 100];
        match soon(stream.read(&mut some)).await {
            Ok(count) => arrived.extend_from_slice(&some[..count]),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert!(arrived == sent, "{} bytes", arrived.len());
    assert_eq!(stream.session.held_bytes(), 0);
}

#[tokio::test]
async fn a_message_in_pieces_is_kept_while_the_server_writes() {
    let (mut stream, mut forger) = Forger::connect().await;
    for byte in KEY_UPDATE {
        assert!(reads_nothing(&mut stream).await);
        stream.write_all(b"hello").await.unwrap();
        forger.send(ContentType::Handshake, &[byte]).await;
    }
    assert!(reads_nothing(&mut stream).await);
    assert_eq!(stream.session.held_bytes(), 0, "it was understood");
}

#[tokio::test]
async fn no_message_behind_the_handshake_is_long() {
    let (mut stream, mut forger) = Forger::connect().await;
    let mut message = KEY_UPDATE[..1].to_vec();
    message.extend([0, 0xff, 0]);
    message.resize(scratch::READ_MAX + 1, 0);
    for part in message.chunks(3_000) {
        forger.send(ContentType::Handshake, part).await;
    }
    let error = soon(stream.read(&mut [0])).await.unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
}

#[tokio::test]
async fn empty_messages_do_not_pile_up_without_end() {
    let (mut stream, mut forger) = Forger::connect().await;
    let mut rounds = 0_u16;
    let error = loop {
        forger.send(ContentType::Handshake, &[]).await;
        forger.send(ContentType::ApplicationData, b"x").await;
        if let Err(error) = soon(stream.read(&mut [0])).await {
            break error;
        }
        rounds += 1;
        assert!(rounds < 2_000, "{} bytes", stream.session.held_bytes());
    };
    assert_eq!(error.kind(), ErrorKind::InvalidData);
}

#[tokio::test]
async fn whatever_is_sealed_the_stream_stands_or_ends() {
    const ROUNDS: u32 = 60;
    for seed in 0..ROUNDS {
        let mut dice = Dice(seed);
        let (mut stream, mut forger) = Forger::connect().await;
        let mut failed = false;
        for _ in 0..20 {
            let kind = match dice.throw(8) {
                0 | 1 => ContentType::Handshake,
                2 => ContentType::Alert,
                3 => ContentType::ChangeCipherSpec,
                _ => ContentType::ApplicationData,
            };
            let payload = match dice.throw(6) {
                0 => KEY_UPDATE.to_vec(),
                1 => KEY_UPDATE[..4].to_vec(),
                2 => vec![1, 90],
                3 => Vec::new(),
                _ => vec![9; dice.throw(3_000)],
            };
            let record = forger.record(kind, &payload);
            let cut = match dice.throw(30) {
                0 => dice.throw(record.len()),
                _ => record.len(),
            };
            if forger.socket.write_all(&record[..cut]).await.is_err() {
                break;
            }
            let mut some = vec![0; 1 + dice.throw(3_000)];
            let patience = Duration::from_millis(1);
            if let Ok(read) = tokio::time::timeout(patience, stream.read(&mut some)).await {
                failed |= read.is_err();
            }
            let wrote = stream.write(b"x").await;
            assert!(wrote.is_err() || !failed, "it is alive again");
            failed |= wrote.is_err();
            assert!(stream.session.held_bytes() < 60_000);
        }
        let _ = soon(stream.shutdown()).await;
    }
}

/// Numbers that are the same each time.
struct Dice(u32);

impl Dice {
    fn throw(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % sides
    }
}
