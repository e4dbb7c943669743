//! Schema-driven JSON decoder, in one pass over the input.
//!
//! As in Go's `encoding/json`, a type mismatch is recorded and decoding continues, an error from a custom
//! unmarshaler (time, quantity) aborts it, and a duplicate field is decoded into the existing value.

use std::collections::HashSet;

use rhumb_meta::gotext;
use serde_json::Value;

use super::aliases::{self, UsedAliases};
use super::decoded_field_set::DecodedFieldSet;
use super::path::{self, DecodePath, DecodePathElement, OptionalPath};
use super::scalars::zero;
use super::times::{canonical_micro_time, canonical_time};
use super::{DecodeOptions, DecodeOutput, KIND_ERROR_PREFIX, MAX_DEPTH};
use crate::json::{JsonReader, MalformedJson};
use crate::{Field, ListSchema, Object, ObjectType, Table, TypeId, ValueType};

/// Maximum number of reported problems.
const MAX_PROBLEMS: usize = 100;

/// An error that aborts decoding.
pub(super) enum FatalDecodeError {
    Malformed,
    TooDeep,
    /// A custom unmarshaler rejected the value, with this message.
    Rejected(String),
}

impl From<MalformedJson> for FatalDecodeError {
    fn from(_: MalformedJson) -> FatalDecodeError {
        FatalDecodeError::Malformed
    }
}

/// Decodes one document and collects its problems.
pub(super) struct JsonDecoder<'t, 'i> {
    pub(super) table: &'t Table,
    pub(super) reader: JsonReader<'i>,
    pub(super) options: DecodeOptions,
    pub(super) depth: usize,
    /// Whether the value is in an object whose type rejects unknown fields. Then they are rejected at any depth.
    rejects_unknown_fields: bool,
    problems: Vec<String>,
    /// The same as `problems`, to report each only once.
    reported: HashSet<String>,
    rejected: Vec<String>,
    alias_warnings: Vec<String>,
    /// The first type mismatch.
    pub(super) mismatch: Option<String>,
    /// The first type mismatch in `kind` or `apiVersion`, which upstream decodes first.
    kind_mismatch: Option<String>,
}

/// The decoded value; `None` for Go's zero value.
pub(super) type ValueResult = Result<Option<Value>, FatalDecodeError>;

impl<'t, 'i> JsonDecoder<'t, 'i> {
    pub(super) fn new(
        table: &'t Table,
        bytes: &'i [u8],
        options: DecodeOptions,
    ) -> JsonDecoder<'t, 'i> {
        JsonDecoder {
            table,
            reader: JsonReader::new(bytes),
            options,
            depth: 0,
            rejects_unknown_fields: false,
            problems: Vec::new(),
            reported: HashSet::new(),
            rejected: Vec::new(),
            alias_warnings: Vec::new(),
            mismatch: None,
            kind_mismatch: None,
        }
    }

    pub(super) fn into_output(self, object: Object) -> DecodeOutput {
        DecodeOutput {
            object,
            problems: self.problems,
            rejected: self.rejected,
            alias_warnings: self.alias_warnings,
        }
    }

    pub(super) fn take_kind_error(&mut self) -> Option<String> {
        self.kind_mismatch.take()
    }

    pub(super) fn take_first_error(&mut self) -> Option<String> {
        self.take_kind_error().or_else(|| self.mismatch.take())
    }

    pub(super) fn document(&mut self, type_id: TypeId) -> Result<Object, FatalDecodeError> {
        let value_type = ValueType::Object(type_id);
        let value = if self.options.top_level && !matches!(self.reader.peek()?, b'{' | b'n') {
            let found = self.skip_and_describe("number")?;
            self.kind_mismatch = Some(format!(
                "{KIND_ERROR_PREFIX}json: cannot unmarshal {found} into Go value of type {KIND_STRUCT}"
            ));
            None
        } else {
            self.value(&value_type, None, None)?
        };
        self.reader.end()?;
        match value {
            Some(Value::Object(object)) => Ok(object),
            _ => Ok(Object::new()),
        }
    }

    /// Decodes one value. `old` is the value of an earlier field with the same name.
    fn value(
        &mut self,
        value_type: &ValueType,
        old: Option<Value>,
        path: OptionalPath<'_>,
    ) -> ValueResult {
        let next = self.reader.peek()?;
        if next == b'"' && matches!(value_type, ValueType::String) {
            return Ok(Some(Value::String(
                self.reader.string_after_peek()?.into_owned(),
            )));
        }
        if next == b'n' {
            self.reader.word("null")?;
            // As in Go, null clears values that can be nil and does not change others.
            let is_kept = !matches!(
                value_type,
                ValueType::List(_) | ValueType::Map(_) | ValueType::Bytes
            );
            return Ok(old.filter(|_| is_kept && !is_pointer(path)));
        }
        match value_type {
            ValueType::String => self.type_mismatch(value_type, path),
            ValueType::Bool => self.bool(value_type, path),
            ValueType::Int32 => {
                self.integer(value_type, i64::from(i32::MIN)..=i64::from(i32::MAX), path)
            }
            ValueType::Int64 => self.integer(value_type, i64::MIN..=i64::MAX, path),
            ValueType::Float64 => self.float(value_type, path),
            ValueType::Bytes => self.bytes(value_type, path),
            ValueType::Quantity => self.quantity(),
            ValueType::IntOrString => self.int_or_string(path),
            ValueType::Time => self.string_encoded(path, canonical_time),
            ValueType::MicroTime => self.string_encoded(path, canonical_micro_time),
            ValueType::Duration => self.string_encoded(path, |text| Ok(text.to_owned())),
            ValueType::Any => self.opaque_value(path).map(Some),
            ValueType::Object(id) => self.object(*id, old, path),
            ValueType::List(list_schema) => self.list(list_schema, value_type, old, path),
            ValueType::Map(values) => self.map(values, value_type, old, path),
            ValueType::SchemaOrBool(id)
            | ValueType::SchemaOrArray(id)
            | ValueType::SchemaOrStringArray(id) => {
                self.schema_or_alternative(value_type, *id, path)
            }
        }
    }

    pub(super) fn with_deeper_nesting<T>(
        &mut self,
        decode: impl FnOnce(&mut Self) -> Result<T, FatalDecodeError>,
    ) -> Result<T, FatalDecodeError> {
        if self.depth >= MAX_DEPTH {
            return Err(FatalDecodeError::TooDeep);
        }
        self.depth += 1;
        let result = decode(self);
        self.depth -= 1;
        result
    }

    fn object(&mut self, id: TypeId, old: Option<Value>, path: OptionalPath<'_>) -> ValueResult {
        if self.reader.peek()? != b'{' {
            return self.type_mismatch(&ValueType::Object(id), path);
        }
        let table = self.table;
        let object = match old {
            Some(Value::Object(object)) => object,
            _ => Object::new(),
        };
        let (object_type, outer) = (table.get(id), self.rejects_unknown_fields);
        self.rejects_unknown_fields |= object_type.reject_unknown_fields;
        let result = self.with_deeper_nesting(|decoder| decoder.fields(object_type, object, path));
        self.rejects_unknown_fields = outer;
        result.map(|object| Some(Value::Object(object)))
    }

    fn fields(
        &mut self,
        object_type: &'t ObjectType,
        mut object: Object,
        path: OptionalPath<'_>,
    ) -> Result<Object, FatalDecodeError> {
        self.reader.open(b'{')?;
        let mut first = true;
        let mut decoded_fields = DecodedFieldSet::default();
        let mut sent_aliases = UsedAliases::default();
        let is_prefilled = !object.is_empty();
        while let Some(name) = self.reader.key(&mut first)? {
            let position_by_name = object_type.position(&name);
            let Some(position) = position_by_name.or_else(|| object_type.position_of_alias(&name))
            else {
                self.unknown_field(object_type, &name, &mut object, path)?;
                continue;
            };
            let field = &object_type.fields[position];
            let is_duplicate = decoded_fields.test_and_set(position);
            if is_duplicate || position_by_name.is_none() {
                let is_null = self.reader.peek()? == b'n';
                let was_set = is_duplicate && object.contains_key(&*field.name);
                let is_other_spelling =
                    sent_aliases.check(field, &name, was_set && !is_null, path)?;
                // A null under one spelling leaves the value under the other one alone.
                if is_null && was_set && is_other_spelling {
                    self.reader.skip()?;
                    continue;
                }
                let is_duplicate = is_duplicate && !is_other_spelling;
                self.report_duplicate_or_alias(field, &name, is_duplicate, path);
            }
            let old = match is_duplicate || is_prefilled {
                true => object.remove(&*field.name),
                false => None,
            };
            let path = DecodePath {
                parent: path,
                element: DecodePathElement::Field(object_type, field),
            };
            if let Some(value) = self.value(&field.value_type, old, Some(&path))? {
                object.insert((*field.name).to_owned(), value);
            }
        }
        Ok(object)
    }

    /// Reports a field that is a duplicate or was sent under an alias.
    #[cold]
    fn report_duplicate_or_alias(
        &mut self,
        field: &Field,
        name: &str,
        is_duplicate: bool,
        path: OptionalPath<'_>,
    ) {
        if is_duplicate {
            self.report_problem("duplicate field", path, name);
        }
        if *field.name != *name && self.alias_warnings.len() < MAX_PROBLEMS {
            self.alias_warnings
                .push(aliases::stored_as_warning(path, name, field));
        }
    }

    fn unknown_field(
        &mut self,
        object_type: &ObjectType,
        name: &str,
        object: &mut Object,
        path: OptionalPath<'_>,
    ) -> Result<(), FatalDecodeError> {
        if object_type.preserve_unknown_fields {
            let value = self.opaque_value(path)?;
            object.insert(name.to_owned(), value);
        } else {
            if self.rejects_unknown_fields && self.rejected.len() < MAX_PROBLEMS {
                self.rejected.push(rejected_field(object_type, name, path));
            } else {
                self.report_problem("unknown field", path, name);
            }
            self.reader.skip()?;
        }
        Ok(())
    }

    fn list(
        &mut self,
        list_schema: &ListSchema,
        value_type: &ValueType,
        old: Option<Value>,
        path: OptionalPath<'_>,
    ) -> ValueResult {
        if self.reader.peek()? != b'[' {
            return self.type_mismatch(value_type, path);
        }
        let old = match old {
            Some(Value::Array(old)) => old,
            _ => Vec::new(),
        };
        self.with_deeper_nesting(|decoder| decoder.items(&list_schema.item_type, old, path))
            .map(|list| Some(Value::Array(list)))
    }

    fn items(
        &mut self,
        value_type: &ValueType,
        old: Vec<Value>,
        path: OptionalPath<'_>,
    ) -> Result<Vec<Value>, FatalDecodeError> {
        self.reader.open(b'[')?;
        let mut first = true;
        let mut old = old.into_iter();
        let mut list = Vec::new();
        while self.reader.item(&mut first)? {
            let path = DecodePath {
                parent: path,
                element: DecodePathElement::Index(list.len()),
            };
            let value = self.value(value_type, old.next(), Some(&path))?;
            list.push(value.unwrap_or_else(|| zero(value_type)));
        }
        Ok(list)
    }

    fn map(
        &mut self,
        values: &ValueType,
        value_type: &ValueType,
        old: Option<Value>,
        path: OptionalPath<'_>,
    ) -> ValueResult {
        if self.reader.peek()? != b'{' {
            return self.type_mismatch(value_type, path);
        }
        let old = match old {
            Some(Value::Object(old)) => old,
            _ => Object::new(),
        };
        self.with_deeper_nesting(|decoder| decoder.entries(values, old, path))
            .map(|map| Some(Value::Object(map)))
    }

    fn entries(
        &mut self,
        value_type: &ValueType,
        mut map: Object,
        path: OptionalPath<'_>,
    ) -> Result<Object, FatalDecodeError> {
        self.reader.open(b'{')?;
        let mut first = true;
        let mut previous: HashSet<String> = HashSet::new();
        let is_prefilled = !map.is_empty();
        while let Some(key) = self.reader.key(&mut first)? {
            let is_duplicate = if is_prefilled {
                !previous.insert(key.clone().into_owned())
            } else {
                map.contains_key(&*key)
            };
            if is_duplicate {
                self.report_problem("duplicate field", path, &key);
            }
            let path = DecodePath {
                parent: path,
                element: DecodePathElement::Key(&key),
            };
            let value = self.value(value_type, None, Some(&path))?;
            map.insert(key.into_owned(), value.unwrap_or_else(|| zero(value_type)));
        }
        Ok(map)
    }

    /// `JSONSchemaPropsOrBool` and the like. Upstream decodes them with a separate decoder that ignores unknown fields.
    fn schema_or_alternative(
        &mut self,
        value_type: &ValueType,
        id: TypeId,
        path: OptionalPath<'_>,
    ) -> ValueResult {
        let strict = std::mem::replace(&mut self.options.strict, false);
        let previous = self.mismatch.take();
        let result = match (self.reader.peek()?, value_type) {
            (b'{', _) => self.value(&ValueType::Object(id), None, path),
            (b'[', ValueType::SchemaOrArray(_)) => self
                .with_deeper_nesting(|decoder| {
                    decoder.items(&ValueType::Object(id), Vec::new(), path)
                })
                .map(|list| Some(Value::Array(list))),
            (b'[', ValueType::SchemaOrStringArray(_)) => self
                .with_deeper_nesting(|decoder| decoder.items(&ValueType::String, Vec::new(), path))
                .map(|list| Some(Value::Array(list))),
            (b't' | b'f', ValueType::SchemaOrBool(_)) => self.bool(&ValueType::Bool, path),
            (_, ValueType::SchemaOrBool(_)) => Err(FatalDecodeError::Rejected(
                "boolean or JSON schema expected".into(),
            )),
            _ => self
                .reader
                .skip()
                .map(|_| None)
                .map_err(FatalDecodeError::from),
        };
        self.options.strict = strict;
        let mismatch = std::mem::replace(&mut self.mismatch, previous);
        match (result, mismatch) {
            (Ok(_), Some(mismatch)) => Err(FatalDecodeError::Rejected(mismatch)),
            (result, _) => result,
        }
    }

    /// A value that upstream stores as raw JSON, in which duplicate fields are not reported.
    fn opaque_value(&mut self, path: OptionalPath<'_>) -> Result<Value, FatalDecodeError> {
        let strict = std::mem::replace(&mut self.options.strict, false);
        let value = self.untyped_value(path);
        self.options.strict = strict;
        value
    }

    /// Skips a value of the wrong type and records the error.
    pub(super) fn type_mismatch(
        &mut self,
        value_type: &ValueType,
        path: OptionalPath<'_>,
    ) -> ValueResult {
        let found = self.skip_and_describe("number")?;
        let go = path::go_type(self.table, path, value_type);
        self.record_mismatch(path::type_mismatch(path, found, &go), path);
        Ok(None)
    }

    /// Skips a value; returns what Go's errors call it.
    pub(super) fn skip_and_describe(
        &mut self,
        number: &'static str,
    ) -> Result<&'static str, FatalDecodeError> {
        let found = match self.reader.peek()? {
            b'{' => "object",
            b'[' => "array",
            b'"' => "string",
            b't' | b'f' => "bool",
            _ => number,
        };
        self.reader.skip()?;
        Ok(found)
    }

    pub(super) fn record_mismatch(&mut self, mismatch: String, path: OptionalPath<'_>) {
        if self.options.top_level && self.kind_mismatch.is_none() && self.depth == 1 {
            self.kind_mismatch = kind_mismatch(&mismatch, path);
        }
        self.mismatch.get_or_insert(mismatch);
    }

    pub(super) fn report_problem(&mut self, description: &str, path: OptionalPath<'_>, name: &str) {
        if !self.options.strict || self.problems.len() >= MAX_PROBLEMS {
            return;
        }
        let path = path::field_path(path, name);
        let problem = format!("{description} {}", gotext::quote(&path));
        if self.reported.insert(problem.clone()) {
            self.problems.push(problem);
        }
    }
}

/// The error for an unknown field where these are rejected, with the field that differs only in case.
fn rejected_field(object_type: &ObjectType, name: &str, path: OptionalPath<'_>) -> String {
    let path = path::field_path(path, name);
    let field = gotext::quote(&path);
    let names = object_type.fields.iter().flat_map(|field| {
        let aliases = field.aliases.iter().map(|alias| &**alias);
        aliases
            .chain([&*field.name])
            .map(|name| (name, &field.name))
    });
    let meant = names
        .into_iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name));
    match meant {
        Some((_, meant)) => format!("unknown field {field}; did you mean \"{meant}\"?"),
        None => format!("unknown field {field}"),
    }
}

/// The Go struct into which upstream decodes `kind` and `apiVersion`.
const KIND_STRUCT: &str = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

fn kind_mismatch(mismatch: &str, path: OptionalPath<'_>) -> Option<String> {
    let Some(DecodePathElement::Field(_, field)) = path.map(|path| path.element) else {
        return None;
    };
    let found = mismatch
        .strip_prefix("json: cannot unmarshal ")?
        .split_once(" into ")?
        .0;
    matches!(&*field.name, "kind" | "apiVersion").then(|| {
        format!(
            "{KIND_ERROR_PREFIX}json: cannot unmarshal {found} into Go struct field .{} of type string",
            field.name
        )
    })
}

fn is_pointer(path: OptionalPath<'_>) -> bool {
    matches!(
        path.map(|path| path.element),
        Some(DecodePathElement::Field(_, Field { pointer: true, .. }))
    )
}
