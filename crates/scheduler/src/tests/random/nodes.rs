//! Nodes and namespaces.

use serde_json::{Value, json};

use super::Dice;
use super::terms::{NAMESPACE_KEYS, VALUES};

pub(crate) fn namespace(dice: &mut Dice, name: &str) -> Value {
    let labels = dice.labels(&NAMESPACE_KEYS, &VALUES, 60);
    json!({"metadata": {"name": name, "labels": labels}})
}

/// A node, which may lack any label.
pub(crate) fn node(dice: &mut Dice, name: &str) -> Value {
    let mut labels = dice.labels(&["topology.kubernetes.io/zone", "rack"], &VALUES, 80);
    if dice.chance(90) {
        labels["kubernetes.io/hostname"] = name.into();
    }
    dice.maybe(&mut labels, "disk", 50, |dice| {
        dice.one_of(&["1", "2", "3", "ssd"]).into()
    });
    let mut node = json!({"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {}});
    if dice.chance(10) {
        node["metadata"]["labels"] = Value::Null;
    }
    dice.maybe(&mut node["spec"], "unschedulable", 15, |_| true.into());
    dice.maybe(&mut node["spec"], "taints", 40, |dice| dice.list(2, taint));
    node["status"]["allocatable"] = allocatable(dice);
    dice.maybe(&mut node["status"], "images", 60, |dice| {
        dice.list(3, image)
    });
    node
}

fn taint(dice: &mut Dice) -> Value {
    let key = if dice.chance(15) {
        "node.kubernetes.io/unschedulable"
    } else {
        dice.one_of(&TAINT_KEYS)
    };
    let mut taint = json!({
        "key": key,
        "effect": dice.one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"]),
    });
    dice.maybe(&mut taint, "value", 70, |dice| {
        dice.one_of(&TAINT_VALUES).into()
    });
    taint
}

pub(super) const TAINT_KEYS: [&str; 2] = ["dedicated", "level"];
pub(super) const TAINT_VALUES: [&str; 4] = ["a", "1", "5", "10"];

fn allocatable(dice: &mut Dice) -> Value {
    let mut amounts = json!({
        "cpu": dice.one_of(&["1", "2500m", "4"]),
        "memory": dice.one_of(&["1Gi", "2Gi", "4000000000"]),
        "pods": dice.one_of(&["3", "5", "110"]),
    });
    dice.maybe(&mut amounts, "ephemeral-storage", 70, |dice| {
        dice.one_of(&["1Gi", "10Gi"]).into()
    });
    dice.maybe(&mut amounts, "example.com/device", 50, |dice| {
        dice.one_of(&["1", "4"]).into()
    });
    dice.maybe(&mut amounts, "cpu", 5, |_| "0".into());
    amounts
}

fn image(dice: &mut Dice) -> Value {
    let name = dice.one_of(&IMAGES);
    let mut names = vec![name.to_owned()];
    if dice.chance(30) {
        names.push(format!("mirror.example/{name}"));
    }
    json!({"names": names, "sizeBytes": size_of(name)})
}

/// The same wherever it is.
fn size_of(image: &str) -> u64 {
    match image.rsplit('/').next() {
        Some("web:1") => 50_000_000,
        Some("db:2") => 3_000_000_000,
        _ => 600_000_000,
    }
}

pub(super) const IMAGES: [&str; 4] = ["web:1", "db:2", "tool:latest", "mirror.example/web:1"];
