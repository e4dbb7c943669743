//! Keys that change on the way, and keys that are used up.

use rustls::crypto::CipherSuiteCommon;
use rustls::{SupportedCipherSuite, Tls12CipherSuite, Tls13CipherSuite};

use super::*;

impl Ends {
    /// A server that may use a key for so many records only, and that makes short ones.
    fn with_short_keys(
        version: &'static SupportedProtocolVersion,
        records_max: u64,
        record_bytes: Option<usize>,
    ) -> Ends {
        let mut provider = rustls::crypto::ring::default_provider();
        provider.cipher_suites = provider
            .cipher_suites
            .into_iter()
            .map(|suite| limited(suite, records_max))
            .collect();
        let ends = Ends::new(version);
        let mut server = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(ends.server.cert_resolver.clone());
        server.max_fragment_size = record_bytes;
        Ends {
            server: Arc::new(server),
            ..ends
        }
    }
}

/// The same, but for how often a key may be used.
fn limited(suite: SupportedCipherSuite, confidentiality_limit: u64) -> SupportedCipherSuite {
    let common = |of: &CipherSuiteCommon| CipherSuiteCommon {
        suite: of.suite,
        hash_provider: of.hash_provider,
        confidentiality_limit,
    };
    match suite {
        SupportedCipherSuite::Tls12(of) => {
            let common = common(&of.common);
            SupportedCipherSuite::Tls12(Box::leak(Box::new(Tls12CipherSuite { common, ..*of })))
        }
        SupportedCipherSuite::Tls13(of) => {
            let common = common(&of.common);
            SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite { common, ..*of })))
        }
    }
}

#[tokio::test]
async fn a_client_may_change_its_keys() {
    let (mut stream, mut client) = Ends::new(TLS13).connect().await;
    for round in 0..20_u8 {
        client.get_mut().1.refresh_traffic_keys().unwrap();
        let sent = [round];
        let (at_server, at_client) =
            tokio::join!(exchange(&mut stream, &sent), exchange(&mut client, &sent));
        assert!(at_server == sent && at_client == sent);
    }
}

#[tokio::test]
async fn the_servers_keys_change_before_they_are_used_up() {
    // With short records, one write takes more of them than a key is good for, and new keys need room of their own.
    for (records_max, record_bytes) in [(8, None), (50, None), (2_000, Some(64)), (100, Some(512))]
    {
        let ends = Ends::with_short_keys(TLS13, records_max, record_bytes);
        let (mut stream, mut client) = ends.connect().await;
        let sent = text(300_000);
        let (_, arrived) = tokio::join!(exchange(&mut stream, &sent), exchange(&mut client, &sent));
        assert!(arrived == sent, "{records_max} records, {record_bytes:?}");
        assert_eq!(stream.session.held_bytes(), 0);
    }
}

#[tokio::test]
async fn keys_that_are_used_up_and_cannot_change_end_a_connection_with_a_farewell() {
    let ends = Ends::with_short_keys(TLS12, 20, None);
    let (mut stream, mut client) = ends.connect().await;
    let mut count = 0;
    let error = loop {
        match stream.write(&[count]).await {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("exhausted"), "{error}");
    stream.shutdown().await.unwrap();
    let mut arrived = Vec::new();
    soon(client.read_to_end(&mut arrived)).await.unwrap();
    assert!(arrived.into_iter().eq(0..count), "{count}");
}
