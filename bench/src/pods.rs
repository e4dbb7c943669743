//! Manifests of the load's pods: Spark executors of realistic size, selected by application label.

use anyhow::Result;
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::client::ApiConnection;

/// Label that identifies the application of a pod.
pub(crate) const LABEL: &str = "spark-app-selector";

/// Number of namespaces that applications are spread over.
pub(crate) const NAMESPACES: usize = 10;

/// Number of nodes that pods are spread over.
pub(crate) const NODES: usize = 200;

pub(crate) async fn create_namespaces(connection: &mut ApiConnection) -> Result<()> {
    for number in 0..NAMESPACES {
        let path = format!("/api/v1/namespaces/{}", namespace(number));
        if connection.measure(&path).await.is_ok() {
            continue;
        }
        let name = namespace(number);
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            .to_string();
        let path = "/api/v1/namespaces";
        connection.execute(Method::POST, path, body.into()).await?;
    }
    Ok(())
}

fn namespace(app: usize) -> String {
    format!("load-{}", app % NAMESPACES)
}

/// Collection path of the pods of an application.
pub(crate) fn collection(app: usize) -> String {
    format!("/api/v1/namespaces/{}/pods", namespace(app))
}

pub(crate) fn selector(app: usize) -> String {
    format!("labelSelector={LABEL}%3D{}", app_name(app))
}

pub(crate) fn app_name(app: usize) -> String {
    format!("app-{app:05}")
}

pub(crate) fn app_of(value: &str) -> Option<u32> {
    value.strip_prefix("app-")?.parse().ok()
}

pub(crate) fn name(index: usize) -> String {
    format!("pod-{index:07}")
}

pub(crate) fn index_of(name: &str) -> Option<u32> {
    name.strip_prefix("pod-")?.parse().ok()
}

pub(crate) fn node(index: usize) -> String {
    format!("node-{:04}", index % NODES)
}

/// Application of a pod: pseudo-random order over all applications.
pub(crate) fn scattered(index: usize, apps: usize) -> usize {
    // A large prime, coprime to the numbers of applications used here.
    index.wrapping_mul(1_000_003) % apps
}

/// Pod without a node.
pub(crate) fn pending(index: usize, app: usize) -> Bytes {
    manifest(index, app, None, sparing())
}

/// Pod bound to a node.
pub(crate) fn bound(index: usize, app: usize) -> Bytes {
    manifest(index, app, Some(node(index)), sparing())
}

/// Pod with requests and limits for CPU and memory, so that every compute quota applies.
pub(crate) fn limited(index: usize, cpu: &str) -> Bytes {
    let amounts = json!({"cpu": cpu, "memory": "9011Mi"});
    let resources = json!({"requests": amounts, "limits": amounts});
    manifest(index, 0, None, resources)
}

/// Resources as Spark sets them by default.
fn sparing() -> Value {
    json!({"requests": {"cpu": "4", "memory": "9011Mi"}, "limits": {"memory": "9011Mi"}})
}

fn manifest(index: usize, app: usize, node: Option<String>, resources: Value) -> Bytes {
    let (name, app) = (name(index), app_name(app));
    let variable = |name: &str, value: &str| json!({"name": name, "value": value});
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {
                LABEL: app, "spark-exec-id": index.to_string(), "spark-role": "executor",
                "spark-exec-resourceprofile-id": "0", "app.kubernetes.io/managed-by": "operator",
            },
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "4040"},
        },
        "spec": {
            "restartPolicy": "Never",
            "securityContext": {"runAsUser": 185, "runAsNonRoot": true, "fsGroup": 185},
            "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "spark", "effect": "NoSchedule"}],
            "containers": [{
                "name": "executor", "image": "registry.example/analytics/spark:4.0.1",
                "args": ["executor"],
                "ports": [{"name": "blockmanager", "containerPort": 7079, "protocol": "TCP"}],
                "env": [
                    variable("SPARK_USER", "analytics"),
                    variable("SPARK_DRIVER_URL", &format!("spark://scheduler@{app}-driver.load.svc:7078")),
                    variable("SPARK_EXECUTOR_CORES", "4"),
                    variable("SPARK_EXECUTOR_MEMORY", "8g"),
                    variable("SPARK_APPLICATION_ID", &app),
                    variable("SPARK_CONF_DIR", "/opt/spark/conf"),
                    variable("SPARK_LOCAL_DIRS", "/var/data/spark-local"),
                    variable("SPARK_EXECUTOR_ID", &index.to_string()),
                ],
                "resources": resources,
                "volumeMounts": [{"name": "spark-local-dir", "mountPath": "/var/data"}],
            }],
            "volumes": [{"name": "spark-local-dir", "emptyDir": {}}],
        },
    });
    if let Some(node) = node {
        pod["spec"]["nodeName"] = node.into();
    }
    pod.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_json_has_a_realistic_size() {
        for pod in [pending(123_456, 4_321), limited(123_456, "4")] {
            assert!((1_200..1_400).contains(&pod.len()), "{}", pod.len());
        }
    }

    #[test]
    fn indexes_are_parsed_from_names() {
        assert_eq!(index_of(&name(42)), Some(42));
        assert_eq!(app_of(&app_name(7)), Some(7));
        assert_eq!(index_of("other-42"), None);
        assert_eq!(app_of("app-x"), None);
    }
}
