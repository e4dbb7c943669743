//! Decodes JSON without a schema: patches, and fields that may contain any JSON.

use serde_json::Value;

use super::json_decoder::{FatalDecodeError, JsonDecoder};
use super::path::{self, DecodePath, DecodePathElement, OptionalPath};
use crate::Object;

impl JsonDecoder<'_, '_> {
    /// Decodes a document without a schema.
    pub(super) fn untyped_document(&mut self) -> Result<Object, FatalDecodeError> {
        let object = match self.reader.peek()? {
            b'{' => self.with_deeper_nesting(|decoder| decoder.untyped_object(None))?,
            b'n' => self.reader.word("null").map(|()| Object::new())?,
            _ => {
                let found = self.skip_and_describe("number")?;
                self.mismatch = Some(path::type_mismatch(None, found, "map[string]interface {}"));
                Object::new()
            }
        };
        self.reader.end()?;
        Ok(object)
    }

    /// Decodes a value without a schema, nested at `depth` in an object.
    pub(super) fn decode_untyped_value(&mut self, depth: usize) -> Result<Value, FatalDecodeError> {
        self.depth = depth;
        let value = self.untyped_value(None)?;
        self.reader.end()?;
        Ok(value)
    }

    pub(super) fn untyped_value(
        &mut self,
        path: OptionalPath<'_>,
    ) -> Result<Value, FatalDecodeError> {
        Ok(match self.reader.peek()? {
            b'{' => {
                Value::Object(self.with_deeper_nesting(|decoder| decoder.untyped_object(path))?)
            }
            b'[' => Value::Array(self.with_deeper_nesting(|decoder| decoder.untyped_list(path))?),
            b'"' => Value::String(self.reader.string()?.into_owned()),
            b'n' => self.reader.word("null").map(|()| Value::Null)?,
            b't' => self.reader.word("true").map(|()| Value::Bool(true))?,
            b'f' => self.reader.word("false").map(|()| Value::Bool(false))?,
            _ => self.untyped_number(path)?,
        })
    }

    fn untyped_object(&mut self, path: OptionalPath<'_>) -> Result<Object, FatalDecodeError> {
        self.reader.open(b'{')?;
        let mut first = true;
        let mut object = Object::new();
        while let Some(key) = self.reader.key(&mut first)? {
            if self.options.strict && object.contains_key(&*key) {
                self.report_problem("duplicate field", path, &key);
            }
            let path = DecodePath {
                parent: path,
                element: DecodePathElement::Key(&key),
            };
            let value = self.untyped_value(Some(&path))?;
            object.insert(key.into_owned(), value);
        }
        Ok(object)
    }

    fn untyped_list(&mut self, path: OptionalPath<'_>) -> Result<Vec<Value>, FatalDecodeError> {
        self.reader.open(b'[')?;
        let mut first = true;
        let mut list = Vec::new();
        while self.reader.item(&mut first)? {
            let path = DecodePath {
                parent: path,
                element: DecodePathElement::Index(list.len()),
            };
            list.push(self.untyped_value(Some(&path))?);
        }
        Ok(list)
    }
}
