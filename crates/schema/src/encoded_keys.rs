//! Pre-encoded JSON keys of a type's fields, such as `"spec":`, computed once per type.

use crate::Field;
use crate::json::write_text;

#[derive(Debug, Clone, Default)]
pub(crate) struct EncodedKeys {
    /// The keys, concatenated in field order.
    text: Box<[u8]>,
    /// End offset of each key.
    ends: Box<[usize]>,
}

impl EncodedKeys {
    pub(crate) fn new(fields: &[Field]) -> EncodedKeys {
        let mut text = Vec::new();
        let ends = fields.iter().map(|field| {
            write_text(&field.name, &mut text);
            text.push(b':');
            text.len()
        });
        let ends = ends.collect();
        EncodedKeys {
            text: text.into(),
            ends,
        }
    }

    /// The key of the field at a position.
    #[inline]
    pub(crate) fn get(&self, position: usize) -> &[u8] {
        let start = position
            .checked_sub(1)
            .map_or(0, |previous| self.ends[previous]);
        &self.text[start..self.ends[position]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ValueType;

    #[test]
    fn each_field_has_its_encoded_key() {
        let fields = ["", "a", "odd \"\n", "spec"].map(|name| Field::new(name, ValueType::Any));
        let keys = EncodedKeys::new(&fields);
        let texts: Vec<&[u8]> = (0..fields.len())
            .map(|position| keys.get(position))
            .collect();
        let expect = ["\"\":", "\"a\":", "\"odd \\\"\\n\":", "\"spec\":"];
        assert_eq!(texts, expect.map(str::as_bytes));
    }
}
