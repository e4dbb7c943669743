//! Words that occur in many objects, each kept once.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::hashing::WordSet;

/// A word that is compared by where it is: two that are the same come from one [`Texts`].
#[derive(Debug, Clone)]
pub(crate) struct Text(Arc<str>);

impl Text {
    /// No other word is there, as long as this one is.
    pub(crate) fn place(&self) -> usize {
        Arc::as_ptr(&self.0).cast::<u8>() as usize
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Text {}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.place());
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// A name with a value, as pods and namespaces have them.
pub(crate) type Label = (Text, Text);

/// From this many words on, it is looked from time to time which of them are still used.
const SWEPT_FROM: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Texts {
    known: WordSet<Arc<str>>,
    used_at_sweep: usize,
}

impl Texts {
    pub(crate) fn intern(&mut self, word: &str) -> Text {
        if let Some(known) = self.known.get(word) {
            return Text(known.clone());
        }
        self.sweep();
        let word: Arc<str> = word.into();
        self.known.insert(word.clone());
        Text(word)
    }

    /// The word, if anything has it.
    pub(crate) fn find(&self, word: &str) -> Option<Text> {
        self.known.get(word).cloned().map(Text)
    }

    pub(crate) fn intern_all<'a>(
        &mut self,
        labels: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Box<[Label]> {
        let labels = labels.into_iter();
        labels
            .map(|(key, value)| (self.intern(key), self.intern(value)))
            .collect()
    }

    /// Forgets what nobody uses, once there are twice as many words as at the last time: so each costs little.
    fn sweep(&mut self) {
        if self.known.len() < SWEPT_FROM.max(2 * self.used_at_sweep) {
            return;
        }
        self.known.retain(|word| Arc::strong_count(word) > 1);
        self.used_at_sweep = self.known.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_words_are_one_and_others_are_not() {
        let mut texts = Texts::default();
        let app = texts.intern("app");
        assert_eq!(texts.intern("app"), app);
        assert_ne!(texts.intern("web"), app);
        assert_eq!(texts.find("app"), Some(app));
        assert_eq!(texts.find("never"), None);
    }

    #[test]
    fn words_that_nobody_uses_are_forgotten() {
        let mut texts = Texts::default();
        let kept: Vec<Text> = (0..10)
            .map(|word| texts.intern(&format!("kept {word}")))
            .collect();
        for word in 0..100_000 {
            texts.intern(&word.to_string());
        }
        assert!(texts.known.len() <= SWEPT_FROM);
        for (word, text) in kept.iter().enumerate() {
            assert_eq!(texts.find(&format!("kept {word}")).as_ref(), Some(text));
        }
    }
}
