//! Interns label keys, label values and field values, so that equal strings of all objects share memory.

use std::collections::HashSet;
use std::sync::Arc;

/// Beyond this many strings, new ones are not interned: the table itself would cost too much.
const STRINGS_MAX: usize = 1 << 20;

/// Minimum number of new strings between two sweeps for unused ones.
const SWEEP_MIN: usize = 1024;

/// Slots of the direct-mapped table of recent strings, which avoids hashing.
const RECENT_SLOTS: usize = 64;

/// Strings shared by objects. Owned by the task that creates the entries.
#[derive(Debug)]
pub struct StringInterner {
    strings: HashSet<Arc<str>>,
    empty: Arc<str>,
    /// Recently interned strings, as consecutive objects have many in common. The slot is computed from the length
    /// and a few bytes.
    recent: [Option<Arc<str>>; RECENT_SLOTS],
    /// After this many new strings, those that only the table references are removed.
    sweep_in: usize,
    strings_max: usize,
}

impl StringInterner {
    pub(crate) fn new() -> Self {
        StringInterner::with_limit(STRINGS_MAX)
    }

    fn with_limit(strings_max: usize) -> Self {
        StringInterner {
            strings: HashSet::new(),
            empty: Arc::from(""),
            recent: [const { None }; RECENT_SLOTS],
            sweep_in: SWEEP_MIN,
            strings_max,
        }
    }

    /// Returns the shared copy of `text`.
    pub fn intern(&mut self, text: &str) -> Arc<str> {
        if text.is_empty() {
            return Arc::clone(&self.empty);
        }
        let slot = recent_slot(text);
        match &self.recent[slot] {
            Some(recent) if **recent == *text => return Arc::clone(recent),
            _ => {}
        }
        let shared = self.lookup_or_insert(text);
        self.recent[slot] = Some(Arc::clone(&shared));
        shared
    }

    fn lookup_or_insert(&mut self, text: &str) -> Arc<str> {
        if let Some(shared) = self.strings.get(text) {
            return Arc::clone(shared);
        }
        let new: Arc<str> = Arc::from(text);
        if self.sweep_in == 0 {
            self.sweep();
        }
        // Strings that are not inserted count as well; otherwise a full table would never be swept again.
        self.sweep_in -= 1;
        if self.strings.len() < self.strings_max {
            self.strings.insert(Arc::clone(&new));
        }
        new
    }

    fn sweep(&mut self) {
        self.recent.fill(None);
        self.strings.retain(|text| Arc::strong_count(text) > 1);
        // Sweep again after as many new strings as were kept, so that the amortised cost per new string is constant.
        self.sweep_in = self.strings.len().max(SWEEP_MIN);
        self.strings.shrink_to(self.strings.len() + self.sweep_in);
    }
}

/// The slot of a string in the table of recent strings. A collision, even a deliberate one, only costs a hash lookup.
fn recent_slot(text: &str) -> usize {
    let bytes = text.as_bytes();
    let byte = |at: usize| bytes.get(at).copied().map_or(0, usize::from);
    let (middle, last) = (byte(bytes.len() / 2), byte(bytes.len().wrapping_sub(1)));
    (byte(0) + 3 * middle + 7 * last + 13 * bytes.len()) % RECENT_SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_share_memory_and_unused_ones_are_removed() {
        let mut interner = StringInterner::new();
        let kept = interner.intern("app");
        assert!(Arc::ptr_eq(&kept, &interner.intern("app")));
        for number in 0..100_000 {
            interner.intern(&number.to_string());
        }
        assert!(
            interner.strings.len() <= SWEEP_MIN,
            "{}",
            interner.strings.len()
        );
        assert!(Arc::ptr_eq(&kept, &interner.intern("app")));
    }

    #[test]
    fn strings_that_share_a_recent_slot_stay_distinct() {
        let mut interner = StringInterner::new();
        let texts = ["a-1-b", "a-2-b", "ax1xb", "a-1-b", "a-2-b"];
        assert_eq!(recent_slot(texts[0]), recent_slot(texts[2]));
        for text in texts {
            assert_eq!(&*interner.intern(text), text);
        }
        assert!(Arc::ptr_eq(
            &interner.intern("ax1xb"),
            &interner.intern("ax1xb")
        ));
        assert_eq!(interner.strings.len(), 3);
    }

    #[test]
    fn a_full_table_is_swept() {
        const ROOM: usize = 4 * SWEEP_MIN;
        let mut interner = StringInterner::with_limit(ROOM);
        let held: Vec<Arc<str>> = (0..2 * ROOM)
            .map(|number| interner.intern(&number.to_string()))
            .collect();
        assert_eq!(interner.strings.len(), ROOM);
        drop(held);
        for number in 0..=ROOM {
            interner.intern(&format!("new {number}"));
        }
        let kept = interner.intern("kept");
        assert!(Arc::ptr_eq(&kept, &interner.intern("kept")));
        assert!(
            interner.strings.len() <= ROOM / 2,
            "{}",
            interner.strings.len()
        );
    }

    #[test]
    fn sweeps_have_constant_amortised_cost() {
        let mut interner = StringInterner::with_limit(STRINGS_MAX);
        let mut held = Vec::new();
        let mut examined = 0;
        for number in 0..100_000 {
            if interner.sweep_in == 0 {
                examined += interner.strings.len();
            }
            held.push(interner.intern(&number.to_string()));
        }
        assert!(examined <= 2 * held.len(), "{examined}");
    }
}
