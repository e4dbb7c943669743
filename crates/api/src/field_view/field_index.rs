//! [`FieldIndex`], a small hash table over the fields of one JSON object.

use serde_json::Value;

use crate::JsonObject;

const SLOTS: usize = 32;
/// Objects with more fields are not indexed: too many would collide.
const FIELDS_MAX: usize = SLOTS - SLOTS / 4;

/// The fields of one object, hashed by the length, first and last byte of their names.
///
/// A lookup in a `serde_json::Map` compares several names, and most fields that validation reads are absent. Building
/// the index costs about as much as two or three such lookups.
#[derive(Debug)]
pub struct FieldIndex<'a> {
    /// Open addressing: a field is in the slot of its hash or in the next free one.
    slots: [Option<(&'a str, &'a Value)>; SLOTS],
    is_complete: bool,
}

impl<'a> FieldIndex<'a> {
    // Inlined, so that the array is built in place and not copied.
    #[inline]
    pub(super) fn of(object: Option<&'a JsonObject>) -> Self {
        let mut index = FieldIndex {
            slots: [None; SLOTS],
            is_complete: true,
        };
        if let Some(object) = object {
            index.add(object);
        }
        index
    }

    fn add(&mut self, object: &'a JsonObject) {
        if object.len() > FIELDS_MAX {
            self.is_complete = false;
            return;
        }
        for (name, value) in object {
            let mut slot = slot(name);
            while self.slots[slot].is_some() {
                slot = next(slot);
            }
            self.slots[slot] = Some((name, value));
        }
    }

    /// Whether all fields of the object are indexed.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    // For a constant name the slot is computed at compile time.
    #[inline]
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        let slot = slot(name);
        match self.slots[slot] {
            None => None,
            Some(_) => self.get_from(slot, name),
        }
    }

    fn get_from(&self, mut slot: usize, name: &str) -> Option<&'a Value> {
        // Terminates because some slots are always free.
        while let Some((known, value)) = self.slots[slot] {
            if known == name {
                return Some(value);
            }
            slot = next(slot);
        }
        None
    }
}

const fn next(slot: usize) -> usize {
    (slot + 1) % SLOTS
}

#[inline(always)]
const fn slot(name: &str) -> usize {
    let bytes = name.as_bytes();
    let (first, last) = match bytes {
        [] => (0, 0),
        [only] => (*only as u32, 0),
        [first, .., last] => (*first as u32, *last as u32),
    };
    let mixed = first + (last << 8) + ((bytes.len() as u32) << 16);
    (mixed.wrapping_mul(0x9E37_79B1) >> 27) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexed_fields_equal_those_of_the_object() {
        for count in [0, 1, 2, 12, FIELDS_MAX] {
            let names = (0..count).map(|number| format!("name-{number}"));
            let object: JsonObject = names.zip((0..count).map(Value::from)).collect();
            let index = FieldIndex::of(Some(&object));
            assert!(index.is_complete(), "{count}");
            for number in 0..=FIELDS_MAX {
                let name = format!("name-{number}");
                assert_eq!(index.get(&name), object.get(&name), "{count}: {name}");
            }
            assert_eq!(index.get(""), None);
        }
        assert_eq!(FieldIndex::of(None).get("name"), None);
        let nameless: JsonObject = [(String::new(), Value::Null)].into_iter().collect();
        let index = FieldIndex::of(Some(&nameless));
        assert_eq!(index.get(""), Some(&Value::Null));
    }

    #[test]
    fn index_of_an_object_with_many_fields_is_incomplete() {
        let names = (0..=FIELDS_MAX).map(|number| format!("name-{number}"));
        let object: JsonObject = names.map(|name| (name, Value::Null)).collect();
        assert!(!FieldIndex::of(Some(&object)).is_complete());
    }
}
