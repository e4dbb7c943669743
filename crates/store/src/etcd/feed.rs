//! From the messages of etcd watches to one stream: grouped by revision, nothing twice.

use std::sync::Arc;

use crate::{Change, ChangeSet, Revision};

/// How far a stream is, over all the watches that feed it one after the other.
#[derive(Debug)]
pub(super) struct Feed {
    after: Revision,
    /// Everything up to here has been passed on.
    position: Revision,
    /// The reader wants to know when it is this far.
    wanted: Option<Revision>,
}

impl Feed {
    pub(super) fn new(after: Revision) -> Self {
        Feed {
            after,
            position: after,
            wanted: None,
        }
    }

    pub(super) fn position(&self) -> Revision {
        self.position
    }

    /// Whether the store is known to have reached the position. The one to begin after may be in the
    /// future.
    pub(super) fn has_moved(&self) -> bool {
        self.position > self.after
    }

    /// The changes of one message by their revisions. A revision is never split over two messages; what
    /// has been passed on already, by an earlier watch, is left out.
    pub(super) fn take(&mut self, changes: Vec<(Revision, Change)>) -> Vec<ChangeSet> {
        let mut sets = Vec::new();
        let mut rest = changes.into_iter().peekable();
        while let Some((revision, first)) = rest.next() {
            let mut set = vec![first];
            while let Some((_, change)) = rest.next_if(|(next, _)| *next == revision) {
                set.push(change);
            }
            if revision > self.position {
                self.position = revision;
                sets.push(ChangeSet {
                    revision,
                    changes: Arc::from(set),
                });
            }
        }
        sets
    }

    /// The server says that all up to here has been sent.
    pub(super) fn advance(&mut self, to: Revision) {
        self.position = self.position.max(to);
    }

    /// Asks to be told once the stream has come to `target`.
    pub(super) fn want(&mut self, target: Revision) {
        self.wanted = self.wanted.max(Some(target));
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.is_some()
    }

    /// How far the stream is, if that was wanted and is far enough.
    pub(super) fn reached(&mut self) -> Option<Revision> {
        self.wanted.take_if(|target| *target <= self.position)?;
        Some(self.position)
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
        let sets = feed.take(deletes(message));
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
    fn progress_is_told_once_and_only_when_far_enough() {
        let mut feed = Feed::new(Revision::new(4));
        assert_eq!(feed.reached(), None);
        feed.want(Revision::new(6));
        assert_eq!(feed.reached(), None);
        feed.advance(Revision::new(5));
        assert_eq!(feed.reached(), None);
        check(&mut feed, &[(9, "a")], &[(9, &["a"])]);
        feed.advance(Revision::new(8));
        assert_eq!(feed.reached(), Some(Revision::new(9)));
        assert_eq!(feed.reached(), None);
        assert!(!feed.is_wanted());
    }

    #[test]
    fn only_what_was_passed_on_proves_that_the_store_was_there() {
        let mut feed = Feed::new(Revision::new(100));
        assert!(!feed.has_moved());
        check(&mut feed, &[(101, "a")], &[(101, &["a"])]);
        assert!(feed.has_moved());
    }
}
