//! Fields that clients may send by other names than they are stored by.
//!
//! The decoder maps them by itself. A patch is merged by names before anything is decoded, so its names are put
//! right first: otherwise the object would have the field twice, and a patch that removes it would do nothing.

use std::borrow::Cow;

use serde_json::Value;

use super::DecodeError;
use super::spot::{self, Here, Spot, Step};
use super::walk::Stop;
use crate::{Field, Object, Shape, Table, Type, TypeId};

/// What a client is told of a field with another spelling.
pub(super) fn stored_as(here: Here<'_>, alias: &str, field: &Field) -> String {
    format!("{}: stored as {}", spot::path(here, alias), field.name)
}

fn set_twice(here: Here<'_>, alias: &str, field: &Field) -> String {
    let path = spot::path(here, alias);
    let name = &field.name;
    format!("{path}: is another spelling of {name}, and both are set: use {name} alone")
}

/// The fields of one object that came by other names.
#[derive(Default)]
pub(super) struct Aliases<'t> {
    seen: Vec<(&'t str, String)>,
}

impl<'t> Aliases<'t> {
    /// Refuses a field that is there again, if one of the two is another spelling: which of them is meant to count
    /// cannot be told.
    pub(super) fn check(
        &mut self,
        field: &'t Field,
        name: &str,
        again: bool,
        here: Here<'_>,
    ) -> Result<(), Stop> {
        if *field.name != *name {
            if again {
                return Err(Stop::Refused(set_twice(here, name, field)));
            }
            self.seen.push((&field.name, name.to_owned()));
            return Ok(());
        }
        let earlier = self.seen.iter().find(|(of, _)| again && *of == name);
        match earlier {
            Some((_, alias)) => Err(Stop::Refused(set_twice(here, alias, field))),
            None => Ok(()),
        }
    }
}

/// Gives the fields in patches of one type their own names, and remembers what the client should know of it.
#[derive(Debug)]
pub struct Speller<'t> {
    table: &'t Table,
    of: TypeId,
    notes: Vec<String>,
}

impl<'t> Speller<'t> {
    pub fn new(table: &'t Table, of: TypeId) -> Speller<'t> {
        Speller {
            table,
            of,
            notes: Vec::new(),
        }
    }

    /// What to tell the client, in the form of [`super::Decoded::respelled`].
    pub fn into_notes(self) -> Vec<String> {
        self.notes
    }

    /// A merge patch, or a strategic one.
    pub fn patch(&mut self, patch: &mut Object) -> Result<(), DecodeError> {
        self.object(self.of, patch, None)
    }

    fn object(
        &mut self,
        of: TypeId,
        object: &mut Object,
        here: Here<'_>,
    ) -> Result<(), DecodeError> {
        let of = self.table.get(of);
        self.rename(of, object, here)?;
        for (name, value) in object.iter_mut() {
            if let Some(field) = of.field(name) {
                let step = Step::Field(of, field);
                self.value(&field.shape, value, Some(&Spot { before: here, step }))?;
            }
        }
        Ok(())
    }

    fn value(
        &mut self,
        shape: &Shape,
        value: &mut Value,
        here: Here<'_>,
    ) -> Result<(), DecodeError> {
        match (shape, value) {
            (Shape::Object(of), Value::Object(object)) => self.object(*of, object, here),
            (Shape::List(list), Value::Array(items)) => {
                items.iter_mut().enumerate().try_for_each(|(index, item)| {
                    let step = Step::Index(index);
                    self.value(&list.shape, item, Some(&Spot { before: here, step }))
                })
            }
            (Shape::Map(values), Value::Object(map)) => {
                map.iter_mut().try_for_each(|(key, value)| {
                    let step = Step::Key(key);
                    self.value(values, value, Some(&Spot { before: here, step }))
                })
            }
            _ => Ok(()),
        }
    }

    fn rename(
        &mut self,
        of: &Type,
        object: &mut Object,
        here: Here<'_>,
    ) -> Result<(), DecodeError> {
        for (alias, at) in &of.aliases {
            let Some(value) = object.remove(&**alias) else {
                continue;
            };
            let field = &of.fields[*at];
            let name = &*field.name;
            match (object.contains_key(name), value.is_null()) {
                // A manifest whose spelling was put right: the old name goes, the new one comes.
                (true, true) => continue,
                (true, false) => return Err(DecodeError(set_twice(here, alias, field))),
                (false, true) => {
                    let path = spot::path(here, alias);
                    self.notes.push(format!("{path}: removes {name}"));
                }
                (false, false) => self.notes.push(stored_as(here, alias, field)),
            }
            object.insert(name.to_owned(), value);
        }
        Ok(())
    }

    /// A path of a JSON patch: `/webhooks/0/exclusionRules/-`.
    pub fn pointer<'p>(&mut self, pointer: &'p str) -> Cow<'p, str> {
        let Some(tokens) = pointer.strip_prefix('/') else {
            return Cow::Borrowed(pointer);
        };
        let root = Shape::Object(self.of);
        let mut shape = Some(&root);
        let mut names: Vec<&str> = Vec::new();
        for token in tokens.split('/') {
            let (name, below) = step(self.table, shape, token);
            if name != token {
                let path = path(&names, token);
                self.notes.push(format!("{path}: stored as {name}"));
            }
            names.push(name);
            shape = below;
        }
        if names.iter().copied().eq(tokens.split('/')) {
            return Cow::Borrowed(pointer);
        }
        Cow::Owned(format!("/{}", names.join("/")))
    }
}

/// What a part of a pointer is really called, and what is there.
fn step<'t>(
    table: &'t Table,
    shape: Option<&'t Shape>,
    token: &'t str,
) -> (&'t str, Option<&'t Shape>) {
    match shape {
        Some(Shape::Object(of)) => {
            let of = table.get(*of);
            let at = of.position(token).or_else(|| of.position_of_alias(token));
            match at.map(|at| &of.fields[at]) {
                Some(field) => (&field.name, Some(&field.shape)),
                None => (token, None),
            }
        }
        Some(Shape::List(list)) => (token, Some(&list.shape)),
        Some(Shape::Map(values)) => (token, Some(values)),
        _ => (token, None),
    }
}

/// A pointer in the form of other paths: `webhooks[0].exclusionRules`.
fn path(before: &[&str], last: &str) -> String {
    let mut path = String::new();
    for token in before.iter().copied().chain([last]) {
        if token == "-" || token.parse::<u32>().is_ok() {
            path.push_str(&format!("[{token}]"));
        } else {
            spot::append(&mut path, token);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Options, TableBuilder, decode_json, decode_yaml};

    fn table() -> (Table, TypeId) {
        let mut builder = TableBuilder::new();
        builder
            .extend(
                "a.Config v1.Config\n hooks 1 o []a.Hook merge=name\n named 2 o map:a.Hook\n\
                 a.Hook v1.Hook\n name 1 o string\n exclude 2 o []a.Rule alias=except,without\n\
                 a.Rule v1.Rule atomic\n names 1 o []string alias=Names\n",
            )
            .expect("a table");
        let table = builder.build().expect("complete");
        let of = table.named("a.Config").expect("there");
        (table, of)
    }

    fn object(value: Value) -> Object {
        match value {
            Value::Object(object) => object,
            other => panic!("an object is expected: {other}"),
        }
    }

    #[test]
    fn fields_are_read_by_all_their_names_however_strict() {
        let (table, of) = table();
        let text = r#"{"hooks": [{"name": "x", "except": [{"Names": ["n"]}], "other": 1}]}"#;
        for strict in [true, false] {
            let options = Options {
                strict,
                whole: false,
            };
            for read in [decode_json, decode_yaml] {
                let decoded = read(&table, of, text.as_bytes(), options).expect("readable");
                let expect = json!({"hooks": [{"name": "x", "exclude": [{"names": ["n"]}]}]});
                assert_eq!(Value::Object(decoded.object), expect);
                assert_eq!(
                    decoded.respelled,
                    [
                        "hooks[0].except: stored as exclude",
                        "hooks[0].exclude[0].Names: stored as names",
                    ]
                );
                let unknown = strict.then_some("unknown field \"hooks[0].other\"");
                assert_eq!(decoded.problems, Vec::from_iter(unknown));
            }
        }
    }

    #[test]
    fn two_spellings_of_one_field_are_refused() {
        let (table, of) = table();
        let options = Options {
            strict: false,
            whole: false,
        };
        for (hook, alias) in [
            (r#"{"except": [], "exclude": []}"#, "except"),
            (r#"{"exclude": [], "without": []}"#, "without"),
            (r#"{"except": [], "without": []}"#, "without"),
            (r#"{"except": [], "except": []}"#, "except"),
        ] {
            let text = format!("{{\"hooks\": [{hook}]}}");
            let error = decode_json(&table, of, text.as_bytes(), options).expect_err(hook);
            let expect = format!(
                "hooks[0].{alias}: is another spelling of exclude, and both are set: use exclude alone"
            );
            assert_eq!(error.0, expect, "{hook}");
        }
        let twice = r#"{"hooks": [{"name": "a", "exclude": [], "name": "b", "exclude": []}]}"#;
        assert!(decode_json(&table, of, twice.as_bytes(), options).is_ok());
    }

    #[test]
    fn patches_get_the_names_of_what_they_are_for() {
        let (table, of) = table();
        let check = |patch: Value, expect: Value, notes: &[&str]| {
            let mut patch = object(patch);
            let mut speller = Speller::new(&table, of);
            speller.patch(&mut patch).expect("one spelling each");
            assert_eq!(Value::Object(patch), expect);
            assert_eq!(speller.into_notes(), notes);
        };
        check(
            json!({"hooks": [{"name": "x", "except": [{"Names": ["n"]}]}], "$patch": "replace"}),
            json!({"hooks": [{"name": "x", "exclude": [{"names": ["n"]}]}], "$patch": "replace"}),
            &[
                "hooks[0].except: stored as exclude",
                "hooks[0].exclude[0].Names: stored as names",
            ],
        );
        check(
            json!({"named": {"x": {"without": null}}}),
            json!({"named": {"x": {"exclude": null}}}),
            &["named.x.without: removes exclude"],
        );
        check(
            json!({"named": {"x": {"without": null, "exclude": []}}}),
            json!({"named": {"x": {"exclude": []}}}),
            &[],
        );
        let mut both = object(json!({"named": {"x": {"without": [], "exclude": []}}}));
        let refused = Speller::new(&table, of).patch(&mut both);
        assert!(refused.is_err_and(|error| error.0.starts_with("named.x.without: ")));
    }

    #[test]
    fn pointers_lead_to_what_is_stored() {
        let (table, of) = table();
        for (pointer, expect, notes) in [
            ("/hooks/0/exclude", "/hooks/0/exclude", &[][..]),
            ("", "", &[]),
            ("except", "except", &[]),
            ("/except/0", "/except/0", &[]),
            (
                "/hooks/0/except/-/Names/0",
                "/hooks/0/exclude/-/names/0",
                &[
                    "hooks[0].except: stored as exclude",
                    "hooks[0].exclude[-].Names: stored as names",
                ],
            ),
            (
                "/named/without/without",
                "/named/without/exclude",
                &["named.without.without: stored as exclude"],
            ),
        ] {
            let mut speller = Speller::new(&table, of);
            assert_eq!(speller.pointer(pointer), expect);
            assert_eq!(speller.into_notes(), notes);
        }
    }
}
