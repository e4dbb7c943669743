//! Parses the text of a schema table (`builtin.table`, `ours.table`) into a [`TableBuilder`].
//!
//! ```text
//! # a comment
//! io.k8s.api.core.v1.Container v1.Container        OpenAPI name, Go name, optionally `atomic`
//!  ports 6 o []io.k8s.api.core.v1.ContainerPort keys=containerPort,protocol merge=containerPort
//! ```
//!
//! A field has a name, a protobuf number (0 for none), flags (`r` required, `p` pointer, `o` left out when empty,
//! `-` for none of them), a value type, and properties:
//!
//! - `in=VolumeSource:2` the field is promoted from that embedded struct, which has that number;
//! - `alias=a,b` other names by which clients may send it;
//! - `set`, `keys=a,b` the list type; atomic without either;
//! - `atomic`, `granular` whether server-side apply owns a map or object as a whole;
//! - `merge=key`, `retainkeys`, `replace` how strategic merge patches treat it;
//! - `go=v1.Protocol` its type in Go if the value type does not determine it;
//! - `values=A|B` the values it, its items or its map values may have, for OpenAPI; a space is written as `_`;
//! - `default=` a constant, as JSON without spaces.

use crate::builder::{TableBuilder, TableError};
use crate::model::{
    EmbeddedStruct, Field, FieldEmission, ListSchema, ListType, ObjectType, ValueType,
};

/// The object type of `orbool`, `orlist` and `orstrings`.
const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// What is wrong with a line.
type LineError = &'static str;

/// Adds the types of a text to the builder.
pub(crate) fn parse(builder: &mut TableBuilder, text: &str) -> Result<(), TableError> {
    let mut current: Option<(ObjectType, Vec<Field>)> = None;
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let result = match line.strip_prefix(' ') {
            Some(field) => parse_field(builder, field).and_then(|field| match &mut current {
                Some((_, fields)) => {
                    fields.push(field);
                    Ok(())
                }
                None => Err("a field before any type"),
            }),
            None => parse_type(line).map(|next| {
                define_parsed(builder, current.replace((next, Vec::new())));
            }),
        };
        result.map_err(|problem| TableError::Line {
            line: index + 1,
            problem,
        })?;
    }
    define_parsed(builder, current);
    Ok(())
}

fn define_parsed(builder: &mut TableBuilder, parsed: Option<(ObjectType, Vec<Field>)>) {
    if let Some((mut object_type, fields)) = parsed {
        object_type.fields = fields.into();
        builder.define(object_type);
    }
}

fn parse_type(line: &str) -> Result<ObjectType, LineError> {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default().into();
    let go_name = words.next().ok_or("a Go type is expected")?.into();
    let mut parsed = ObjectType {
        name,
        go_name,
        ..ObjectType::default()
    };
    for word in words {
        match word {
            "atomic" => parsed.atomic = true,
            "closed" => parsed.reject_unknown_fields = true,
            "open" => parsed.preserve_unknown_fields = true,
            _ => return Err("an unknown property"),
        }
    }
    Ok(parsed)
}

fn parse_field(builder: &mut TableBuilder, line: &str) -> Result<Field, LineError> {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default();
    let number = words.next().and_then(|word| word.parse().ok());
    let number = number.ok_or("a number is expected")?;
    let flags = words.next().ok_or("flags are expected")?;
    let value_type = words.next().ok_or("a value type is expected")?;
    let mut field = Field::new(name, parse_value_type(builder, value_type));
    field.number = number;
    field.emission = FieldEmission::Always;
    for flag in flags.chars() {
        match flag {
            'r' => field.required = true,
            'p' => field.pointer = true,
            'o' => field.emission = FieldEmission::OmitEmpty,
            '-' => {}
            _ => return Err("an unknown flag"),
        }
    }
    for word in words {
        parse_property(&mut field, word)?;
    }
    Ok(field)
}

fn parse_value_type(builder: &mut TableBuilder, text: &str) -> ValueType {
    if let Some(items) = text.strip_prefix("[]") {
        return ValueType::List(Box::new(ListSchema {
            item_type: parse_value_type(builder, items),
            list_type: ListType::Atomic,
            merge_key: None,
        }));
    }
    if let Some(values) = text.strip_prefix("map:") {
        return ValueType::Map(Box::new(parse_value_type(builder, values)));
    }
    match text {
        "string" => ValueType::String,
        "bool" => ValueType::Bool,
        "int32" => ValueType::Int32,
        "int64" => ValueType::Int64,
        "float64" => ValueType::Float64,
        "bytes" => ValueType::Bytes,
        "quantity" => ValueType::Quantity,
        "intorstring" => ValueType::IntOrString,
        "time" => ValueType::Time,
        "microtime" => ValueType::MicroTime,
        "duration" => ValueType::Duration,
        "any" => ValueType::Any,
        "orbool" => ValueType::SchemaOrBool(builder.declare(SCHEMA)),
        "orlist" => ValueType::SchemaOrArray(builder.declare(SCHEMA)),
        "orstrings" => ValueType::SchemaOrStringArray(builder.declare(SCHEMA)),
        name => ValueType::Object(builder.declare(name)),
    }
}

fn parse_property(field: &mut Field, word: &str) -> Result<(), LineError> {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    match name {
        "in" => {
            let (go_name, number) = value.split_once(':').ok_or("a number is expected")?;
            let number = number.parse().map_err(|_| "a number is expected")?;
            let innermost = EmbeddedStruct {
                go_name: go_name.into(),
                number,
            };
            let outer = std::mem::take(&mut field.embedded).into_vec();
            field.embedded = outer.into_iter().chain([innermost]).collect();
        }
        "alias" => field.aliases = value.split(',').map(Into::into).collect(),
        "set" => list_schema(field)?.list_type = ListType::Set,
        "keys" => {
            let keys = value.split(',').map(Into::into).collect();
            list_schema(field)?.list_type = ListType::Map(keys);
        }
        "merge" => list_schema(field)?.merge_key = Some(value.into()),
        "atomic" => field.atomic = Some(true),
        "granular" => field.atomic = Some(false),
        "retainkeys" => field.retain_keys = true,
        "replace" => field.replace = true,
        "go" => field.go_type = Some(value.into()),
        "values" => {
            let values = value.split('|');
            field.allowed_values = values.map(|it| it.replace('_', " ").into()).collect();
        }
        "default" => {
            let default = serde_json::from_str(value).map_err(|_| "a default that is not JSON")?;
            field.default = Some(default);
        }
        _ => return Err("an unknown property"),
    }
    Ok(())
}

fn list_schema(field: &mut Field) -> Result<&mut ListSchema, LineError> {
    match &mut field.value_type {
        ValueType::List(list_schema) => Ok(list_schema),
        _ => Err("only lists have items"),
    }
}
