//! Where in an object the decoder is. It is written out only when there is something to say.

use crate::{Field, Shape, Table, Type};

#[derive(Debug, Clone, Copy)]
pub(super) enum Step<'a> {
    Field(&'a Type, &'a Field),
    Index(usize),
    Key(&'a str),
}

/// A step, and the steps before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot<'a> {
    pub(super) before: Option<&'a Spot<'a>>,
    pub(super) step: Step<'a>,
}

pub(super) type Here<'s> = Option<&'s Spot<'s>>;

/// From the outermost step to the innermost.
fn steps<'a>(spot: Option<&'a Spot<'a>>) -> Vec<Step<'a>> {
    let mut steps: Vec<Step<'a>> = std::iter::successors(spot, |spot| spot.before)
        .map(|spot| spot.step)
        .collect();
    steps.reverse();
    steps
}

/// `spec.containers[0].name`, the form in which unknown and duplicate fields are reported.
pub(super) fn path(spot: Option<&Spot<'_>>, name: &str) -> String {
    let mut path = String::new();
    for step in steps(spot) {
        match step {
            Step::Field(_, field) => append(&mut path, &field.name),
            Step::Key(key) => append(&mut path, key),
            Step::Index(index) => path.push_str(&format!("[{index}]")),
        }
    }
    append(&mut path, name);
    path
}

pub(super) fn append(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

/// The error of a value that does not fit. Go's path has neither indexes nor keys, but the names of structs
/// that a field is promoted from.
pub(super) fn mismatch(spot: Option<&Spot<'_>>, value: &str, go: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut of = None;
    for step in steps(spot) {
        if let Step::Field(parent, field) = step {
            of = Some(parent.short_go());
            names.extend(field.embedded.iter().map(|embedding| &*embedding.go));
            names.push(&field.name);
        }
    }
    match of {
        Some(of) => {
            let path = names.join(".");
            format!("json: cannot unmarshal {value} into Go struct field {of}.{path} of type {go}")
        }
        None => format!("json: cannot unmarshal {value} into Go value of type {go}"),
    }
}

/// The Go type of a value of that shape at that spot.
pub(super) fn go_type(table: &Table, spot: Option<&Spot<'_>>, shape: &Shape) -> String {
    let mut levels = 0;
    for spot in std::iter::successors(spot, |spot| spot.before) {
        match spot.step {
            Step::Field(_, field) => {
                return field
                    .go
                    .as_deref()
                    .and_then(|go| inner(go, levels))
                    .map_or_else(|| usual_go_type(table, shape), str::to_owned);
            }
            Step::Index(_) | Step::Key(_) => levels += 1,
        }
    }
    usual_go_type(table, shape)
}

/// The type of the items of lists and maps, so many levels down; `None` if a name hides it.
fn inner(go: &str, levels: usize) -> Option<&str> {
    (0..levels).try_fold(go, |go, _| {
        let items = go.strip_prefix("[]").or_else(|| {
            go.strip_prefix("map[")
                .and_then(|rest| rest.split_once(']'))
                .map(|(_, rest)| rest)
        })?;
        Some(items.trim_start_matches('*'))
    })
}

fn usual_go_type(table: &Table, shape: &Shape) -> String {
    let name = match shape {
        Shape::String => "string",
        Shape::Bool => "bool",
        Shape::Int32 => "int32",
        Shape::Int64 => "int64",
        Shape::Float64 => "float64",
        Shape::Bytes => "[]uint8",
        Shape::Quantity => "resource.Quantity",
        Shape::IntOrString => "intstr.IntOrString",
        Shape::Time => "v1.Time",
        Shape::MicroTime => "v1.MicroTime",
        Shape::Duration => "v1.Duration",
        Shape::Any => "interface {}",
        Shape::Object(id) | Shape::OrBool(id) | Shape::OrList(id) | Shape::OrStrings(id) => {
            &table.get(*id).go
        }
        Shape::List(items) => return format!("[]{}", usual_go_type(table, &items.shape)),
        Shape::Map(values) => return format!("map[string]{}", usual_go_type(table, values)),
    };
    name.to_owned()
}
