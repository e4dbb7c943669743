//! Requests to the API server of the same process: no socket, no TLS, and the caller is known.

use std::convert::Infallible;
use std::sync::Arc;

use kube::Client;
use kube::client::Body;
use rhumb_apiserver::server::{Peer, Service};

use rhumb_auth::{User, group, name};
use rhumb_controllers::Connect;

/// Where requests come from, as the audit log has it.
const ADDRESS: &str = "127.0.0.1";

#[derive(Debug)]
pub(crate) struct InProcess {
    service: Arc<Service>,
}

impl InProcess {
    pub(crate) fn new(service: Arc<Service>) -> InProcess {
        InProcess { service }
    }

    /// A client that may do everything: for what a server sets up for itself.
    pub(crate) fn administrator(&self) -> Client {
        self.client_of(User::new(
            name::API_SERVER,
            &[group::MASTERS, group::AUTHENTICATED],
        ))
    }

    /// A client whose requests are this user's.
    pub(crate) fn client_of(&self, user: User) -> Client {
        let peer = Arc::new(Peer {
            address: ADDRESS.to_owned(),
            known: Some(Arc::new(user)),
            ..Peer::default()
        });
        let service = self.service.clone();
        let transport = tower::service_fn(move |request: http::Request<Body>| {
            let (service, peer) = (service.clone(), peer.clone());
            async move { Ok::<_, Infallible>(service.answer(request, &peer).await) }
        });
        Client::new(transport, "default")
    }
}

impl Connect for InProcess {
    fn client(&self, account: Option<&'static str>) -> Client {
        self.client_of(match account {
            Some(account) => system_account(account),
            None => User::new(name::CONTROLLER_MANAGER, &[group::AUTHENTICATED]),
        })
    }
}

/// The service account of a controller, with the groups that its token would give it.
fn system_account(account: &str) -> User {
    let namespace = "kube-system";
    User::new(
        format!("{}{namespace}:{account}", name::SERVICE_ACCOUNT_PREFIX),
        &[
            group::SERVICE_ACCOUNTS,
            &format!("{}{namespace}", group::SERVICE_ACCOUNTS_PREFIX),
            group::AUTHENTICATED,
        ],
    )
}
