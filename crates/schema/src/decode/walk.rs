//! The decoder: one pass over the JSON, guided by the schema.
//!
//! As in Go, a value that does not fit is remembered and decoding goes on, a value that a type of its own
//! refuses (a time, a quantity) ends it, and a field that is there twice is decoded into what is there.

use std::collections::HashSet;

use rhumb_meta::gotext;
use serde_json::Value;

use super::scalars::zero;
use super::spelling::{self, Aliases};
use super::spot::{self, Here, Spot, Step};
use super::times::{canonical_micro_time, canonical_time};
use super::{Decoded, MAX_DEPTH, NO_KIND, Options};
use crate::json::{Malformed, Reader};
use crate::{Field, Items, Object, Shape, Table, Type, TypeId};

/// How many problems are listed at most.
const MAX_PROBLEMS: usize = 100;

pub(super) enum Stop {
    Malformed,
    TooDeep,
    /// By the type of a value; the text says why.
    Refused(String),
}

impl From<Malformed> for Stop {
    fn from(_: Malformed) -> Stop {
        Stop::Malformed
    }
}

pub(super) struct Walk<'t, 'i> {
    pub(super) table: &'t Table,
    pub(super) reader: Reader<'i>,
    options: Options,
    depth: usize,
    problems: Vec<String>,
    seen_problems: HashSet<String>,
    respelled: Vec<String>,
    /// The first value that did not fit.
    mismatch: Option<String>,
    /// The same for `kind` and `apiVersion`, which upstream reads before all else.
    kind_mismatch: Option<String>,
}

/// `None` where Go has the zero value.
pub(super) type Read = Result<Option<Value>, Stop>;

impl<'t, 'i> Walk<'t, 'i> {
    pub(super) fn new(table: &'t Table, bytes: &'i [u8], options: Options) -> Walk<'t, 'i> {
        Walk {
            table,
            reader: Reader::new(bytes),
            options,
            depth: 0,
            problems: Vec::new(),
            seen_problems: HashSet::new(),
            respelled: Vec::new(),
            mismatch: None,
            kind_mismatch: None,
        }
    }

    /// What is to be told of an object that was read.
    pub(super) fn decoded(self, object: Object) -> Decoded {
        Decoded {
            object,
            problems: self.problems,
            respelled: self.respelled,
        }
    }

    pub(super) fn kind_error(&mut self) -> Option<String> {
        self.kind_mismatch.take()
    }

    pub(super) fn first_error(&mut self) -> Option<String> {
        self.kind_error().or_else(|| self.mismatch.take())
    }

    pub(super) fn document(&mut self, of: TypeId) -> Result<Object, Stop> {
        let shape = Shape::Object(of);
        let value = if self.options.whole && !matches!(self.reader.peek()?, b'{' | b'n') {
            let found = self.skip_as("number")?;
            self.kind_mismatch = Some(format!(
                "{NO_KIND}json: cannot unmarshal {found} into Go value of type {KIND_STRUCT}"
            ));
            None
        } else {
            self.value(&shape, None, None)?
        };
        self.reader.end()?;
        match value {
            Some(Value::Object(object)) => Ok(object),
            _ => Ok(Object::new()),
        }
    }

    /// An object of no type.
    pub(super) fn any_document(&mut self) -> Result<Object, Stop> {
        let object = match self.reader.peek()? {
            b'{' => self.deeper(|walk| walk.any_object(None))?,
            b'n' => self.reader.word("null").map(|()| Object::new())?,
            _ => {
                let found = self.skip_as("number")?;
                self.mismatch = Some(spot::mismatch(None, found, "map[string]interface {}"));
                Object::new()
            }
        };
        self.reader.end()?;
        Ok(object)
    }

    /// A value of no type that stands so deep in an object.
    pub(super) fn any_value(&mut self, depth: usize) -> Result<Value, Stop> {
        self.depth = depth;
        let value = self.any(None)?;
        self.reader.end()?;
        Ok(value)
    }

    /// Reads one value of that shape. `old` is what an earlier field of that name left there.
    fn value(&mut self, shape: &Shape, old: Option<Value>, here: Here<'_>) -> Read {
        let next = self.reader.peek()?;
        if next == b'"' && matches!(shape, Shape::String) {
            return Ok(Some(Value::String(self.reader.string_here()?.into_owned())));
        }
        if next == b'n' {
            self.reader.word("null")?;
            // Null clears what can be nil in Go, and leaves everything else alone.
            let stays = !matches!(shape, Shape::List(_) | Shape::Map(_) | Shape::Bytes);
            return Ok(old.filter(|_| stays && !is_pointer(here)));
        }
        match shape {
            Shape::String => self.misfit(shape, here),
            Shape::Bool => self.bool(shape, here),
            Shape::Int32 => self.integer(shape, i64::from(i32::MIN)..=i64::from(i32::MAX), here),
            Shape::Int64 => self.integer(shape, i64::MIN..=i64::MAX, here),
            Shape::Float64 => self.float(shape, here),
            Shape::Bytes => self.bytes(shape, here),
            Shape::Quantity => self.quantity(),
            Shape::IntOrString => self.int_or_string(here),
            Shape::Time => self.text_type(here, canonical_time),
            Shape::MicroTime => self.text_type(here, canonical_micro_time),
            Shape::Duration => self.text_type(here, |text| Ok(text.to_owned())),
            Shape::Any => self.raw(here).map(Some),
            Shape::Object(id) => self.object(*id, old, here),
            Shape::List(items) => self.list(items, shape, old, here),
            Shape::Map(values) => self.map(values, shape, old, here),
            Shape::OrBool(id) | Shape::OrList(id) | Shape::OrStrings(id) => {
                self.alternatives(shape, *id, here)
            }
        }
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Stop>) -> Result<T, Stop> {
        if self.depth >= MAX_DEPTH {
            return Err(Stop::TooDeep);
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn object(&mut self, id: TypeId, old: Option<Value>, here: Here<'_>) -> Read {
        if self.reader.peek()? != b'{' {
            return self.misfit(&Shape::Object(id), here);
        }
        let table = self.table;
        let object = match old {
            Some(Value::Object(object)) => object,
            _ => Object::new(),
        };
        let read = self.deeper(|walk| walk.fields(table.get(id), object, here));
        read.map(|object| Some(Value::Object(object)))
    }

    fn fields(&mut self, of: &'t Type, mut object: Object, here: Here<'_>) -> Result<Object, Stop> {
        self.reader.open(b'{')?;
        let mut first = true;
        let mut seen = Seen::default();
        let mut aliases = Aliases::default();
        let refilled = !object.is_empty();
        while let Some(name) = self.reader.key(&mut first)? {
            let known = of.position(&name);
            let Some(at) = known.or_else(|| of.position_of_alias(&name)) else {
                self.unknown_field(of, &name, &mut object, here)?;
                continue;
            };
            let field = &of.fields[at];
            let again = seen.again(at);
            if again || known.is_none() {
                aliases.check(field, &name, again, here)?;
                self.unusual_field(field, &name, again, here);
            }
            let old = match again || refilled {
                true => object.remove(&*field.name),
                false => None,
            };
            let spot = Spot {
                before: here,
                step: Step::Field(of, field),
            };
            if let Some(value) = self.value(&field.shape, old, Some(&spot))? {
                object.insert((*field.name).to_owned(), value);
            }
        }
        Ok(object)
    }

    /// Remembers what is to be told of a field that is there again or by another name.
    #[cold]
    fn unusual_field(&mut self, field: &Field, name: &str, again: bool, here: Here<'_>) {
        if again {
            self.problem("duplicate field", here, name);
        }
        if *field.name != *name && self.respelled.len() < MAX_PROBLEMS {
            self.respelled.push(spelling::stored_as(here, name, field));
        }
    }

    fn unknown_field(
        &mut self,
        of: &Type,
        name: &str,
        object: &mut Object,
        here: Here<'_>,
    ) -> Result<(), Stop> {
        if of.open {
            let value = self.raw(here)?;
            object.insert(name.to_owned(), value);
        } else {
            self.problem("unknown field", here, name);
            self.reader.skip()?;
        }
        Ok(())
    }

    fn list(&mut self, items: &Items, shape: &Shape, old: Option<Value>, here: Here<'_>) -> Read {
        if self.reader.peek()? != b'[' {
            return self.misfit(shape, here);
        }
        let old = match old {
            Some(Value::Array(old)) => old,
            _ => Vec::new(),
        };
        self.deeper(|walk| walk.items(&items.shape, old, here))
            .map(|list| Some(Value::Array(list)))
    }

    fn items(
        &mut self,
        shape: &Shape,
        old: Vec<Value>,
        here: Here<'_>,
    ) -> Result<Vec<Value>, Stop> {
        self.reader.open(b'[')?;
        let mut first = true;
        let mut old = old.into_iter();
        let mut list = Vec::new();
        while self.reader.item(&mut first)? {
            let spot = Spot {
                before: here,
                step: Step::Index(list.len()),
            };
            let value = self.value(shape, old.next(), Some(&spot))?;
            list.push(value.unwrap_or_else(|| zero(shape)));
        }
        Ok(list)
    }

    fn map(&mut self, values: &Shape, shape: &Shape, old: Option<Value>, here: Here<'_>) -> Read {
        if self.reader.peek()? != b'{' {
            return self.misfit(shape, here);
        }
        let old = match old {
            Some(Value::Object(old)) => old,
            _ => Object::new(),
        };
        self.deeper(|walk| walk.entries(values, old, here))
            .map(|map| Some(Value::Object(map)))
    }

    fn entries(&mut self, shape: &Shape, mut map: Object, here: Here<'_>) -> Result<Object, Stop> {
        self.reader.open(b'{')?;
        let mut first = true;
        let mut earlier: HashSet<String> = HashSet::new();
        let refilled = !map.is_empty();
        while let Some(key) = self.reader.key(&mut first)? {
            let again = if refilled {
                !earlier.insert(key.clone().into_owned())
            } else {
                map.contains_key(&*key)
            };
            if again {
                self.problem("duplicate field", here, &key);
            }
            let spot = Spot {
                before: here,
                step: Step::Key(&key),
            };
            let value = self.value(shape, None, Some(&spot))?;
            map.insert(key.into_owned(), value.unwrap_or_else(|| zero(shape)));
        }
        Ok(map)
    }

    /// A JSON schema, or what stands for one. Upstream reads it apart, without a look at unknown fields.
    fn alternatives(&mut self, shape: &Shape, id: TypeId, here: Here<'_>) -> Read {
        let strict = std::mem::replace(&mut self.options.strict, false);
        let earlier = self.mismatch.take();
        let read = match (self.reader.peek()?, shape) {
            (b'{', _) => self.value(&Shape::Object(id), None, here),
            (b'[', Shape::OrList(_)) => self
                .deeper(|walk| walk.items(&Shape::Object(id), Vec::new(), here))
                .map(|list| Some(Value::Array(list))),
            (b'[', Shape::OrStrings(_)) => self
                .deeper(|walk| walk.items(&Shape::String, Vec::new(), here))
                .map(|list| Some(Value::Array(list))),
            (b't' | b'f', Shape::OrBool(_)) => self.bool(&Shape::Bool, here),
            (_, Shape::OrBool(_)) => Err(Stop::Refused("boolean or JSON schema expected".into())),
            _ => self.reader.skip().map(|_| None).map_err(Stop::from),
        };
        self.options.strict = strict;
        let mismatch = std::mem::replace(&mut self.mismatch, earlier);
        match (read, mismatch) {
            (Ok(_), Some(mismatch)) => Err(Stop::Refused(mismatch)),
            (read, _) => read,
        }
    }

    /// A value that upstream keeps as it is, without a look inside.
    fn raw(&mut self, here: Here<'_>) -> Result<Value, Stop> {
        let strict = std::mem::replace(&mut self.options.strict, false);
        let value = self.any(here);
        self.options.strict = strict;
        value
    }

    fn any(&mut self, here: Here<'_>) -> Result<Value, Stop> {
        Ok(match self.reader.peek()? {
            b'{' => Value::Object(self.deeper(|walk| walk.any_object(here))?),
            b'[' => Value::Array(self.deeper(|walk| walk.any_list(here))?),
            b'"' => Value::String(self.reader.string()?.into_owned()),
            b'n' => self.reader.word("null").map(|()| Value::Null)?,
            b't' => self.reader.word("true").map(|()| Value::Bool(true))?,
            b'f' => self.reader.word("false").map(|()| Value::Bool(false))?,
            _ => self.any_number(here)?,
        })
    }

    fn any_object(&mut self, here: Here<'_>) -> Result<Object, Stop> {
        self.reader.open(b'{')?;
        let mut first = true;
        let mut object = Object::new();
        while let Some(key) = self.reader.key(&mut first)? {
            if self.options.strict && object.contains_key(&*key) {
                self.problem("duplicate field", here, &key);
            }
            let spot = Spot {
                before: here,
                step: Step::Key(&key),
            };
            let value = self.any(Some(&spot))?;
            object.insert(key.into_owned(), value);
        }
        Ok(object)
    }

    fn any_list(&mut self, here: Here<'_>) -> Result<Vec<Value>, Stop> {
        self.reader.open(b'[')?;
        let mut first = true;
        let mut list = Vec::new();
        while self.reader.item(&mut first)? {
            let spot = Spot {
                before: here,
                step: Step::Index(list.len()),
            };
            list.push(self.any(Some(&spot))?);
        }
        Ok(list)
    }

    /// Reads over a value that is of another type than it should be.
    pub(super) fn misfit(&mut self, shape: &Shape, here: Here<'_>) -> Read {
        let found = self.skip_as("number")?;
        let go = spot::go_type(self.table, here, shape);
        self.save(spot::mismatch(here, found, &go), here);
        Ok(None)
    }

    pub(super) fn skip_as(&mut self, number: &'static str) -> Result<&'static str, Stop> {
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

    pub(super) fn save(&mut self, mismatch: String, here: Here<'_>) {
        if self.options.whole && self.kind_mismatch.is_none() && self.depth == 1 {
            self.kind_mismatch = kind_mismatch(&mismatch, here);
        }
        self.mismatch.get_or_insert(mismatch);
    }

    fn problem(&mut self, what: &str, here: Here<'_>, name: &str) {
        if !self.options.strict || self.problems.len() >= MAX_PROBLEMS {
            return;
        }
        let path = spot::path(here, name);
        let problem = format!("{what} {}", gotext::quote(&path));
        if self.seen_problems.insert(problem.clone()) {
            self.problems.push(problem);
        }
    }
}

/// The struct into which upstream reads the kind.
const KIND_STRUCT: &str = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

fn kind_mismatch(mismatch: &str, here: Here<'_>) -> Option<String> {
    let Some(Step::Field(_, field)) = here.map(|spot| spot.step) else {
        return None;
    };
    let found = mismatch
        .strip_prefix("json: cannot unmarshal ")?
        .split_once(" into ")?
        .0;
    matches!(&*field.name, "kind" | "apiVersion").then(|| {
        format!(
            "{NO_KIND}json: cannot unmarshal {found} into Go struct field .{} of type string",
            field.name
        )
    })
}

/// Which of a type's fields were there already.
#[derive(Default)]
struct Seen {
    low: u64,
    high: Vec<bool>,
}

impl Seen {
    /// Marks it, and says whether it was marked before.
    fn again(&mut self, at: usize) -> bool {
        if at < 64 {
            let bit = 1 << at;
            let again = self.low & bit != 0;
            self.low |= bit;
            return again;
        }
        if self.high.len() <= at {
            self.high.resize(at + 1, false);
        }
        std::mem::replace(&mut self.high[at], true)
    }
}

fn is_pointer(here: Here<'_>) -> bool {
    matches!(
        here.map(|spot| spot.step),
        Some(Step::Field(_, Field { pointer: true, .. }))
    )
}
