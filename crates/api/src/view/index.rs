//! Finding the fields of an object faster than the object itself does.

use serde_json::Value;

use crate::Object;

const SLOTS: usize = 32;
/// Objects with more fields than this are searched after all: too many would share a slot.
const FIELDS_MAX: usize = SLOTS - SLOTS / 4;

/// Where the fields of one object are, told by few bytes of their names.
///
/// An object compares a name with several of its own to find the field or that it is absent, which most of the
/// fields are that rules ask for. To make an index costs about as much as two or three such searches.
#[derive(Debug)]
pub struct Index<'a> {
    /// A field is in the slot of its name or, if others took that, in the next one that was free.
    slots: [Option<(&'a str, &'a Value)>; SLOTS],
    is_complete: bool,
}

impl<'a> Index<'a> {
    // Inlined, so that it is made where it stays and not copied there.
    #[inline]
    pub(super) fn of(object: Option<&'a Object>) -> Self {
        let mut index = Index {
            slots: [None; SLOTS],
            is_complete: true,
        };
        if let Some(object) = object {
            index.add(object);
        }
        index
    }

    fn add(&mut self, object: &'a Object) {
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

    /// Whether all fields of the object are in it.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    // Where the name is a constant, so is its slot.
    #[inline]
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        let slot = slot(name);
        match self.slots[slot] {
            None => None,
            Some(_) => self.get_from(slot, name),
        }
    }

    fn get_from(&self, mut slot: usize, name: &str) -> Option<&'a Value> {
        // Some slots are free, so this ends.
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
    fn fields_are_found_as_in_the_object() {
        for count in [0, 1, 2, 12, FIELDS_MAX] {
            let names = (0..count).map(|number| format!("name-{number}"));
            let object: Object = names.zip((0..count).map(Value::from)).collect();
            let index = Index::of(Some(&object));
            assert!(index.is_complete(), "{count}");
            for number in 0..=FIELDS_MAX {
                let name = format!("name-{number}");
                assert_eq!(index.get(&name), object.get(&name), "{count}: {name}");
            }
            assert_eq!(index.get(""), None);
        }
        assert_eq!(Index::of(None).get("name"), None);
        let nameless: Object = [(String::new(), Value::Null)].into_iter().collect();
        let index = Index::of(Some(&nameless));
        assert_eq!(index.get(""), Some(&Value::Null));
    }

    #[test]
    fn objects_with_many_fields_are_searched() {
        let names = (0..=FIELDS_MAX).map(|number| format!("name-{number}"));
        let object: Object = names.map(|name| (name, Value::Null)).collect();
        assert!(!Index::of(Some(&object)).is_complete());
    }
}
