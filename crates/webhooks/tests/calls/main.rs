//! Integration tests: webhook calls to local servers over TLS.

mod connections;
mod failures;
mod server;
mod verification;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rhumb_webhooks::{
    ServiceResolver, TargetAddress, TargetService, WebhookCallError, WebhookClient, WebhookTarget,
};

use server::FakeWebhookServer;

/// Timeout for calls that should succeed, also on a busy machine.
const LONG_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for calls that should time out.
const SHORT_TIMEOUT: Duration = Duration::from_millis(400);

/// Resolves every Service to the addresses set by the test.
#[derive(Default)]
struct FakeServiceResolver(Mutex<Vec<TargetAddress>>);

impl FakeServiceResolver {
    fn set_servers(&self, servers: &[&FakeWebhookServer]) {
        let addresses = servers.iter().map(|server| loopback(server.address.port()));
        *self.0.lock().unwrap() = addresses.collect();
    }
}

impl ServiceResolver for FakeServiceResolver {
    fn resolve(&self, service: &TargetService) -> Result<Vec<TargetAddress>, String> {
        let addresses = self.0.lock().unwrap().clone();
        if addresses.is_empty() {
            return Err(format!("service {:?} not found", service.name));
        }
        Ok(addresses)
    }
}

fn loopback(port: u16) -> TargetAddress {
    TargetAddress {
        host: "127.0.0.1".into(),
        port,
    }
}

fn client() -> WebhookClient {
    WebhookClient::new(Arc::new(FakeServiceResolver::default()))
}

fn url_target(server: &FakeWebhookServer, ca_bundle: &str) -> WebhookTarget {
    WebhookTarget::from_url(&server.url(), Some(ca_bundle.as_bytes())).unwrap()
}

fn service_target(ca_bundle: &str) -> WebhookTarget {
    let service = TargetService {
        namespace: "ns".into(),
        name: "hook".into(),
        port: 443,
    };
    WebhookTarget::from_service(service, Some("/path"), Some(ca_bundle.as_bytes())).unwrap()
}

async fn call(client: &WebhookClient, target: &WebhookTarget) -> Result<Bytes, WebhookCallError> {
    client.post(target, "{}".into(), LONG_TIMEOUT).await
}

/// The error text of a call by URL, with the server's address replaced by `SERVER`.
async fn call_error(server: &FakeWebhookServer, ca_bundle: &str, timeout: Duration) -> String {
    let target = url_target(server, ca_bundle);
    let outcome = client().post(&target, "{}".into(), timeout).await;
    let text = outcome.unwrap_err().to_string();
    text.replace(&server.address.to_string(), "SERVER")
}
