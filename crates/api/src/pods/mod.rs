//! What is right and wrong with pods, and with the templates they are made from.

use rhumb_meta::field::ErrorList;

use crate::View;

/// Checks a pod template: its labels and annotations, and the spec of the pods made from it.
pub fn validate_template(_template: &View<'_>, _errors: &mut ErrorList) {}
