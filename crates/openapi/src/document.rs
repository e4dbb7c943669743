//! Assembles the OpenAPI documents from paths and schemas.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rhumb_api::Kind;
use rhumb_schema::Table;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::fingerprint::Fingerprint;
use crate::gnostic;
use crate::names;
use crate::operation::{OpenApiVersion, Operation, OperationBody, ResponseContent, path_item};
use crate::paths::{self, KindPaths, PathItem};
use crate::schemas::SchemaWriter;

/// Generates the OpenAPI documents of a set of kinds on request.
#[derive(Debug, Clone, Copy)]
pub struct OpenApiBuilder<'a> {
    kinds: &'a [Kind],
    table: &'a Table,
    custom: Option<&'a CustomSchemas>,
}

/// The schemas from CustomResourceDefinitions, by type name.
pub type CustomSchemas = BTreeMap<String, Arc<Value>>;

impl<'a> OpenApiBuilder<'a> {
    /// The table should contain the types of the kinds; a missing type is described as an object with any fields.
    pub fn new(kinds: &'a [Kind], table: &'a Table) -> OpenApiBuilder<'a> {
        OpenApiBuilder {
            kinds,
            table,
            custom: None,
        }
    }

    /// Adds the schemas of custom kinds, which are published unchanged.
    pub fn with_schemas(mut self, custom: &'a CustomSchemas) -> OpenApiBuilder<'a> {
        self.custom = Some(custom);
        self
    }

    /// The response of `/openapi/v3`: the URL of each document, with a hash that changes with the document.
    pub fn v3_index(&self) -> Value {
        let paths: BTreeMap<String, Value> = self
            .document_names()
            .into_iter()
            .map(|name| {
                let hash = self.fingerprint(&name).to_hex();
                let url = format!("/openapi/v3/{name}?hash={hash}");
                (name, json!({ "serverRelativeURL": url }))
            })
            .collect();
        json!({ "paths": paths })
    }

    /// The names of all v3 documents.
    pub fn v3_names(&self) -> impl Iterator<Item = String> {
        self.document_names().into_iter()
    }

    /// The hash of a v3 document such as `apis/apps/v1`, which is also its ETag.
    pub fn v3_hash(&self, name: &str) -> Option<String> {
        self.document_names()
            .contains(name)
            .then(|| self.fingerprint(name).to_hex())
    }

    /// The response of `/openapi/v3/{name}` as JSON.
    pub fn v3(&self, name: &str) -> Option<Vec<u8>> {
        if !self.document_names().contains(name) {
            return None;
        }
        let kinds = self.kinds_of(name);
        let paths = self.paths_of(name);
        let schemas = self.schemas(OpenApiVersion::V3, &kinds);
        let types = schemas.closure(referenced_types(&paths));
        let document = OpenApiV3Document {
            openapi: "3.0.0",
            info: INFO,
            paths: LazyMap(|| path_items(&paths, OpenApiVersion::V3)),
            components: OpenApiV3Components {
                schemas: LazyMap(|| types.iter().map(|name| (name, schemas.schema(name)))),
                security_schemes: json!({ "BearerToken": bearer_token() }),
            },
        };
        serde_json::to_vec(&document).ok()
    }

    /// The hash of the v2 document, the same for JSON and protobuf.
    pub fn v2_hash(&self) -> String {
        let all = Fingerprint::of_server();
        let kinds = self.kinds.iter();
        kinds
            .fold(all, |all, kind| self.with_kind(all, kind))
            .to_hex()
    }

    /// The response of `/openapi/v2` as JSON.
    pub fn v2_json(&self) -> Vec<u8> {
        self.build_v2(|parts| {
            let document = OpenApiV2Document {
                swagger: "2.0",
                info: INFO,
                paths: LazyMap(|| path_items(parts.paths, OpenApiVersion::V2)),
                definitions: LazyMap(|| parts.definitions()),
                security_definitions: json!({ "BearerToken": bearer_token() }),
                security: json!([{ "BearerToken": [] }]),
            };
            serde_json::to_vec(&document).unwrap_or_default()
        })
    }

    /// The response of `/openapi/v2` as gnostic protobuf, which kubectl requests.
    pub fn v2_protobuf(&self) -> Vec<u8> {
        self.build_v2(|parts| {
            gnostic::document(
                (INFO.title, INFO.version),
                path_items(parts.paths, OpenApiVersion::V2),
                parts.definitions(),
                &bearer_token(),
            )
        })
    }

    fn build_v2<T>(&self, render: impl FnOnce(&OpenApiV2Parts<'_>) -> T) -> T {
        let kinds: Vec<(&Kind, &str)> = self.kinds.iter().flat_map(in_all_versions).collect();
        let mut paths: Vec<PathItem> = self
            .document_names()
            .iter()
            .flat_map(|name| self.paths_of(name))
            .collect();
        paths.sort_by(|(one, _), (other, _)| one.cmp(other));
        let schemas = self.schemas(OpenApiVersion::V2, &kinds);
        let types = schemas.closure(referenced_types(&paths));
        render(&OpenApiV2Parts {
            paths: &paths,
            schemas: &schemas,
            types: &types,
        })
    }

    fn schemas(&self, dialect: OpenApiVersion, kinds: &[(&Kind, &str)]) -> SchemaWriter<'a> {
        SchemaWriter::new(self.table, self.custom, dialect, self.kinds, kinds)
    }

    /// The names of all v3 documents.
    fn document_names(&self) -> BTreeSet<String> {
        let roots = paths::root_paths()
            .into_iter()
            .map(|(name, _)| name.to_string());
        let groups = self
            .kinds
            .iter()
            .map(|kind| group_document_name(&kind.group));
        let versions = self
            .kinds
            .iter()
            .flat_map(in_all_versions)
            .map(|(kind, version)| names::group_version_root(&kind.group, version));
        roots.chain(groups).chain(versions).collect()
    }

    fn kinds_of(&self, name: &str) -> Vec<(&'a Kind, &'a str)> {
        self.kinds
            .iter()
            .flat_map(in_all_versions)
            .filter(|(kind, version)| names::group_version_root(&kind.group, version) == name)
            .collect()
    }

    fn fingerprint(&self, name: &str) -> Fingerprint {
        let this = Fingerprint::of_server().with(name);
        self.kinds_of(name)
            .into_iter()
            .fold(this, |all, (kind, _)| self.with_kind(all, kind))
    }

    fn with_kind(&self, all: Fingerprint, kind: &Kind) -> Fingerprint {
        kind.versions
            .iter()
            .filter_map(|served| self.custom?.get(served.schema.as_ref()))
            .fold(all.with_kind(kind), |all, schema| {
                all.with(&schema.to_string())
            })
    }

    fn paths_of(&self, name: &str) -> Vec<PathItem> {
        let mut all: Vec<PathItem> = Vec::new();
        for (root, path) in paths::root_paths() {
            if root == name {
                all.push(path);
            }
        }
        if let Some(kind) = self
            .kinds
            .iter()
            .find(|kind| group_document_name(&kind.group) == name)
        {
            all.push(paths::group_path(&kind.group));
        }
        let kinds = self.kinds_of(name);
        if let Some((kind, version)) = kinds.first() {
            all.push(paths::group_version_path(&kind.group, version));
        }
        for (kind, version) in kinds {
            if let Some(served) = kind.served_version(version) {
                let paths = KindPaths {
                    all_kinds: self.kinds,
                    kind,
                    served,
                };
                all.extend(paths.all());
            }
        }
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all
    }
}

fn group_document_name(group: &str) -> String {
    if group.is_empty() {
        "api".to_string()
    } else {
        format!("apis/{group}")
    }
}

fn in_all_versions(kind: &Kind) -> impl Iterator<Item = (&Kind, &str)> {
    kind.versions
        .iter()
        .map(move |served| (kind, served.version.as_ref()))
}

/// The types of all request and response bodies.
fn referenced_types(paths: &[PathItem]) -> BTreeSet<String> {
    paths
        .iter()
        .flat_map(|(_, operations)| operations)
        .flat_map(|operation: &Operation| {
            let body = operation
                .body
                .as_ref()
                .map(|OperationBody { schema: object, .. }| object.clone());
            let content = match &operation.content {
                ResponseContent::Object(name) => Some(name.clone()),
                ResponseContent::Text => None,
            };
            body.into_iter().chain(content)
        })
        .collect()
}

fn path_items(
    paths: &[PathItem],
    dialect: OpenApiVersion,
) -> impl Iterator<Item = (&String, Value)> {
    paths
        .iter()
        .map(move |(path, operations)| (path, path_item(operations, dialect)))
}

/// The parts of a v2 document.
struct OpenApiV2Parts<'a> {
    paths: &'a [PathItem],
    schemas: &'a SchemaWriter<'a>,
    types: &'a BTreeSet<String>,
}

impl OpenApiV2Parts<'_> {
    fn definitions(&self) -> impl Iterator<Item = (&String, Value)> {
        self.types
            .iter()
            .map(|name| (name, self.schemas.schema(name)))
    }
}

/// The `info` object of a document.
#[derive(Serialize)]
struct DocumentInfo {
    title: &'static str,
    version: &'static str,
}

/// The Kubernetes version in the document's `info`.
const KUBERNETES_VERSION: &str = "v1.36.0";

const INFO: DocumentInfo = DocumentInfo {
    title: "Kubernetes",
    version: KUBERNETES_VERSION,
};

#[derive(Serialize)]
struct OpenApiV3Document<P: Serialize, S: Serialize> {
    components: OpenApiV3Components<S>,
    info: DocumentInfo,
    openapi: &'static str,
    paths: P,
}

#[derive(Serialize)]
struct OpenApiV3Components<S: Serialize> {
    schemas: S,
    #[serde(rename = "securitySchemes")]
    security_schemes: Value,
}

#[derive(Serialize)]
struct OpenApiV2Document<P: Serialize, D: Serialize> {
    definitions: D,
    info: DocumentInfo,
    paths: P,
    security: Value,
    #[serde(rename = "securityDefinitions")]
    security_definitions: Value,
    swagger: &'static str,
}

fn bearer_token() -> Value {
    json!({
        "description": "A bearer token.",
        "in": "header",
        "name": "authorization",
        "type": "apiKey",
    })
}

/// A JSON object whose members are generated one by one during serialization.
struct LazyMap<F>(F);

impl<'k, F, I> Serialize for LazyMap<F>
where
    F: Fn() -> I,
    I: Iterator<Item = (&'k String, Value)>,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map((self.0)())
    }
}
