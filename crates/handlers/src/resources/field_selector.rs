//! Field selectors of lists and watches: checks that the kind supports their fields, and maps them to those of the
//! stored kind (upstream: `AddFieldLabelConversionFunc`).

use std::convert::Infallible;

use rhumb_api::{Kind, SelectableField};
use rhumb_meta::{Status, fields};
use rhumb_registry::RequestContext;

/// Parses a field selector; fails if the kind does not support one of its fields. The result has the field names of
/// the stored kind.
pub(super) fn field_selector(
    context: &RequestContext<'_>,
    text: &str,
) -> Result<fields::Selector, Status> {
    let kind = &context.resource.kind;
    let selector =
        fields::Selector::parse(text).map_err(|error| Status::bad_request(error.to_string()))?;
    for requirement in selector.requirements().unwrap_or_default() {
        let field = requirement.field();
        let is_selectable = field == "metadata.name"
            || (field == "metadata.namespace" && kind.is_namespaced())
            || selectable(kind, field).is_some();
        if !is_selectable {
            return Err(Status::bad_request(unknown_field(kind, field)));
        }
    }
    if kind.stored_as.is_none() {
        return Ok(selector);
    }
    let Ok(selector) = selector.transform(|field, value| {
        Ok::<_, Infallible>((stored_field_name(context, field), value.to_owned()))
    });
    Ok(selector)
}

fn selectable<'k>(kind: &'k Kind, name: &str) -> Option<&'k SelectableField> {
    kind.selectable.iter().find(|field| field.name == name)
}

/// The name that the stored kind has for a selectable field: `involvedObject.name` for `regarding.name`.
fn stored_field_name(context: &RequestContext<'_>, name: &str) -> String {
    let kind = &context.resource.kind;
    let field = selectable(kind, name).zip(kind.stored_as.as_ref());
    let stored = field.and_then(|(field, stored_as)| {
        let resources = context.registry.resources();
        let mut kinds = resources.iter().map(|resource| &resource.kind);
        let stored =
            kinds.find(|kind| kind.group == stored_as.group && kind.name == stored_as.kind)?;
        let mut fields = stored.selectable.iter();
        let stored = fields.find(|other| other.value == field.value)?;
        Some(stored.name.to_string())
    });
    stored.unwrap_or_else(|| name.to_owned())
}

fn unknown_field(kind: &Kind, field: &str) -> String {
    if kind.selectable.is_empty() {
        format!(
            "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        )
    } else {
        format!("field label not supported: {field}")
    }
}
