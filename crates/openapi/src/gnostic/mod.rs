//! A document of version 2 in the protobuf form of the gnostic project.
//!
//! It is made from the JSON form, piece by piece. The numbers are those of gnostic's `OpenAPIv2.proto`.

mod wire;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use self::wire::Message;

/// The whole document; paths and definitions are given in their JSON form.
pub(crate) fn document<'a>(
    (title, version): (&str, &str),
    paths: impl Iterator<Item = (&'a String, Value)>,
    definitions: impl Iterator<Item = (&'a String, Value)>,
    bearer_token: &Value,
) -> Vec<u8> {
    let info = Message::new().text(1, title).text(2, version);
    let paths = paths.map(|(name, item)| Message::named(name, &path_item(&item)));
    let definitions = definitions.map(|(name, item)| Message::named(name, &schema(&item)));
    let requirement = Message::named("BearerToken", &Message::new());
    let token = Message::new().message(2, &api_key(bearer_token));
    Message::new()
        .text(1, "2.0")
        .message(2, &info)
        .message(8, &Message::new().messages(2, paths))
        .message(9, &Message::new().messages(1, definitions))
        .message(12, &Message::new().message(1, &requirement))
        .message(
            13,
            &Message::new().message(1, &Message::named("BearerToken", &token)),
        )
        .into_bytes()
}

fn api_key(json: &Value) -> Message {
    Message::new()
        .text(1, text(json, "type"))
        .text(2, text(json, "name"))
        .text(3, text(json, "in"))
        .text(4, text(json, "description"))
}

fn path_item(json: &Value) -> Message {
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
        .fold(Message::new(), |item, (number, json)| {
            item.message(*number, &operation(json))
        })
        .messages(9, list(json, "parameters").map(parameter))
}

fn operation(json: &Value) -> Message {
    let responses = members(json, "responses").map(|(code, json)| {
        let response = Message::new().message(1, &response(json));
        Message::named(code, &response)
    });
    Message::new()
        .texts(1, texts(json, "tags"))
        .text(3, text(json, "description"))
        .text(5, text(json, "operationId"))
        .texts(6, texts(json, "produces"))
        .texts(7, texts(json, "consumes"))
        .messages(8, list(json, "parameters").map(parameter))
        .message(9, &Message::new().messages(1, responses))
        .texts(10, texts(json, "schemes"))
        .messages(13, extensions(json))
}

fn response(json: &Value) -> Message {
    let response = Message::new().text(1, text(json, "description"));
    match json.get("schema") {
        Some(json) => response.message(2, &Message::new().message(1, &schema(json))),
        None => response,
    }
}

fn parameter(json: &Value) -> Message {
    let required = json.get("required").and_then(Value::as_bool) == Some(true);
    let unique = json.get("uniqueItems").and_then(Value::as_bool) == Some(true);
    let place = text(json, "in");
    let parameter = if place == "body" {
        let body = Message::new()
            .text(1, text(json, "description"))
            .text(2, text(json, "name"))
            .text(3, place)
            .flag(4, required)
            .messages(5, json.get("schema").map(schema).into_iter());
        Message::new().message(1, &body)
    } else {
        // The messages of the two places differ in one field, and in the numbers of all that come after it.
        let (number, kind_at, unique_at) = if place == "path" {
            (4, 5, 19)
        } else {
            (3, 6, 20)
        };
        let value = Message::new()
            .flag(1, required)
            .text(2, place)
            .text(3, text(json, "description"))
            .text(4, text(json, "name"))
            .text(kind_at, text(json, "type"))
            .flag(unique_at, unique);
        Message::new().message(2, &Message::new().message(number, &value))
    };
    Message::new().message(1, &parameter)
}

fn schema(json: &Value) -> Message {
    let properties =
        members(json, "properties").map(|(name, json)| Message::named(name, &schema(json)));
    let properties = json
        .get("properties")
        .map(|_| Message::new().messages(1, properties));
    let part = |json: &Value| Message::new().message(1, &schema(json));
    Message::new()
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

fn kind(kind: &str) -> Message {
    Message::new().text(1, kind)
}

fn extensions(json: &Value) -> impl Iterator<Item = Message> {
    json.as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| name.starts_with("x-"))
        .map(|(name, value)| Message::named(name, &any(value)))
}

/// Any value is a text in YAML, of which JSON is a part.
fn any(value: &Value) -> Message {
    Message::new().text(2, &format!("{value}\n"))
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
