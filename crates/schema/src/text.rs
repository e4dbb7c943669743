//! The text of a table.
//!
//! ```text
//! # a comment
//! io.k8s.api.core.v1.Container v1.Container        the name in OpenAPI, the name in Go, then perhaps `atomic`
//!  ports 6 o []io.k8s.api.core.v1.ContainerPort keys=containerPort,protocol merge=containerPort
//! ```
//!
//! A field has a name, a protobuf number (0 for none), flags (`r` required, `p` pointer, `o` left out when empty,
//! `-` for none of them), a shape, and properties:
//!
//! - `in=VolumeSource:2` is promoted from that struct, which has that number;
//! - `alias=a,b` other names by which clients may send it;
//! - `set`, `keys=a,b` what tells items of a list apart; nothing for atomic lists;
//! - `atomic`, `granular` whether server-side apply owns a map or object as a whole;
//! - `merge=key`, `retainkeys`, `replace` how strategic merge patches treat it;
//! - `go=v1.Protocol` its type in Go if the shape does not tell;
//! - `values=A|B` the values it may have;
//! - `default=` a constant, as JSON without spaces.

use crate::builder::{TableBuilder, TableError};
use crate::model::{Embedding, Emit, Field, Items, Shape, Topology, Type};

/// The type that `orbool`, `orlist` and `orstrings` stand for an object of.
const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

type Problem = &'static str;

pub(crate) fn read(builder: &mut TableBuilder, text: &str) -> Result<(), TableError> {
    let mut current: Option<(Type, Vec<Field>)> = None;
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let read = match line.strip_prefix(' ') {
            Some(field) => read_field(builder, field).and_then(|field| match &mut current {
                Some((_, fields)) => {
                    fields.push(field);
                    Ok(())
                }
                None => Err("a field before any type"),
            }),
            None => read_type(line).map(|next| {
                finish(builder, current.replace((next, Vec::new())));
            }),
        };
        read.map_err(|problem| TableError::Line {
            line: index + 1,
            problem,
        })?;
    }
    finish(builder, current);
    Ok(())
}

fn finish(builder: &mut TableBuilder, read: Option<(Type, Vec<Field>)>) {
    if let Some((mut read, fields)) = read {
        read.fields = fields.into();
        builder.define(read);
    }
}

fn read_type(line: &str) -> Result<Type, Problem> {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default().into();
    let go = words.next().ok_or("a Go type is expected")?.into();
    let mut read = Type {
        name,
        go,
        ..Type::default()
    };
    for word in words {
        match word {
            "atomic" => read.atomic = true,
            "open" => read.open = true,
            _ => return Err("an unknown property"),
        }
    }
    Ok(read)
}

fn read_field(builder: &mut TableBuilder, line: &str) -> Result<Field, Problem> {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default();
    let number = words.next().and_then(|word| word.parse().ok());
    let number = number.ok_or("a number is expected")?;
    let flags = words.next().ok_or("flags are expected")?;
    let shape = words.next().ok_or("a shape is expected")?;
    let mut field = Field::new(name, read_shape(builder, shape));
    field.number = number;
    field.emit = Emit::Always;
    for flag in flags.chars() {
        match flag {
            'r' => field.required = true,
            'p' => field.pointer = true,
            'o' => field.emit = Emit::UnlessEmpty,
            '-' => {}
            _ => return Err("an unknown flag"),
        }
    }
    for word in words {
        read_property(&mut field, word)?;
    }
    Ok(field)
}

fn read_shape(builder: &mut TableBuilder, text: &str) -> Shape {
    if let Some(items) = text.strip_prefix("[]") {
        return Shape::List(Box::new(Items {
            shape: read_shape(builder, items),
            topology: Topology::Atomic,
            merge: None,
        }));
    }
    if let Some(values) = text.strip_prefix("map:") {
        return Shape::Map(Box::new(read_shape(builder, values)));
    }
    match text {
        "string" => Shape::String,
        "bool" => Shape::Bool,
        "int32" => Shape::Int32,
        "int64" => Shape::Int64,
        "float64" => Shape::Float64,
        "bytes" => Shape::Bytes,
        "quantity" => Shape::Quantity,
        "intorstring" => Shape::IntOrString,
        "time" => Shape::Time,
        "microtime" => Shape::MicroTime,
        "duration" => Shape::Duration,
        "any" => Shape::Any,
        "orbool" => Shape::OrBool(builder.declare(SCHEMA)),
        "orlist" => Shape::OrList(builder.declare(SCHEMA)),
        "orstrings" => Shape::OrStrings(builder.declare(SCHEMA)),
        name => Shape::Object(builder.declare(name)),
    }
}

fn read_property(field: &mut Field, word: &str) -> Result<(), Problem> {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    match name {
        "in" => {
            let (go, number) = value.split_once(':').ok_or("a number is expected")?;
            let number = number.parse().map_err(|_| "a number is expected")?;
            let embedding = Embedding {
                go: go.into(),
                number,
            };
            let outer = std::mem::take(&mut field.embedded).into_vec();
            field.embedded = outer.into_iter().chain([embedding]).collect();
        }
        "alias" => field.aliases = value.split(',').map(Into::into).collect(),
        "set" => items(field)?.topology = Topology::Set,
        "keys" => {
            let keys = value.split(',').map(Into::into).collect();
            items(field)?.topology = Topology::Map(keys);
        }
        "merge" => items(field)?.merge = Some(value.into()),
        "atomic" => field.atomic = Some(true),
        "granular" => field.atomic = Some(false),
        "retainkeys" => field.retain_keys = true,
        "replace" => field.replace = true,
        "go" => field.go = Some(value.into()),
        "values" => field.values = value.split('|').map(Into::into).collect(),
        "default" => {
            let default = serde_json::from_str(value).map_err(|_| "a default that is not JSON")?;
            field.default = Some(default);
        }
        _ => return Err("an unknown property"),
    }
    Ok(())
}

fn items(field: &mut Field) -> Result<&mut Items, Problem> {
    match &mut field.shape {
        Shape::List(items) => Ok(items),
        _ => Err("only lists have items"),
    }
}
