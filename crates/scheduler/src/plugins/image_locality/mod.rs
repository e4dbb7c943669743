//! Score plugin `ImageLocality`: prefers nodes that already have the pod's images, weighted by image size.

mod image_index;

use std::cell::RefCell;

use super::{NodeScorer, Plugin, SCORE_MAX};
use crate::cluster::{ClusterState, IdMap, NodeId, PodInfo};
use image_index::ImageIndex;

/// Total image sizes are clamped to this range, as upstream: 23 MiB to 1,000 MiB per container.
const BYTES_MIN: i64 = 23 << 20;
const BYTES_MAX_EACH: i64 = 1000 << 20;

#[derive(Debug, Default)]
pub struct ImageLocality {
    images: RefCell<ImageIndex>,
}

struct ImageLocalityScorer {
    /// Per node, the scaled sizes of the pod's images that it has.
    bytes: IdMap<NodeId, i64>,
    containers: i64,
}

impl Plugin for ImageLocality {
    fn name(&self) -> &'static str {
        "ImageLocality"
    }

    fn pre_score<'c>(
        &'c self,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
        nodes: &[NodeId],
    ) -> Option<Box<dyn NodeScorer + 'c>> {
        let mut images = self.images.borrow_mut();
        images.refresh(cluster.nodes());
        let mut bytes: IdMap<NodeId, i64> = IdMap::default();
        for sizes in pod
            .pod
            .images
            .iter()
            .filter_map(|image| images.nodes_with(image))
        {
            // As upstream, images on few nodes count less, lest all pods go to those few nodes.
            let share = sizes.len() as f64 / images.node_count() as f64;
            for node in nodes {
                if let Some(size) = sizes.get(node) {
                    *bytes.entry(*node).or_default() += (*size as f64 * share) as i64;
                }
            }
        }
        let containers = pod.pod.container_count as i64;
        (!bytes.is_empty() && containers > 0)
            .then(|| Box::new(ImageLocalityScorer { bytes, containers }) as _)
    }
}

impl NodeScorer for ImageLocalityScorer {
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
    use crate::plugins::testing::{add_pod, cluster, node, node_with, pod, scores};

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
        let pod = add_pod(&mut cluster, pod("p", json!({}), spec));
        assert_eq!(scores(&ImageLocality::default(), &cluster, pod), expected);
    }

    #[test]
    fn nodes_score_by_their_images() {
        let (one, two): (&[_], &[_]) = (
            &[
                ("gcr.io/40", 40),
                ("gcr.io/300", 300),
                ("gcr.io/2000", 2000),
            ],
            &[("gcr.io/250", 250), ("gcr.io/10", 10)],
        );
        // 40 MiB on one of two nodes count as 20 MiB, below the minimum; 250 count as 125.
        check(&[one, two], &["gcr.io/40", "gcr.io/250"], &[0, 5]);
        // 300 as 150, 40 as 20.
        check(&[one, two], &["gcr.io/40", "gcr.io/300"], &[7, 0]);
        // 2000 as 1000.
        check(&[one, two], &["gcr.io/10", "gcr.io/2000"], &[49, 0]);
        check(&[one, two], &["gcr.io/none"], &[0, 0]);
        // Full size when all nodes have the image, capped at 1000 MiB per container.
        check(&[one, one], &["gcr.io/2000"], &[100, 100]);
        check(&[one, one], &["gcr.io/300:latest"], &[28, 28]);
    }

    #[test]
    fn image_volumes_are_counted() {
        let mut cluster = cluster([node_with_images("a", &[("data", 500)])], []);
        let spec = json!({"volumes": [{"name": "v", "image": {"reference": "data"}}]});
        let pod = add_pod(&mut cluster, pod("p", json!({}), spec));
        assert_eq!(scores(&ImageLocality::default(), &cluster, pod), [48]);
    }

    #[test]
    fn scores_follow_node_updates() {
        let plugin = ImageLocality::default();
        let mut cluster = cluster([node_with_images("a", &[("i", 500)]), node("b")], []);
        let pod = add_pod(&mut cluster, pod("p", json!({}), json!({})));
        // Half of 500, (250 − 23) of 977.
        assert_eq!(scores(&plugin, &cluster, pod), [23, 0]);
        cluster.set_node(node_with_images("b", &[("i", 500)]));
        assert_eq!(scores(&plugin, &cluster, pod), [48, 48]);
        cluster.set_node(node("a"));
        assert_eq!(scores(&plugin, &cluster, pod), [0, 23]);
        cluster.remove_node("b");
        cluster.refresh_node_order();
        assert_eq!(scores(&plugin, &cluster, pod), [0]);
    }
}
