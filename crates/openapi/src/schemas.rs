//! Types as OpenAPI writes them.

use std::collections::{BTreeMap, BTreeSet};

use rhumb_api::{Kind, Served};
use rhumb_meta::GroupVersionKind;
use rhumb_schema::{Emit, Field, Items, Shape, Table, Topology, Type};
use serde_json::{Map, Value, json};

use crate::descriptions::Descriptions;
use crate::document::CustomSchemas;
use crate::names;
use crate::operation::{Dialect, gvk_json};

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

/// Writes types of a table, and the few that a table knows as shapes of values.
pub(crate) struct Schemas<'a> {
    table: &'a Table,
    custom: Option<&'a CustomSchemas>,
    descriptions: Descriptions,
    dialect: Dialect,
    /// Kinds by the type of their objects, and of their lists.
    kinds: BTreeMap<String, Vec<GroupVersionKind>>,
    /// Types of the objects that lists hold, by the type of the list.
    lists: BTreeMap<String, String>,
}

impl<'a> Schemas<'a> {
    pub(crate) fn new(
        table: &'a Table,
        custom: Option<&'a CustomSchemas>,
        dialect: Dialect,
        all_kinds: &[Kind],
        kinds: &[(&Kind, &str)],
    ) -> Schemas<'a> {
        let mut schemas = Schemas {
            table,
            custom,
            descriptions: Descriptions::collect(),
            dialect,
            kinds: BTreeMap::new(),
            lists: BTreeMap::new(),
        };
        schemas.name_common_kinds(kinds);
        for kind in all_kinds {
            for served in &kind.versions {
                schemas.name_kind(all_kinds, kind, served);
            }
        }
        schemas
    }

    fn name(&mut self, schema: &str, group: &str, version: &str, kind: &str) {
        let gvk = GroupVersionKind::new(group.to_string(), version.to_string(), kind.to_string());
        let named = self.kinds.entry(schema.to_string()).or_default();
        if !named.contains(&gvk) {
            named.push(gvk);
        }
    }

    fn name_kind(&mut self, all_kinds: &[Kind], kind: &Kind, served: &Served) {
        let version = &served.version;
        self.name(&served.schema, &kind.group, version, &kind.name);
        let list = format!("{}List", served.schema);
        self.name(&list, &kind.group, version, &format!("{}List", kind.name));
        self.lists.insert(list, served.schema.to_string());
        for gvk in kind
            .subresources
            .iter()
            .filter_map(|sub| sub.object.as_ref())
        {
            let schema = names::type_of(all_kinds, gvk);
            self.name(&schema, &gvk.group, &gvk.version, &gvk.kind);
        }
    }

    /// Options and events are kinds of every group, because every group's resources are deleted and watched.
    fn name_common_kinds(&mut self, kinds: &[(&Kind, &str)]) {
        for name in [
            "APIGroup",
            "APIGroupList",
            "APIResourceList",
            "APIVersions",
            "Status",
        ] {
            self.name(&names::meta(name), "", "v1", name);
        }
        let groups: BTreeSet<(&str, &str)> = kinds
            .iter()
            .map(|(kind, version)| (kind.group.as_ref(), *version))
            .chain([("", "v1")])
            .collect();
        for (group, version) in groups {
            for name in ["DeleteOptions", "WatchEvent"] {
                self.name(&names::meta(name), group, version, name);
            }
        }
    }

    /// These types and all that they refer to.
    pub(crate) fn closure(&self, of: BTreeSet<String>) -> BTreeSet<String> {
        let mut known = of.clone();
        let mut new: Vec<String> = of.into_iter().collect();
        while let Some(name) = new.pop() {
            for name in self.mentioned_by(&name) {
                if known.insert(name.clone()) {
                    new.push(name);
                }
            }
        }
        known
    }

    fn mentioned_by(&self, name: &str) -> Vec<String> {
        if let Some(item) = self.lists.get(name) {
            return vec![item.clone(), names::meta("ListMeta")];
        }
        if self.custom(name).is_some() {
            return vec![names::meta("ObjectMeta")];
        }
        let fields = self.find(name).into_iter().flat_map(|found| &found.fields);
        fields
            .filter_map(|field| {
                let mut shape = &field.shape;
                loop {
                    shape = match shape {
                        Shape::List(items) => &items.shape,
                        Shape::Map(values) => values,
                        _ => break self.referred(shape, field),
                    };
                }
            })
            .collect()
    }

    fn custom(&self, name: &str) -> Option<&'a Value> {
        self.custom?.get(name)
    }

    fn find(&self, name: &str) -> Option<&'a Type> {
        self.table.named(name).map(|id| self.table.get(id))
    }

    /// The type by that name, as the table has it or else as the descriptions do.
    pub(crate) fn schema(&self, name: &str) -> Value {
        let mut json = if let Some(item) = self.lists.get(name) {
            self.list(item)
        } else if let Some(custom) = self.custom(name) {
            self.custom_object(custom)
        } else if let Some(leaf) = leaf(name, self.dialect) {
            leaf
        } else if let Some(found) = self.find(name) {
            self.object(found)
        } else {
            self.descriptions.definition(name)
        };
        if let Some(text) = self.descriptions.of_type(name) {
            json["description"] = text.into();
        }
        if let Some(kinds) = self.kinds.get(name) {
            let kinds: Vec<Value> = kinds.iter().map(gvk_json).collect();
            json["x-kubernetes-group-version-kind"] = kinds.into();
        }
        json
    }

    fn object(&self, found: &Type) -> Value {
        let mut json = json!({ "type": "object" });
        if !found.fields.is_empty() {
            let properties: Map<String, Value> = found
                .fields
                .iter()
                .map(|field| (field.name.to_string(), self.property(&found.name, field)))
                .collect();
            json["properties"] = properties.into();
        }
        let required: Vec<&str> = found
            .fields
            .iter()
            .filter(|field| field.required)
            .map(|field| &*field.name)
            .collect();
        if !required.is_empty() {
            json["required"] = required.into();
        }
        if found.atomic {
            json["x-kubernetes-map-type"] = "atomic".into();
        }
        if found.open {
            json["x-kubernetes-preserve-unknown-fields"] = true.into();
        }
        json
    }

    /// A custom kind, with the fields that every kind has. Version 2 of OpenAPI cannot say all that a custom
    /// schema may, and no client that needs it reads version 2: there it is an object of any fields.
    fn custom_object(&self, schema: &Value) -> Value {
        let mut object = match (self.dialect, schema.as_object()) {
            (Dialect::V3, Some(object)) => object.clone(),
            _ => Map::from_iter([("type".to_string(), "object".into())]),
        };
        let properties = object.get("properties").and_then(Value::as_object);
        let mut properties = properties.cloned().unwrap_or_default();
        for (name, property) in [
            ("apiVersion", self.text(self.descriptions.api_version())),
            ("kind", self.text(self.descriptions.kind())),
            (
                "metadata",
                self.metadata("ObjectMeta", "Metadata of the object."),
            ),
        ] {
            properties.insert(name.to_string(), property);
        }
        object.insert("properties".to_string(), properties.into());
        object.into()
    }

    fn text(&self, description: &str) -> Value {
        json!({ "type": "string", "description": description })
    }

    fn metadata(&self, name: &str, description: &str) -> Value {
        let mut metadata = self.dialect.reference(&names::meta(name));
        if self.dialect == Dialect::V3 {
            metadata = json!({ "allOf": [metadata], "default": {} });
        }
        metadata["description"] = description.into();
        metadata
    }

    fn list(&self, item: &str) -> Value {
        let mut items = self.dialect.reference(item);
        if self.dialect == Dialect::V3 {
            items = json!({ "allOf": [items], "default": {} });
        }
        let kind = item.rsplit('.').next().unwrap_or_default();
        json!({
            "description": format!("A list of {kind} objects."),
            "type": "object",
            "properties": {
                "apiVersion": self.text(self.descriptions.api_version()),
                "items": { "type": "array", "items": items, "description": "The objects of the list." },
                "kind": self.text(self.descriptions.kind()),
                "metadata": self.metadata("ListMeta", "Metadata of the list."),
            },
            "required": ["items"],
        })
    }

    fn property(&self, owner: &str, field: &Field) -> Value {
        let mut json = self.value(&field.shape, field);
        let mut more = Map::new();
        if let Some(text) = self.descriptions.of_field(owner, &field.name) {
            more.insert("description".to_string(), text.into());
        }
        if self.dialect == Dialect::V3
            && let Some(default) = self.default(field)
        {
            more.insert("default".to_string(), default);
        }
        if !field.values.is_empty() {
            let values: Vec<&str> = field.values.iter().map(|value| &**value).collect();
            more.insert("enum".to_string(), values.into());
        }
        extensions(field, &mut more);
        if self.dialect == Dialect::V3 && json.get("$ref").is_some() && !more.is_empty() {
            // The newer version of OpenAPI knows no neighbours of a reference.
            json = json!({ "allOf": [json] });
        }
        if let Some(object) = json.as_object_mut() {
            object.append(&mut more);
        }
        json
    }

    fn value(&self, shape: &Shape, field: &Field) -> Value {
        if let Some(name) = self.referred(shape, field) {
            return self.dialect.reference(&name);
        }
        match shape {
            Shape::Bool => json!({ "type": "boolean" }),
            Shape::Int32 => json!({ "type": "integer", "format": "int32" }),
            Shape::Int64 => json!({ "type": "integer", "format": "int64" }),
            Shape::Float64 => json!({ "type": "number", "format": "double" }),
            Shape::Bytes => json!({ "type": "string", "format": "byte" }),
            Shape::List(items) => {
                json!({ "type": "array", "items": self.part(&items.shape, field) })
            }
            Shape::Map(values) => {
                json!({ "type": "object", "additionalProperties": self.part(values, field) })
            }
            _ => json!({ "type": "string" }),
        }
    }

    /// An item of a list or a value of a map.
    fn part(&self, shape: &Shape, field: &Field) -> Value {
        let mut json = self.value(shape, field);
        if self.dialect == Dialect::V3
            && let Some(zero) = zero(shape)
        {
            if json.get("$ref").is_some() {
                json = json!({ "allOf": [json] });
            }
            json["default"] = zero;
        }
        json
    }

    /// The default that is declared, or the zero of what Go cannot leave out.
    fn default(&self, field: &Field) -> Option<Value> {
        if field.default.is_some() {
            return field.default.clone();
        }
        let is_always_there = match field.shape {
            Shape::Object(_) => true,
            _ => field.emit == Emit::Always,
        };
        if field.pointer || !is_always_there {
            return None;
        }
        zero(&field.shape)
    }

    /// The type that a value of this shape refers to.
    fn referred(&self, shape: &Shape, field: &Field) -> Option<String> {
        Some(match shape {
            Shape::Object(id) => self.table.get(*id).name.to_string(),
            Shape::Quantity => QUANTITY.to_string(),
            Shape::IntOrString => INT_OR_STRING.to_string(),
            Shape::Time => names::meta("Time"),
            Shape::MicroTime => names::meta("MicroTime"),
            Shape::Duration => names::meta("Duration"),
            Shape::Any => match field.go.as_deref() {
                Some("v1.FieldsV1") => names::meta("FieldsV1"),
                Some(go) if go.ends_with("v1.JSON") => format!("{EXTENSIONS}.JSON"),
                _ => RAW_EXTENSION.to_string(),
            },
            Shape::OrBool(_) => format!("{EXTENSIONS}.JSONSchemaPropsOrBool"),
            Shape::OrList(_) => format!("{EXTENSIONS}.JSONSchemaPropsOrArray"),
            Shape::OrStrings(_) => format!("{EXTENSIONS}.JSONSchemaPropsOrStringArray"),
            _ => return None,
        })
    }
}

/// The zero of values that are never nil in Go.
fn zero(shape: &Shape) -> Option<Value> {
    match shape {
        Shape::String => Some(json!("")),
        Shape::Bool => Some(json!(false)),
        Shape::Int32 | Shape::Int64 | Shape::Float64 => Some(json!(0)),
        Shape::Object(_) => Some(json!({})),
        _ => None,
    }
}

/// A type that is a plain value, whatever it is called.
fn leaf(name: &str, dialect: Dialect) -> Option<Value> {
    let last = name.rsplit('.').next().unwrap_or_default();
    Some(match (last, dialect) {
        _ if name == QUANTITY && dialect == Dialect::V3 => {
            json!({ "oneOf": [{ "type": "string" }, { "type": "number" }] })
        }
        _ if name == QUANTITY => json!({ "type": "string" }),
        _ if name == INT_OR_STRING && dialect == Dialect::V3 => json!({
            "format": "int-or-string",
            "oneOf": [{ "type": "integer" }, { "type": "string" }],
        }),
        _ if name == INT_OR_STRING => json!({ "format": "int-or-string", "type": "string" }),
        _ if name.starts_with(EXTENSIONS) && is_free(last) => json!({}),
        ("Time" | "MicroTime", _) if name == names::meta(last) => {
            json!({ "format": "date-time", "type": "string" })
        }
        ("Duration", _) if name == names::meta(last) => json!({ "type": "string" }),
        _ => return None,
    })
}

/// Whether any JSON may stand for a type of CustomResourceDefinitions.
fn is_free(name: &str) -> bool {
    name == "JSON" || name.starts_with("JSONSchemaPropsOr")
}

fn extensions(field: &Field, more: &mut Map<String, Value>) {
    let mut strategies = Vec::new();
    if let Shape::List(items) = &field.shape {
        let Items {
            topology, merge, ..
        } = &**items;
        let list_type = match topology {
            Topology::Atomic => "atomic",
            Topology::Set => "set",
            Topology::Map(keys) => {
                let keys: Vec<&str> = keys.iter().map(|key| &**key).collect();
                more.insert("x-kubernetes-list-map-keys".to_string(), keys.into());
                "map"
            }
        };
        more.insert("x-kubernetes-list-type".to_string(), list_type.into());
        if let Some(key) = merge {
            strategies.push("merge");
            if !key.is_empty() {
                more.insert("x-kubernetes-patch-merge-key".to_string(), (**key).into());
            }
        }
    }
    if field.retain_keys {
        strategies.push("retainKeys");
    }
    if field.replace {
        strategies.push("replace");
    }
    if !strategies.is_empty() {
        let strategies = strategies.join(",");
        more.insert("x-kubernetes-patch-strategy".to_string(), strategies.into());
    }
    if let Some(atomic) = field.atomic {
        let kind = if atomic { "atomic" } else { "granular" };
        more.insert("x-kubernetes-map-type".to_string(), kind.into());
    }
}
