//! Transactions: asked once, and answered with the truth.

use std::sync::Arc;

use etcd_client::{Compare, CompareOp, GetOptions, Txn, TxnOp, TxnOpResponse, TxnResponse};

use super::backoff::Backoff;
use super::convert::{self, Failure, Kind, from_etcd, header_revision, to_etcd};
use super::link::Link;
use super::outcome::{Fate, fence, look};
use super::slots::{HeldSlot, Slots};
use crate::{Entry, Error, Expect, Operation, Result, Revision, Transaction};
use tokio::time::Instant;

/// How often a transaction is sent that surely was not carried out before.
const ATTEMPTS_MAX: u32 = 6;

pub(super) async fn commit(
    link: &Link,
    slots: &Arc<Slots>,
    transaction: Transaction,
) -> Result<Revision> {
    transaction.check_form()?;
    for operation in transaction.operations() {
        convert::check_visible(operation.key())?;
    }
    let changes_nothing = |operation: &Operation| matches!(operation, Operation::Check { .. });
    if transaction.operations().iter().all(changes_nothing) {
        return check_only(link, &transaction).await;
    }
    let deadline = link.deadline();
    let permit = slots.admit(deadline).await?;
    let slot = slots.acquire(link, permit, deadline).await;
    let link = link.clone();
    // In a task of its own, so that it comes to an end also when the caller no longer waits for it.
    let under_way = tokio::spawn(async move {
        match slot {
            Ok(slot) => carry_out(link, transaction, slot, deadline).await,
            Err(failure) if failure.kind == Kind::NoSpace && !needs_space(&transaction) => {
                delete_without_note(&link, &transaction).await
            }
            Err(failure) => Err(failure.into_error()),
        }
    });
    under_way.await.unwrap_or_else(|error| {
        Err(Error::OutcomeUnknown {
            reason: format!("the task that waited for etcd ended early: {error}"),
        })
    })
}

fn needs_space(transaction: &Transaction) -> bool {
    let puts = |operation: &Operation| matches!(operation, Operation::Put { .. });
    transaction.operations().iter().any(puts)
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

/// Sends the transaction, again only when it surely was not carried out and never will be.
async fn carry_out(
    link: Link,
    transaction: Transaction,
    mut slot: HeldSlot,
    deadline: Instant,
) -> Result<Revision> {
    let mut backoff = Backoff::new(20, 500);
    loop {
        let failure = match try_once(&link, &transaction, &mut slot, deadline).await {
            Attempt::Ended(result) => return result,
            Attempt::Undone(failure) => failure,
        };
        let again = failure.is_passing() && backoff.waits + 1 < ATTEMPTS_MAX;
        if !again || !backoff.wait_before(deadline).await {
            return Err(failure.into_error());
        }
        if slot.is_in_doubt() {
            let replaced = slot.replace(&link, deadline).await;
            replaced.map_err(Failure::into_error)?;
        }
    }
}

/// What one attempt came to.
enum Attempt {
    Ended(Result<Revision>),
    /// It has changed nothing, and never will.
    Undone(Failure),
}

async fn try_once(
    link: &Link,
    transaction: &Transaction,
    slot: &mut HeldSlot,
    deadline: Instant,
) -> Attempt {
    let note = slot.new_note();
    let request = request(transaction.operations(), slot, &note);
    let sent = link.attempt(deadline, |mut kv| async move { kv.txn(request).await });
    let failure = match sent.await {
        Ok(response) => match conclude(transaction, slot, &note, &response) {
            Conclusion::Done(result) => return Attempt::Ended(result),
            Conclusion::SlotMoved => {
                return Attempt::Undone(Failure {
                    kind: Kind::Busy,
                    reason: "the notes on transactions in etcd were changed".to_owned(),
                });
            }
            Conclusion::Lost(failure) => failure,
        },
        Err(failure) => failure,
    };
    match failure.kind {
        Kind::Lost => find_out(link, slot, &note, failure).await,
        Kind::NoSpace => {
            Attempt::Ended(find_out_when_full(link, transaction, slot, &note, failure).await)
        }
        _ => {
            slot.settle(slot.written());
            Attempt::Undone(failure)
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
    /// Nothing was changed, and only because the slot is not as we knew it. It stays in doubt if it is gone.
    SlotMoved,
    /// It makes no sense, and may mean anything.
    Lost(Failure),
}

fn conclude(
    transaction: &Transaction,
    slot: &mut HeldSlot,
    note: &str,
    response: &TxnResponse,
) -> Conclusion {
    if response.succeeded() {
        return match header_revision(response.header()) {
            Ok(revision) => {
                slot.settle(revision);
                Conclusion::Done(Ok(revision))
            }
            Err(failure) => Conclusion::Lost(failure),
        };
    }
    let Some(TxnOpResponse::Get(get)) = response.op_responses().pop() else {
        return Conclusion::Lost(Failure::lost("etcd answered something else than asked"));
    };
    if let Some(found) = get.kvs().first() {
        let written = from_etcd(found.mod_revision());
        slot.settle(written);
        if found.value() == note.as_bytes() {
            // The request came twice, and this is the answer to the second.
            return Conclusion::Done(Ok(written));
        }
    }
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
async fn find_out(link: &Link, slot: &mut HeldSlot, note: &str, failure: Failure) -> Attempt {
    let reason = failure.reason.as_str();
    tracing::debug!(
        reason,
        slot = slot.key(),
        "an answer of etcd was lost; finding out"
    );
    match fence(link, slot, note).await {
        Fate::Committed(revision) => Attempt::Ended(Ok(revision)),
        Fate::Never(_) => Attempt::Undone(failure),
        Fate::Unknown => {
            tracing::warn!(reason, "the outcome of a transaction remains unknown");
            Attempt::Ended(Err(Error::OutcomeUnknown {
                reason: failure.reason,
            }))
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
            if needs_space(transaction) {
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
    let sent = link.attempt(
        link.deadline(),
        |mut kv| async move { kv.txn(request).await },
    );
    match sent.await {
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
