//! `ImageLocality`: nodes that have the images of a pod are better, the more so the larger these are.

mod images;

use std::cell::RefCell;

use super::{NodeScore, Plugin, SCORE_MAX};
use crate::cluster::{Cluster, IdMap, NodeId, PodSlot};
use images::Images;

/// Sizes between these make a difference: 23 MiB, and 1,000 MiB for each container.
const BYTES_MIN: i64 = 23 << 20;
const BYTES_MAX_EACH: i64 = 1000 << 20;

#[derive(Debug, Default)]
pub struct ImageLocality {
    images: RefCell<Images>,
}

struct ImageScore {
    /// What the images that a node has are worth together.
    bytes: IdMap<NodeId, i64>,
    containers: i64,
}

impl Plugin for ImageLocality {
    fn name(&self) -> &'static str {
        "ImageLocality"
    }

    fn score<'c>(
        &'c self,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
        nodes: &[NodeId],
    ) -> Option<Box<dyn NodeScore + 'c>> {
        let mut images = self.images.borrow_mut();
        images.refresh(cluster.nodes());
        let mut bytes: IdMap<NodeId, i64> = IdMap::default();
        for there in pod
            .facts
            .images
            .iter()
            .filter_map(|image| images.nodes_with(image))
        {
            // The fewer nodes have it, the less it counts: else all would go to the few that do.
            let share = there.len() as f64 / images.nodes() as f64;
            for node in nodes {
                if let Some(size) = there.get(node) {
                    *bytes.entry(*node).or_default() += (*size as f64 * share) as i64;
                }
            }
        }
        let containers = pod.facts.containers as i64;
        (!bytes.is_empty() && containers > 0)
            .then(|| Box::new(ImageScore { bytes, containers }) as _)
    }
}

impl NodeScore for ImageScore {
    fn score(&self, node: NodeId) -> i64 {
        let max = BYTES_MAX_EACH * self.containers;
        let bytes = self.bytes.get(&node).copied().unwrap_or_default();
        SCORE_MAX * (bytes.clamp(BYTES_MIN, max) - BYTES_MIN) / (max - BYTES_MIN)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::plugins::testing::{cluster, come, node, node_with, pod, scores};

    const MIB: i64 = 1 << 20;

    fn node_with_images(name: &str, images: &[(&str, i64)]) -> crate::model::Node {
        let images: Vec<Value> = images
            .iter()
            .map(|(image, mib)| json!({"names": [image], "sizeBytes": mib * MIB}))
            .collect();
        node_with(name, json!({"status": {"images": images}}))
    }

    fn check(nodes: &[&[(&str, i64)]], images: &[&str], expected: &[i64]) {
        let named = ["a", "b", "c", "d"].iter().zip(nodes);
        let nodes = named.map(|(name, images)| node_with_images(name, images));
        let mut cluster = cluster(nodes, []);
        let containers: Vec<Value> = images
            .iter()
            .map(|image| json!({"name": "c", "image": image}))
            .collect();
        let spec = json!({"containers": containers});
        let pod = come(&mut cluster, pod("p", json!({}), spec));
        assert_eq!(scores(&ImageLocality::default(), &cluster, pod), expected);
    }

    #[test]
    fn nodes_score_by_the_images_that_they_have() {
        let (one, two): (&[_], &[_]) = (
            &[
                ("gcr.io/40", 40),
                ("gcr.io/300", 300),
                ("gcr.io/2000", 2000),
            ],
            &[("gcr.io/250", 250), ("gcr.io/10", 10)],
        );
        // 40 MiB on one of two nodes count as 20, which is too small; 250 count as 125.
        check(&[one, two], &["gcr.io/40", "gcr.io/250"], &[0, 5]);
        // 300 as 150, 40 as 20.
        check(&[one, two], &["gcr.io/40", "gcr.io/300"], &[7, 0]);
        // 2000 as 1000.
        check(&[one, two], &["gcr.io/10", "gcr.io/2000"], &[49, 0]);
        check(&[one, two], &["gcr.io/none"], &[0, 0]);
        // The whole size where all have it, and no more than 1000 MiB for each container.
        check(&[one, one], &["gcr.io/2000"], &[100, 100]);
        check(&[one, one], &["gcr.io/300:latest"], &[28, 28]);
    }

    #[test]
    fn images_that_are_mounted_count_too() {
        let mut cluster = cluster([node_with_images("a", &[("data", 500)])], []);
        let spec = json!({"volumes": [{"name": "v", "image": {"reference": "data"}}]});
        let pod = come(&mut cluster, pod("p", json!({}), spec));
        assert_eq!(scores(&ImageLocality::default(), &cluster, pod), [48]);
    }

    #[test]
    fn nodes_that_change_count_as_they_are_now() {
        let plugin = ImageLocality::default();
        let mut cluster = cluster([node_with_images("a", &[("i", 500)]), node("b")], []);
        let pod = come(&mut cluster, pod("p", json!({}), json!({})));
        // Half of 500, (250 − 23) of 977.
        assert_eq!(scores(&plugin, &cluster, pod), [23, 0]);
        cluster.set_node(node_with_images("b", &[("i", 500)]));
        assert_eq!(scores(&plugin, &cluster, pod), [48, 48]);
        cluster.set_node(node("a"));
        assert_eq!(scores(&plugin, &cluster, pod), [0, 23]);
        cluster.remove_node("b");
        cluster.prepare();
        assert_eq!(scores(&plugin, &cluster, pod), [0]);
    }
}
