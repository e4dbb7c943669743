//! Looks up the fields of a type by name.
//!
//! Every field that is decoded or encoded is looked up here, so this is an open-addressing hash table with a hash of a
//! few instructions, built once per type. The stored names are few and trusted; the looked-up names are client input.
//!
//! 2026-11-18, Intel Xeon, 2 cores, in use by others, `cargo bench -p rhumb-schema --bench field_lookup`: 6 ns per lookup
//! in the types that most requests consist of; `hashbrown` with `foldhash` 9 ns, the `HashMap` of std 23 ns, binary
//! search 69 ns.

use crate::Field;

/// Longest probe sequence; a table that would need more falls back to binary search. Only names chosen to collide
/// reach it.
const MAX_PROBES: usize = 16;

#[derive(Debug, Clone, Default)]
pub(crate) struct FieldNameIndex {
    /// In the order of the fields.
    digests: Box<[NameDigest]>,
    /// Field positions, or [`EMPTY_SLOT`], with linear probing. The length is a power of two, or zero if lookups
    /// use binary search.
    slots: Box<[u32]>,
}

const EMPTY_SLOT: u32 = u32::MAX;

/// Digest of a name: exact for names of up to 16 bytes, partial for longer ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NameDigest {
    head: u64,
    tail: u64,
    length: usize,
}

/// From this length on, equal digests do not imply equal names.
const FIRST_INEXACT_LENGTH: usize = 17;

impl FieldNameIndex {
    /// The fields must be sorted by name.
    pub(crate) fn new(fields: &[Field]) -> FieldNameIndex {
        let digests: Box<[NameDigest]> = fields
            .iter()
            .map(|field| NameDigest::new(&field.name))
            .collect();
        let slots = assign_slots(&digests).unwrap_or_default();
        FieldNameIndex { digests, slots }
    }

    /// The position of the field with that name.
    #[inline]
    pub(crate) fn position(&self, fields: &[Field], name: &str) -> Option<usize> {
        if self.slots.is_empty() {
            return binary_search_position(fields, name);
        }
        let searched = NameDigest::new(name);
        let mut slot = searched.hash();
        loop {
            let position = self.slots[slot & (self.slots.len() - 1)] as usize;
            let digest = self.digests.get(position)?;
            if *digest == searched
                && (name.len() < FIRST_INEXACT_LENGTH || *fields[position].name == *name)
            {
                return Some(position);
            }
            slot = slot.wrapping_add(1);
        }
    }
}

#[cold]
fn binary_search_position(fields: &[Field], name: &str) -> Option<usize> {
    let found = fields.binary_search_by(|field| (*field.name).cmp(name));
    found.ok()
}

/// Assigns a slot to each digest; `None` if a probe sequence would be too long.
fn assign_slots(digests: &[NameDigest]) -> Option<Box<[u32]>> {
    if digests.is_empty() {
        return None;
    }
    // At least half of the slots stay empty, so every search terminates, most of them at once.
    let mut slots = vec![EMPTY_SLOT; (2 * digests.len()).next_power_of_two()];
    let mask = slots.len() - 1;
    for (position, digest) in digests.iter().enumerate() {
        let hash = digest.hash();
        let mut probes = (0..MAX_PROBES).map(|probe| hash.wrapping_add(probe) & mask);
        let empty_slot = probes.find(|&slot| slots[slot] == EMPTY_SLOT)?;
        slots[empty_slot] = u32::try_from(position).ok()?;
    }
    Some(slots.into())
}

impl NameDigest {
    #[inline]
    fn new(name: &str) -> NameDigest {
        let name = name.as_bytes();
        let (head, tail) = match (name.first_chunk::<8>(), name.last_chunk::<8>()) {
            (Some(head), Some(tail)) => (u64::from_le_bytes(*head), u64::from_le_bytes(*tail)),
            _ => short_name_digest(name),
        };
        NameDigest {
            head,
            tail,
            length: name.len(),
        }
    }

    /// The low bits select the slot.
    #[inline]
    fn hash(self) -> usize {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = (self.head ^ self.tail.rotate_left(23) ^ self.length as u64).wrapping_mul(ODD);
        (mixed >> 40) as usize
    }
}

/// Head and tail of a name of less than eight bytes; they may overlap.
#[inline]
fn short_name_digest(name: &[u8]) -> (u64, u64) {
    if let (Some(head), Some(tail)) = (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        let (head, tail) = (u32::from_le_bytes(*head), u32::from_le_bytes(*tail));
        return (u64::from(head), u64::from(tail));
    }
    match *name {
        [] => (0, 0),
        [only] => (only.into(), 0),
        [first, second] => (first.into(), second.into()),
        [first, second, third, ..] => (first.into(), u64::from(second) << 8 | u64::from(third)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ValueType;

    fn sorted(names: impl IntoIterator<Item = String>) -> Vec<Field> {
        let mut names: Vec<String> = names.into_iter().collect();
        names.sort();
        let field = |name: &String| Field::new(name, ValueType::Any);
        names.iter().map(field).collect()
    }

    #[test]
    fn exactly_the_indexed_names_are_found() {
        let text = "abcdefghijklmnopqrstuvwxyz";
        let mut names: Vec<String> = (0..text.len()).map(|end| text[..end].to_owned()).collect();
        names.extend((2..text.len()).map(|end| format!("b{}", &text[1..end])));
        let fields = sorted(names);
        let index = FieldNameIndex::new(&fields);
        assert!(!index.slots.is_empty());
        for (position, field) in fields.iter().enumerate() {
            let name = &*field.name;
            assert_eq!(index.position(&fields, name), Some(position), "{name}");
            let changed = |index: usize| {
                let mut bytes = name.as_bytes().to_vec();
                bytes[index] ^= 0x20;
                String::from_utf8(bytes).expect("ASCII")
            };
            for other in (0..name.len()).map(changed) {
                assert_eq!(index.position(&fields, &other), None, "{other}");
            }
            let longer = format!("{name}\0");
            assert_eq!(index.position(&fields, &longer), None, "{name}");
        }
    }

    #[test]
    fn colliding_names_are_found_by_binary_search() {
        // Neither the ends nor the lengths differ.
        let fields = sorted((0..100).map(|number| format!("beginning{number:03}, the end")));
        let index = FieldNameIndex::new(&fields);
        assert!(index.slots.is_empty());
        for (position, field) in fields.iter().enumerate() {
            assert_eq!(index.position(&fields, &field.name), Some(position));
        }
        assert_eq!(index.position(&fields, "beginning100, the end"), None);
    }

    #[test]
    fn a_type_without_fields_contains_no_name() {
        assert_eq!(FieldNameIndex::new(&[]).position(&[], ""), None);
    }
}
