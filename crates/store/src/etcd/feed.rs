//! From the messages of etcd watches to one stream: grouped by revision, nothing twice.

use std::sync::Arc;

use crate::{Change, ChangeSet, Revision};

/// How far a stream is, over all the watches that feed it one after the other.
#[derive(Debug)]
pub(super) struct Feed {
    /// Everything up to here has been passed on.
    position: Revision,
    /// Whether the store is known to have come to the position. The one to begin after may be in the future.
    reached: bool,
    /// The changes of a revision of which more may follow.
    held: Option<(Revision, Vec<Change>)>,
    /// The reader wants to know when it is this far.
    wanted: Option<Revision>,
}

impl Feed {
    pub(super) fn new(after: Revision) -> Self {
        Feed {
            position: after,
            reached: false,
            held: None,
            wanted: None,
        }
    }

    pub(super) fn position(&self) -> Revision {
        self.position
    }

    pub(super) fn is_reached(&self) -> bool {
        self.reached
    }

    /// The store has come to the position: a later time when it has not is an earlier state of it.
    pub(super) fn set_reached(&mut self) {
        self.reached = true;
    }

    /// The changes of one message by their revisions; what has been passed on already, by an earlier watch, is
    /// left out. If the message is a part of a larger one, its last revision is held until all of it has come.
    pub(super) fn take(
        &mut self,
        changes: Vec<(Revision, Change)>,
        more_follows: bool,
    ) -> Vec<ChangeSet> {
        let mut sets = Vec::new();
        for (revision, change) in changes {
            match &mut self.held {
                Some((held, together)) if *held == revision => together.push(change),
                _ => {
                    sets.extend(self.release());
                    self.held = Some((revision, vec![change]));
                }
            }
        }
        if !more_follows {
            sets.extend(self.release());
        }
        sets
    }

    /// What is held is whole.
    fn release(&mut self) -> Option<ChangeSet> {
        let (revision, together) = self.held.take()?;
        if revision <= self.position {
            return None;
        }
        self.advance(revision);
        Some(ChangeSet {
            revision,
            changes: Arc::from(together),
        })
    }

    /// A new watch begins at the position, and brings again what is held.
    pub(super) fn begin_again(&mut self) {
        self.held = None;
    }

    /// The server says that all up to here has been sent.
    pub(super) fn advance(&mut self, to: Revision) {
        if to >= self.position {
            self.position = to;
            self.reached = true;
        }
    }

    /// Asks to be told once the stream has come to `target`.
    pub(super) fn want(&mut self, target: Revision) {
        self.wanted = self.wanted.max(Some(target));
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.is_some()
    }

    /// How far the stream is, if that was wanted and is far enough. Never further than the store.
    pub(super) fn progress(&mut self) -> Option<Revision> {
        let target = self.wanted.take_if(|target| *target <= self.position)?;
        Some(if self.reached { self.position } else { target })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deletes(all: &[(u64, &str)]) -> Vec<(Revision, Change)> {
        let change = |&(revision, key): &(u64, &str)| {
            (Revision::new(revision), Change::Delete { key: key.into() })
        };
        all.iter().map(change).collect()
    }

    fn check(feed: &mut Feed, message: &[(u64, &str)], expect: &[(u64, &[&str])]) {
        let sets = feed.take(deletes(message), false);
        let shown: Vec<(u64, Vec<&str>)> = sets
            .iter()
            .map(|set| {
                let keys = set.changes.iter().map(|change| &**change.key());
                (set.revision.get(), keys.collect())
            })
            .collect();
        let expect: Vec<(u64, Vec<&str>)> = expect
            .iter()
            .map(|(at, keys)| (*at, keys.to_vec()))
            .collect();
        assert_eq!(shown, expect);
    }

    #[test]
    fn changes_of_one_revision_come_together_and_in_order() {
        let mut feed = Feed::new(Revision::new(4));
        check(
            &mut feed,
            &[(5, "b"), (5, "a"), (7, "c")],
            &[(5, &["b", "a"]), (7, &["c"])],
        );
        assert_eq!(feed.position(), Revision::new(7));
    }

    #[test]
    fn what_was_passed_on_is_not_repeated() {
        let mut feed = Feed::new(Revision::new(4));
        check(
            &mut feed,
            &[(5, "a"), (6, "a")],
            &[(5, &["a"]), (6, &["a"])],
        );
        check(&mut feed, &[(4, "x"), (6, "a"), (8, "b")], &[(8, &["b"])]);
    }

    #[test]
    fn a_revision_in_several_messages_is_passed_on_as_one() {
        let mut feed = Feed::new(Revision::new(4));
        let mut take = |message: &[(u64, &str)], more_follows| -> Vec<(u64, usize)> {
            let sets = feed.take(deletes(message), more_follows);
            let shown = |set: &ChangeSet| (set.revision.get(), set.changes.len());
            sets.iter().map(shown).collect()
        };
        assert_eq!(take(&[(5, "a"), (6, "a")], true), [(5, 1)]);
        assert_eq!(take(&[(6, "b")], true), []);
        assert_eq!(take(&[(6, "c"), (7, "a")], true), [(6, 3)]);
        assert_eq!(take(&[(8, "a")], false), [(7, 1), (8, 1)]);
        assert_eq!(take(&[(9, "a")], true), []);
        // The watch ended half-way: the next one brings all of it.
        assert_eq!(feed.position(), Revision::new(8));
        feed.begin_again();
        assert!(feed.take(deletes(&[(8, "a"), (9, "a")]), true).is_empty());
        assert!(feed.take(deletes(&[(9, "b")]), true).is_empty());
        let whole = feed.take(deletes(&[(9, "c")]), false);
        assert_eq!((whole.len(), whole[0].changes.len()), (1, 3));
        assert_eq!(feed.position(), Revision::new(9));
    }

    #[test]
    fn progress_is_told_once_and_only_when_far_enough() {
        let mut feed = Feed::new(Revision::new(4));
        assert_eq!(feed.progress(), None);
        feed.want(Revision::new(6));
        assert_eq!(feed.progress(), None);
        feed.advance(Revision::new(5));
        assert_eq!(feed.progress(), None);
        check(&mut feed, &[(9, "a")], &[(9, &["a"])]);
        feed.advance(Revision::new(8));
        assert_eq!(feed.progress(), Some(Revision::new(9)));
        assert_eq!(feed.progress(), None);
        assert!(!feed.is_wanted());
    }

    #[test]
    fn a_stream_from_the_future_tells_no_progress_beyond_the_store() {
        let mut feed = Feed::new(Revision::new(100));
        feed.want(Revision::new(6));
        assert_eq!(feed.progress(), Some(Revision::new(6)));
        feed.advance(Revision::new(7));
        assert!(!feed.is_reached());
        feed.want(Revision::new(7));
        assert_eq!(feed.progress(), Some(Revision::new(7)));
        check(&mut feed, &[(101, "a")], &[(101, &["a"])]);
        assert!(feed.is_reached());
    }
}
