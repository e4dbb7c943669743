//! Oracle for `ImageLocality`.

use serde_json::Value;

use super::{list, text};
use crate::tests::random::ClusterObjects;

const MIB: i64 = 1024 * 1024;

/// The score grows with the size of the images that the node has, and with the number of nodes that have them.
pub(super) fn image_locality_scores(
    objects: &ClusterObjects,
    pod: &Value,
    nodes: &[&Value],
) -> (Vec<i64>, Vec<i64>) {
    let spec = &pod["spec"];
    let (init_containers, containers) = (list(&spec["initContainers"]), list(&spec["containers"]));
    let images = init_containers
        .iter()
        .chain(containers)
        .map(|container| text(&container["image"]));
    let volumes = list(&spec["volumes"]).iter();
    let volumes = volumes.filter_map(|volume| volume["image"]["reference"].as_str());
    let images: Vec<&str> = images.chain(volumes).collect();
    let most = 1000 * MIB * (init_containers.len() + containers.len()) as i64;
    let rate = |node: &&Value| {
        let mut sum = 0;
        for image in &images {
            if let Some(bytes) = image_bytes(node, image) {
                let everywhere = objects.nodes.values();
                let having = everywhere.filter(|node| image_bytes(node, image).is_some());
                let share = having.count() as f64 / objects.nodes.len() as f64;
                sum += (bytes as f64 * share) as i64;
            }
        }
        100 * (sum.clamp(23 * MIB, most) - 23 * MIB) / (most - 23 * MIB)
    };
    let raw: Vec<i64> = nodes.iter().map(rate).collect();
    (raw.clone(), raw)
}

/// The size of an image, if the node has it.
fn image_bytes(node: &Value, image: &str) -> Option<i64> {
    let image = match image.contains(':') {
        true => image.to_owned(),
        false => format!("{image}:latest"),
    };
    let mut all = list(&node["status"]["images"]).iter();
    let found = all.find(|known| list(&known["names"]).iter().any(|name| *name == image))?;
    found["sizeBytes"].as_i64()
}
