//! Field aliases: alternative names that clients may send for a field.
//!
//! The decoder maps aliases itself. A patch is merged by name before decoding, so its aliases are resolved first:
//! otherwise the object would contain the field twice, and a patch that removes the field would have no effect.

use std::borrow::Cow;

use serde_json::Value;

use super::DecodeError;
use super::json_decoder::FatalDecodeError;
use super::path::{self, DecodePath, DecodePathElement, OptionalPath};
use crate::{Field, Object, ObjectType, Table, TypeId, ValueType};

/// The warning for a field that was sent under an alias.
pub(super) fn stored_as_warning(path: OptionalPath<'_>, alias: &str, field: &Field) -> String {
    format!(
        "{}: stored as {}",
        path::field_path(path, alias),
        field.name
    )
}

fn set_twice_error(path: OptionalPath<'_>, alias: &str, field: &Field) -> String {
    let path = path::field_path(path, alias);
    let name = &field.name;
    format!("{path}: is another spelling of {name}, and both are set: use {name} alone")
}

/// The fields of one object that were sent under an alias.
#[derive(Default)]
pub(super) struct UsedAliases<'t> {
    /// Field name and alias.
    sent: Vec<(&'t str, String)>,
}

impl<'t> UsedAliases<'t> {
    /// Records a field that was sent before or under an alias. Returns whether it was sent before under another
    /// spelling. If both spellings set a value, the intended one is ambiguous, and the field is rejected.
    pub(super) fn check(
        &mut self,
        field: &'t Field,
        name: &str,
        sets_again: bool,
        path: OptionalPath<'_>,
    ) -> Result<bool, FatalDecodeError> {
        let previous = self.sent.iter().rfind(|(sent, _)| **sent == *field.name);
        let is_alias = *field.name != *name;
        let is_other_spelling = match previous {
            Some((_, alias)) => alias != name,
            None => is_alias,
        };
        if sets_again && (is_alias || previous.is_some()) {
            let alias = match previous {
                Some((_, alias)) if !is_alias => alias,
                _ => name,
            };
            let error = set_twice_error(path, alias, field);
            return Err(FatalDecodeError::Rejected(error));
        }
        if is_alias {
            self.sent.push((&field.name, name.to_owned()));
        }
        Ok(is_other_spelling)
    }
}

/// Replaces aliases by field names in patches of one type, and collects the warnings for the client.
#[derive(Debug)]
pub struct AliasResolver<'t> {
    table: &'t Table,
    type_id: TypeId,
    warnings: Vec<String>,
}

impl<'t> AliasResolver<'t> {
    pub fn new(table: &'t Table, type_id: TypeId) -> AliasResolver<'t> {
        AliasResolver {
            table,
            type_id,
            warnings: Vec::new(),
        }
    }

    /// The warnings for the client, as in [`super::DecodeOutput::alias_warnings`].
    pub fn into_warnings(self) -> Vec<String> {
        self.warnings
    }

    /// Resolves aliases in a JSON merge patch or strategic merge patch.
    pub fn resolve_patch(&mut self, patch: &mut Object) -> Result<(), DecodeError> {
        self.object(self.type_id, patch, None)
    }

    fn object(
        &mut self,
        type_id: TypeId,
        object: &mut Object,
        path: OptionalPath<'_>,
    ) -> Result<(), DecodeError> {
        let object_type = self.table.get(type_id);
        self.rename(object_type, object, path)?;
        for (name, value) in object.iter_mut() {
            if let Some(field) = object_type.field(name) {
                let element = DecodePathElement::Field(object_type, field);
                self.value(
                    &field.value_type,
                    value,
                    Some(&DecodePath {
                        parent: path,
                        element,
                    }),
                )?;
            }
        }
        Ok(())
    }

    fn value(
        &mut self,
        value_type: &ValueType,
        value: &mut Value,
        path: OptionalPath<'_>,
    ) -> Result<(), DecodeError> {
        match (value_type, value) {
            (ValueType::Object(type_id), Value::Object(object)) => {
                self.object(*type_id, object, path)
            }
            (ValueType::List(list_schema), Value::Array(items)) => {
                items.iter_mut().enumerate().try_for_each(|(index, item)| {
                    let element = DecodePathElement::Index(index);
                    self.value(
                        &list_schema.item_type,
                        item,
                        Some(&DecodePath {
                            parent: path,
                            element,
                        }),
                    )
                })
            }
            (ValueType::Map(values), Value::Object(map)) => {
                map.iter_mut().try_for_each(|(key, value)| {
                    let element = DecodePathElement::Key(key);
                    self.value(
                        values,
                        value,
                        Some(&DecodePath {
                            parent: path,
                            element,
                        }),
                    )
                })
            }
            _ => Ok(()),
        }
    }

    fn rename(
        &mut self,
        object_type: &ObjectType,
        object: &mut Object,
        path: OptionalPath<'_>,
    ) -> Result<(), DecodeError> {
        let mut nulls = Vec::new();
        for (alias, position) in &object_type.aliases {
            let Some(value) = object.remove(&**alias) else {
                continue;
            };
            let field = &object_type.fields[*position];
            let name = &*field.name;
            // A null under the field name removes it, and the alias sets it: the manifest now uses the alias.
            let is_set = object.get(name).is_some_and(|value| !value.is_null());
            match (is_set, value.is_null()) {
                // The manifest now uses the field name.
                (true, true) => continue,
                (true, false) => return Err(DecodeError(set_twice_error(path, alias, field))),
                (false, true) => nulls.push((alias, name)),
                (false, false) => self.warnings.push(stored_as_warning(path, alias, field)),
            }
            object.insert(name.to_owned(), value);
        }
        // Another alias may have set the field: the manifest now uses that one.
        nulls.retain(|(_, name)| object.get(*name).is_some_and(Value::is_null));
        for (alias, name) in nulls {
            let path = path::field_path(path, alias);
            self.warnings.push(format!("{path}: removes {name}"));
        }
        Ok(())
    }

    /// Resolves aliases in a JSON pointer of a JSON patch: `/webhooks/0/exclusionRules/-`.
    pub fn resolve_pointer<'p>(&mut self, pointer: &'p str) -> Cow<'p, str> {
        let Some(tokens) = pointer.strip_prefix('/') else {
            return Cow::Borrowed(pointer);
        };
        let root = ValueType::Object(self.type_id);
        let mut value_type = Some(&root);
        let mut names: Vec<&str> = Vec::new();
        for token in tokens.split('/') {
            let (name, token_type) = resolve_token(self.table, value_type, token);
            if name != token {
                let path = pointer_path(&names, token);
                self.warnings.push(format!("{path}: stored as {name}"));
            }
            names.push(name);
            value_type = token_type;
        }
        if names.iter().copied().eq(tokens.split('/')) {
            return Cow::Borrowed(pointer);
        }
        Cow::Owned(format!("/{}", names.join("/")))
    }
}

/// Resolves one token of a JSON pointer: the field name, and the type of the value it refers to.
fn resolve_token<'t>(
    table: &'t Table,
    value_type: Option<&'t ValueType>,
    token: &'t str,
) -> (&'t str, Option<&'t ValueType>) {
    match value_type {
        Some(ValueType::Object(type_id)) => {
            let object_type = table.get(*type_id);
            let position = object_type
                .position(token)
                .or_else(|| object_type.position_of_alias(token));
            match position.map(|position| &object_type.fields[position]) {
                Some(field) => (&field.name, Some(&field.value_type)),
                None => (token, None),
            }
        }
        Some(ValueType::List(list_schema)) => (token, Some(&list_schema.item_type)),
        Some(ValueType::Map(values)) => (token, Some(values)),
        _ => (token, None),
    }
}

/// A JSON pointer in field path notation: `webhooks[0].exclusionRules`.
fn pointer_path(parent: &[&str], last: &str) -> String {
    let mut path = String::new();
    for token in parent.iter().copied().chain([last]) {
        if token == "-" || token.parse::<u32>().is_ok() {
            path.push_str(&format!("[{token}]"));
        } else {
            path::push_name(&mut path, token);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{DecodeOptions, TableBuilder, decode_json, decode_yaml};

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
        let type_id = table.type_id("a.Config").expect("exists");
        (table, type_id)
    }

    fn object(value: Value) -> Object {
        match value {
            Value::Object(object) => object,
            other => panic!("an object is expected: {other}"),
        }
    }

    #[test]
    fn aliases_are_decoded_whether_strict_or_not() {
        let (table, type_id) = table();
        let text = r#"{"hooks": [{"name": "x", "except": [{"Names": ["n"]}], "other": 1}]}"#;
        for strict in [true, false] {
            let options = DecodeOptions {
                strict,
                top_level: false,
            };
            for read in [decode_json, decode_yaml] {
                let decoded = read(&table, type_id, text.as_bytes(), options).expect("readable");
                let expect = json!({"hooks": [{"name": "x", "exclude": [{"names": ["n"]}]}]});
                assert_eq!(Value::Object(decoded.object), expect);
                assert_eq!(
                    decoded.alias_warnings,
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
    fn unknown_fields_of_closed_types_are_reported_apart() {
        let mut builder = TableBuilder::new();
        let types =
            "a.Config v1.Config\n rules 1 o []a.Rule\na.Rule v1.Rule closed\n names 1 o []string\n";
        builder.extend(types).expect("a table");
        let table = builder.build().expect("complete");
        let type_id = table.type_id("a.Config").expect("exists");
        let text = r#"{"rules": [{"names": ["n"], "Names": ["x"], "x": 1}], "other": 1}"#;
        for strict in [true, false] {
            let options = DecodeOptions {
                strict,
                top_level: false,
            };
            let decoded = decode_json(&table, type_id, text.as_bytes(), options).expect("valid");
            assert_eq!(
                decoded.rejected,
                [
                    "unknown field \"rules[0].Names\"; did you mean \"names\"?",
                    "unknown field \"rules[0].x\"",
                ]
            );
            let unknown = strict.then_some("unknown field \"other\"");
            assert_eq!(decoded.problems, Vec::from_iter(unknown));
        }
    }

    #[test]
    fn unknown_fields_below_closed_types_are_rejected() {
        let mut builder = TableBuilder::new();
        let types = "a.Config v1.Config\n rules 1 o []a.Rule\n selector 2 po a.Selector\n\
                     a.Rule v1.Rule closed\n selector 1 po a.Selector\n\
                     a.Selector v1.Selector\n labels 1 o map:string\n terms 2 o []a.Term\n\
                     a.Term v1.Term\n key 1 o string\n";
        builder.extend(types).expect("a table");
        let table = builder.build().expect("complete");
        let type_id = table.type_id("a.Config").expect("exists");
        let selector =
            r#"{"labels": {"any": "x"}, "Labels": {}, "terms": [{"key": "k", "kee": ""}]}"#;
        let text = format!(r#"{{"rules": [{{"selector": {selector}}}], "selector": {selector}}}"#);
        for strict in [true, false] {
            let options = DecodeOptions {
                strict,
                top_level: false,
            };
            let decoded = decode_json(&table, type_id, text.as_bytes(), options).expect("valid");
            assert_eq!(
                decoded.rejected,
                [
                    "unknown field \"rules[0].selector.Labels\"; did you mean \"labels\"?",
                    "unknown field \"rules[0].selector.terms[0].kee\"",
                ]
            );
            let mut elsewhere = vec![
                "unknown field \"selector.Labels\"",
                "unknown field \"selector.terms[0].kee\"",
            ];
            elsewhere.retain(|_| strict);
            assert_eq!(decoded.problems, elsewhere);
        }
    }

    #[test]
    fn a_field_set_under_two_names_is_rejected() {
        let (table, type_id) = table();
        let options = DecodeOptions {
            strict: false,
            top_level: false,
        };
        for (hook, alias) in [
            (r#"{"except": [], "exclude": []}"#, "except"),
            (
                r#"{"except": [], "exclude": null, "exclude": []}"#,
                "except",
            ),
            (r#"{"exclude": [], "without": []}"#, "without"),
            (r#"{"except": [], "without": []}"#, "without"),
            (r#"{"except": [], "except": []}"#, "except"),
        ] {
            let text = format!("{{\"hooks\": [{hook}]}}");
            let error = decode_json(&table, type_id, text.as_bytes(), options).expect_err(hook);
            let expect = format!(
                "hooks[0].{alias}: is another spelling of exclude, and both are set: use exclude alone"
            );
            assert_eq!(error.0, expect, "{hook}");
        }
        for hook in [
            r#"{"name": "x", "except": [{}], "exclude": null}"#,
            r#"{"name": "x", "exclude": null, "except": [{}]}"#,
            r#"{"name": "x", "exclude": [{}], "without": null}"#,
            r#"{"name": "x", "without": null, "except": [{}], "exclude": null}"#,
        ] {
            let text = format!("{{\"hooks\": [{hook}]}}");
            let options = DecodeOptions::default();
            let decoded = decode_json(&table, type_id, text.as_bytes(), options).expect(hook);
            let expect = json!({"hooks": [{"name": "x", "exclude": [{}]}]});
            assert_eq!(Value::Object(decoded.object), expect, "{hook}");
            assert!(
                decoded.problems.is_empty(),
                "{hook}: {:?}",
                decoded.problems
            );
        }
        let twice = r#"{"hooks": [{"name": "a", "exclude": [], "name": "b", "exclude": []}]}"#;
        assert!(decode_json(&table, type_id, twice.as_bytes(), options).is_ok());
    }

    #[test]
    fn aliases_in_patches_are_resolved() {
        let (table, type_id) = table();
        let check = |patch: Value, expect: Value, warnings: &[&str]| {
            let mut patch = object(patch);
            let mut resolver = AliasResolver::new(&table, type_id);
            resolver
                .resolve_patch(&mut patch)
                .expect("no field is set twice");
            assert_eq!(Value::Object(patch), expect);
            assert_eq!(resolver.into_warnings(), warnings);
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
        for (patch, set) in [
            (json!({"without": [], "exclude": null}), "without"),
            (json!({"without": [], "except": null}), "without"),
            (json!({"without": null, "except": []}), "except"),
        ] {
            let mut patch = object(json!({"named": {"x": patch}}));
            let mut resolver = AliasResolver::new(&table, type_id);
            assert_eq!(resolver.resolve_patch(&mut patch), Ok(()));
            // Nothing is removed.
            assert_eq!(
                resolver.into_warnings(),
                [format!("named.x.{set}: stored as exclude")]
            );
            assert_eq!(
                Value::Object(patch),
                json!({"named": {"x": {"exclude": []}}})
            );
        }
        let mut both = object(json!({"named": {"x": {"without": [], "exclude": []}}}));
        let result = AliasResolver::new(&table, type_id).resolve_patch(&mut both);
        assert!(result.is_err_and(|error| error.0.starts_with("named.x.without: ")));
    }

    #[test]
    fn aliases_in_json_pointers_are_resolved() {
        let (table, type_id) = table();
        for (pointer, expect, warnings) in [
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
            let mut resolver = AliasResolver::new(&table, type_id);
            assert_eq!(resolver.resolve_pointer(pointer), expect);
            assert_eq!(resolver.into_warnings(), warnings);
        }
    }
}
