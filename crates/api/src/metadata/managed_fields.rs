//! Validation of `metadata.managedFields`.

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::gotext;

use crate::{FieldView, checks};

const MANAGER_MAX_BYTES: usize = 128;
const SUBRESOURCE_MAX_BYTES: usize = 256;

pub(super) fn validate(entries: &FieldView<'_>, errors: &mut ErrorList) {
    for entry in entries.items() {
        let operation = entry.field("operation");
        if !matches!(operation.str(), "Apply" | "Update") {
            checks::invalid_text(&operation, errors, "must be `Apply` or `Update`");
        }
        let fields_type = entry.field("fieldsType");
        if !matches!(fields_type.str(), "" | "FieldsV1") {
            checks::invalid_text(&fields_type, errors, "must be `FieldsV1`");
        }
        validate_manager(&entry.field("manager"), errors);
        let subresource = entry.field("subresource");
        if subresource.len() > SUBRESOURCE_MAX_BYTES {
            errors.push(Error::too_long(subresource.path(), SUBRESOURCE_MAX_BYTES));
        }
    }
}

fn validate_manager(manager: &FieldView<'_>, errors: &mut ErrorList) {
    if manager.len() > MANAGER_MAX_BYTES {
        errors.push(Error::too_long(manager.path(), MANAGER_MAX_BYTES));
    }
    for (at, character) in manager.str().char_indices() {
        if !is_printable(character) {
            let code = u32::from(character);
            let detail = format!("invalid character U+{code:04X} (at position {at})");
            checks::invalid_text(manager, errors, detail);
        }
    }
}

fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return matches!(character, ' '..='~');
    }
    let quoted = gotext::quote(character.encode_utf8(&mut [0; 4])).to_string();
    !quoted.starts_with("\"\\")
}
