//! Label keys, label values and field values, each in memory once however many objects have it.

use std::collections::HashSet;
use std::sync::Arc;

/// Beyond this many texts, new ones are not shared: the table itself would cost too much.
const TEXTS_MAX: usize = 1 << 20;

/// Below this many, looking for texts that nobody uses any more is not worth it.
const SWEEP_MIN: usize = 1024;

/// How many texts are found without hashing them.
const RECENT: usize = 64;

/// Texts that objects share. Owned by the one task that makes entries.
#[derive(Debug)]
pub struct Texts {
    texts: HashSet<Arc<str>>,
    empty: Arc<str>,
    /// Some that were asked for lately: objects that come one after the other have much in common. Each is at the place
    /// that a few of its bytes tell.
    recent: [Option<Arc<str>>; RECENT],
    /// After this many new texts, those that only the table holds are let go.
    sweep_in: usize,
    texts_max: usize,
}

impl Texts {
    pub(crate) fn new() -> Self {
        Texts::with_room(TEXTS_MAX)
    }

    fn with_room(texts_max: usize) -> Self {
        Texts {
            texts: HashSet::new(),
            empty: Arc::from(""),
            recent: [const { None }; RECENT],
            sweep_in: SWEEP_MIN,
            texts_max,
        }
    }

    /// The text as it is shared.
    pub fn text(&mut self, text: &str) -> Arc<str> {
        if text.is_empty() {
            return Arc::clone(&self.empty);
        }
        let place = place(text);
        match &self.recent[place] {
            Some(known) if **known == *text => return Arc::clone(known),
            _ => {}
        }
        let shared = self.shared(text);
        self.recent[place] = Some(Arc::clone(&shared));
        shared
    }

    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = Arc::from(text);
        if self.sweep_in == 0 {
            self.sweep();
        }
        // A text that finds no room counts too, or a full table would stay full.
        self.sweep_in -= 1;
        if self.texts.len() < self.texts_max {
            self.texts.insert(Arc::clone(&new));
        }
        new
    }

    fn sweep(&mut self) {
        self.recent.fill(None);
        self.texts.retain(|text| Arc::strong_count(text) > 1);
        // As many new ones as are left before the next sweep: for each of them one that is kept is looked at.
        self.sweep_in = self.texts.len().max(SWEEP_MIN);
        self.texts.shrink_to(self.texts.len() + self.sweep_in);
    }
}

/// Where a text is among the recent ones. Whoever chooses texts that meet there gains nothing but that they are hashed.
fn place(text: &str) -> usize {
    let bytes = text.as_bytes();
    let byte = |at: usize| bytes.get(at).copied().map_or(0, usize::from);
    let (middle, last) = (byte(bytes.len() / 2), byte(bytes.len().wrapping_sub(1)));
    (byte(0) + 3 * middle + 7 * last + 13 * bytes.len()) % RECENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_memory_and_unused_ones_are_let_go() {
        let mut interner = Texts::new();
        let kept = interner.text("app");
        assert!(Arc::ptr_eq(&kept, &interner.text("app")));
        for number in 0..100_000 {
            interner.text(&number.to_string());
        }
        assert!(
            interner.texts.len() <= SWEEP_MIN,
            "{}",
            interner.texts.len()
        );
        assert!(Arc::ptr_eq(&kept, &interner.text("app")));
    }

    #[test]
    fn texts_that_meet_in_one_place_stay_apart() {
        let mut interner = Texts::new();
        let texts = ["a-1-b", "a-2-b", "ax1xb", "a-1-b", "a-2-b"];
        assert_eq!(place(texts[0]), place(texts[2]));
        for text in texts {
            assert_eq!(&*interner.text(text), text);
        }
        assert!(Arc::ptr_eq(
            &interner.text("ax1xb"),
            &interner.text("ax1xb")
        ));
        assert_eq!(interner.texts.len(), 3);
    }

    #[test]
    fn a_full_table_is_swept_like_any_other() {
        const ROOM: usize = 4 * SWEEP_MIN;
        let mut interner = Texts::with_room(ROOM);
        let held: Vec<Arc<str>> = (0..2 * ROOM)
            .map(|number| interner.text(&number.to_string()))
            .collect();
        assert_eq!(interner.texts.len(), ROOM);
        drop(held);
        for number in 0..=ROOM {
            interner.text(&format!("new {number}"));
        }
        let kept = interner.text("kept");
        assert!(Arc::ptr_eq(&kept, &interner.text("kept")));
        assert!(interner.texts.len() <= ROOM / 2, "{}", interner.texts.len());
    }

    #[test]
    fn what_is_in_use_is_looked_at_a_bounded_number_of_times() {
        let mut interner = Texts::with_room(TEXTS_MAX);
        let mut held = Vec::new();
        let mut looked_at = 0;
        for number in 0..100_000 {
            if interner.sweep_in == 0 {
                looked_at += interner.texts.len();
            }
            held.push(interner.text(&number.to_string()));
        }
        assert!(looked_at <= 2 * held.len(), "{looked_at}");
    }
}
