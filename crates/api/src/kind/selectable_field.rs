//! Selectable fields: what field selectors match on (upstream: `AddFieldLabelConversionFunc` and `GetAttrs`).

use std::borrow::Cow;

/// A field that field selectors support, in addition to metadata.name and metadata.namespace.
#[derive(Debug, Clone)]
pub struct SelectableField {
    pub name: Cow<'static, str>,
    pub value: FieldSource,
}

/// How the value of a selectable field is read, by paths such as `spec.nodeName` or `type`: at most two names deep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldSource {
    /// A string; empty if absent.
    StringAt(Cow<'static, str>),
    /// The first of several strings that is not empty.
    FirstNonEmpty(&'static [&'static str]),
    /// A boolean; false if absent.
    BoolAt(Cow<'static, str>),
    /// A number; 0 if absent.
    IntAt(Cow<'static, str>),
}

impl SelectableField {
    /// The string at a path.
    pub const fn string(name: &'static str, path: &'static str) -> SelectableField {
        SelectableField {
            name: Cow::Borrowed(name),
            value: FieldSource::StringAt(Cow::Borrowed(path)),
        }
    }

    /// The boolean at a path.
    pub const fn boolean(name: &'static str, path: &'static str) -> SelectableField {
        SelectableField {
            name: Cow::Borrowed(name),
            value: FieldSource::BoolAt(Cow::Borrowed(path)),
        }
    }

    /// The number at a path.
    pub const fn integer(name: &'static str, path: &'static str) -> SelectableField {
        SelectableField {
            name: Cow::Borrowed(name),
            value: FieldSource::IntAt(Cow::Borrowed(path)),
        }
    }

    /// The first string at one of the paths that is not empty.
    pub const fn first_non_empty(
        name: &'static str,
        paths: &'static [&'static str],
    ) -> SelectableField {
        SelectableField {
            name: Cow::Borrowed(name),
            value: FieldSource::FirstNonEmpty(paths),
        }
    }
}
