//! Test objects, and errors of responses.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::core::Status;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A typed object from its JSON.
pub(crate) fn object<K: DeserializeOwned>(json: Value) -> K {
    serde_json::from_value(json).expect("an object of its type")
}

pub(crate) fn config_map(name: &str, value: &str) -> ConfigMap {
    object(json!({"metadata": {"name": name}, "data": {"value": value}}))
}

pub(crate) fn labelled(name: &str, label: &str, value: &str) -> ConfigMap {
    object(json!({"metadata": {"name": name, "labels": {label: value}}}))
}

pub(crate) fn pod(name: &str) -> Pod {
    object(json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": pod_spec()}))
}

pub(crate) fn pod_spec() -> Value {
    json!({"containers": [{"name": "main", "image": "registry.example/main:1"}]})
}

pub(crate) fn pod_template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": pod_spec()})
}

/// The test value of a config map.
pub(crate) fn value_of(map: &ConfigMap) -> &str {
    let data = map.data.as_ref();
    data.and_then(|data| data.get("value"))
        .map_or("", String::as_str)
}

/// The Status of a failed request.
pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> Status {
    match result {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("not refused by the server: {other:?}"),
    }
}

/// Code and reason of a failed request.
pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> (u16, String) {
    let status = refusal(result);
    (status.code, status.reason)
}

/// The admission configuration of KEP-2249, whose scope has no operator.
pub(crate) const CROSS_NAMESPACE_AFFINITY_LIMITED: &str = r#"
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: "ResourceQuota"
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
    limitedResources:
    - resource: pods
      matchScopes:
      - scopeName: CrossNamespaceAffinity
"#;
