//! Path of the value being decoded, as a linked list on the stack. It is formatted only when an error is reported.

use crate::{Field, ObjectType, Table, ValueType};

/// A struct field, list index or map key.
#[derive(Debug, Clone, Copy)]
pub(super) enum DecodePathElement<'a> {
    Field(&'a ObjectType, &'a Field),
    Index(usize),
    Key(&'a str),
}

/// An element of the path, linked to its parent.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecodePath<'a> {
    pub(super) parent: OptionalPath<'a>,
    pub(super) element: DecodePathElement<'a>,
}

/// The path of a value; `None` for the root.
pub(super) type OptionalPath<'s> = Option<&'s DecodePath<'s>>;

/// The path elements, outermost first.
fn elements<'a>(path: OptionalPath<'a>) -> Vec<DecodePathElement<'a>> {
    let mut elements: Vec<DecodePathElement<'a>> = std::iter::successors(path, |path| path.parent)
        .map(|path| path.element)
        .collect();
    elements.reverse();
    elements
}

/// The path of field `name` below `parent`, as unknown and duplicate fields are reported: `spec.containers[0].name`.
pub(super) fn field_path(parent: OptionalPath<'_>, name: &str) -> String {
    let mut path = String::new();
    for element in elements(parent) {
        match element {
            DecodePathElement::Field(_, field) => push_name(&mut path, &field.name),
            DecodePathElement::Key(key) => push_name(&mut path, key),
            DecodePathElement::Index(index) => path.push_str(&format!("[{index}]")),
        }
    }
    push_name(&mut path, name);
    path
}

pub(super) fn push_name(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

/// Go's error for a value of another type than its field has. Go's path omits indexes and keys, but includes the names
/// of embedded structs.
pub(super) fn type_mismatch(path: OptionalPath<'_>, found: &str, go_type: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut struct_name = None;
    let mut last_field = None;
    for element in elements(path) {
        if let DecodePathElement::Field(parent, field) = element {
            struct_name = Some(parent.short_go_name());
            names.extend(field.embedded.iter().map(|outer| &*outer.go_name));
            names.push(&field.name);
            last_field = Some(field);
        }
    }
    match struct_name {
        Some(struct_name) => {
            let path = names.join(".");
            let advice = last_field.and_then(|field| quoting_advice(field, found));
            let advice = advice.unwrap_or_default();
            format!(
                "json: cannot unmarshal {found} into Go struct field {struct_name}.{path} of type {go_type}{advice}"
            )
        }
        None => format!("json: cannot unmarshal {found} into Go value of type {go_type}"),
    }
}

/// What to do about a number where one of several texts is expected that look like numbers, such as versions. Fields of
/// upstream have upstream's error.
fn quoting_advice(field: &Field, found: &str) -> Option<String> {
    let example = field.allowed_values.last()?;
    let is_likely = found == "number" && field.is_rhumb_extension();
    is_likely.then(|| {
        let name = &field.name;
        format!(": write it in quotes, such as {name}: \"{example}\"")
    })
}

/// The Go type of the value at a path.
pub(super) fn go_type(table: &Table, path: OptionalPath<'_>, value_type: &ValueType) -> String {
    let mut levels = 0;
    for node in std::iter::successors(path, |node| node.parent) {
        match node.element {
            DecodePathElement::Field(_, field) => {
                return field
                    .go_type
                    .as_deref()
                    .and_then(|go_type| element_go_type(go_type, levels))
                    .map_or_else(|| default_go_type(table, value_type), str::to_owned);
            }
            DecodePathElement::Index(_) | DecodePathElement::Key(_) => levels += 1,
        }
    }
    default_go_type(table, value_type)
}

/// The element type of a list or map type, `levels` levels down; `None` if a named type hides it.
fn element_go_type(go_type: &str, levels: usize) -> Option<&str> {
    (0..levels).try_fold(go_type, |go_type, _| {
        let element = go_type.strip_prefix("[]").or_else(|| {
            go_type
                .strip_prefix("map[")
                .and_then(|rest| rest.split_once(']'))
                .map(|(_, rest)| rest)
        })?;
        Some(element.trim_start_matches('*'))
    })
}

/// The Go type of a value whose field does not name one.
fn default_go_type(table: &Table, value_type: &ValueType) -> String {
    let name = match value_type {
        ValueType::String => "string",
        ValueType::Bool => "bool",
        ValueType::Int32 => "int32",
        ValueType::Int64 => "int64",
        ValueType::Float64 => "float64",
        ValueType::Bytes => "[]uint8",
        ValueType::Quantity => "resource.Quantity",
        ValueType::IntOrString => "intstr.IntOrString",
        ValueType::Time => "v1.Time",
        ValueType::MicroTime => "v1.MicroTime",
        ValueType::Duration => "v1.Duration",
        ValueType::Any => "interface {}",
        ValueType::Object(id)
        | ValueType::SchemaOrBool(id)
        | ValueType::SchemaOrArray(id)
        | ValueType::SchemaOrStringArray(id) => &table.get(*id).go_name,
        ValueType::List(list_schema) => {
            return format!("[]{}", default_go_type(table, &list_schema.item_type));
        }
        ValueType::Map(values) => return format!("map[string]{}", default_go_type(table, values)),
    };
    name.to_owned()
}
