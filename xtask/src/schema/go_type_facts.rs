//! The output format of `interop/gotypes`.

use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct GoTypeFacts {
    pub(super) name: String,
    pub(super) go: String,
    pub(super) fields: Vec<GoFieldFacts>,
}

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
pub(super) struct GoFieldFacts {
    pub(super) name: String,
    pub(super) go: String,
    pub(super) shape: GoTypeShape,
    pub(super) pointer: bool,
    pub(super) omitempty: bool,
    pub(super) omitzero: bool,
    pub(super) number: u32,
    pub(super) embedded: Vec<GoEmbeddedStruct>,
    pub(super) patch_strategy: String,
    pub(super) patch_merge_key: String,
}

#[derive(Deserialize)]
pub(super) struct GoEmbeddedStruct {
    pub(super) go: String,
    #[serde(default)]
    pub(super) number: u32,
}

/// Exactly one field is set.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct GoTypeShape {
    pub(super) plain: String,
    pub(super) object: Option<String>,
    pub(super) list: Option<Box<GoTypeShape>>,
    pub(super) map: Option<Box<GoTypeShape>>,
}
