//! Clients that do not keep to the rules.

use super::*;

/// The first byte of a record that says what is wrong.
const ALERT: u8 = 21;

/// Sends bytes in place of a handshake; gives what comes back.
async fn refused(bytes: &[u8]) -> (io::Error, Vec<u8>) {
    let ends = Ends::new(TLS13);
    let (socket, mut client) = sockets().await;
    let accept = async {
        let error = TlsStream::accept(ends.server.clone(), socket).await;
        error.expect_err("no handshake")
    };
    let talk = async {
        let _ = client.write_all(bytes).await;
        let _ = client.shutdown().await;
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer).await;
        answer
    };
    soon(async { tokio::join!(accept, talk) }).await
}

#[tokio::test]
async fn who_speaks_no_tls_is_told_so() {
    let (error, answer) = refused(b"GET /version HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert_eq!(answer.first(), Some(&ALERT), "{answer:?}");
}

#[tokio::test]
async fn who_says_nothing_or_half_a_record_hung_up() {
    for bytes in [&[][..], &[22], &[22, 3, 1, 0, 200, 1, 0]] {
        let (error, _) = refused(bytes).await;
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{bytes:?}");
    }
}

#[tokio::test]
async fn a_record_that_is_too_long_is_refused_by_its_header() {
    let (error, answer) = refused(&[22, 3, 1, 0xff, 0xff]).await;
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert_eq!(answer.first(), Some(&ALERT));
}

#[tokio::test]
async fn a_message_in_too_many_pieces_is_given_up() {
    // A greeting as long as TLS would have it, a byte in each record.
    let mut greeting = vec![1, 0, 0xff, 0];
    greeting.resize(4 + 0xff00, 0);
    let bytes: Vec<u8> = greeting
        .iter()
        .flat_map(|byte| [22, 3, 1, 0, 1, *byte])
        .collect();
    let (error, _) = refused(&bytes).await;
    assert!(error.to_string().contains("too long"), "{error}");
}

#[tokio::test]
async fn a_client_without_the_right_certificate_is_told_so() {
    let ends = Ends::new(TLS13);
    let stranger = Ends::new(TLS13);
    let (socket, client) = sockets().await;
    let ends = Ends {
        client: {
            let mut config = ClientConfig::clone(&ends.client);
            config.client_auth_cert_resolver = stranger.client.client_auth_cert_resolver.clone();
            Arc::new(config)
        },
        ..ends
    };
    let (stream, client) = ends.shake_hands(socket, client).await;
    assert_eq!(stream.unwrap_err().kind(), ErrorKind::InvalidData);
    // With TLS 1.3 a client thinks that all is well until it reads.
    let error = soon(client.unwrap().read(&mut [0])).await.unwrap_err();
    assert!(error.to_string().contains("alert"), "{error}");
}

#[tokio::test]
async fn who_hangs_up_without_farewell_is_noticed() {
    let (mut stream, mut client) = Ends::new(TLS13).connect().await;
    client.write_all(b"half a").await.unwrap();
    client.get_mut().0.shutdown().await.unwrap();
    let mut arrived = Vec::new();
    let error = soon(stream.read_to_end(&mut arrived)).await.unwrap_err();
    assert_eq!(arrived, b"half a");
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    let error = stream.read(&mut [0]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn what_is_not_sealed_ends_a_connection_with_an_alert() {
    let (mut stream, mut client) = Ends::new(TLS13).connect().await;
    // A record of application data that nobody with the keys made.
    let mut forged = vec![23, 3, 3, 0, 40];
    forged.extend_from_slice(&[7; 40]);
    client.get_mut().0.write_all(&forged).await.unwrap();
    let error = soon(stream.read(&mut [0; 10])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    for _ in 0..2 {
        let error = stream.read(&mut [0; 10]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        let error = stream.write(b"x").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }
    stream.shutdown().await.unwrap();
    let error = soon(client.read(&mut [0])).await.unwrap_err();
    assert!(error.to_string().contains("alert"), "{error}");
}

#[tokio::test]
async fn what_comes_behind_a_farewell_is_nobodys() {
    let (mut stream, mut client) = Ends::new(TLS13).connect().await;
    client.get_mut().1.send_close_notify();
    client.flush().await.unwrap();
    let (socket, _) = client.get_mut();
    socket.write_all(&[23, 3, 3, 0, 40, 1, 2, 3]).await.unwrap();
    assert_eq!(soon(stream.read(&mut [0; 10])).await.unwrap(), 0);
    assert_eq!(soon(stream.read(&mut [0; 10])).await.unwrap(), 0);
    stream.write_all(b"still here").await.unwrap();
    assert_eq!(stream.session.held_bytes(), 0);
}

#[tokio::test]
async fn a_trickle_is_put_together() {
    for version in [TLS12, TLS13] {
        let ends = Ends::new(version);
        let (socket, client) = sockets().await;
        let talk = async {
            let mut client = ends
                .greet(damage::Altered::new(client, damage::trickle))
                .await
                .unwrap();
            client.write_all(&text(2_000)).await.unwrap();
            client.flush().await.unwrap();
            client
        };
        let accept = async {
            let mut stream = TlsStream::accept(ends.server.clone(), socket).await?;
            let mut arrived = vec![0; 2_000];
            stream.read_exact(&mut arrived).await?;
            assert!(arrived == text(2_000));
            io::Result::Ok(stream)
        };
        let (stream, _client) = soon(async { tokio::join!(accept, talk) }).await;
        assert_eq!(stream.unwrap().session.held_bytes(), 0);
    }
}
