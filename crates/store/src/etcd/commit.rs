//! Transactions: asked once, and answered with the truth.

use std::sync::Arc;

use etcd_client::{Compare, CompareOp, GetOptions, Txn, TxnOp, TxnOpResponse, TxnResponse};

use super::backoff::Backoff;
use super::convert::{self, Failure, Kind, from_etcd, header_revision, to_etcd};
use super::link::{Link, answer};
use super::outcome::{Fate, fence, look};
use super::slots::{HeldSlot, Slots};
use crate::{Entry, Error, Expect, Operation, Result, Revision, Transaction};

/// How often a transaction is sent that surely was not carried out before.
const ATTEMPTS_MAX: u32 = 6;

pub(super) async fn commit(
    link: &Link,
    slots: &Arc<Slots>,
    transaction: Transaction,
) -> Result<Revision> {
    transaction.check_form()?;
    let changes_nothing = |operation: &Operation| matches!(operation, Operation::Check { .. });
    if transaction.operations().iter().all(changes_nothing) {
        return check_only(link, &transaction).await;
    }
    let slot = slots.acquire(link).await?;
    // In a task of its own, so that it comes to an end also when the caller no longer waits for it.
    let under_way = tokio::spawn(carry_out(link.clone(), transaction, slot));
    under_way.await.unwrap_or_else(|error| {
        Err(Error::OutcomeUnknown {
            reason: format!("the task that waited for etcd ended early: {error}"),
        })
    })
}

/// Changes nothing, so it may be asked again like any read.
async fn check_only(link: &Link, transaction: &Transaction) -> Result<Revision> {
    let operations = transaction.operations();
    let Some(first) = operations.first() else {
        return super::read::revision(link).await;
    };
    let request = Txn::new()
        .when(compares(operations))
        // etcd answers from a possibly stale copy if there is nothing at all to read.
        .and_then([TxnOp::get(
            first.key().as_bytes(),
            Some(GetOptions::new().with_keys_only()),
        )])
        .or_else(gets(operations));
    let response = link
        .retrying(|mut kv| {
            let request = request.clone();
            async move { kv.txn(request).await }
        })
        .await
        .map_err(Failure::into_error)?;
    if response.succeeded() {
        return header_revision(response.header()).map_err(Failure::into_error);
    }
    Err(conflict_in(&response, operations))
}

/// Why a transaction was refused that depends on nothing but its expectations.
fn conflict_in(response: &TxnResponse, operations: &[Operation]) -> Error {
    match entries_found(response) {
        Ok(found) => broken_expectation(operations, &found).unwrap_or_else(|| Error::Unavailable {
            reason: "etcd refused the transaction, but all its expectations hold".to_owned(),
        }),
        Err(error) => error,
    }
}

/// Sends the transaction, again only when it surely was not carried out.
async fn carry_out(link: Link, transaction: Transaction, mut slot: HeldSlot) -> Result<Revision> {
    let deadline = link.deadline();
    let mut backoff = Backoff::new(20, 500);
    loop {
        let note = slot.new_note();
        let request = request(transaction.operations(), &slot, &note);
        let failure = match answer(deadline, link.kv().txn(request)).await {
            Ok(response) => match conclude(&transaction, &mut slot, &response) {
                Conclusion::Done(result) => return result,
                Conclusion::SlotMoved => Failure {
                    kind: Kind::Busy,
                    reason: "the notes on transactions in etcd were changed".to_owned(),
                },
                Conclusion::Lost(failure) => failure,
            },
            Err(failure) => failure,
        };
        if failure.kind == Kind::Lost {
            return find_out(&link, &mut slot, &note, failure).await;
        }
        if failure.kind == Kind::NoSpace {
            return find_out_when_full(&link, &transaction, &mut slot, &note, failure).await;
        }
        let known = slot.written();
        slot.settle(known);
        let again = failure.is_passing() && backoff.waits + 1 < ATTEMPTS_MAX;
        if !again || !backoff.wait_before(deadline).await {
            return Err(failure.into_error());
        }
    }
}

fn request(operations: &[Operation], slot: &HeldSlot, note: &str) -> Txn {
    let mut when = compares(operations);
    when.push(slot.unwritten());
    let mut then: Vec<TxnOp> = operations.iter().filter_map(effect).collect();
    then.push(TxnOp::put(slot.key(), note, None));
    let mut otherwise = gets(operations);
    otherwise.push(TxnOp::get(slot.key(), None));
    Txn::new().when(when).and_then(then).or_else(otherwise)
}

fn compares(operations: &[Operation]) -> Vec<Compare> {
    let compare = |operation: &Operation| {
        // What is not there was last written at revision zero.
        let written = match operation.expect() {
            Expect::Any => return None,
            Expect::Absent => 0,
            // No entry has this revision, and none at all must not pass for one.
            Expect::At(Revision::ZERO) => -1,
            Expect::At(revision) => to_etcd(revision),
        };
        let key = operation.key().as_bytes();
        Some(Compare::mod_revision(key, CompareOp::Equal, written))
    };
    operations.iter().filter_map(compare).collect()
}

fn effect(operation: &Operation) -> Option<TxnOp> {
    match operation {
        Operation::Put { key, value, .. } => Some(TxnOp::put(key.as_bytes(), value.to_vec(), None)),
        Operation::Delete { key, .. } => Some(TxnOp::delete(key.as_bytes(), None)),
        Operation::Check { .. } => None,
    }
}

/// Reads of all that is expected to be something, so that a conflict can say what it is.
fn gets(operations: &[Operation]) -> Vec<TxnOp> {
    let expecting = operations
        .iter()
        .filter(|operation| operation.expect() != Expect::Any);
    expecting
        .map(|operation| TxnOp::get(operation.key().as_bytes(), None))
        .collect()
}

/// What an answer says.
enum Conclusion {
    Done(Result<Revision>),
    /// Nothing was changed, and only because the slot is not as we knew it.
    SlotMoved,
    /// It makes no sense, and may mean anything.
    Lost(Failure),
}

fn conclude(transaction: &Transaction, slot: &mut HeldSlot, response: &TxnResponse) -> Conclusion {
    if response.succeeded() {
        return match header_revision(response.header()) {
            Ok(revision) => {
                slot.settle(revision);
                Conclusion::Done(Ok(revision))
            }
            Err(failure) => Conclusion::Lost(failure),
        };
    }
    let mut answers = response.op_responses();
    let written = match answers.pop() {
        Some(TxnOpResponse::Get(get)) => get
            .kvs()
            .first()
            .map_or(Revision::ZERO, |kv| from_etcd(kv.mod_revision())),
        _ => return Conclusion::Lost(Failure::lost("etcd answered something else than asked")),
    };
    slot.settle(written);
    match entries_found(response) {
        Ok(found) => match broken_expectation(transaction.operations(), &found) {
            Some(conflict) => Conclusion::Done(Err(conflict)),
            None => Conclusion::SlotMoved,
        },
        Err(error) => Conclusion::Done(Err(error)),
    }
}

/// What the reads of [`gets`] found, in their order.
fn entries_found(response: &TxnResponse) -> Result<Vec<Option<Entry>>> {
    let found = |answer| match answer {
        TxnOpResponse::Get(mut get) => get.take_kvs().pop().map(convert::entry).transpose(),
        _ => Ok(None),
    };
    response.op_responses().into_iter().map(found).collect()
}

/// The first operation whose expectation does not hold.
fn broken_expectation(operations: &[Operation], found: &[Option<Entry>]) -> Option<Error> {
    let expecting = operations
        .iter()
        .filter(|operation| operation.expect() != Expect::Any);
    expecting.zip(found).find_map(|(operation, found)| {
        let holds = operation
            .expect()
            .holds(found.as_ref().map(|entry| entry.modified));
        (!holds).then(|| Error::conflict(operation.key().clone(), found.clone()))
    })
}

/// The answer was lost.
async fn find_out(
    link: &Link,
    slot: &mut HeldSlot,
    note: &str,
    failure: Failure,
) -> Result<Revision> {
    let reason = failure.reason;
    tracing::debug!(
        reason,
        slot = slot.key(),
        "an answer of etcd was lost; finding out"
    );
    match fence(link, slot, note).await {
        Fate::Committed(revision) => Ok(revision),
        Fate::Never(_) => Err(Error::Unavailable { reason }),
        Fate::Unknown => {
            tracing::warn!(reason, "the outcome of a transaction remains unknown");
            Err(Error::OutcomeUnknown { reason })
        }
    }
}

/// The server has answered that it is full. It does so before and, once, after carrying a transaction out.
async fn find_out_when_full(
    link: &Link,
    transaction: &Transaction,
    slot: &mut HeldSlot,
    note: &str,
    failure: Failure,
) -> Result<Revision> {
    match look(link, slot, note).await {
        Ok(Fate::Committed(revision)) => Ok(revision),
        Ok(Fate::Never(_)) => {
            let needs_space = |operation: &Operation| matches!(operation, Operation::Put { .. });
            if transaction.operations().iter().any(needs_space) {
                return Err(failure.into_error());
            }
            delete_without_note(link, transaction).await
        }
        Ok(Fate::Unknown) => Err(Error::OutcomeUnknown {
            reason: failure.reason,
        }),
        Err(second) => Err(Error::OutcomeUnknown {
            reason: format!("{}; then {}", failure.reason, second.reason),
        }),
    }
}

/// A full server still deletes, and must, for there to be room again; but it takes no note. So if the
/// answer is lost, nobody can tell what happened.
async fn delete_without_note(link: &Link, transaction: &Transaction) -> Result<Revision> {
    let operations = transaction.operations();
    let request = Txn::new()
        .when(compares(operations))
        .and_then(operations.iter().filter_map(effect).collect::<Vec<_>>())
        .or_else(gets(operations));
    match answer(link.deadline(), link.kv().txn(request)).await {
        Ok(response) if response.succeeded() => {
            header_revision(response.header()).map_err(|failure| Error::OutcomeUnknown {
                reason: failure.reason,
            })
        }
        Ok(response) => Err(conflict_in(&response, operations)),
        Err(failure) if failure.kind == Kind::Lost => Err(Error::OutcomeUnknown {
            reason: failure.reason,
        }),
        Err(failure) => Err(failure.into_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, modified: u64) -> Entry {
        Entry {
            key: key.into(),
            value: "value".into(),
            created: Revision::new(1),
            modified: Revision::new(modified),
        }
    }

    #[test]
    fn a_conflict_names_the_first_expectation_that_does_not_hold() {
        let transaction = Transaction::new()
            .put("/free", "x", Expect::Any)
            .put("/new", "x", Expect::Absent)
            .delete("/old", Expect::At(Revision::new(5)))
            .check("/other", Expect::At(Revision::new(6)));
        let check = |found: [Option<Entry>; 3], expect: Option<&str>| {
            let error = broken_expectation(transaction.operations(), &found);
            let key = match &error {
                Some(Error::Conflict(conflict)) => Some(&*conflict.key),
                _ => None,
            };
            assert_eq!(key, expect, "{found:?}");
        };
        check(
            [None, Some(entry("/old", 5)), Some(entry("/other", 6))],
            None,
        );
        check([Some(entry("/new", 2)), None, None], Some("/new"));
        check([None, Some(entry("/old", 4)), None], Some("/old"));
        check([None, Some(entry("/old", 5)), None], Some("/other"));
    }
}
