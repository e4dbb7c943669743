//! Nodes from JSON.

use rhumb_api::partial::{ResourceList, Text, or_default};
use serde::Deserialize;

use super::parts::{Metadata, read_effect};
use super::pod::{normal_image, resources};
use crate::model::{Image, Node, Taint};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wire<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: Metadata<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    spec: Spec<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    status: Status<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec<'a> {
    #[serde(deserialize_with = "or_default")]
    unschedulable: bool,
    #[serde(borrow, deserialize_with = "or_default")]
    taints: Vec<WireTaint<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireTaint<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    #[serde(borrow)]
    value: Text<'a>,
    #[serde(borrow)]
    effect: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status<'a> {
    #[serde(borrow)]
    allocatable: ResourceList<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    images: Vec<WireImage<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireImage<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    names: Vec<Text<'a>>,
    #[serde(deserialize_with = "or_default")]
    size_bytes: i64,
}

impl Node {
    /// Reads a node from its JSON.
    pub fn from_json(json: &[u8]) -> Result<Node, serde_json::Error> {
        let wire: Wire<'_> = serde_json::from_slice(json)?;
        let Wire {
            metadata,
            spec,
            status,
        } = &wire;
        Ok(Node {
            name: (*metadata.name).into(),
            labels: metadata.labels(),
            taints: spec.taints.iter().filter_map(WireTaint::read).collect(),
            is_unschedulable: spec.unschedulable,
            allocatable: resources(&status.allocatable),
            pods_max: status
                .allocatable
                .get("pods")
                .map_or(0, rhumb_meta::Quantity::value),
            images: status.images.iter().map(WireImage::read).collect(),
        })
    }
}

impl WireTaint<'_> {
    fn read(&self) -> Option<Taint> {
        Some(Taint {
            key: (*self.key).into(),
            value: (*self.value).into(),
            effect: read_effect(&self.effect)?,
        })
    }
}

impl WireImage<'_> {
    fn read(&self) -> Image {
        Image {
            names: self.names.iter().map(|name| normal_image(name)).collect(),
            bytes: self.size_bytes,
        }
    }
}
