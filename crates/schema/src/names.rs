//! Finding the fields of a type by their names.
//!
//! Every field of everything that is read or written is looked for here, so it is a hash table whose hash is a few
//! instructions, made once with the type. The names in it are few and known; those that are looked for may be anything.

use crate::Field;

/// A table in which a name is further than this from its place is given up. With names that nobody chose in order to
/// meet in one place, it does not happen.
const MAX_STEPS: usize = 16;

#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    /// In the order of the fields.
    digests: Box<[Digest]>,
    /// Positions of fields, or [`FREE`]. A name is at the place that its hash tells, or not far behind. Their number is
    /// a power of two; there are none if the table was given up.
    places: Box<[u32]>,
}

const FREE: u32 = u32::MAX;

/// A name of up to 16 bytes as numbers, and enough of a longer one to tell it from most others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Digest {
    head: u64,
    tail: u64,
    length: usize,
}

/// Of names that long, the digest does not tell everything.
const LONG: usize = 17;

impl Names {
    /// Takes fields that are sorted by name.
    pub(crate) fn of(fields: &[Field]) -> Names {
        let digests: Box<[Digest]> = fields.iter().map(|field| Digest::of(&field.name)).collect();
        let places = places(&digests).unwrap_or_default();
        Names { digests, places }
    }

    /// The position of the field with that name.
    #[inline]
    pub(crate) fn position(&self, fields: &[Field], name: &str) -> Option<usize> {
        if self.places.is_empty() {
            return position_in_order(fields, name);
        }
        let wanted = Digest::of(name);
        let mut place = wanted.hash();
        loop {
            let at = self.places[place & (self.places.len() - 1)] as usize;
            let found = self.digests.get(at)?;
            if *found == wanted && (name.len() < LONG || *fields[at].name == *name) {
                return Some(at);
            }
            place = place.wrapping_add(1);
        }
    }
}

#[cold]
fn position_in_order(fields: &[Field], name: &str) -> Option<usize> {
    let found = fields.binary_search_by(|field| (*field.name).cmp(name));
    found.ok()
}

/// Where each of them is found; `None` if too many meet in one place.
fn places(digests: &[Digest]) -> Option<Box<[u32]>> {
    if digests.is_empty() {
        return None;
    }
    // At least half of the places are free, so that every search ends, and most end at once.
    let mut places = vec![FREE; (2 * digests.len()).next_power_of_two()];
    let mask = places.len() - 1;
    for (at, digest) in digests.iter().enumerate() {
        let hash = digest.hash();
        let mut near = (0..MAX_STEPS).map(|step| hash.wrapping_add(step) & mask);
        let free = near.find(|&place| places[place] == FREE)?;
        places[free] = u32::try_from(at).ok()?;
    }
    Some(places.into())
}

impl Digest {
    #[inline]
    fn of(name: &str) -> Digest {
        let name = name.as_bytes();
        let (head, tail) = match (name.first_chunk::<8>(), name.last_chunk::<8>()) {
            (Some(head), Some(tail)) => (u64::from_le_bytes(*head), u64::from_le_bytes(*tail)),
            _ => short(name),
        };
        Digest {
            head,
            tail,
            length: name.len(),
        }
    }

    /// The low bits count: they tell the place.
    #[inline]
    fn hash(self) -> usize {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = (self.head ^ self.tail.rotate_left(23) ^ self.length as u64).wrapping_mul(ODD);
        (mixed >> 40) as usize
    }
}

/// The same for less than eight bytes: pieces from both ends, which may have bytes in common.
#[inline]
fn short(name: &[u8]) -> (u64, u64) {
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
    use crate::Shape;

    fn sorted(names: impl IntoIterator<Item = String>) -> Vec<Field> {
        let mut names: Vec<String> = names.into_iter().collect();
        names.sort();
        let field = |name: &String| Field::new(name, Shape::Any);
        names.iter().map(field).collect()
    }

    #[test]
    fn every_name_is_found_and_no_other() {
        let text = "abcdefghijklmnopqrstuvwxyz";
        let mut names: Vec<String> = (0..text.len()).map(|end| text[..end].to_owned()).collect();
        names.extend((2..text.len()).map(|end| format!("b{}", &text[1..end])));
        let fields = sorted(names);
        let found = Names::of(&fields);
        assert!(!found.places.is_empty());
        for (at, field) in fields.iter().enumerate() {
            let name = &*field.name;
            assert_eq!(found.position(&fields, name), Some(at), "{name}");
            let changed = |index: usize| {
                let mut bytes = name.as_bytes().to_vec();
                bytes[index] ^= 0x20;
                String::from_utf8(bytes).expect("ASCII")
            };
            for other in (0..name.len()).map(changed) {
                assert_eq!(found.position(&fields, &other), None, "{other}");
            }
            let longer = format!("{name}\0");
            assert_eq!(found.position(&fields, &longer), None, "{name}");
        }
    }

    #[test]
    fn names_that_meet_in_one_place_are_found_as_well() {
        // Neither the ends nor the lengths differ.
        let fields = sorted((0..100).map(|number| format!("beginning{number:03}, the end")));
        let found = Names::of(&fields);
        assert!(found.places.is_empty());
        for (at, field) in fields.iter().enumerate() {
            assert_eq!(found.position(&fields, &field.name), Some(at));
        }
        assert_eq!(found.position(&fields, "beginning100, the end"), None);
    }

    #[test]
    fn a_type_without_fields_has_no_names() {
        assert_eq!(Names::of(&[]).position(&[], ""), None);
    }
}
