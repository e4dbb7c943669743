//! Encodes the OpenAPI v2 document as gnostic protobuf (`com.github.proto-openapi.spec.v2`), which kubectl requests.
//!
//! Each part is converted from its JSON. Field numbers are those of gnostic's `OpenAPIv2.proto`.

mod wire;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use self::wire::ProtobufMessage;

/// Encodes a document; paths and definitions are given as JSON.
pub(crate) fn document<'a>(
    (title, version): (&str, &str),
    paths: impl Iterator<Item = (&'a String, Value)>,
    definitions: impl Iterator<Item = (&'a String, Value)>,
    bearer_token: &Value,
) -> Vec<u8> {
    let info = ProtobufMessage::new().text(1, title).text(2, version);
    let paths = paths.map(|(name, item)| ProtobufMessage::named_entry(name, &path_item(&item)));
    let definitions =
        definitions.map(|(name, item)| ProtobufMessage::named_entry(name, &schema(&item)));
    let requirement = ProtobufMessage::named_entry("BearerToken", &ProtobufMessage::new());
    let token = ProtobufMessage::new().message(2, &api_key(bearer_token));
    ProtobufMessage::new()
        .text(1, "2.0")
        .message(2, &info)
        .message(8, &ProtobufMessage::new().messages(2, paths))
        .message(9, &ProtobufMessage::new().messages(1, definitions))
        .message(12, &ProtobufMessage::new().message(1, &requirement))
        .message(
            13,
            &ProtobufMessage::new()
                .message(1, &ProtobufMessage::named_entry("BearerToken", &token)),
        )
        .into_bytes()
}

fn api_key(json: &Value) -> ProtobufMessage {
    ProtobufMessage::new()
        .text(1, text(json, "type"))
        .text(2, text(json, "name"))
        .text(3, text(json, "in"))
        .text(4, text(json, "description"))
}

fn path_item(json: &Value) -> ProtobufMessage {
    const METHODS: [(u32, &str); 7] = [
        (2, "get"),
        (3, "put"),
        (4, "post"),
        (5, "delete"),
        (6, "options"),
        (7, "head"),
        (8, "patch"),
    ];
    METHODS
        .iter()
        .filter_map(|(number, method)| Some((number, json.get(method)?)))
        .fold(ProtobufMessage::new(), |item, (number, json)| {
            item.message(*number, &operation(json))
        })
        .messages(9, list(json, "parameters").map(parameter))
}

fn operation(json: &Value) -> ProtobufMessage {
    let responses = members(json, "responses").map(|(code, json)| {
        let response = ProtobufMessage::new().message(1, &response(json));
        ProtobufMessage::named_entry(code, &response)
    });
    ProtobufMessage::new()
        .texts(1, texts(json, "tags"))
        .text(3, text(json, "description"))
        .text(5, text(json, "operationId"))
        .texts(6, texts(json, "produces"))
        .texts(7, texts(json, "consumes"))
        .messages(8, list(json, "parameters").map(parameter))
        .message(9, &ProtobufMessage::new().messages(1, responses))
        .texts(10, texts(json, "schemes"))
        .messages(13, extensions(json))
}

fn response(json: &Value) -> ProtobufMessage {
    let response = ProtobufMessage::new().text(1, text(json, "description"));
    match json.get("schema") {
        Some(json) => response.message(2, &ProtobufMessage::new().message(1, &schema(json))),
        None => response,
    }
}

fn parameter(json: &Value) -> ProtobufMessage {
    let required = json.get("required").and_then(Value::as_bool) == Some(true);
    let unique = json.get("uniqueItems").and_then(Value::as_bool) == Some(true);
    let location = text(json, "in");
    let parameter = if location == "body" {
        let body = ProtobufMessage::new()
            .text(1, text(json, "description"))
            .text(2, text(json, "name"))
            .text(3, location)
            .flag(4, required)
            .messages(5, json.get("schema").map(schema).into_iter());
        ProtobufMessage::new().message(1, &body)
    } else {
        // The messages of path and query parameters differ in one field and in the numbers of all later fields.
        let (number, kind_at, unique_at) = if location == "path" {
            (4, 5, 19)
        } else {
            (3, 6, 20)
        };
        let value = ProtobufMessage::new()
            .flag(1, required)
            .text(2, location)
            .text(3, text(json, "description"))
            .text(4, text(json, "name"))
            .text(kind_at, text(json, "type"))
            .flag(unique_at, unique);
        ProtobufMessage::new().message(2, &ProtobufMessage::new().message(number, &value))
    };
    ProtobufMessage::new().message(1, &parameter)
}

fn schema(json: &Value) -> ProtobufMessage {
    let properties = members(json, "properties")
        .map(|(name, json)| ProtobufMessage::named_entry(name, &schema(json)));
    let properties = json
        .get("properties")
        .map(|_| ProtobufMessage::new().messages(1, properties));
    let part = |json: &Value| ProtobufMessage::new().message(1, &schema(json));
    ProtobufMessage::new()
        .text(1, text(json, "$ref"))
        .text(2, text(json, "format"))
        .text(4, text(json, "description"))
        .texts(19, texts(json, "required"))
        .messages(20, list(json, "enum").map(any))
        .messages(21, json.get("additionalProperties").map(part).into_iter())
        .messages(
            22,
            json.get("type")
                .and_then(Value::as_str)
                .map(kind)
                .into_iter(),
        )
        .messages(23, json.get("items").map(part).into_iter())
        .messages(25, properties.into_iter())
        .messages(31, extensions(json))
}

fn kind(kind: &str) -> ProtobufMessage {
    ProtobufMessage::new().text(1, kind)
}

fn extensions(json: &Value) -> impl Iterator<Item = ProtobufMessage> {
    json.as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| name.starts_with("x-"))
        .map(|(name, value)| ProtobufMessage::named_entry(name, &any(value)))
}

/// Gnostic's `Any` holds a value as YAML, of which JSON is a subset.
fn any(value: &Value) -> ProtobufMessage {
    ProtobufMessage::new().text(2, &format!("{value}\n"))
}

fn text<'a>(json: &'a Value, field: &str) -> &'a str {
    json.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn texts<'a>(json: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    list(json, field).filter_map(Value::as_str)
}

fn list<'a>(json: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    json.get(field)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn members<'a>(json: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    json.get(field)
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::iter)
}
