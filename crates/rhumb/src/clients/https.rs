//! Clients for a remote API server, with the credentials of a kubeconfig or with a service account for each controller
//! (upstream: `--use-service-account-credentials`). Entry point: [`connect`].

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use http::header::AUTHORIZATION;
use http::{HeaderValue, StatusCode};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::client::Body;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use rhumb_controllers::ClientFactory;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::multiplexed;

const NAMESPACE: &str = "kube-system";
/// Lifetime of requested tokens, and the age at which they are replaced.
const TOKEN_SECONDS: i64 = 3600;
const TOKEN_USED_MAX: Duration = Duration::from_secs(45 * 60);

#[derive(Debug)]
pub(crate) struct HttpsClientFactory {
    authenticated: DebugClient,
    config: Config,
    /// A client without credentials, if each controller uses its own service account.
    anonymous: Option<DebugClient>,
}

/// Implements Debug, which `Client` does not.
#[derive(Clone)]
struct DebugClient(Client);

impl std::fmt::Debug for DebugClient {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Client")
    }
}

/// Reads the file given with `--kubeconfig`.
pub(crate) async fn read_kubeconfig(path: &Path) -> Result<Config> {
    let what = || format!("--kubeconfig {}", path.display());
    // For a missing file, this error is shorter than that of kube-rs.
    std::fs::File::open(path).with_context(what)?;
    let file = Kubeconfig::read_from(path).with_context(what)?;
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .with_context(what)
}

/// Reads the kubeconfig. Also returns its CA certificates in PEM.
pub(crate) async fn connect(
    kubeconfig: Option<&Path>,
    service_accounts: bool,
) -> Result<(HttpsClientFactory, Option<String>)> {
    let mut config = match kubeconfig {
        Some(path) => read_kubeconfig(path).await?,
        None => Config::infer()
            .await
            .context("no API server configured; set --kubeconfig")?,
    };
    // Callers decide about retries. kube-rs would retry for minutes, even requests that already took effect.
    config.default_retry = false;
    let ca = config.root_cert.as_ref().map(|chain| pem(chain));
    let client = |config| Client::try_from(config).context("invalid kubeconfig");
    let mut anonymous = config.clone();
    anonymous.auth_info = AuthInfo::default();
    let connect = HttpsClientFactory {
        authenticated: DebugClient(client(config.clone())?),
        config,
        anonymous: service_accounts
            .then(|| client(anonymous).map(DebugClient))
            .transpose()?,
    };
    Ok((connect, ca))
}

fn pem(chain: &[Vec<u8>]) -> String {
    use base64::Engine as _;
    let mut text = String::new();
    for certificate in chain {
        let encoded = base64::engine::general_purpose::STANDARD.encode(certificate);
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in encoded.as_bytes().chunks(64) {
            text.push_str(&String::from_utf8_lossy(line));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

impl HttpsClientFactory {
    /// A client with the credentials of the kubeconfig, for many concurrent requests.
    pub(crate) fn multiplexed(&self) -> Result<Client> {
        multiplexed::client(&self.config).context("invalid kubeconfig")
    }

    /// A client with the credentials of the kubeconfig, with the transport of kube-rs.
    pub(crate) fn authenticated(&self) -> Client {
        self.authenticated.0.clone()
    }

    /// The URL of the server.
    pub(crate) fn server(&self) -> String {
        self.config.cluster_url.to_string()
    }
}

impl ClientFactory for HttpsClientFactory {
    fn client(&self, account: Option<&'static str>) -> Client {
        let (Some(DebugClient(anonymous)), Some(account)) = (self.anonymous.clone(), account)
        else {
            return self.authenticated();
        };
        let token = Arc::new(Mutex::new(TokenRequestSource {
            client: self.authenticated.0.clone(),
            account,
            current: None,
        }));
        let transport = tower::service_fn(move |request: http::Request<Body>| {
            let (anonymous, token) = (anonymous.clone(), token.clone());
            async move { send(&anonymous, &token, request).await }
        });
        Client::new(transport, "default")
    }
}

async fn send(
    anonymous: &Client,
    token: &Mutex<TokenRequestSource>,
    mut request: http::Request<Body>,
) -> Result<http::Response<Body>> {
    let value = token.lock().await.header().await?;
    request.headers_mut().insert(AUTHORIZATION, value.clone());
    let response = anonymous.send(request).await?;
    if response.status() == StatusCode::UNAUTHORIZED {
        token.lock().await.refused(&value);
    }
    Ok(response)
}

/// The token of a controller's service account, requested when needed (TokenRequest API).
struct TokenRequestSource {
    client: Client,
    account: &'static str,
    current: Option<(HeaderValue, Instant)>,
}

impl TokenRequestSource {
    async fn header(&mut self) -> Result<HeaderValue> {
        if let Some((value, since)) = &self.current
            && since.elapsed() < TOKEN_USED_MAX
        {
            return Ok(value.clone());
        }
        let text = self.request().await?;
        let mut value = HeaderValue::try_from(format!("Bearer {text}"))?;
        value.set_sensitive(true);
        self.current = Some((value.clone(), Instant::now()));
        Ok(value)
    }

    /// Discards a token that the server rejected, because the account was recreated or the signing key changed. A token
    /// that another request has fetched in the meantime is kept.
    fn refused(&mut self, value: &HeaderValue) {
        self.current.take_if(|(current, _)| current == value);
    }

    async fn request(&self) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), NAMESPACE);
        let params = PostParams::default();
        if accounts.get_opt(self.account).await?.is_none() {
            let mut account = ServiceAccount::default();
            account.metadata.name = Some(self.account.to_owned());
            match accounts.create(&params, &account).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                created => drop(created?),
            }
        }
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(TOKEN_SECONDS),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let made = accounts
            .create_token_request(self.account, &params, &request)
            .await?;
        made.status
            .and_then(|status| status.token)
            .context("the TokenRequest response contains no token")
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU32, Ordering};

    use serde_json::json;

    use super::*;

    /// A fake server that issues tokens 1, 2, ... and accepts only the second.
    fn server() -> (Client, Arc<AtomicU32>) {
        let made = Arc::new(AtomicU32::new(0));
        let count = made.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let authorization = request.headers().get(AUTHORIZATION);
            let is_known = authorization.is_none_or(|value| value == "Bearer 2");
            let body = match (request.method().as_str(), is_known) {
                (_, false) => json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 401,
                    "reason": "Unauthorized", "message": "Unauthorized",
                }),
                ("POST", _) => {
                    let token = count.fetch_add(1, Ordering::Relaxed) + 1;
                    json!({"metadata": {}, "spec": {"audiences": []}, "status": {
                        "token": token.to_string(), "expirationTimestamp": "2030-01-01T00:00:00Z",
                    }})
                }
                _ => json!({"metadata": {"name": "robot"}}),
            };
            let code = if is_known { 200 } else { 401 };
            let response = http::Response::builder().status(code);
            let response = response.body(Body::from(body.to_string().into_bytes()));
            async { Ok::<_, Infallible>(response.unwrap()) }
        });
        (Client::new(service, "default"), made)
    }

    #[tokio::test]
    async fn a_rejected_token_is_not_used_again() {
        let (client, made) = server();
        let https = HttpsClientFactory {
            config: Config::new("https://localhost".parse().unwrap()),
            authenticated: DebugClient(client.clone()),
            anonymous: Some(DebugClient(client)),
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(https.client(Some("robot")), "a");
        let refused = accounts.get("robot").await;
        assert!(
            matches!(&refused, Err(kube::Error::Api(status)) if status.code == 401),
            "{refused:?}"
        );
        for _ in 0..3 {
            accounts.get("robot").await.unwrap();
        }
        assert_eq!(made.load(Ordering::Relaxed), 2);
    }

    /// A server that counts requests and answers each with 504 Gateway Timeout.
    async fn slow() -> (std::net::SocketAddr, Arc<AtomicU32>) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        const LATE: &[u8] =
            b"HTTP/1.1 504 Gateway Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let asked = Arc::new(AtomicU32::new(0));
        let count = asked.clone();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut start = [0; 1024];
                let _ = stream.read(&mut start).await;
                count.fetch_add(1, Ordering::Relaxed);
                let _ = stream.write_all(LATE).await;
            }
        });
        (address, asked)
    }

    #[tokio::test]
    async fn requests_are_not_retried() {
        let (address, asked) = slow().await;
        let file = tempfile::NamedTempFile::new().unwrap();
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "clusters": [{"name": "a", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "a", "user": {}}],
        });
        std::fs::write(file.path(), kubeconfig.to_string()).unwrap();
        let (https, _) = connect(Some(file.path()), true).await.unwrap();
        let clients = [
            https.authenticated(),
            https.anonymous.clone().unwrap().0,
            https.multiplexed().unwrap(),
        ];
        for client in clients {
            asked.store(0, Ordering::Relaxed);
            let request = http::Request::post("/binding").body(Body::empty()).unwrap();
            let sent = tokio::time::timeout(Duration::from_secs(5), client.send(request)).await;
            assert_eq!(sent.unwrap().unwrap().status(), StatusCode::GATEWAY_TIMEOUT);
            assert_eq!(asked.load(Ordering::Relaxed), 1);
        }
    }

    #[tokio::test]
    async fn a_late_rejection_keeps_the_new_token() {
        let (client, _) = server();
        let mut token = TokenRequestSource {
            client,
            account: "robot",
            current: None,
        };
        let first = token.header().await.unwrap();
        token.refused(&first);
        let second = token.header().await.unwrap();
        token.refused(&first);
        assert_eq!(token.header().await.unwrap(), second);
    }
}
