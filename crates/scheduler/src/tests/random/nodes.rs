//! Random nodes and namespaces.

use serde_json::{Value, json};

use super::SeededRng;
use super::json_choices::JsonChoices;
use super::terms::{NAMESPACE_KEYS, VALUES};

pub(crate) fn namespace(rng: &mut SeededRng, name: &str) -> Value {
    let labels = rng.random_labels(&NAMESPACE_KEYS, &VALUES, 60);
    json!({"metadata": {"name": name, "labels": labels}})
}

/// A random node; any label may be missing.
pub(crate) fn node(rng: &mut SeededRng, name: &str) -> Value {
    let mut labels = rng.random_labels(&["topology.kubernetes.io/zone", "rack"], &VALUES, 80);
    if rng.percent(90) {
        labels["kubernetes.io/hostname"] = name.into();
    }
    rng.maybe_set(&mut labels, "disk", 50, |rng| {
        rng.choose(&["1", "2", "3", "ssd"]).into()
    });
    let mut node = json!({"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {}});
    if rng.percent(10) {
        node["metadata"]["labels"] = Value::Null;
    }
    rng.maybe_set(&mut node["spec"], "unschedulable", 15, |_| true.into());
    rng.maybe_set(&mut node["spec"], "taints", 40, |rng| {
        rng.random_list(2, taint)
    });
    node["status"]["allocatable"] = allocatable(rng);
    rng.maybe_set(&mut node["status"], "images", 60, |rng| {
        rng.random_list(3, image)
    });
    node
}

fn taint(rng: &mut SeededRng) -> Value {
    let key = if rng.percent(15) {
        "node.kubernetes.io/unschedulable"
    } else {
        rng.choose(&TAINT_KEYS)
    };
    let mut taint = json!({
        "key": key,
        "effect": rng.choose(&["NoSchedule", "PreferNoSchedule", "NoExecute"]),
    });
    rng.maybe_set(&mut taint, "value", 70, |rng| {
        rng.choose(&TAINT_VALUES).into()
    });
    taint
}

pub(super) const TAINT_KEYS: [&str; 2] = ["dedicated", "level"];
pub(super) const TAINT_VALUES: [&str; 4] = ["a", "1", "5", "10"];

fn allocatable(rng: &mut SeededRng) -> Value {
    let mut amounts = json!({
        "cpu": rng.choose(&["1", "2500m", "4"]),
        "memory": rng.choose(&["1Gi", "2Gi", "4000000000"]),
        "pods": rng.choose(&["3", "5", "110"]),
    });
    rng.maybe_set(&mut amounts, "ephemeral-storage", 70, |rng| {
        rng.choose(&["1Gi", "10Gi"]).into()
    });
    rng.maybe_set(&mut amounts, "example.com/device", 50, |rng| {
        rng.choose(&["1", "4"]).into()
    });
    rng.maybe_set(&mut amounts, "cpu", 5, |_| "0".into());
    amounts
}

fn image(rng: &mut SeededRng) -> Value {
    let name = rng.choose(&IMAGES);
    let mut names = vec![name.to_owned()];
    if rng.percent(30) {
        names.push(format!("mirror.example/{name}"));
    }
    json!({"names": names, "sizeBytes": size_of(name)})
}

/// An image has the same size on every node.
fn size_of(image: &str) -> u64 {
    match image.rsplit('/').next() {
        Some("web:1") => 50_000_000,
        Some("db:2") => 3_000_000_000,
        _ => 600_000_000,
    }
}

pub(super) const IMAGES: [&str; 4] = ["web:1", "db:2", "tool:latest", "mirror.example/web:1"];
