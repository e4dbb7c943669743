//! Decodes nodes.

use rhumb_api::partial_decode::{BorrowedStr, ResourceList, or_default};
use serde::Deserialize;

use super::common::{WireObjectMeta, decode_effect};
use super::pod::{decode_resources, normalized_image};
use crate::model::{Node, NodeImage, Taint};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireNode<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: WireObjectMeta<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    spec: WireNodeSpec<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    status: WireNodeStatus<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireNodeSpec<'a> {
    #[serde(deserialize_with = "or_default")]
    unschedulable: bool,
    #[serde(borrow, deserialize_with = "or_default")]
    taints: Vec<WireTaint<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireTaint<'a> {
    #[serde(borrow)]
    key: BorrowedStr<'a>,
    #[serde(borrow)]
    value: BorrowedStr<'a>,
    #[serde(borrow)]
    effect: BorrowedStr<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireNodeStatus<'a> {
    #[serde(borrow)]
    allocatable: ResourceList<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    images: Vec<WireNodeImage<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireNodeImage<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    names: Vec<BorrowedStr<'a>>,
    #[serde(deserialize_with = "or_default")]
    size_bytes: i64,
}

impl Node {
    /// Decodes a node from JSON.
    pub fn from_json(json: &[u8]) -> Result<Node, serde_json::Error> {
        let wire: WireNode<'_> = serde_json::from_slice(json)?;
        let WireNode {
            metadata,
            spec,
            status,
        } = &wire;
        Ok(Node {
            name: (*metadata.name).into(),
            labels: metadata.labels(),
            taints: spec.taints.iter().filter_map(WireTaint::decode).collect(),
            is_unschedulable: spec.unschedulable,
            allocatable: decode_resources(&status.allocatable),
            max_pods: status
                .allocatable
                .get("pods")
                .map_or(0, rhumb_meta::Quantity::value),
            images: status.images.iter().map(WireNodeImage::decode).collect(),
        })
    }
}

impl WireTaint<'_> {
    fn decode(&self) -> Option<Taint> {
        Some(Taint {
            key: (*self.key).into(),
            value: (*self.value).into(),
            effect: decode_effect(&self.effect)?,
        })
    }
}

impl WireNodeImage<'_> {
    fn decode(&self) -> NodeImage {
        NodeImage {
            names: self
                .names
                .iter()
                .map(|name| normalized_image(name))
                .collect(),
            bytes: self.size_bytes,
        }
    }
}
