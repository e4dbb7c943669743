//! The names of a type's fields as JSON writes them, made once with the type: `"spec":`.

use crate::Field;
use crate::json::write_text;

#[derive(Debug, Clone, Default)]
pub(crate) struct Keys {
    /// One behind the other, in the order of the fields.
    text: Box<[u8]>,
    /// Where each of them ends.
    ends: Box<[usize]>,
}

impl Keys {
    pub(crate) fn of(fields: &[Field]) -> Keys {
        let mut text = Vec::new();
        let ends = fields.iter().map(|field| {
            write_text(&field.name, &mut text);
            text.push(b':');
            text.len()
        });
        let ends = ends.collect();
        Keys {
            text: text.into(),
            ends,
        }
    }

    /// That of the field at a position.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> &[u8] {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[begin..self.ends[at]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    #[test]
    fn every_field_has_its_own() {
        let fields = ["", "a", "odd \"\n", "spec"].map(|name| Field::new(name, Shape::Any));
        let keys = Keys::of(&fields);
        let texts: Vec<&[u8]> = (0..fields.len()).map(|at| keys.get(at)).collect();
        let expect = ["\"\":", "\"a\":", "\"odd \\\"\\n\":", "\"spec\":"];
        assert_eq!(texts, expect.map(str::as_bytes));
    }
}
