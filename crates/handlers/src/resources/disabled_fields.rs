//! Fields that a write drops because their feature gate is disabled. Upstream drops them silently; here the client gets
//! a warning, or an error under strict field validation.

use rhumb_api::JsonObject;
use rhumb_meta::Status;
use rhumb_registry::RequestContext;

use crate::request::FieldValidation;

/// Reports the fields of `object` that will be dropped. `old` is the stored object on an update.
pub(super) fn report_disabled_fields(
    context: &RequestContext<'_>,
    object: &JsonObject,
    old: Option<&JsonObject>,
    validation: FieldValidation,
) -> Result<(), Status> {
    let strategy = &context.resource.kind.strategy;
    let disabled = strategy.disabled_fields(object, old, &context.registry.gates);
    if disabled.is_empty() {
        return Ok(());
    }
    // Nothing of these fields is stored, whatever the decoder has said about their spelling.
    let is_dropped = |warning: &str| {
        disabled
            .iter()
            .any(|field| is_stored_as_warning(warning, &field.dropped))
    };
    context.retain_warnings(|warning| !is_dropped(warning));
    for field in disabled {
        let mut problem = format!(
            "unknown field \"{}\": the feature gate {} is disabled",
            field.path,
            field.gate.spec().name
        );
        if field.dropped != field.path {
            problem.push_str(&format!(
                "; {} is dropped, because without the field it would mean something else",
                field.dropped
            ));
        }
        match validation {
            FieldValidation::Strict | FieldValidation::ForcedStrict(_) => {
                let text = format!("strict decoding error: {problem}");
                return Err(Status::bad_request(text));
            }
            FieldValidation::Warn => {
                // A retried write reports it again.
                context.retain_warnings(|warning| *warning != problem);
                context.warn(problem);
            }
            FieldValidation::Ignore => {}
        }
    }
    Ok(())
}

/// Whether this is the decoder's warning that an alias is stored under its field name, for the field at `path` or one
/// below it: `webhooks[0].exclusionRules: stored as excludeResourceRules`.
fn is_stored_as_warning(warning: &str, path: &str) -> bool {
    let Some((alias, name)) = warning.split_once(": stored as ") else {
        return false;
    };
    let stored = match alias.rsplit_once('.') {
        Some((parent, _)) => format!("{parent}.{name}"),
        None => name.to_owned(),
    };
    stored
        .strip_prefix(path)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests {
    use super::is_stored_as_warning;

    #[test]
    fn warnings_about_a_field_and_those_below_it_are_found() {
        for (warning, path, expect) in [
            ("a[0].x: stored as b", "a[0].b", true),
            ("a[0].b[1].x: stored as c", "a[0].b", true),
            ("a[0].b.x: stored as c", "a[0].b", true),
            ("x: stored as b", "b", true),
            ("a[0].x: stored as bc", "a[0].b", false),
            ("a[1].x: stored as b", "a[0].b", false),
            ("a[0].b: removes b", "a[0].b", false),
        ] {
            assert_eq!(is_stored_as_warning(warning, path), expect, "{warning}");
        }
    }
}
