//! The fields of a type in the order of their numbers.
//!
//! JSON shows the fields of an embedded struct as fields of the outer one; in protobuf it is a message of its
//! own. So a type becomes a small tree.

use crate::Type;

/// What a message consists of, sorted by number.
#[derive(Debug, Default)]
pub(crate) struct Message {
    parts: Box<[Part]>,
}

#[derive(Debug)]
pub(super) struct Part {
    pub(super) number: u32,
    pub(super) content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    /// The field of the type at that position.
    Field(usize),
    /// A struct whose fields are fields of the type.
    Embedded(Message),
}

impl Message {
    pub(crate) fn of(of: &Type) -> Message {
        let all: Vec<usize> = (0..of.fields.len()).collect();
        Message::at_level(of, &all, 0)
    }

    /// The message of those fields, `level` of whose embeddings are already behind us.
    fn at_level(of: &Type, fields: &[usize], level: usize) -> Message {
        let mut parts: Vec<Part> = Vec::new();
        let mut embedded: Vec<(u32, Vec<usize>)> = Vec::new();
        for &at in fields {
            let field = &of.fields[at];
            match field.embedded.get(level) {
                None => parts.push(Part {
                    number: field.number,
                    content: Content::Field(at),
                }),
                Some(outer) => match embedded.iter_mut().find(|(n, _)| *n == outer.number) {
                    Some((_, inner)) => inner.push(at),
                    None => embedded.push((outer.number, vec![at])),
                },
            }
        }
        parts.extend(embedded.into_iter().map(|(number, inner)| Part {
            number,
            content: Content::Embedded(Message::at_level(of, &inner, level + 1)),
        }));
        // What has no number is not on the wire: the type of an object is in its envelope.
        parts.retain(|part| part.number != 0);
        parts.sort_by_key(|part| part.number);
        Message {
            parts: parts.into(),
        }
    }

    pub(super) fn part(&self, number: u32) -> Option<&Part> {
        let at = self.parts.binary_search_by_key(&number, |part| part.number);
        at.ok().map(|at| &self.parts[at])
    }

    pub(super) fn parts(&self) -> impl DoubleEndedIterator<Item = &Part> {
        self.parts.iter()
    }
}
