//! Reads webhook configurations, admission policies, bindings and the request's namespace, from files or from a server.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use kube::{Client, Config};
use rhumb_admission::explain::AdmissionRegistrations;
use rhumb_admission::{PolicyType, WebhookType};
use serde_json::Value;

use super::ExplainError;
use crate::clients;
use crate::manifests::{self, StrictDecoder, UnstructuredObject};
use crate::new_object_validation::NewObjectPreparer;

pub(super) const GROUP: &str = "admissionregistration.k8s.io";
/// The feature gate of exclusion rules, and the metric that lists enabled gates.
const EXCLUSION_RULES_GATE: &str = "AdmissionWebhookExclusionRules";
const FEATURE_METRIC_PREFIX: &str = "kubernetes_feature_enabled{";
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(super) enum ConfigurationSource<'a> {
    Files(&'a [PathBuf]),
    Server(ApiServerClient),
}

/// A client of an API server, with the URL for error messages.
pub(super) struct ApiServerClient {
    pub(super) client: Client,
    url: String,
}

#[derive(Debug, Default)]
pub(super) struct AdmissionClusterState {
    pub(super) configurations: AdmissionRegistrations,
    /// The namespace of the request.
    pub(super) namespace: Option<UnstructuredObject>,
    /// Whether the server evaluates exclusion rules; `None` if unknown.
    pub(super) exclusions: Option<bool>,
    /// Notes for the output.
    pub(super) notes: Vec<String>,
}

/// Connects to the server of a kubeconfig.
pub(super) async fn connect(kubeconfig: Option<&Path>) -> Result<ApiServerClient> {
    let config = match kubeconfig {
        Some(path) => clients::read_kubeconfig(path).await?,
        None => Config::infer().await.map_err(|error| {
            anyhow!(
                "no API server configured; set --kubeconfig, or pass files with --configurations: {error}"
            )
        })?,
    };
    let url = config.cluster_url.to_string();
    let client = Client::try_from(config).context("invalid kubeconfig")?;
    Ok(ApiServerClient { client, url })
}

impl AdmissionClusterState {
    pub(super) async fn read(
        source: &ConfigurationSource<'_>,
        namespace: &str,
    ) -> Result<AdmissionClusterState, ExplainError> {
        let mut cluster = match source {
            ConfigurationSource::Files(paths) => {
                AdmissionClusterState::of_files(paths, namespace).map_err(ExplainError::Input)?
            }
            ConfigurationSource::Server(server) => {
                AdmissionClusterState::of_server(server, namespace)
                    .await
                    .map_err(ExplainError::Server)?
            }
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

    fn of_files(paths: &[PathBuf], namespace: &str) -> Result<AdmissionClusterState> {
        let mut cluster = AdmissionClusterState {
            exclusions: Some(true),
            ..AdmissionClusterState::default()
        };
        let strict = StrictDecoder::new();
        let validator = NewObjectPreparer::new()?;
        for path in paths {
            let mut is_used = false;
            for (place, object) in manifests::read(path)? {
                let object = admitted(object, &strict, &validator).with_context(|| place)?;
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

    async fn of_server(server: &ApiServerClient, namespace: &str) -> Result<AdmissionClusterState> {
        let mut cluster = AdmissionClusterState {
            exclusions: server.has_exclusions().await,
            ..AdmissionClusterState::default()
        };
        let plurals = [
            WebhookType::Mutating.configurations_resource(),
            WebhookType::Validating.configurations_resource(),
            PolicyType::Mutating.policies_resource(),
            PolicyType::Mutating.bindings_resource(),
            PolicyType::Validating.policies_resource(),
            PolicyType::Validating.bindings_resource(),
        ];
        for plural in plurals {
            let path = format!("/apis/{GROUP}/v1/{plural}");
            // The server does not serve this kind, and so has no such configurations.
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

impl ApiServerClient {
    /// Reads the feature gate from `/metrics`; `None` if that is forbidden or the metric is absent.
    pub(super) async fn has_exclusions(&self) -> Option<bool> {
        let request = http::Request::get("/metrics").body(Vec::new()).ok()?;
        let metrics = self.client.request_text(request).await.ok()?;
        is_on(&metrics, EXCLUSION_RULES_GATE)
    }

    /// The JSON at a path; `None` for 404.
    pub(super) async fn get(&self, path: &str) -> Result<Option<Value>> {
        let request = http::Request::get(path).body(Vec::new())?;
        match self.client.request::<Value>(request).await {
            Ok(value) => Ok(Some(value)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(kube::Error::Api(status)) => Err(anyhow!("{}: {}", self.url, status.message)),
            Err(error) => {
                let what = format!("request to {} failed", self.url);
                Err(anyhow::Error::new(error).context(what))
            }
        }
    }
}

/// Whether the metrics report a feature as enabled; `None` if they do not contain it.
fn is_on(metrics: &str, feature: &str) -> Option<bool> {
    let name = format!("name=\"{feature}\"");
    let of_feature = |line: &&str| line.starts_with(FEATURE_METRIC_PREFIX) && line.contains(&name);
    let (_, value) = metrics.lines().find(of_feature)?.rsplit_once(' ')?;
    value.parse::<f64>().ok().map(|value| value > 0.0)
}

fn is_namespace(object: &UnstructuredObject) -> bool {
    object.get("kind").is_some_and(|kind| kind == "Namespace")
        && object
            .get("apiVersion")
            .is_some_and(|version| version == "v1")
}

/// Decodes and validates namespaces and admission configurations as the server does; other kinds are returned unchanged.
fn admitted(
    object: UnstructuredObject,
    strict: &StrictDecoder,
    validator: &NewObjectPreparer,
) -> Result<UnstructuredObject> {
    let version = object.get("apiVersion").and_then(Value::as_str);
    let group = version.and_then(|version| version.split_once('/'));
    let is_configuration = group.is_some_and(|(group, _)| group == GROUP);
    match is_configuration || is_namespace(&object) {
        true => validator.admit(strict, strict.decode(object)?),
        false => Ok(object),
    }
}

/// Sets the name and the label `kubernetes.io/metadata.name`, which the server sets on every namespace.
fn with_name(namespace: UnstructuredObject, name: &str) -> UnstructuredObject {
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
    fn feature_gates_are_read_from_metrics() {
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
