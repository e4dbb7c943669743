//! TLS and authentication, and the error messages for wrong configuration.

use std::path::{Path, PathBuf};

use etcd_client::{Client, Permission, PermissionType};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rhumb_store::etcd::{
    ClientCertificateFiles, EtcdConnectError, EtcdOptions, EtcdStore, EtcdTlsOptions,
    EtcdUserCredentials,
};
use rhumb_store::{Revision, Store};
use tempfile::TempDir;

use crate::{connect, error_text, next_set, put};
use rhumb_etcd_harness::EtcdServer;

/// PEM files of a CA with server and client certificates, and of a second CA.
pub(crate) struct TestCertificates {
    directory: TempDir,
}

impl TestCertificates {
    pub(crate) fn new() -> TestCertificates {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| {
            std::fs::write(directory.path().join(name), text).unwrap();
        };
        let (ca, issuer) = authority();
        write("ca.pem", ca);
        let (other, _) = authority();
        write("other-ca.pem", other);
        for (name, host) in [("server", "127.0.0.1"), ("client", "client")] {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new([host.to_owned()]).unwrap();
            params.extended_key_usages = vec![
                ExtendedKeyUsagePurpose::ServerAuth,
                ExtendedKeyUsagePurpose::ClientAuth,
            ];
            let cert = params.signed_by(&key, &issuer).unwrap();
            write(&format!("{name}.pem"), cert.pem());
            write(&format!("{name}-key.pem"), key.serialize_pem());
        }
        TestCertificates { directory }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn tls(&self) -> EtcdTlsOptions {
        EtcdTlsOptions {
            client: Some(ClientCertificateFiles {
                cert_file: self.file("client.pem"),
                key_file: self.file("client-key.pem"),
            }),
            ..EtcdTlsOptions::new(self.file("ca.pem"))
        }
    }

    pub(crate) async fn server(&self) -> EtcdServer {
        let path = |name: &str| self.file(name).to_str().unwrap().to_owned();
        let (ca, cert, key) = (path("ca.pem"), path("server.pem"), path("server-key.pem"));
        let arguments = [
            "--client-cert-auth",
            "--trusted-ca-file",
            &ca,
            "--cert-file",
            &cert,
            "--key-file",
            &key,
        ];
        EtcdServer::start_with("https", &arguments).await
    }
}

fn authority() -> (String, Issuer<'static, KeyPair>) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&key).unwrap().pem();
    (ca, Issuer::new(params, key))
}

pub(crate) async fn with_tls(
    endpoint: &str,
    tls: EtcdTlsOptions,
) -> Result<EtcdStore, EtcdConnectError> {
    let options = EtcdOptions {
        tls: Some(tls),
        ..EtcdOptions::new([endpoint])
    };
    EtcdStore::connect(options).await
}

pub(crate) async fn with_user(
    endpoint: &str,
    user: &str,
    password: &str,
) -> Result<EtcdStore, EtcdConnectError> {
    let options = EtcdOptions {
        credentials: Some(EtcdUserCredentials {
            user: user.to_owned(),
            password: password.to_owned(),
        }),
        ..EtcdOptions::new([endpoint])
    };
    EtcdStore::connect(options).await
}

/// Enables authentication with a root user and a user without permission for the outcome slots.
pub(crate) async fn enable_auth(server: &EtcdServer) {
    let mut client = Client::connect([server.endpoint()], None).await.unwrap();
    client.role_add("root").await.unwrap();
    client.user_add("root", "secret", None).await.unwrap();
    client.user_grant_role("root", "root").await.unwrap();
    client.role_add("narrow").await.unwrap();
    let all = Permission::new(PermissionType::Readwrite, "/a").with_prefix();
    client.role_grant_permission("narrow", all).await.unwrap();
    client.user_add("narrow", "secret", None).await.unwrap();
    client.user_grant_role("narrow", "narrow").await.unwrap();
    client.auth_enable().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_with_client_certificates_works() {
    let certificates = TestCertificates::new();
    let server = certificates.server().await;
    let store = with_tls(&server.endpoint(), certificates.tls())
        .await
        .unwrap();
    let mut stream = store.changes("/a", Revision::ZERO).await.unwrap();
    let revision = store.commit(put("/a", "1")).await.unwrap();
    assert_eq!(next_set(&mut *stream).await.revision, revision);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_errors_name_the_cause() {
    let certificates = TestCertificates::new();
    let server = certificates.server().await;
    let endpoint = server.endpoint();

    let tls = EtcdTlsOptions {
        ca_file: certificates.file("other-ca.pem"),
        ..certificates.tls()
    };
    let text = error_text(with_tls(&endpoint, tls).await);
    assert!(
        text.contains(&endpoint) && text.contains("not signed by") && text.contains("other-ca.pem"),
        "{text}"
    );

    let tls = EtcdTlsOptions {
        server_name: Some("etcd.example".to_owned()),
        ..certificates.tls()
    };
    let text = error_text(with_tls(&endpoint, tls).await);
    assert!(text.contains("another name"), "{text}");

    let tls = EtcdTlsOptions::new(certificates.file("ca.pem"));
    let text = error_text(with_tls(&endpoint, tls).await);
    assert!(text.contains("client certificate"), "{text}");

    let plain = endpoint.replace("https", "http");
    let text = error_text(EtcdStore::connect(EtcdOptions::new([plain])).await);
    assert!(text.contains("https://"), "{text}");
}

#[tokio::test]
async fn unusable_files_are_named() {
    let certificates = TestCertificates::new();
    std::fs::write(certificates.file("broken.pem"), "not a certificate").unwrap();
    let check = async |tls: EtcdTlsOptions, file: &Path| {
        let text = error_text(with_tls("https://127.0.0.1:1", tls).await);
        assert!(text.contains(file.to_str().unwrap()), "{text}");
    };
    for name in ["missing.pem", "broken.pem", "client-key.pem"] {
        let file = certificates.file(name);
        check(
            EtcdTlsOptions {
                ca_file: file.clone(),
                ..certificates.tls()
            },
            &file,
        )
        .await;
    }
    // A file without a key, and the key of another certificate.
    for name in ["client.pem", "server-key.pem"] {
        let key_file = certificates.file(name);
        let client = ClientCertificateFiles {
            cert_file: certificates.file("client.pem"),
            key_file: key_file.clone(),
        };
        let tls = EtcdTlsOptions {
            client: Some(client),
            ..certificates.tls()
        };
        check(tls, &key_file).await;
    }
}

#[tokio::test]
async fn unusable_endpoints_are_named() {
    let nowhere = {
        let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", held.local_addr().unwrap())
    };
    for (endpoint, expected) in [
        (nowhere.as_str(), "refused"),
        ("localhost:2379", "https://host:port"),
        ("https://localhost:2379", "CA file"),
        ("http://", "https://host:port"),
    ] {
        let text = error_text(EtcdStore::connect(EtcdOptions::new([endpoint])).await);
        assert!(text.contains(endpoint) && text.contains(expected), "{text}");
    }
    let text = error_text(EtcdStore::connect(EtcdOptions::new(["http://me:secret@host"])).await);
    assert!(!text.contains("secret"), "{text}");
    let text = error_text(EtcdStore::connect(EtcdOptions::new(Vec::<String>::new())).await);
    assert!(text.contains("no etcd endpoint"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_reachable_server_of_two_is_enough() {
    let server = EtcdServer::start().await;
    let mut gone = EtcdServer::start().await;
    gone.kill();
    let store = EtcdStore::connect(EtcdOptions::new([gone.endpoint(), server.endpoint()]))
        .await
        .unwrap();
    for index in 0..20 {
        store
            .commit(put(&format!("/a/{index}"), "1"))
            .await
            .unwrap();
        store.get("/a/0").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn valid_users_are_accepted_and_others_get_an_error_with_the_reason() {
    let server = EtcdServer::start().await;
    enable_auth(&server).await;
    let endpoint = server.endpoint();
    let store = with_user(&endpoint, "root", "secret").await.unwrap();
    store.commit(put("/a", "1")).await.unwrap();
    assert!(!format!("{store:?}").contains("secret"));

    let text = error_text(with_user(&endpoint, "root", "wrong").await);
    assert!(
        text.contains("password of the user \"root\"") && text.contains(&endpoint),
        "{text}"
    );
    let text = error_text(EtcdStore::connect(EtcdOptions::new([endpoint.as_str()])).await);
    assert!(text.contains("give a user and a password"), "{text}");
    let text = error_text(with_user(&endpoint, "narrow", "secret").await);
    assert!(text.contains("permission denied"), "{text}");
}

/// A restarted server does not know the tokens that it issued before; this simulates expired tokens.
#[tokio::test(flavor = "multi_thread")]
async fn expired_tokens_are_renewed() {
    let mut server = EtcdServer::start().await;
    enable_auth(&server).await;
    let store = with_user(&server.endpoint(), "root", "secret")
        .await
        .unwrap();
    let mut stream = store.changes("/a", Revision::ZERO).await.unwrap();
    for _ in 0..2 {
        server.kill();
        server.restart().await;
        let revision = match store.commit(put("/a", "1")).await {
            Ok(revision) => revision,
            // The broken connection may only be detected now.
            Err(error) if error.retryable() => store.commit(put("/a", "1")).await.unwrap(),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(next_set(&mut *stream).await.revision, revision);
        store.changes("/a", revision).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_for_a_server_without_authentication_are_reported() {
    let server = EtcdServer::start().await;
    let text = error_text(with_user(&server.endpoint(), "root", "secret").await);
    assert!(text.contains("leave the user out"), "{text}");
    drop(connect(&server.endpoint()).await);
}
