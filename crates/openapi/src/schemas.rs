//! Converts types of the schema table to OpenAPI schemas.

use std::collections::{BTreeMap, BTreeSet};

use rhumb_api::{Kind, KindVersion};
use rhumb_meta::GroupVersionKind;
use rhumb_schema::{Field, FieldEmission, ListSchema, ListType, ObjectType, Table, ValueType};
use serde_json::{Map, Value, json};

use crate::descriptions::TypeDescriptions;
use crate::document::CustomSchemas;
use crate::names;
use crate::operation::{OpenApiVersion, gvk_json};

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

/// Generates the OpenAPI schemas of the table's types, lists, custom kinds and scalar types such as Quantity.
pub(crate) struct SchemaWriter<'a> {
    table: &'a Table,
    custom: Option<&'a CustomSchemas>,
    descriptions: TypeDescriptions,
    dialect: OpenApiVersion,
    /// GroupVersionKinds by the name of the object or list type.
    kinds: BTreeMap<String, Vec<GroupVersionKind>>,
    /// Item type by list type.
    lists: BTreeMap<String, String>,
}

impl<'a> SchemaWriter<'a> {
    pub(crate) fn new(
        table: &'a Table,
        custom: Option<&'a CustomSchemas>,
        dialect: OpenApiVersion,
        all_kinds: &[Kind],
        kinds: &[(&Kind, &str)],
    ) -> SchemaWriter<'a> {
        let mut schemas = SchemaWriter {
            table,
            custom,
            descriptions: TypeDescriptions::collect(),
            dialect,
            kinds: BTreeMap::new(),
            lists: BTreeMap::new(),
        };
        schemas.register_common_kinds(kinds);
        for kind in all_kinds {
            for served in &kind.versions {
                schemas.register_kind(all_kinds, kind, served);
            }
        }
        schemas
    }

    fn register_gvk(&mut self, schema: &str, group: &str, version: &str, kind: &str) {
        let gvk = GroupVersionKind::new(group.to_string(), version.to_string(), kind.to_string());
        let named = self.kinds.entry(schema.to_string()).or_default();
        if !named.contains(&gvk) {
            named.push(gvk);
        }
    }

    fn register_kind(&mut self, all_kinds: &[Kind], kind: &Kind, served: &KindVersion) {
        let version = &served.version;
        self.register_gvk(&served.schema, &kind.group, version, &kind.name);
        let list = format!("{}List", served.schema);
        self.register_gvk(&list, &kind.group, version, &format!("{}List", kind.name));
        self.lists.insert(list, served.schema.to_string());
        for gvk in kind
            .subresources
            .iter()
            .filter_map(|sub| sub.object.as_ref())
        {
            let schema = names::schema_name(all_kinds, gvk);
            self.register_gvk(&schema, &gvk.group, &gvk.version, &gvk.kind);
        }
    }

    /// Registers meta types. DeleteOptions and WatchEvent are kinds of every group, as in upstream's documents.
    fn register_common_kinds(&mut self, kinds: &[(&Kind, &str)]) {
        for name in [
            "APIGroup",
            "APIGroupList",
            "APIResourceList",
            "APIVersions",
            "Status",
        ] {
            self.register_gvk(&names::meta_v1_type(name), "", "v1", name);
        }
        let groups: BTreeSet<(&str, &str)> = kinds
            .iter()
            .map(|(kind, version)| (kind.group.as_ref(), *version))
            .chain([("", "v1")])
            .collect();
        for (group, version) in groups {
            for name in ["DeleteOptions", "WatchEvent"] {
                self.register_gvk(&names::meta_v1_type(name), group, version, name);
            }
        }
    }

    /// These types and all types that they reference, transitively.
    pub(crate) fn closure(&self, roots: BTreeSet<String>) -> BTreeSet<String> {
        let mut known = roots.clone();
        let mut pending: Vec<String> = roots.into_iter().collect();
        while let Some(name) = pending.pop() {
            for name in self.referenced_by(&name) {
                if known.insert(name.clone()) {
                    pending.push(name);
                }
            }
        }
        known
    }

    fn referenced_by(&self, name: &str) -> Vec<String> {
        if let Some(item) = self.lists.get(name) {
            return vec![item.clone(), names::meta_v1_type("ListMeta")];
        }
        if self.custom(name).is_some() {
            return vec![names::meta_v1_type("ObjectMeta")];
        }
        let fields = self
            .find_type(name)
            .into_iter()
            .flat_map(|found| &found.fields);
        fields
            .filter_map(|field| {
                let mut value_type = &field.value_type;
                loop {
                    value_type = match value_type {
                        ValueType::List(items) => &items.item_type,
                        ValueType::Map(values) => values,
                        _ => break self.referenced_type(value_type, field),
                    };
                }
            })
            .collect()
    }

    fn custom(&self, name: &str) -> Option<&'a Value> {
        self.custom?.get(name).map(|schema| &**schema)
    }

    fn find_type(&self, name: &str) -> Option<&'a ObjectType> {
        self.table.type_id(name).map(|id| self.table.get(id))
    }

    /// The schema of a type, from the table or else from the k8s-openapi crate.
    pub(crate) fn schema(&self, name: &str) -> Value {
        let mut json = if let Some(item) = self.lists.get(name) {
            self.list(item)
        } else if let Some(custom) = self.custom(name) {
            self.custom_object(custom)
        } else if let Some(leaf) = scalar_schema(name, self.dialect) {
            leaf
        } else if let Some(found) = self.find_type(name) {
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

    fn object(&self, found: &ObjectType) -> Value {
        let mut json = json!({ "type": "object" });
        if !found.fields.is_empty() {
            let properties: Map<String, Value> = found
                .fields
                .iter()
                .flat_map(|field| {
                    let property = self.property(&found.name, field);
                    let aliases = field
                        .aliases
                        .iter()
                        .map(|alias| (alias.to_string(), alias_property(&property, field)))
                        .collect::<Vec<_>>();
                    std::iter::once((field.name.to_string(), property)).chain(aliases)
                })
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
        if found.preserve_unknown_fields {
            json["x-kubernetes-preserve-unknown-fields"] = true.into();
        }
        json
    }

    /// The schema of a custom kind, with apiVersion, kind and metadata added. OpenAPI v2 cannot express all of a CRD
    /// schema, and clients that need it read v3, so in v2 it is an object with any fields.
    fn custom_object(&self, schema: &Value) -> Value {
        let mut object = match (self.dialect, schema.as_object()) {
            (OpenApiVersion::V3, Some(object)) => object.clone(),
            _ => Map::from_iter([("type".to_string(), "object".into())]),
        };
        let properties = object.get("properties").and_then(Value::as_object);
        let mut properties = properties.cloned().unwrap_or_default();
        for (name, property) in [
            (
                "apiVersion",
                self.string_schema(self.descriptions.api_version()),
            ),
            ("kind", self.string_schema(self.descriptions.kind())),
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

    fn string_schema(&self, description: &str) -> Value {
        json!({ "type": "string", "description": description })
    }

    fn metadata(&self, name: &str, description: &str) -> Value {
        let mut metadata = self.dialect.reference(&names::meta_v1_type(name));
        if self.dialect == OpenApiVersion::V3 {
            metadata = json!({ "allOf": [metadata], "default": {} });
        }
        metadata["description"] = description.into();
        metadata
    }

    fn list(&self, item: &str) -> Value {
        let mut items = self.dialect.reference(item);
        if self.dialect == OpenApiVersion::V3 {
            items = json!({ "allOf": [items], "default": {} });
        }
        let kind = item.rsplit('.').next().unwrap_or_default();
        json!({
            "description": format!("A list of {kind} objects."),
            "type": "object",
            "properties": {
                "apiVersion": self.string_schema(self.descriptions.api_version()),
                "items": { "type": "array", "items": items, "description": "The objects of the list." },
                "kind": self.string_schema(self.descriptions.kind()),
                "metadata": self.metadata("ListMeta", "Metadata of the list."),
            },
            "required": ["items"],
        })
    }

    fn property(&self, owner: &str, field: &Field) -> Value {
        let mut json = self.value(&field.value_type, field);
        let mut more = Map::new();
        if let Some(text) = self.descriptions.of_field(owner, &field.name) {
            more.insert("description".to_string(), text.into());
        }
        if self.dialect == OpenApiVersion::V3
            && let Some(default) = self.default(field)
        {
            more.insert("default".to_string(), default);
        }
        extensions(field, &mut more);
        if self.dialect == OpenApiVersion::V3 && json.get("$ref").is_some() && !more.is_empty() {
            // OpenAPI v3 ignores siblings of `$ref`.
            json = json!({ "allOf": [json] });
        }
        if let Some(object) = json.as_object_mut() {
            object.append(&mut more);
        }
        json
    }

    fn value(&self, value_type: &ValueType, field: &Field) -> Value {
        if let Some(name) = self.referenced_type(value_type, field) {
            return self.dialect.reference(&name);
        }
        match value_type {
            ValueType::Bool => json!({ "type": "boolean" }),
            ValueType::Int32 => json!({ "type": "integer", "format": "int32" }),
            ValueType::Int64 => json!({ "type": "integer", "format": "int64" }),
            ValueType::Float64 => json!({ "type": "number", "format": "double" }),
            ValueType::Bytes => json!({ "type": "string", "format": "byte" }),
            ValueType::String => SchemaWriter::string_value(field),
            ValueType::List(items) => {
                json!({ "type": "array", "items": self.element(&items.item_type, field) })
            }
            ValueType::Map(values) => {
                json!({ "type": "object", "additionalProperties": self.element(values, field) })
            }
            _ => json!({ "type": "string" }),
        }
    }

    /// Of a string, also as an item of a list or a value of a map.
    fn string_value(field: &Field) -> Value {
        let mut json = json!({ "type": "string" });
        if !field.allowed_values.is_empty() {
            let values: Vec<&str> = field.allowed_values.iter().map(|value| &**value).collect();
            json["enum"] = values.into();
        }
        json
    }

    /// The schema of a list item or map value.
    fn element(&self, value_type: &ValueType, field: &Field) -> Value {
        let mut json = self.value(value_type, field);
        if self.dialect == OpenApiVersion::V3
            && let Some(zero) = go_zero_value(value_type)
        {
            if json.get("$ref").is_some() {
                json = json!({ "allOf": [json] });
            }
            json["default"] = zero;
        }
        json
    }

    /// The declared default, or Go's zero value for a field that is always serialized.
    fn default(&self, field: &Field) -> Option<Value> {
        if field.default.is_some() {
            return field.default.clone();
        }
        let is_always_there = match field.value_type {
            ValueType::Object(_) => true,
            _ => field.emission == FieldEmission::Always,
        };
        if field.pointer || !is_always_there {
            return None;
        }
        go_zero_value(&field.value_type)
    }

    /// The named type of a value of this shape, if it is written as `$ref`.
    fn referenced_type(&self, value_type: &ValueType, field: &Field) -> Option<String> {
        Some(match value_type {
            ValueType::Object(id) => self.table.get(*id).name.to_string(),
            ValueType::Quantity => QUANTITY.to_string(),
            ValueType::IntOrString => INT_OR_STRING.to_string(),
            ValueType::Time => names::meta_v1_type("Time"),
            ValueType::MicroTime => names::meta_v1_type("MicroTime"),
            ValueType::Duration => names::meta_v1_type("Duration"),
            ValueType::Any => match field.go_type.as_deref() {
                Some("v1.FieldsV1") => names::meta_v1_type("FieldsV1"),
                Some(go) if go.ends_with("v1.JSON") => format!("{EXTENSIONS}.JSON"),
                _ => RAW_EXTENSION.to_string(),
            },
            ValueType::SchemaOrBool(_) => format!("{EXTENSIONS}.JSONSchemaPropsOrBool"),
            ValueType::SchemaOrArray(_) => format!("{EXTENSIONS}.JSONSchemaPropsOrArray"),
            ValueType::SchemaOrStringArray(_) => {
                format!("{EXTENSIONS}.JSONSchemaPropsOrStringArray")
            }
            _ => return None,
        })
    }
}

/// Go's zero value of a non-nil type.
fn go_zero_value(value_type: &ValueType) -> Option<Value> {
    match value_type {
        ValueType::String => Some(json!("")),
        ValueType::Bool => Some(json!(false)),
        ValueType::Int32 | ValueType::Int64 | ValueType::Float64 => Some(json!(0)),
        ValueType::Object(_) => Some(json!({})),
        _ => None,
    }
}

/// The schema of a named type that is serialized as a scalar or any JSON.
fn scalar_schema(name: &str, dialect: OpenApiVersion) -> Option<Value> {
    let last = name.rsplit('.').next().unwrap_or_default();
    Some(match (last, dialect) {
        _ if name == QUANTITY && dialect == OpenApiVersion::V3 => {
            json!({ "oneOf": [{ "type": "string" }, { "type": "number" }] })
        }
        _ if name == QUANTITY => json!({ "type": "string" }),
        _ if name == INT_OR_STRING && dialect == OpenApiVersion::V3 => json!({
            "format": "int-or-string",
            "oneOf": [{ "type": "integer" }, { "type": "string" }],
        }),
        _ if name == INT_OR_STRING => json!({ "format": "int-or-string", "type": "string" }),
        _ if name.starts_with(EXTENSIONS) && accepts_any_json(last) => json!({}),
        ("Time" | "MicroTime", _) if name == names::meta_v1_type(last) => {
            json!({ "format": "date-time", "type": "string" })
        }
        ("Duration", _) if name == names::meta_v1_type(last) => json!({ "type": "string" }),
        _ => return None,
    })
}

/// The property of a field under one of its aliases. kubectl can compute patches only of fields that are published.
fn alias_property(property: &Value, field: &Field) -> Value {
    let mut property = property.clone();
    property["description"] = format!(
        "Another spelling of `{}`, under which it is stored and returned.",
        field.name
    )
    .into();
    property
}

/// Whether a type of the apiextensions group accepts any JSON.
fn accepts_any_json(name: &str) -> bool {
    name == "JSON" || name.starts_with("JSONSchemaPropsOr")
}

fn extensions(field: &Field, more: &mut Map<String, Value>) {
    let mut strategies = Vec::new();
    if let ValueType::List(items) = &field.value_type {
        let ListSchema {
            list_type,
            merge_key,
            ..
        } = &**items;
        let list_type = match list_type {
            ListType::Atomic => "atomic",
            ListType::Set => "set",
            ListType::Map(keys) => {
                let keys: Vec<&str> = keys.iter().map(|key| &**key).collect();
                more.insert("x-kubernetes-list-map-keys".to_string(), keys.into());
                "map"
            }
        };
        more.insert("x-kubernetes-list-type".to_string(), list_type.into());
        if let Some(key) = merge_key {
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
