//! An operation on a path, and how both versions of OpenAPI write it.

use std::borrow::Cow;

use rhumb_meta::GroupVersionKind;
use serde_json::{Map, Value, json};

/// Which version of OpenAPI is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    V2,
    V3,
}

impl Dialect {
    /// A reference to a type.
    pub(crate) fn reference(self, name: &str) -> Value {
        match self {
            Dialect::V2 => json!({ "$ref": format!("#/definitions/{name}") }),
            Dialect::V3 => json!({ "$ref": format!("#/components/schemas/{name}") }),
        }
    }
}

pub(crate) const OBJECTS: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];
pub(crate) const LISTS: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
pub(crate) const LOGS: &[&str] = &[
    "text/plain",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];
pub(crate) const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
pub(crate) const ANYTHING: &[&str] = &["*/*"];
pub(crate) const JSON: &[&str] = &["application/json"];

#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) method: &'static str,
    pub(crate) id: String,
    pub(crate) description: String,
    pub(crate) tag: String,
    pub(crate) action: Option<(&'static str, GroupVersionKind)>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Option<Body>,
    pub(crate) answers: &'static [Answer],
    pub(crate) content: Content,
    pub(crate) produces: &'static [&'static str],
    /// What an operation without a body says it takes; only the older version of OpenAPI shows it.
    pub(crate) consumes: &'static [&'static str],
}

/// A code that is answered when all is well.
pub(crate) type Answer = (&'static str, &'static str);

pub(crate) const OK: Answer = ("200", "OK");
pub(crate) const CREATED: Answer = ("201", "Created");
pub(crate) const ACCEPTED: Answer = ("202", "Accepted");

/// What is in an answer.
#[derive(Debug)]
pub(crate) enum Content {
    Object(String),
    Text,
}

#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) object: String,
    pub(crate) required: bool,
    pub(crate) media: &'static [&'static str],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) place: Place,
    /// `string`, `integer` or `boolean`.
    pub(crate) kind: &'static str,
    pub(crate) description: Cow<'static, str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Path,
    Query,
}

impl Parameter {
    fn json(&self, dialect: Dialect) -> Value {
        let mut json = json!({
            "name": self.name,
            "in": match self.place { Place::Path => "path", Place::Query => "query" },
            "description": self.description,
        });
        if self.place == Place::Path {
            json["required"] = true.into();
        }
        match dialect {
            Dialect::V2 => {
                json["type"] = self.kind.into();
                json["uniqueItems"] = true.into();
            }
            Dialect::V3 => json["schema"] = json!({ "type": self.kind, "uniqueItems": true }),
        }
        json
    }
}

/// All operations of a path. What parameters they share is written once.
pub(crate) fn path_item(operations: &[Operation], dialect: Dialect) -> Value {
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

fn parameters(mut parameters: Vec<&Parameter>, dialect: Dialect) -> Vec<Value> {
    parameters.sort_by_key(|parameter| (parameter.name, parameter.place));
    parameters
        .iter()
        .map(|parameter| parameter.json(dialect))
        .collect()
}

impl Operation {
    fn json(&self, own: Vec<&Parameter>, dialect: Dialect) -> Value {
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
            Dialect::V2 => {
                let consumes = self.body.as_ref().map_or(self.consumes, |body| body.media);
                if !consumes.is_empty() {
                    json["consumes"] = consumes.into();
                }
                json["produces"] = self.produces.into();
                json["schemes"] = json!(["https"]);
                if let Some(body) = &self.body {
                    parameters.insert(0, body.as_parameter());
                }
            }
            Dialect::V3 => {
                if let Some(body) = &self.body {
                    json["requestBody"] = body.as_request();
                }
            }
        }
        if !parameters.is_empty() {
            json["parameters"] = parameters.into();
        }
        json
    }

    fn responses(&self, dialect: Dialect) -> Value {
        let schema = match &self.content {
            Content::Object(name) => dialect.reference(name),
            Content::Text => json!({ "type": "string" }),
        };
        let mut responses = Map::new();
        for (code, description) in self.answers {
            let mut response = json!({ "description": description });
            match dialect {
                Dialect::V2 => response["schema"] = schema.clone(),
                Dialect::V3 => response["content"] = content(self.produces, &schema),
            }
            responses.insert((*code).to_string(), response);
        }
        responses.insert("401".to_string(), json!({ "description": "Unauthorized" }));
        Value::Object(responses)
    }
}

impl Body {
    fn as_parameter(&self) -> Value {
        let schema = Dialect::V2.reference(&self.object);
        let mut json = json!({ "in": "body", "name": "body", "schema": schema });
        if self.required {
            json["required"] = true.into();
        }
        json
    }

    fn as_request(&self) -> Value {
        let schema = Dialect::V3.reference(&self.object);
        let mut json = json!({ "content": content(self.media, &schema) });
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
