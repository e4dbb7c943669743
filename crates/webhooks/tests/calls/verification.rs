//! Verification of server certificates, and the error texts of rejected ones.

use rcgen::{ExtendedKeyUsagePurpose, SanType, date_time_ymd};

use crate::server::{FakeWebhookServer, TestCertificateAuthority, TestServerCertificate};
use crate::{
    FakeServiceResolver, LONG_TIMEOUT, call, call_error, client, service_target, url_target,
};
use rhumb_webhooks::{WebhookClient, WebhookTarget};
use std::sync::Arc;

async fn tls_error(identity: &TestServerCertificate, ca_bundle: &str) -> String {
    let server = FakeWebhookServer::answering_yes(identity).await;
    let text = call_error(&server, ca_bundle, LONG_TIMEOUT).await;
    let rest = text.strip_prefix("Post \"https://SERVER/path?timeout=10s\": ");
    rest.unwrap_or(&text).to_owned()
}

#[tokio::test]
async fn certificates_issued_by_the_bundle_are_trusted() {
    let (authority, other) = (
        TestCertificateAuthority::new(),
        TestCertificateAuthority::new(),
    );
    let server = FakeWebhookServer::answering_yes(&authority.issue(|_| {})).await;
    let clutter = format!("# ours\n{}\n{}", other.pem(), authority.pem());
    for bundle in [authority.pem(), clutter] {
        let answer = call(&client(), &url_target(&server, &bundle)).await;
        assert_eq!(answer.unwrap(), "yes");
    }
}

#[tokio::test]
async fn certificate_contained_in_the_bundle_is_trusted() {
    let identity = TestServerCertificate::self_signed(|_| {});
    let server = FakeWebhookServer::answering_yes(&identity).await;
    let answer = call(&client(), &url_target(&server, &identity.pem)).await;
    assert_eq!(answer.unwrap(), "yes");
}

#[tokio::test]
async fn untrusted_certificates_fail_with_upstreams_error() {
    let authority = TestCertificateAuthority::new();
    let good = authority.issue(|_| {});
    assert_eq!(
        tls_error(&good, &TestCertificateAuthority::new().pem()).await,
        "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    );
    let server_names = |names: &[&str]| {
        let names = names.iter().map(|name| name.parse::<std::net::IpAddr>());
        let names: Vec<_> = names.map(|ip| SanType::IpAddress(ip.unwrap())).collect();
        authority.issue(|params| params.subject_alt_names = names)
    };
    assert_eq!(
        tls_error(&server_names(&["10.0.0.1", "10.0.0.2"]), &authority.pem()).await,
        "tls: failed to verify certificate: x509: certificate is valid for 10.0.0.1, 10.0.0.2, not 127.0.0.1"
    );
    assert_eq!(
        tls_error(&server_names(&[]), &authority.pem()).await,
        "tls: failed to verify certificate: x509: cannot validate certificate for 127.0.0.1 because it doesn't \
         contain any IP SANs"
    );
    let client_only = authority.issue(|params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    assert_eq!(
        tls_error(&client_only, &authority.pem()).await,
        "tls: failed to verify certificate: x509: certificate specifies an incompatible key usage"
    );
}

#[tokio::test]
async fn expired_and_future_certificates_are_rejected_with_their_times() {
    let authority = TestCertificateAuthority::new();
    let expired = |params: &mut rcgen::CertificateParams| {
        params.not_after = date_time_ymd(2020, 1, 2);
    };
    let early = |params: &mut rcgen::CertificateParams| {
        params.not_before = date_time_ymd(2100, 1, 2);
    };
    let signed = (authority.issue(expired), authority.issue(early));
    let listed = (
        TestServerCertificate::self_signed(expired),
        TestServerCertificate::self_signed(early),
    );
    let begins = "tls: failed to verify certificate: x509: certificate has expired or is not yet valid: \
                  current time 20";
    for (bundle, (expired, early)) in [(Some(authority.pem()), signed), (None, listed)] {
        let text = tls_error(&expired, bundle.as_ref().unwrap_or(&expired.pem)).await;
        assert!(text.starts_with(begins), "{text}");
        assert!(text.ends_with("Z is after 2020-01-02T00:00:00Z"), "{text}");
        let text = tls_error(&early, bundle.as_ref().unwrap_or(&early.pem)).await;
        assert!(text.starts_with(begins), "{text}");
        assert!(text.ends_with("Z is before 2100-01-02T00:00:00Z"), "{text}");
    }
}

#[tokio::test]
async fn certificate_in_the_bundle_must_match_name_and_purpose() {
    let elsewhere = TestServerCertificate::self_signed(|params| {
        params.subject_alt_names = vec![SanType::DnsName("a.example".try_into().unwrap())];
    });
    let client_only = TestServerCertificate::self_signed(|params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    for (identity, expect) in [
        (elsewhere, "because it doesn't contain any IP SANs"),
        (client_only, "incompatible key usage"),
    ] {
        let text = tls_error(&identity, &identity.pem).await;
        assert!(text.ends_with(expect), "{text}");
    }
}

#[tokio::test]
async fn service_certificate_must_match_the_service_name() {
    let authority = TestCertificateAuthority::new();
    let named = |name: &str| {
        let name = SanType::DnsName(name.try_into().unwrap());
        authority.issue(|params| params.subject_alt_names = vec![name])
    };
    let right = FakeWebhookServer::answering_yes(&named("hook.ns.svc")).await;
    let wrong = FakeWebhookServer::answering_yes(&named("other.ns.svc")).await;
    let directory = Arc::new(FakeServiceResolver::default());
    let client = WebhookClient::new(directory.clone());

    directory.set_servers(&[&right]);
    let target = service_target(&authority.pem());
    assert_eq!(call(&client, &target).await.unwrap(), "yes");

    directory.set_servers(&[&wrong]);
    assert_eq!(
        call(&client, &target).await.unwrap_err().to_string(),
        "Post \"https://hook.ns.svc:443/path?timeout=10s\": tls: failed to verify certificate: x509: certificate \
         is valid for other.ns.svc, not hook.ns.svc"
    );
}

#[tokio::test]
async fn without_a_bundle_system_roots_are_used() {
    let server =
        FakeWebhookServer::answering_yes(&TestCertificateAuthority::new().issue(|_| {})).await;
    let target = WebhookTarget::from_url(&server.url(), None).unwrap();
    let text = call(&client(), &target).await.unwrap_err().to_string();
    assert!(
        text.contains("certificate signed by unknown authority")
            || text == "unable to load root certificates: no system root certificates found",
        "{text}"
    );
}

#[tokio::test]
async fn a_bundle_without_certificates_is_an_error() {
    let server =
        FakeWebhookServer::answering_yes(&TestCertificateAuthority::new().issue(|_| {})).await;
    assert_eq!(
        call_error(&server, "nothing", LONG_TIMEOUT).await,
        "unable to load root certificates: unable to parse bytes as PEM block"
    );
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn changed_bundle_applies_to_the_next_call() {
    let (old, new) = (
        TestCertificateAuthority::new(),
        TestCertificateAuthority::new(),
    );
    let server = FakeWebhookServer::answering_yes(&old.issue(|_| {})).await;
    let client = client();
    let trusted = url_target(&server, &old.pem());
    assert!(call(&client, &trusted).await.is_ok());
    let both = url_target(&server, &format!("{}{}", old.pem(), new.pem()));
    assert!(call(&client, &both).await.is_ok());
    assert_eq!(server.connections(), 2);

    // The connection that was verified against the old CA is still open, and must not be used.
    let distrusted = url_target(&server, &new.pem());
    let text = call(&client, &distrusted).await.unwrap_err().to_string();
    assert!(text.ends_with("signed by unknown authority"), "{text}");
    assert!(call(&client, &trusted).await.is_ok());
    assert_eq!(server.connections(), 3);
}
