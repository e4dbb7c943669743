//! The decoder: one pass over the JSON, guided by the schema.
//!
//! As in Go, a value that does not fit is remembered and decoding goes on, a value that a type of its own
//! refuses (a time, a quantity) ends it, and a field that is there twice is decoded into what is there.

use std::collections::HashSet;

use rhumb_meta::{Quantity, gotext};
use serde_json::{Number, Value};

use super::spot::{self, Spot, Step};
use super::times::{canonical_micro_time, canonical_time};
use super::{MAX_DEPTH, NO_KIND, Options, base64};
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
    table: &'t Table,
    reader: Reader<'i>,
    options: Options,
    depth: usize,
    problems: Vec<String>,
    seen_problems: HashSet<String>,
    /// The first value that did not fit.
    mismatch: Option<String>,
    /// The same for `kind` and `apiVersion`, which upstream reads before all else.
    kind_mismatch: Option<String>,
}

type Here<'s> = Option<&'s Spot<'s>>;

/// `None` where Go has the zero value.
type Read = Result<Option<Value>, Stop>;

impl<'t, 'i> Walk<'t, 'i> {
    pub(super) fn new(table: &'t Table, bytes: &'i [u8], options: Options) -> Walk<'t, 'i> {
        Walk {
            table,
            reader: Reader::new(bytes),
            options,
            depth: 0,
            problems: Vec::new(),
            seen_problems: HashSet::new(),
            mismatch: None,
            kind_mismatch: None,
        }
    }

    pub(super) fn into_problems(self) -> Vec<String> {
        self.problems
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

    /// Reads one value of that shape. `old` is what an earlier field of that name left there.
    fn value(&mut self, shape: &Shape, old: Option<Value>, here: Here<'_>) -> Read {
        if self.reader.peek()? == b'n' {
            self.reader.word("null")?;
            // Null clears what can be nil in Go, and leaves everything else alone.
            let stays = !matches!(shape, Shape::List(_) | Shape::Map(_) | Shape::Bytes);
            return Ok(old.filter(|_| stays && !is_pointer(here)));
        }
        match shape {
            Shape::String => self.string(shape, here),
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
            Shape::Any => self.deeper(|walk| walk.any()).map(Some),
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
        let object = self.deeper(|walk| walk.fields(table.get(id), object, here))?;
        Ok(Some(Value::Object(object)))
    }

    fn fields(&mut self, of: &'t Type, mut object: Object, here: Here<'_>) -> Result<Object, Stop> {
        self.reader.open(b'{')?;
        let mut first = true;
        let mut seen = Seen::default();
        let refilled = !object.is_empty();
        while let Some(name) = self.reader.key(&mut first)? {
            let Some(at) = of.position(&name) else {
                self.unknown_field(of, &name, &mut object, here)?;
                continue;
            };
            let field = &of.fields[at];
            let again = seen.again(at);
            if again {
                self.problem("duplicate field", here, &name);
            }
            let old = match again || refilled {
                true => object.remove(&*name),
                false => None,
            };
            let spot = Spot {
                before: here,
                step: Step::Field(of, field),
            };
            if let Some(value) = self.value(&field.shape, old, Some(&spot))? {
                object.insert(name.into_owned(), value);
            }
        }
        Ok(object)
    }

    fn unknown_field(
        &mut self,
        of: &Type,
        name: &str,
        object: &mut Object,
        here: Here<'_>,
    ) -> Result<(), Stop> {
        if of.open {
            let value = self.deeper(|walk| walk.any())?;
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
        match std::mem::replace(&mut self.mismatch, earlier) {
            Some(mismatch) => Err(Stop::Refused(mismatch)),
            None => read,
        }
    }

    fn any(&mut self) -> Result<Value, Stop> {
        Ok(match self.reader.peek()? {
            b'{' => {
                self.reader.open(b'{')?;
                let mut first = true;
                let mut object = Object::new();
                while let Some(key) = self.reader.key(&mut first)? {
                    let value = self.deeper(|walk| walk.any())?;
                    object.insert(key.into_owned(), value);
                }
                Value::Object(object)
            }
            b'[' => {
                self.reader.open(b'[')?;
                let mut first = true;
                let mut list = Vec::new();
                while self.reader.item(&mut first)? {
                    list.push(self.deeper(|walk| walk.any())?);
                }
                Value::Array(list)
            }
            b'"' => Value::String(self.reader.string()?.into_owned()),
            b'n' => self.reader.word("null").map(|()| Value::Null)?,
            b't' => self.reader.word("true").map(|()| Value::Bool(true))?,
            b'f' => self.reader.word("false").map(|()| Value::Bool(false))?,
            _ => any_number(self.reader.number()?),
        })
    }

    fn string(&mut self, shape: &Shape, here: Here<'_>) -> Read {
        if self.reader.peek()? != b'"' {
            return self.misfit(shape, here);
        }
        Ok(Some(Value::String(self.reader.string()?.into_owned())))
    }

    fn bool(&mut self, shape: &Shape, here: Here<'_>) -> Read {
        match self.reader.peek()? {
            b't' => self.reader.word("true")?,
            b'f' => {
                self.reader.word("false")?;
                return Ok(Some(Value::Bool(false)));
            }
            _ => return self.misfit(shape, here),
        }
        Ok(Some(Value::Bool(true)))
    }

    fn integer(
        &mut self,
        shape: &Shape,
        range: std::ops::RangeInclusive<i64>,
        here: Here<'_>,
    ) -> Read {
        if !is_number(self.reader.peek()?) {
            return self.misfit(shape, here);
        }
        let literal = self.reader.number()?;
        match literal.parse::<i64>().ok().filter(|n| range.contains(n)) {
            Some(number) => Ok(Some(number.into())),
            None => {
                let go = spot::go_type(self.table, here, shape);
                self.save(
                    spot::mismatch(here, &format!("number {literal}"), &go),
                    here,
                );
                Ok(None)
            }
        }
    }

    fn float(&mut self, shape: &Shape, here: Here<'_>) -> Read {
        if !is_number(self.reader.peek()?) {
            return self.misfit(shape, here);
        }
        let literal = self.reader.number()?;
        match literal.parse::<f64>().ok().filter(|n| n.is_finite()) {
            Some(number) => Ok(Some(float(number))),
            None => {
                let go = spot::go_type(self.table, here, shape);
                self.save(
                    spot::mismatch(here, &format!("number {literal}"), &go),
                    here,
                );
                Ok(None)
            }
        }
    }

    fn bytes(&mut self, shape: &Shape, here: Here<'_>) -> Read {
        if self.reader.peek()? != b'"' {
            return self.misfit(shape, here);
        }
        let text = self.reader.string()?;
        match base64::canonical(&text) {
            Ok(canonical) => Ok(Some(Value::String(canonical.into_owned()))),
            Err(at) => {
                self.save(format!("illegal base64 data at input byte {at}"), here);
                Ok(None)
            }
        }
    }

    fn quantity(&mut self) -> Read {
        let raw = String::from_utf8_lossy(self.reader.skip()?);
        let text = raw
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .unwrap_or(&raw);
        canonical_quantity(text.trim())
            .map(|text| Some(Value::String(text)))
            .map_err(Stop::Refused)
    }

    fn int_or_string(&mut self, here: Here<'_>) -> Read {
        if self.reader.peek()? == b'"' {
            return Ok(Some(Value::String(self.reader.string()?.into_owned())));
        }
        let found = if is_number(self.reader.peek()?) {
            let literal = self.reader.number()?;
            if let Ok(number) = literal.parse::<i32>() {
                return Ok(Some(number.into()));
            }
            format!("number {literal}")
        } else {
            self.skip_as("number")?.to_owned()
        };
        Err(Stop::Refused(spot::mismatch(here, &found, "int32")))
    }

    /// A type that is a string in JSON and checks it itself.
    fn text_type(&mut self, here: Here<'_>, read: fn(&str) -> Result<String, String>) -> Read {
        if self.reader.peek()? != b'"' {
            let found = self.skip_as("number")?;
            return Err(Stop::Refused(spot::mismatch(here, found, "string")));
        }
        let text = self.reader.string()?;
        match read(&text) {
            Ok(canonical) => Ok(Some(Value::String(canonical))),
            Err(error) => Err(Stop::Refused(error)),
        }
    }

    /// Reads over a value that is of another type than it should be.
    fn misfit(&mut self, shape: &Shape, here: Here<'_>) -> Read {
        let found = self.skip_as("number")?;
        let go = spot::go_type(self.table, here, shape);
        self.save(spot::mismatch(here, found, &go), here);
        Ok(None)
    }

    fn skip_as(&mut self, number: &'static str) -> Result<&'static str, Stop> {
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

    fn save(&mut self, mismatch: String, here: Here<'_>) {
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

fn is_number(first: u8) -> bool {
    first == b'-' || first.is_ascii_digit()
}

/// Go's zero value of a shape, as JSON shows it.
pub(crate) fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::String => Value::String(String::new()),
        Shape::Bool => Value::Bool(false),
        Shape::Int32 | Shape::Int64 | Shape::Float64 | Shape::IntOrString => 0.into(),
        Shape::Quantity => Value::String("0".to_owned()),
        Shape::Duration => Value::String("0s".to_owned()),
        Shape::Object(_) => Value::Object(Object::new()),
        Shape::OrBool(_) => Value::Bool(false),
        Shape::Bytes
        | Shape::Time
        | Shape::MicroTime
        | Shape::Any
        | Shape::List(_)
        | Shape::Map(_)
        | Shape::OrList(_)
        | Shape::OrStrings(_) => Value::Null,
    }
}

pub(crate) fn canonical_quantity(text: &str) -> Result<String, String> {
    Quantity::parse(text)
        .map(|quantity| quantity.to_string())
        .map_err(|error| error.to_string())
}

/// Whole numbers are written without a point, as Go does.
pub(crate) fn float(number: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
        return (number as i64).into();
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

fn any_number(literal: &str) -> Value {
    if let Ok(number) = literal.parse::<i64>() {
        return number.into();
    }
    if let Ok(number) = literal.parse::<u64>() {
        return number.into();
    }
    let number = literal.parse::<f64>().ok().and_then(Number::from_f64);
    number.map_or(Value::Null, Value::Number)
}
