//! An OpenAPI operation and its JSON in OpenAPI v2 and v3.

use std::borrow::Cow;

use rhumb_meta::GroupVersionKind;
use serde_json::{Map, Value, json};

/// The OpenAPI version of the generated document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenApiVersion {
    V2,
    V3,
}

impl OpenApiVersion {
    /// A `$ref` to a type.
    pub(crate) fn reference(self, name: &str) -> Value {
        match self {
            OpenApiVersion::V2 => json!({ "$ref": format!("#/definitions/{name}") }),
            OpenApiVersion::V3 => json!({ "$ref": format!("#/components/schemas/{name}") }),
        }
    }
}

pub(crate) const OBJECT_MEDIA_TYPES: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];
pub(crate) const LIST_MEDIA_TYPES: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
pub(crate) const LOG_MEDIA_TYPES: &[&str] = &[
    "text/plain",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];
pub(crate) const PATCH_MEDIA_TYPES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
pub(crate) const ANY_MEDIA_TYPE: &[&str] = &["*/*"];
pub(crate) const JSON_MEDIA_TYPE: &[&str] = &["application/json"];

/// An operation on a path: an HTTP method with its parameters, body and responses.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) method: &'static str,
    pub(crate) id: String,
    pub(crate) description: String,
    pub(crate) tag: String,
    pub(crate) action: Option<(&'static str, GroupVersionKind)>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Option<OperationBody>,
    pub(crate) success_responses: &'static [SuccessResponse],
    pub(crate) content: ResponseContent,
    pub(crate) produces: &'static [&'static str],
    /// The `consumes` of an operation without a body; only in OpenAPI v2.
    pub(crate) consumes: &'static [&'static str],
}

/// The status code and description of a successful response.
pub(crate) type SuccessResponse = (&'static str, &'static str);

pub(crate) const OK: SuccessResponse = ("200", "OK");
pub(crate) const CREATED: SuccessResponse = ("201", "Created");
pub(crate) const ACCEPTED: SuccessResponse = ("202", "Accepted");

/// The schema of a response body.
#[derive(Debug)]
pub(crate) enum ResponseContent {
    Object(String),
    Text,
}

/// The request body of an operation.
#[derive(Debug)]
pub(crate) struct OperationBody {
    pub(crate) schema: String,
    pub(crate) required: bool,
    pub(crate) media_types: &'static [&'static str],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) location: ParameterLocation,
    /// `string`, `integer` or `boolean`.
    pub(crate) kind: &'static str,
    pub(crate) description: Cow<'static, str>,
}

/// The `in` of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ParameterLocation {
    Path,
    Query,
}

impl Parameter {
    fn json(&self, dialect: OpenApiVersion) -> Value {
        let mut json = json!({
            "name": self.name,
            "in": match self.location { ParameterLocation::Path => "path", ParameterLocation::Query => "query" },
            "description": self.description,
        });
        if self.location == ParameterLocation::Path {
            json["required"] = true.into();
        }
        match dialect {
            OpenApiVersion::V2 => {
                json["type"] = self.kind.into();
                json["uniqueItems"] = true.into();
            }
            OpenApiVersion::V3 => {
                json["schema"] = json!({ "type": self.kind, "uniqueItems": true });
            }
        }
        json
    }
}

/// The path item with all operations of a path; parameters common to all of them are written once.
pub(crate) fn path_item(operations: &[Operation], dialect: OpenApiVersion) -> Value {
    let shared: Vec<&Parameter> = match operations.split_first() {
        None => Vec::new(),
        Some((first, others)) => first
            .parameters
            .iter()
            .filter(|parameter| {
                others
                    .iter()
                    .all(|other| other.parameters.contains(parameter))
            })
            .collect(),
    };
    let mut item: Map<String, Value> = operations
        .iter()
        .map(|operation| {
            let own = operation.parameters.iter();
            let own = own
                .filter(|parameter| !shared.contains(parameter))
                .collect();
            (operation.method.to_string(), operation.json(own, dialect))
        })
        .collect();
    if !shared.is_empty() {
        item.insert("parameters".to_string(), parameters(shared, dialect).into());
    }
    Value::Object(item)
}

fn parameters(mut parameters: Vec<&Parameter>, dialect: OpenApiVersion) -> Vec<Value> {
    parameters.sort_by_key(|parameter| (parameter.name, parameter.location));
    parameters
        .iter()
        .map(|parameter| parameter.json(dialect))
        .collect()
}

impl Operation {
    fn json(&self, own: Vec<&Parameter>, dialect: OpenApiVersion) -> Value {
        let mut json = json!({
            "description": self.description,
            "operationId": self.id,
            "tags": [self.tag],
            "responses": self.responses(dialect),
        });
        if let Some((action, gvk)) = &self.action {
            json["x-kubernetes-action"] = (*action).into();
            json["x-kubernetes-group-version-kind"] = gvk_json(gvk);
        }
        let mut parameters = parameters(own, dialect);
        match dialect {
            OpenApiVersion::V2 => {
                let consumes = self
                    .body
                    .as_ref()
                    .map_or(self.consumes, |body| body.media_types);
                if !consumes.is_empty() {
                    json["consumes"] = consumes.into();
                }
                json["produces"] = self.produces.into();
                json["schemes"] = json!(["https"]);
                if let Some(body) = &self.body {
                    parameters.insert(0, body.as_v2_parameter());
                }
            }
            OpenApiVersion::V3 => {
                if let Some(body) = &self.body {
                    json["requestBody"] = body.as_v3_request_body();
                }
            }
        }
        if !parameters.is_empty() {
            json["parameters"] = parameters.into();
        }
        json
    }

    fn responses(&self, dialect: OpenApiVersion) -> Value {
        let schema = match &self.content {
            ResponseContent::Object(name) => dialect.reference(name),
            ResponseContent::Text => json!({ "type": "string" }),
        };
        let mut responses = Map::new();
        for (code, description) in self.success_responses {
            let mut response = json!({ "description": description });
            match dialect {
                OpenApiVersion::V2 => response["schema"] = schema.clone(),
                OpenApiVersion::V3 => response["content"] = content(self.produces, &schema),
            }
            responses.insert((*code).to_string(), response);
        }
        responses.insert("401".to_string(), json!({ "description": "Unauthorized" }));
        Value::Object(responses)
    }
}

impl OperationBody {
    fn as_v2_parameter(&self) -> Value {
        let schema = OpenApiVersion::V2.reference(&self.schema);
        let mut json = json!({ "in": "body", "name": "body", "schema": schema });
        if self.required {
            json["required"] = true.into();
        }
        json
    }

    fn as_v3_request_body(&self) -> Value {
        let schema = OpenApiVersion::V3.reference(&self.schema);
        let mut json = json!({ "content": content(self.media_types, &schema) });
        if self.required {
            json["required"] = true.into();
        }
        json
    }
}

fn content(media: &[&str], schema: &Value) -> Value {
    media
        .iter()
        .map(|media| ((*media).to_string(), json!({ "schema": schema })))
        .collect::<Map<_, _>>()
        .into()
}

pub(crate) fn gvk_json(gvk: &GroupVersionKind) -> Value {
    json!({ "group": gvk.group, "kind": gvk.kind, "version": gvk.version })
}
