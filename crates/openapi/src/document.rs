//! The documents, put together from paths and types.

use std::collections::{BTreeMap, BTreeSet};

use rhumb_api::Kind;
use rhumb_schema::Table;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::fingerprint::Fingerprint;
use crate::gnostic;
use crate::names;
use crate::operation::{Body, Content, Dialect, Operation, path_item};
use crate::paths::{self, Path, Paths};
use crate::schemas::Schemas;

/// Makes the documents of a set of kinds, when they are asked for.
#[derive(Debug, Clone, Copy)]
pub struct OpenApi<'a> {
    kinds: &'a [Kind],
    table: &'a Table,
    custom: Option<&'a CustomSchemas>,
}

/// The schemas of custom kinds as their definitions have them, by the name of the type.
pub type CustomSchemas = BTreeMap<String, Value>;

impl<'a> OpenApi<'a> {
    /// The table must hold the types of the kinds; a type that it does not hold is described as an open object.
    pub fn new(kinds: &'a [Kind], table: &'a Table) -> OpenApi<'a> {
        OpenApi {
            kinds,
            table,
            custom: None,
        }
    }

    /// The schemas of custom kinds, which are shown as they are.
    pub fn with_schemas(mut self, custom: &'a CustomSchemas) -> OpenApi<'a> {
        self.custom = Some(custom);
        self
    }

    /// What `/openapi/v3` answers: where each document is, with a hash that changes when the document does.
    pub fn v3_index(&self) -> Value {
        let paths: BTreeMap<String, Value> = self
            .names()
            .into_iter()
            .map(|name| {
                let hash = self.fingerprint(&name).text();
                let url = format!("/openapi/v3/{name}?hash={hash}");
                (name, json!({ "serverRelativeURL": url }))
            })
            .collect();
        json!({ "paths": paths })
    }

    /// The hash of a document of the index (`apis/apps/v1`), which is also its ETag.
    pub fn v3_hash(&self, name: &str) -> Option<String> {
        self.names()
            .contains(name)
            .then(|| self.fingerprint(name).text())
    }

    /// What `/openapi/v3/{name}` answers, as JSON.
    pub fn v3(&self, name: &str) -> Option<Vec<u8>> {
        if !self.names().contains(name) {
            return None;
        }
        let kinds = self.kinds_of(name);
        let paths = self.paths_of(name);
        let schemas = self.schemas(Dialect::V3, &kinds);
        let types = schemas.closure(mentioned(&paths));
        let document = V3 {
            openapi: "3.0.0",
            info: INFO,
            paths: Lazily(|| items(&paths, Dialect::V3)),
            components: Components {
                schemas: Lazily(|| types.iter().map(|name| (name, schemas.schema(name)))),
                security_schemes: json!({ "BearerToken": bearer_token() }),
            },
        };
        serde_json::to_vec(&document).ok()
    }

    /// The hash of the one document of version 2, in either form.
    pub fn v2_hash(&self) -> String {
        let all = Fingerprint::of_server();
        self.kinds.iter().fold(all, Fingerprint::with_kind).text()
    }

    /// What `/openapi/v2` answers, as JSON.
    pub fn v2_json(&self) -> Vec<u8> {
        self.with_v2(|parts| {
            let document = V2 {
                swagger: "2.0",
                info: INFO,
                paths: Lazily(|| items(parts.paths, Dialect::V2)),
                definitions: Lazily(|| parts.definitions()),
                security_definitions: json!({ "BearerToken": bearer_token() }),
                security: json!([{ "BearerToken": [] }]),
            };
            serde_json::to_vec(&document).unwrap_or_default()
        })
    }

    /// The same in the protobuf form that kubectl asks for.
    pub fn v2_protobuf(&self) -> Vec<u8> {
        self.with_v2(|parts| {
            gnostic::document(
                (INFO.title, INFO.version),
                items(parts.paths, Dialect::V2),
                parts.definitions(),
                &bearer_token(),
            )
        })
    }

    fn with_v2<T>(&self, make: impl FnOnce(&Parts<'_>) -> T) -> T {
        let kinds: Vec<(&Kind, &str)> = self.kinds.iter().flat_map(in_all_versions).collect();
        let mut paths: Vec<Path> = self
            .names()
            .iter()
            .flat_map(|name| self.paths_of(name))
            .collect();
        paths.sort_by(|(one, _), (other, _)| one.cmp(other));
        let schemas = self.schemas(Dialect::V2, &kinds);
        let types = schemas.closure(mentioned(&paths));
        make(&Parts {
            paths: &paths,
            schemas: &schemas,
            types: &types,
        })
    }

    fn schemas(&self, dialect: Dialect, kinds: &[(&Kind, &str)]) -> Schemas<'a> {
        Schemas::new(self.table, self.custom, dialect, self.kinds, kinds)
    }

    /// The names of all documents of version 3.
    fn names(&self) -> BTreeSet<String> {
        let roots = paths::root_paths()
            .into_iter()
            .map(|(name, _)| name.to_string());
        let groups = self.kinds.iter().map(|kind| group_document(&kind.group));
        let versions = self
            .kinds
            .iter()
            .flat_map(in_all_versions)
            .map(|(kind, version)| names::root(&kind.group, version));
        roots.chain(groups).chain(versions).collect()
    }

    fn kinds_of(&self, name: &str) -> Vec<(&'a Kind, &'a str)> {
        self.kinds
            .iter()
            .flat_map(in_all_versions)
            .filter(|(kind, version)| names::root(&kind.group, version) == name)
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

    fn paths_of(&self, name: &str) -> Vec<Path> {
        let mut all: Vec<Path> = Vec::new();
        for (root, path) in paths::root_paths() {
            if root == name {
                all.push(path);
            }
        }
        if let Some(kind) = self
            .kinds
            .iter()
            .find(|kind| group_document(&kind.group) == name)
        {
            all.push(paths::group_path(&kind.group));
        }
        let kinds = self.kinds_of(name);
        if let Some((kind, version)) = kinds.first() {
            all.push(paths::group_version_path(&kind.group, version));
        }
        for (kind, version) in kinds {
            if let Some(served) = kind.served(version) {
                let paths = Paths {
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

fn group_document(group: &str) -> String {
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

/// The types that operations take and give.
fn mentioned(paths: &[Path]) -> BTreeSet<String> {
    paths
        .iter()
        .flat_map(|(_, operations)| operations)
        .flat_map(|operation: &Operation| {
            let body = operation
                .body
                .as_ref()
                .map(|Body { object, .. }| object.clone());
            let content = match &operation.content {
                Content::Object(name) => Some(name.clone()),
                Content::Text => None,
            };
            body.into_iter().chain(content)
        })
        .collect()
}

fn items(paths: &[Path], dialect: Dialect) -> impl Iterator<Item = (&String, Value)> {
    paths
        .iter()
        .map(move |(path, operations)| (path, path_item(operations, dialect)))
}

/// What a document of version 2 is made of.
struct Parts<'a> {
    paths: &'a [Path],
    schemas: &'a Schemas<'a>,
    types: &'a BTreeSet<String>,
}

impl Parts<'_> {
    fn definitions(&self) -> impl Iterator<Item = (&String, Value)> {
        self.types
            .iter()
            .map(|name| (name, self.schemas.schema(name)))
    }
}

#[derive(Serialize)]
struct Info {
    title: &'static str,
    version: &'static str,
}

/// The version of the API that is described, as kube-apiserver would say it.
const KUBERNETES_VERSION: &str = "v1.36.0";

const INFO: Info = Info {
    title: "Kubernetes",
    version: KUBERNETES_VERSION,
};

#[derive(Serialize)]
struct V3<P: Serialize, S: Serialize> {
    components: Components<S>,
    info: Info,
    openapi: &'static str,
    paths: P,
}

#[derive(Serialize)]
struct Components<S: Serialize> {
    schemas: S,
    #[serde(rename = "securitySchemes")]
    security_schemes: Value,
}

#[derive(Serialize)]
struct V2<P: Serialize, D: Serialize> {
    definitions: D,
    info: Info,
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

/// A JSON object whose members are made one by one while it is written.
struct Lazily<F>(F);

impl<'k, F, I> Serialize for Lazily<F>
where
    F: Fn() -> I,
    I: Iterator<Item = (&'k String, Value)>,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map((self.0)())
    }
}
