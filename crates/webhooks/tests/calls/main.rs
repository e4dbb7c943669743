//! Calls to real servers over real TLS.

mod connections;
mod failures;
mod server;
mod verification;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rhumb_webhooks::{Address, CallError, Client, Resolver, Service, Target};

use server::Server;

/// Long enough for what should work, also on a busy machine.
const PATIENT: Duration = Duration::from_secs(10);
/// Long enough for a server to be slow, short enough to wait for.
const HASTY: Duration = Duration::from_millis(400);

/// Where the one service is, as the test last said.
#[derive(Default)]
struct Directory(Mutex<Vec<Address>>);

impl Directory {
    fn put(&self, servers: &[&Server]) {
        let addresses = servers.iter().map(|server| at(server.address.port()));
        *self.0.lock().unwrap() = addresses.collect();
    }
}

impl Resolver for Directory {
    fn resolve(&self, service: &Service) -> Result<Vec<Address>, String> {
        let addresses = self.0.lock().unwrap().clone();
        if addresses.is_empty() {
            return Err(format!("service {:?} not found", service.name));
        }
        Ok(addresses)
    }
}

fn at(port: u16) -> Address {
    Address {
        host: "127.0.0.1".into(),
        port,
    }
}

fn client() -> Client {
    Client::new(Arc::new(Directory::default()))
}

fn by_url(server: &Server, ca_bundle: &str) -> Target {
    Target::url(&server.url(), Some(ca_bundle.as_bytes())).unwrap()
}

fn by_service(ca_bundle: &str) -> Target {
    let service = Service {
        namespace: "ns".into(),
        name: "hook".into(),
        port: 443,
    };
    Target::service(service, Some("/path"), Some(ca_bundle.as_bytes())).unwrap()
}

async fn call(client: &Client, target: &Target) -> Result<Bytes, CallError> {
    client.post(target, "{}".into(), PATIENT).await
}

/// The error of a call to a server by its URL, with the server's address as `SERVER`.
async fn failure(server: &Server, ca_bundle: &str, timeout: Duration) -> String {
    let target = by_url(server, ca_bundle);
    let outcome = client().post(&target, "{}".into(), timeout).await;
    let text = outcome.unwrap_err().to_string();
    text.replace(&server.address.to_string(), "SERVER")
}
