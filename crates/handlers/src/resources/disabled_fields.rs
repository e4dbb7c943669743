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
    // Nothing is stored, whatever the decoder has said about spellings of these fields.
    context.retain_warnings(|warning| !warning.contains(": stored as "));
    for field in disabled {
        let problem = format!(
            "unknown field \"{}\": the feature gate {} is disabled",
            field.path,
            field.gate.spec().name
        );
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
