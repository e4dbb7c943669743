//! What `interop/gotypes` prints.

use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct TypeFacts {
    pub(super) name: String,
    pub(super) go: String,
    pub(super) fields: Vec<FieldFacts>,
}

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
pub(super) struct FieldFacts {
    pub(super) name: String,
    pub(super) go: String,
    pub(super) shape: ShapeFacts,
    pub(super) pointer: bool,
    pub(super) omitempty: bool,
    pub(super) omitzero: bool,
    pub(super) number: u32,
    pub(super) embedded: Vec<Embedding>,
    pub(super) patch_strategy: String,
    pub(super) patch_merge_key: String,
}

#[derive(Deserialize)]
pub(super) struct Embedding {
    pub(super) go: String,
    #[serde(default)]
    pub(super) number: u32,
}

/// Exactly one is there.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct ShapeFacts {
    pub(super) plain: String,
    pub(super) object: Option<String>,
    pub(super) list: Option<Box<ShapeFacts>>,
    pub(super) map: Option<Box<ShapeFacts>>,
}
