//! Assembles the messages of consecutive etcd watches into one change stream: grouped by revision, no duplicates.

use std::sync::Arc;

use crate::{ChangeSet, KeyChange, Revision};

/// The position of a change stream over all the watches that feed it, and its incomplete change set.
#[derive(Debug)]
pub(super) struct ChangeAssembler {
    /// Everything up to this revision has been delivered.
    position: Revision,
    /// Whether the store is known to have reached the position; a stream may begin in the future.
    position_confirmed: bool,
    /// The changes of a revision that may be incomplete.
    partial: Option<(Revision, Vec<KeyChange>)>,
    /// The reader has requested progress when the stream reaches this revision.
    progress_target: Option<Revision>,
}

impl ChangeAssembler {
    pub(super) fn new(after: Revision) -> Self {
        ChangeAssembler {
            position: after,
            position_confirmed: false,
            partial: None,
            progress_target: None,
        }
    }

    pub(super) fn position(&self) -> Revision {
        self.position
    }

    pub(super) fn is_position_confirmed(&self) -> bool {
        self.position_confirmed
    }

    /// Notes that the store has reached the position. If it is behind the position later, its history went back.
    pub(super) fn confirm_position(&mut self) {
        self.position_confirmed = true;
    }

    /// Groups the changes of a message by revision and drops those that an earlier watch delivered. If the message is a
    /// fragment, its last revision is held back until it is complete.
    pub(super) fn add_message(
        &mut self,
        changes: Vec<(Revision, KeyChange)>,
        more_follows: bool,
    ) -> Vec<ChangeSet> {
        let mut sets = Vec::new();
        for (revision, change) in changes {
            match &mut self.partial {
                Some((held, together)) if *held == revision => together.push(change),
                _ => {
                    sets.extend(self.complete_partial());
                    self.partial = Some((revision, vec![change]));
                }
            }
        }
        if !more_follows {
            sets.extend(self.complete_partial());
        }
        sets
    }

    /// Completes the held change set.
    fn complete_partial(&mut self) -> Option<ChangeSet> {
        let (revision, together) = self.partial.take()?;
        if revision <= self.position {
            return None;
        }
        self.advance(revision);
        Some(ChangeSet {
            revision,
            changes: Arc::from(together),
        })
    }

    /// Drops the incomplete change set: a new watch begins at the position and sends it again.
    pub(super) fn discard_partial(&mut self) {
        self.partial = None;
    }

    /// Advances the position: the server has sent everything up to `to`.
    pub(super) fn advance(&mut self, to: Revision) {
        if to >= self.position {
            self.position = to;
            self.position_confirmed = true;
        }
    }

    /// Requests progress once the stream has reached `target`.
    pub(super) fn request_progress(&mut self, target: Revision) {
        self.progress_target = self.progress_target.max(Some(target));
    }

    pub(super) fn is_progress_pending(&self) -> bool {
        self.progress_target.is_some()
    }

    /// The position of the stream, if progress was requested and the target is reached. Never later than the revision
    /// of the store.
    pub(super) fn take_progress(&mut self) -> Option<Revision> {
        let target = self
            .progress_target
            .take_if(|target| *target <= self.position)?;
        Some(if self.position_confirmed {
            self.position
        } else {
            target
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deletes(all: &[(u64, &str)]) -> Vec<(Revision, KeyChange)> {
        let change = |&(revision, key): &(u64, &str)| {
            (
                Revision::new(revision),
                KeyChange::Delete { key: key.into() },
            )
        };
        all.iter().map(change).collect()
    }

    fn check(feed: &mut ChangeAssembler, message: &[(u64, &str)], expect: &[(u64, &[&str])]) {
        let sets = feed.add_message(deletes(message), false);
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
    fn changes_of_one_revision_are_grouped_in_order() {
        let mut feed = ChangeAssembler::new(Revision::new(4));
        check(
            &mut feed,
            &[(5, "b"), (5, "a"), (7, "c")],
            &[(5, &["b", "a"]), (7, &["c"])],
        );
        assert_eq!(feed.position(), Revision::new(7));
    }

    #[test]
    fn delivered_changes_are_not_repeated() {
        let mut feed = ChangeAssembler::new(Revision::new(4));
        check(
            &mut feed,
            &[(5, "a"), (6, "a")],
            &[(5, &["a"]), (6, &["a"])],
        );
        check(&mut feed, &[(4, "x"), (6, "a"), (8, "b")], &[(8, &["b"])]);
    }

    #[test]
    fn a_revision_split_over_messages_is_delivered_as_one_set() {
        let mut feed = ChangeAssembler::new(Revision::new(4));
        let mut take = |message: &[(u64, &str)], more_follows| -> Vec<(u64, usize)> {
            let sets = feed.add_message(deletes(message), more_follows);
            let shown = |set: &ChangeSet| (set.revision.get(), set.changes.len());
            sets.iter().map(shown).collect()
        };
        assert_eq!(take(&[(5, "a"), (6, "a")], true), [(5, 1)]);
        assert_eq!(take(&[(6, "b")], true), []);
        assert_eq!(take(&[(6, "c"), (7, "a")], true), [(6, 3)]);
        assert_eq!(take(&[(8, "a")], false), [(7, 1), (8, 1)]);
        assert_eq!(take(&[(9, "a")], true), []);
        // The watch ended in the middle of a revision: the next watch sends all of it.
        assert_eq!(feed.position(), Revision::new(8));
        feed.discard_partial();
        assert!(
            feed.add_message(deletes(&[(8, "a"), (9, "a")]), true)
                .is_empty()
        );
        assert!(feed.add_message(deletes(&[(9, "b")]), true).is_empty());
        let whole = feed.add_message(deletes(&[(9, "c")]), false);
        assert_eq!((whole.len(), whole[0].changes.len()), (1, 3));
        assert_eq!(feed.position(), Revision::new(9));
    }

    #[test]
    fn progress_is_reported_once_when_the_requested_revision_is_reached() {
        let mut feed = ChangeAssembler::new(Revision::new(4));
        assert_eq!(feed.take_progress(), None);
        feed.request_progress(Revision::new(6));
        assert_eq!(feed.take_progress(), None);
        feed.advance(Revision::new(5));
        assert_eq!(feed.take_progress(), None);
        check(&mut feed, &[(9, "a")], &[(9, &["a"])]);
        feed.advance(Revision::new(8));
        assert_eq!(feed.take_progress(), Some(Revision::new(9)));
        assert_eq!(feed.take_progress(), None);
        assert!(!feed.is_progress_pending());
    }

    #[test]
    fn a_stream_from_a_future_revision_reports_no_progress_beyond_the_store() {
        let mut feed = ChangeAssembler::new(Revision::new(100));
        feed.request_progress(Revision::new(6));
        assert_eq!(feed.take_progress(), Some(Revision::new(6)));
        feed.advance(Revision::new(7));
        assert!(!feed.is_position_confirmed());
        feed.request_progress(Revision::new(7));
        assert_eq!(feed.take_progress(), Some(Revision::new(7)));
        check(&mut feed, &[(101, "a")], &[(101, &["a"])]);
        assert!(feed.is_position_confirmed());
    }
}
