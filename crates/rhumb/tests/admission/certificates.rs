//! Expired webhook certificates and changed authorities: the error names them, and no restart is needed.

use http::StatusCode;
use rcgen::date_time_ymd;
use serde_json::json;

use crate::cluster::{Validating, WebhookTestCluster, message};
use crate::webhook::TestCertificateAuthority;
use crate::webhook_builder::WebhookBuilder;

const PROTOCOLS: &[&str] = &["h2", "http/1.1"];

/// A webhook that is called with the CA bundle of `authority`.
fn trusting(cluster: &WebhookTestCluster, authority: &TestCertificateAuthority) -> WebhookBuilder {
    let mut client_config = cluster.webhook.client_config("/hook");
    client_config["caBundle"] = json!(authority.bundle());
    WebhookBuilder::new("hook", client_config)
}

async fn refused(cluster: &WebhookTestCluster, name: &str) -> String {
    let response = cluster.create_config_map(name).await;
    assert_eq!(response.code, StatusCode::INTERNAL_SERVER_ERROR);
    let message = message(&response);
    let names = "Internal error occurred: failed calling webhook \"hook.example.com\": failed to call webhook: Post ";
    assert!(message.starts_with(names), "{message}");
    message
}

async fn assert_created(cluster: &WebhookTestCluster, name: &str) {
    let response = cluster.create_config_map(name).await;
    assert_eq!(response.code, StatusCode::CREATED, "{}", response.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_certificate_is_reported_until_renewed() {
    let cluster = WebhookTestCluster::start().await;
    let webhook = &cluster.webhook;
    webhook.use_certificate(&webhook.authority, PROTOCOLS, |params| {
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

    webhook.use_certificate(&webhook.authority, PROTOCOLS, |_| {});
    assert_created(&cluster, "renewed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_authority_is_reported_until_the_bundle_is_replaced() {
    let cluster = WebhookTestCluster::start().await;
    let webhook = &cluster.webhook;
    let (old, new) = (&webhook.authority, TestCertificateAuthority::new());
    cluster
        .register(Validating, "hook", [trusting(&cluster, old)])
        .await;
    assert_created(&cluster, "before").await;

    // The new bundle is configured before the webhook server has a certificate of the new authority.
    cluster
        .replace(Validating, "hook", [trusting(&cluster, &new)])
        .await;
    let message = refused(&cluster, "between").await;
    let cause = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    assert!(message.ends_with(cause), "{message}");

    webhook.use_certificate(&new, PROTOCOLS, |_| {});
    assert_created(&cluster, "after").await;

    // Certificates of the old authority are no longer trusted.
    cluster
        .replace(Validating, "hook", [trusting(&cluster, old)])
        .await;
    webhook.close_connections();
    let message = refused(&cluster, "back").await;
    assert!(message.ends_with(cause), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moved_webhook_is_called_at_its_new_address() {
    let cluster = WebhookTestCluster::start().await;
    let elsewhere = crate::webhook::WebhookServer::start().await;
    cluster
        .register(Validating, "hook", [cluster.hook("hook")])
        .await;
    assert_created(&cluster, "first").await;
    let moved = WebhookBuilder::new("hook", elsewhere.client_config("/hook"));
    cluster.replace(Validating, "hook", [moved]).await;
    assert_created(&cluster, "second").await;
    assert_eq!(cluster.webhook.received("/hook").len(), 1);
    assert_eq!(elsewhere.received("/hook").len(), 1);
}
