//! The configurations that a request would meet, from files or from a server.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rhumb_admission::explain::Configurations;
use rhumb_admission::{Flavor, PolicyFlavor};
use serde_json::Value;

use super::Failure;
use crate::documents::{self, Object, Strict};

const GROUP: &str = "admissionregistration.k8s.io";
/// The feature gate of exclusion rules, and the metric that says which gates are on.
const EXCLUSIONS: &str = "AdmissionWebhookExclusionRules";
const FEATURES: &str = "kubernetes_feature_enabled{";
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(super) enum Source<'a> {
    Files(&'a [PathBuf]),
    Server(Server),
}

/// An API server, and where it is.
pub(super) struct Server {
    pub(super) client: Client,
    url: String,
}

#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub(super) configurations: Configurations,
    /// The namespace that the request is in.
    pub(super) namespace: Option<Object>,
    /// Whether exclusion rules count; `None` if the server does not tell.
    pub(super) exclusions: Option<bool>,
    /// What people should know of the answer.
    pub(super) notes: Vec<String>,
}

/// The server of a kubeconfig.
pub(super) async fn connect(kubeconfig: Option<&Path>) -> Result<Server> {
    let config = match kubeconfig {
        Some(path) => {
            let what = || format!("--kubeconfig {}", path.display());
            // What kube-rs says of a file that is not there is twice as long.
            std::fs::File::open(path).with_context(what)?;
            let file = Kubeconfig::read_from(path).with_context(what)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .with_context(what)?
        }
        None => Config::infer().await.map_err(|error| {
            anyhow!(
                "no API server is known; name its kubeconfig with --kubeconfig, or files with --configurations: {error}"
            )
        })?,
    };
    let url = config.cluster_url.to_string();
    let client = Client::try_from(config).context("the kubeconfig cannot be used")?;
    Ok(Server { client, url })
}

impl Cluster {
    pub(super) async fn read(source: &Source<'_>, namespace: &str) -> Result<Cluster, Failure> {
        let mut cluster = match source {
            Source::Files(paths) => Cluster::of_files(paths, namespace).map_err(Failure::Input)?,
            Source::Server(server) => Cluster::of_server(server, namespace)
                .await
                .map_err(Failure::Server)?,
        };
        if cluster.namespace.is_none() && !namespace.is_empty() {
            cluster.notes.push(format!(
                "the namespace {namespace:?} is not known: it is taken to have no label but {NAME_LABEL}"
            ));
        }
        let labels = (!namespace.is_empty()).then(|| cluster.namespace.take().unwrap_or_default());
        cluster.namespace = labels.map(|object| with_name(object, namespace));
        Ok(cluster)
    }

    fn of_files(paths: &[PathBuf], namespace: &str) -> Result<Cluster> {
        let mut cluster = Cluster {
            exclusions: Some(true),
            ..Cluster::default()
        };
        let strict = Strict::new();
        for path in paths {
            let mut is_used = false;
            for (place, object) in documents::read(path)? {
                let object = decoded(object, &strict).with_context(|| place)?;
                match cluster.configurations.add(object) {
                    Ok(()) => is_used = true,
                    Err(other) if is_namespace(&other) => {
                        is_used = true;
                        let metadata = other.get("metadata").unwrap_or(&Value::Null);
                        if metadata["name"] == namespace {
                            cluster.namespace = Some(other);
                        }
                    }
                    Err(_) => {}
                }
            }
            if !is_used {
                bail!(
                    "{}: there is no webhook configuration, policy, binding or namespace in it",
                    path.display()
                );
            }
        }
        Ok(cluster)
    }

    async fn of_server(server: &Server, namespace: &str) -> Result<Cluster> {
        let mut cluster = Cluster {
            exclusions: server.has_exclusions().await,
            ..Cluster::default()
        };
        let plurals = [
            Flavor::Mutating.plural(),
            Flavor::Validating.plural(),
            PolicyFlavor::Mutating.plural(),
            PolicyFlavor::Mutating.bindings(),
            PolicyFlavor::Validating.plural(),
            PolicyFlavor::Validating.bindings(),
        ];
        for plural in plurals {
            let path = format!("/apis/{GROUP}/v1/{plural}");
            // A server that does not know a kind asks nobody of that kind.
            let Some(list) = server.get(&path).await? else {
                continue;
            };
            let kind = list["kind"].as_str().unwrap_or_default();
            let kind = kind.strip_suffix("List").unwrap_or(kind).to_owned();
            for item in list["items"].as_array().into_iter().flatten() {
                if let Value::Object(item) = item {
                    let mut item = item.clone();
                    item.insert("kind".to_owned(), kind.clone().into());
                    let _ = cluster.configurations.add(item);
                }
            }
        }
        if !namespace.is_empty() {
            let path = format!("/api/v1/namespaces/{namespace}");
            if let Some(Value::Object(found)) = server.get(&path).await? {
                cluster.namespace = Some(found);
            }
        }
        Ok(cluster)
    }
}

impl Server {
    /// Whether exclusion rules count, if the user may know and the server says it.
    async fn has_exclusions(&self) -> Option<bool> {
        let request = http::Request::get("/metrics").body(Vec::new()).ok()?;
        let metrics = self.client.request_text(request).await.ok()?;
        is_on(&metrics, EXCLUSIONS)
    }

    /// What is at a path, if anything is.
    async fn get(&self, path: &str) -> Result<Option<Value>> {
        let request = http::Request::get(path).body(Vec::new())?;
        match self.client.request::<Value>(request).await {
            Ok(value) => Ok(Some(value)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(kube::Error::Api(status)) => Err(anyhow!("{}: {}", self.url, status.message)),
            Err(error) => {
                let what = format!("the server {} does not answer", self.url);
                Err(anyhow::Error::new(error).context(what))
            }
        }
    }
}

/// Whether metrics say that a feature is on; `None` if they do not speak of it.
fn is_on(metrics: &str, feature: &str) -> Option<bool> {
    let name = format!("name=\"{feature}\"");
    let of_feature = |line: &&str| line.starts_with(FEATURES) && line.contains(&name);
    let (_, value) = metrics.lines().find(of_feature)?.rsplit_once(' ')?;
    value.parse::<f64>().ok().map(|value| value > 0.0)
}

fn is_namespace(object: &Object) -> bool {
    object.get("kind").is_some_and(|kind| kind == "Namespace")
        && object
            .get("apiVersion")
            .is_some_and(|version| version == "v1")
}

/// Reads what counts here as strictly as a server would.
fn decoded(object: Object, strict: &Strict) -> Result<Object> {
    let version = object.get("apiVersion").and_then(Value::as_str);
    let group = version.and_then(|version| version.split_once('/'));
    let is_configuration = group.is_some_and(|(group, _)| group == GROUP);
    match is_configuration || is_namespace(&object) {
        true => strict.decode(object),
        false => Ok(object),
    }
}

/// Every namespace has its name as a label, whatever a file says.
fn with_name(namespace: Object, name: &str) -> Object {
    let object = |value: Option<&Value>| value.and_then(Value::as_object).cloned();
    let mut metadata = object(namespace.get("metadata")).unwrap_or_default();
    let mut labels = object(metadata.get("labels")).unwrap_or_default();
    labels.insert(NAME_LABEL.to_owned(), name.into());
    metadata.insert("name".to_owned(), name.into());
    metadata.insert("labels".to_owned(), labels.into());
    let mut namespace = namespace;
    namespace.insert("metadata".to_owned(), metadata.into());
    namespace
}

#[cfg(test)]
mod tests {
    use super::is_on;

    #[test]
    fn metrics_say_what_is_on() {
        let metrics = "# TYPE kubernetes_feature_enabled gauge\n\
                       kubernetes_feature_enabled{name=\"A\",stage=\"BETA\"} 1\n\
                       kubernetes_feature_enabled{name=\"AB\",stage=\"\"} 0\n\
                       other{name=\"C\"} 1\n\
                       kubernetes_feature_enabled{name=\"D\",stage=\"\"} ?\n";
        for (feature, want) in [
            ("A", Some(true)),
            ("AB", Some(false)),
            ("B", None),
            ("C", None),
            ("D", None),
        ] {
            assert_eq!(is_on(metrics, feature), want, "{feature}");
        }
    }
}
