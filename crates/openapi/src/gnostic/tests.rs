//! Compares the protobuf encoding with the JSON document.

use std::collections::BTreeMap;

use prost::Message;
use rhumb_api::kinds;
use rhumb_schema::Table;
use serde_json::{Value, json};

use crate::OpenApiBuilder;
use crate::tests::v2;

/// The parts of gnostic's messages that the tests decode.
mod decoded {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct GnosticDocument {
        #[prost(string, tag = "1")]
        pub(super) swagger: String,
        #[prost(message, optional, tag = "8")]
        pub(super) paths: Option<Paths>,
        #[prost(message, optional, tag = "9")]
        pub(super) definitions: Option<NamedSchemas>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Paths {
        #[prost(message, repeated, tag = "2")]
        pub(super) path: Vec<NamedPathItem>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct NamedPathItem {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(message, optional, tag = "2")]
        pub(super) value: Option<PathItem>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct PathItem {
        #[prost(message, optional, tag = "8")]
        pub(super) patch: Option<GnosticOperation>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct GnosticOperation {
        #[prost(string, tag = "5")]
        pub(super) operation_id: String,
        #[prost(string, repeated, tag = "7")]
        pub(super) consumes: Vec<String>,
        #[prost(message, repeated, tag = "13")]
        pub(super) vendor_extension: Vec<NamedAny>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct NamedAny {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(message, optional, tag = "2")]
        pub(super) value: Option<YamlAny>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct YamlAny {
        #[prost(string, tag = "2")]
        pub(super) yaml: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct NamedSchemas {
        #[prost(message, repeated, tag = "1")]
        pub(super) named: Vec<NamedSchema>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct NamedSchema {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(message, optional, tag = "2")]
        pub(super) value: Option<Schema>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Schema {
        #[prost(string, tag = "1")]
        pub(super) reference: String,
        #[prost(string, tag = "4")]
        pub(super) description: String,
        #[prost(string, repeated, tag = "19")]
        pub(super) required: Vec<String>,
        #[prost(message, optional, tag = "22")]
        pub(super) kind: Option<TypeItem>,
        #[prost(message, optional, tag = "25")]
        pub(super) properties: Option<NamedSchemas>,
        #[prost(message, repeated, tag = "31")]
        pub(super) vendor_extension: Vec<NamedAny>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct TypeItem {
        #[prost(string, repeated, tag = "1")]
        pub(super) value: Vec<String>,
    }
}

fn extensions(extensions: &[decoded::NamedAny]) -> BTreeMap<String, Value> {
    extensions
        .iter()
        .map(|named| {
            let json = serde_json::from_str(&named.value.as_ref().unwrap().yaml).unwrap();
            (named.name.clone(), json)
        })
        .collect()
}

fn check_schema(decoded: &decoded::Schema, json: &Value) {
    let text = |field: &str| json[field].as_str().unwrap_or_default();
    assert_eq!(decoded.reference, text("$ref"));
    assert_eq!(decoded.description, text("description"));
    let kind = decoded.kind.as_ref().map_or("", |kind| &kind.value[0]);
    assert_eq!(kind, text("type"));
    let required: Vec<Value> = decoded.required.iter().map(|name| json!(name)).collect();
    assert_eq!(
        required,
        *json["required"].as_array().unwrap_or(&Vec::new())
    );
    for (name, value) in extensions(&decoded.vendor_extension) {
        assert_eq!(value, json[name]);
    }
    let properties = decoded
        .properties
        .iter()
        .flat_map(|properties| &properties.named);
    for property in properties {
        check_schema(
            property.value.as_ref().unwrap(),
            &json["properties"][&property.name],
        );
    }
}

#[test]
fn protobuf_encoding_equals_the_json_document() {
    let kinds = kinds::all();
    let bytes = OpenApiBuilder::new(&kinds, Table::builtin()).v2_protobuf();
    let decoded = decoded::GnosticDocument::decode(bytes.as_slice()).unwrap();
    let json = v2();
    assert_eq!(decoded.swagger, "2.0");

    let definitions = decoded.definitions.unwrap().named;
    assert_eq!(
        definitions.len(),
        json["definitions"].as_object().unwrap().len()
    );
    for definition in &definitions {
        check_schema(
            definition.value.as_ref().unwrap(),
            &json["definitions"][&definition.name],
        );
    }

    let paths = decoded.paths.unwrap().path;
    assert_eq!(paths.len(), json["paths"].as_object().unwrap().len());
    for path in paths {
        let item = &json["paths"][&path.name];
        let patch = path.value.unwrap().patch;
        assert_eq!(
            patch.is_some(),
            item.get("patch").is_some(),
            "{}",
            path.name
        );
        if let Some(patch) = patch {
            assert_eq!(
                patch.operation_id,
                item["patch"]["operationId"].as_str().unwrap()
            );
            assert_eq!(json!(patch.consumes), item["patch"]["consumes"]);
            let extensions = extensions(&patch.vendor_extension);
            assert_eq!(
                extensions["x-kubernetes-action"],
                item["patch"]["x-kubernetes-action"]
            );
        }
    }
}
