//! Clients for the API server in the same process: requests are passed as function calls, with a given user.

use std::convert::Infallible;
use std::sync::Arc;

use kube::Client;
use kube::client::Body;
use rhumb_server::{ConnectionPeer, HttpService};

use rhumb_auth::{User, group, name};
use rhumb_controllers::ClientFactory;

/// The source IP of these requests in the audit log.
const PEER_ADDRESS: &str = "127.0.0.1";

#[derive(Debug)]
pub(crate) struct InProcessClientFactory {
    service: Arc<HttpService>,
}

impl InProcessClientFactory {
    pub(crate) fn new(service: Arc<HttpService>) -> InProcessClientFactory {
        InProcessClientFactory { service }
    }

    /// A client in system:masters, for objects that the server creates for itself.
    pub(crate) fn administrator(&self) -> Client {
        self.client_of(User::new(
            name::API_SERVER,
            &[group::MASTERS, group::AUTHENTICATED],
        ))
    }

    /// A client that is authenticated as `user`.
    pub(crate) fn client_of(&self, user: User) -> Client {
        let peer = Arc::new(ConnectionPeer {
            address: PEER_ADDRESS.to_owned(),
            in_process_user: Some(Arc::new(user)),
            ..ConnectionPeer::default()
        });
        let service = self.service.clone();
        let transport = tower::service_fn(move |request: http::Request<Body>| {
            let (service, peer) = (service.clone(), peer.clone());
            async move { Ok::<_, Infallible>(service.answer(request, &peer).await) }
        });
        Client::new(transport, "default")
    }
}

impl ClientFactory for InProcessClientFactory {
    fn client(&self, account: Option<&'static str>) -> Client {
        self.client_of(match account {
            Some(account) => system_account(account),
            None => User::new(name::CONTROLLER_MANAGER, &[group::AUTHENTICATED]),
        })
    }
}

/// The user of a controller's service account, with the groups of its token.
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
