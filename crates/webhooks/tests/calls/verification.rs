//! Whose certificates are believed, and what is said of those that are not.

use rcgen::{ExtendedKeyUsagePurpose, SanType, date_time_ymd};

use crate::server::{Authority, Identity, Server};
use crate::{Directory, PATIENT, by_service, by_url, call, client, failure};
use rhumb_webhooks::{Client, Target};
use std::sync::Arc;

async fn refused(identity: &Identity, ca_bundle: &str) -> String {
    let server = Server::agreeing(identity).await;
    let text = failure(&server, ca_bundle, PATIENT).await;
    let rest = text.strip_prefix("Post \"https://SERVER/path?timeout=10s\": ");
    rest.unwrap_or(&text).to_owned()
}

#[tokio::test]
async fn certificates_that_lead_to_the_bundle_are_believed() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = Server::agreeing(&authority.identity(|_| {})).await;
    let clutter = format!("# ours\n{}\n{}", other.pem(), authority.pem());
    for bundle in [authority.pem(), clutter] {
        let answer = call(&client(), &by_url(&server, &bundle)).await;
        assert_eq!(answer.unwrap(), "yes");
    }
}

#[tokio::test]
async fn a_certificate_that_is_in_the_bundle_itself_is_believed() {
    let identity = Identity::self_signed(|_| {});
    let server = Server::agreeing(&identity).await;
    let answer = call(&client(), &by_url(&server, &identity.pem)).await;
    assert_eq!(answer.unwrap(), "yes");
}

#[tokio::test]
async fn others_are_not_and_the_error_says_why() {
    let authority = Authority::new();
    let good = authority.identity(|_| {});
    assert_eq!(
        refused(&good, &Authority::new().pem()).await,
        "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    );
    let server_names = |names: &[&str]| {
        let names = names.iter().map(|name| name.parse::<std::net::IpAddr>());
        let names: Vec<_> = names.map(|ip| SanType::IpAddress(ip.unwrap())).collect();
        authority.identity(|params| params.subject_alt_names = names)
    };
    assert_eq!(
        refused(&server_names(&["10.0.0.1", "10.0.0.2"]), &authority.pem()).await,
        "tls: failed to verify certificate: x509: certificate is valid for 10.0.0.1, 10.0.0.2, not 127.0.0.1"
    );
    assert_eq!(
        refused(&server_names(&[]), &authority.pem()).await,
        "tls: failed to verify certificate: x509: cannot validate certificate for 127.0.0.1 because it doesn't \
         contain any IP SANs"
    );
    let client_only = authority.identity(|params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    assert_eq!(
        refused(&client_only, &authority.pem()).await,
        "tls: failed to verify certificate: x509: certificate specifies an incompatible key usage"
    );
}

#[tokio::test]
async fn expired_and_early_certificates_are_told_with_their_times() {
    let authority = Authority::new();
    let expired = |params: &mut rcgen::CertificateParams| {
        params.not_after = date_time_ymd(2020, 1, 2);
    };
    let early = |params: &mut rcgen::CertificateParams| {
        params.not_before = date_time_ymd(2100, 1, 2);
    };
    let signed = (authority.identity(expired), authority.identity(early));
    let listed = (Identity::self_signed(expired), Identity::self_signed(early));
    let begins = "tls: failed to verify certificate: x509: certificate has expired or is not yet valid: \
                  current time 20";
    for (bundle, (expired, early)) in [(Some(authority.pem()), signed), (None, listed)] {
        let text = refused(&expired, bundle.as_ref().unwrap_or(&expired.pem)).await;
        assert!(text.starts_with(begins), "{text}");
        assert!(text.ends_with("Z is after 2020-01-02T00:00:00Z"), "{text}");
        let text = refused(&early, bundle.as_ref().unwrap_or(&early.pem)).await;
        assert!(text.starts_with(begins), "{text}");
        assert!(text.ends_with("Z is before 2100-01-02T00:00:00Z"), "{text}");
    }
}

#[tokio::test]
async fn being_in_the_bundle_is_not_enough_for_another_name_or_purpose() {
    let elsewhere = Identity::self_signed(|params| {
        params.subject_alt_names = vec![SanType::DnsName("a.example".try_into().unwrap())];
    });
    let client_only = Identity::self_signed(|params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    for (identity, expect) in [
        (elsewhere, "because it doesn't contain any IP SANs"),
        (client_only, "incompatible key usage"),
    ] {
        let text = refused(&identity, &identity.pem).await;
        assert!(text.ends_with(expect), "{text}");
    }
}

#[tokio::test]
async fn a_service_must_have_a_certificate_for_its_own_name() {
    let authority = Authority::new();
    let named = |name: &str| {
        let name = SanType::DnsName(name.try_into().unwrap());
        authority.identity(|params| params.subject_alt_names = vec![name])
    };
    let right = Server::agreeing(&named("hook.ns.svc")).await;
    let wrong = Server::agreeing(&named("other.ns.svc")).await;
    let directory = Arc::new(Directory::default());
    let client = Client::new(directory.clone());

    directory.put(&[&right]);
    let target = by_service(&authority.pem());
    assert_eq!(call(&client, &target).await.unwrap(), "yes");

    directory.put(&[&wrong]);
    assert_eq!(
        call(&client, &target).await.unwrap_err().to_string(),
        "Post \"https://hook.ns.svc:443/path?timeout=10s\": tls: failed to verify certificate: x509: certificate \
         is valid for other.ns.svc, not hook.ns.svc"
    );
}

#[tokio::test]
async fn without_a_bundle_the_roots_of_the_system_are_asked() {
    let server = Server::agreeing(&Authority::new().identity(|_| {})).await;
    let target = Target::url(&server.url(), None).unwrap();
    let text = call(&client(), &target).await.unwrap_err().to_string();
    assert!(
        text.contains("certificate signed by unknown authority")
            || text == "unable to load root certificates: this machine has none",
        "{text}"
    );
}

#[tokio::test]
async fn a_bundle_without_certificates_is_an_error() {
    let server = Server::agreeing(&Authority::new().identity(|_| {})).await;
    assert_eq!(
        failure(&server, "nothing", PATIENT).await,
        "unable to load root certificates: unable to parse bytes as PEM block"
    );
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn another_bundle_counts_from_the_next_call_on() {
    let (old, new) = (Authority::new(), Authority::new());
    let server = Server::agreeing(&old.identity(|_| {})).await;
    let client = client();
    let trusted = by_url(&server, &old.pem());
    assert!(call(&client, &trusted).await.is_ok());
    let both = by_url(&server, &format!("{}{}", old.pem(), new.pem()));
    assert!(call(&client, &both).await.is_ok());
    assert_eq!(server.connections(), 2);

    // The connection that the old authority vouched for still stands, and must not be used.
    let distrusted = by_url(&server, &new.pem());
    let text = call(&client, &distrusted).await.unwrap_err().to_string();
    assert!(text.ends_with("signed by unknown authority"), "{text}");
    assert!(call(&client, &trusted).await.is_ok());
    assert_eq!(server.connections(), 3);
}
