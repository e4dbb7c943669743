//! Label keys, label values and field values, each in memory once however many objects have it.

use std::collections::HashSet;
use std::sync::Arc;

/// Beyond this many texts, new ones are not shared: the table itself would cost too much.
const TEXTS_MAX: usize = 1 << 20;

/// Below this many, looking for texts that nobody uses any more is not worth it.
const SWEEP_MIN: usize = 1024;

/// Owned by the one task that makes entries.
#[derive(Debug)]
pub(crate) struct Interner {
    texts: HashSet<Arc<str>>,
    empty: Arc<str>,
    /// At this many texts, those that only the table holds are let go.
    sweep_at: usize,
}

impl Interner {
    pub(crate) fn new() -> Self {
        Interner {
            texts: HashSet::new(),
            empty: Arc::from(""),
            sweep_at: SWEEP_MIN,
        }
    }

    pub(crate) fn text(&mut self, text: &str) -> Arc<str> {
        if text.is_empty() {
            return Arc::clone(&self.empty);
        }
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = Arc::from(text);
        if self.texts.len() >= self.sweep_at {
            self.sweep();
        }
        if self.texts.len() < TEXTS_MAX {
            self.texts.insert(Arc::clone(&new));
        }
        new
    }

    fn sweep(&mut self) {
        self.texts.retain(|text| Arc::strong_count(text) > 1);
        // Twice as many before the next sweep: each text is then looked at a constant number of times.
        self.sweep_at = (self.texts.len() * 2).max(SWEEP_MIN);
        self.texts.shrink_to(self.sweep_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_memory_and_unused_ones_are_let_go() {
        let mut interner = Interner::new();
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
}
