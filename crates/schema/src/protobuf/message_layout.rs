//! Protobuf layout of a type: its fields ordered by field number.
//!
//! JSON inlines the fields of an embedded struct into the outer object; in protobuf the struct is a separate message.
//! The layout of a type is therefore a small tree.

use crate::ObjectType;

/// The fields of a protobuf message, sorted by number.
#[derive(Debug, Default)]
pub(crate) struct MessageLayout {
    fields: Box<[LayoutField]>,
}

/// A field of the message.
#[derive(Debug)]
pub(super) struct LayoutField {
    pub(super) number: u32,
    pub(super) content: LayoutContent,
}

#[derive(Debug)]
pub(super) enum LayoutContent {
    /// Position of the field in the type.
    Field(usize),
    /// An embedded struct, whose fields are fields of the type.
    Embedded(MessageLayout),
}

impl MessageLayout {
    pub(crate) fn new(object_type: &ObjectType) -> MessageLayout {
        let all: Vec<usize> = (0..object_type.fields.len()).collect();
        MessageLayout::at_level(object_type, &all, 0)
    }

    /// The layout of the fields at these positions, below `level` levels of embedded structs.
    fn at_level(object_type: &ObjectType, positions: &[usize], level: usize) -> MessageLayout {
        let mut fields: Vec<LayoutField> = Vec::new();
        let mut embedded: Vec<(u32, Vec<usize>)> = Vec::new();
        for &position in positions {
            let field = &object_type.fields[position];
            match field.embedded.get(level) {
                None => fields.push(LayoutField {
                    number: field.number,
                    content: LayoutContent::Field(position),
                }),
                Some(outer) => match embedded.iter_mut().find(|(n, _)| *n == outer.number) {
                    Some((_, inner)) => inner.push(position),
                    None => embedded.push((outer.number, vec![position])),
                },
            }
        }
        fields.extend(embedded.into_iter().map(|(number, inner)| LayoutField {
            number,
            content: LayoutContent::Embedded(MessageLayout::at_level(
                object_type,
                &inner,
                level + 1,
            )),
        }));
        // Fields without a number are not on the wire: apiVersion and kind are in the envelope.
        fields.retain(|field| field.number != 0);
        fields.sort_by_key(|field| field.number);
        MessageLayout {
            fields: fields.into(),
        }
    }

    pub(super) fn field(&self, number: u32) -> Option<&LayoutField> {
        let found = self
            .fields
            .binary_search_by_key(&number, |field| field.number);
        found.ok().map(|index| &self.fields[index])
    }

    pub(super) fn fields(&self) -> impl DoubleEndedIterator<Item = &LayoutField> {
        self.fields.iter()
    }
}
