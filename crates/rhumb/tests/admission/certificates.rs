//! Certificates of webhooks that expire, and authorities that change: the error says so, and no restart is needed.

use http::StatusCode;
use rcgen::date_time_ymd;
use serde_json::json;

use crate::cluster::{Cluster, Validating, message};
use crate::hook::Hook;
use crate::webhook::Authority;

const PROTOCOLS: &[&str] = &["h2", "http/1.1"];

/// A webhook that is called with the certificates of `authority`.
fn trusting(cluster: &Cluster, authority: &Authority) -> Hook {
    let mut client_config = cluster.webhook.client_config("/hook");
    client_config["caBundle"] = json!(authority.bundle());
    Hook::new("hook", client_config)
}

async fn refused(cluster: &Cluster, name: &str) -> String {
    let made = cluster.make(name).await;
    assert_eq!(made.code, StatusCode::INTERNAL_SERVER_ERROR);
    let message = message(&made);
    let names = "Internal error occurred: failed calling webhook \"hook.example.com\": failed to call webhook: Post ";
    assert!(message.starts_with(names), "{message}");
    message
}

async fn made(cluster: &Cluster, name: &str) {
    let made = cluster.make(name).await;
    assert_eq!(made.code, StatusCode::CREATED, "{}", made.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_expired_is_told_and_a_new_one_is_enough() {
    let cluster = Cluster::start().await;
    let webhook = &cluster.webhook;
    webhook.show(&webhook.authority, PROTOCOLS, |params| {
        params.not_after = date_time_ymd(2021, 5, 6);
    });
    cluster
        .register(Validating, "hook", [cluster.hook("hook")])
        .await;
    let message = refused(&cluster, "early").await;
    let cause = "tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time ";
    assert!(message.contains(cause), "{message}");
    assert!(
        message.ends_with("Z is after 2021-05-06T00:00:00Z"),
        "{message}"
    );

    webhook.show(&webhook.authority, PROTOCOLS, |_| {});
    made(&cluster, "renewed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authority_that_changed_is_told_and_another_bundle_is_enough() {
    let cluster = Cluster::start().await;
    let webhook = &cluster.webhook;
    let (old, new) = (&webhook.authority, Authority::new());
    cluster
        .register(Validating, "hook", [trusting(&cluster, old)])
        .await;
    made(&cluster, "before").await;

    // Connections that stand are good. The server is told of the new authority before anything else is shown.
    cluster
        .replace(Validating, "hook", [trusting(&cluster, &new)])
        .await;
    let message = refused(&cluster, "between").await;
    let cause = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    assert!(message.ends_with(cause), "{message}");

    webhook.show(&new, PROTOCOLS, |_| {});
    made(&cluster, "after").await;

    // What the old authority vouched for counts no longer, though it once did.
    cluster
        .replace(Validating, "hook", [trusting(&cluster, old)])
        .await;
    webhook.end_connections();
    let message = refused(&cluster, "back").await;
    assert!(message.ends_with(cause), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_moved_is_found_at_its_new_address() {
    let cluster = Cluster::start().await;
    let elsewhere = crate::webhook::Webhook::start().await;
    cluster
        .register(Validating, "hook", [cluster.hook("hook")])
        .await;
    made(&cluster, "first").await;
    let moved = Hook::new("hook", elsewhere.client_config("/hook"));
    cluster.replace(Validating, "hook", [moved]).await;
    made(&cluster, "second").await;
    assert_eq!(cluster.webhook.asked("/hook").len(), 1);
    assert_eq!(elsewhere.asked("/hook").len(), 1);
}
