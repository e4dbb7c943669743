//! Commits: sends a transaction to etcd, and determines its outcome if the response is lost. Entry point: [`commit`].

use std::sync::Arc;

use etcd_client::{Compare, CompareOp, GetOptions, Txn, TxnOp, TxnOpResponse, TxnResponse};

use super::cluster_client::ClusterClient;
use super::convert::{self, EtcdFailure, EtcdFailureKind, from_etcd, header_revision, to_etcd};
use super::jittered_backoff::JitteredBackoff;
use super::outcome::{TransactionOutcome, fence, read_outcome};
use super::outcome_slots::{AcquiredOutcomeSlot, OutcomeSlotPool};
use crate::{Error, ExpectedRevision, Result, Revision, StoreEntry, Transaction, TransactionOp};
use tokio::time::Instant;

/// How often a transaction is sent; a retry requires that earlier attempts were certainly not applied.
const ATTEMPTS_MAX: u32 = 6;

pub(super) async fn commit(
    client: &ClusterClient,
    slots: &Arc<OutcomeSlotPool>,
    transaction: Transaction,
) -> Result<Revision> {
    transaction.validate()?;
    for operation in transaction.operations() {
        convert::reject_reserved_key(operation.key())?;
    }
    let changes_nothing =
        |operation: &TransactionOp| matches!(operation, TransactionOp::Check { .. });
    if transaction.operations().iter().all(changes_nothing) {
        return commit_checks(client, &transaction).await;
    }
    let deadline = client.deadline();
    let permit = slots.acquire_permit(deadline).await?;
    let slot = slots.acquire(client, permit, deadline).await;
    let client = client.clone();
    // In its own task, so that it finishes even if the caller drops the future.
    let task = tokio::spawn(async move {
        match slot {
            Ok(slot) => commit_with_retries(client, transaction, slot, deadline).await,
            Err(failure)
                if failure.kind == EtcdFailureKind::NoSpace && !needs_space(&transaction) =>
            {
                delete_without_marker(&client, &transaction).await
            }
            Err(failure) => Err(failure.into_error()),
        }
    });
    task.await.unwrap_or_else(|error| {
        Err(Error::OutcomeUnknown {
            reason: format!("the commit task ended early: {error}"),
        })
    })
}

fn needs_space(transaction: &Transaction) -> bool {
    let puts = |operation: &TransactionOp| matches!(operation, TransactionOp::Put { .. });
    transaction.operations().iter().any(puts)
}

/// Commits a transaction that only has checks. It writes nothing, so it can be retried like a read.
async fn commit_checks(client: &ClusterClient, transaction: &Transaction) -> Result<Revision> {
    let operations = transaction.operations();
    let Some(first) = operations.first() else {
        return super::read::revision(client).await;
    };
    let request = Txn::new()
        .when(compares(operations))
        // Without any read in it, etcd serves the transaction from possibly stale local data.
        .and_then([TxnOp::get(
            first.key().as_bytes(),
            Some(GetOptions::new().with_keys_only()),
        )])
        .or_else(expectation_reads(operations));
    let response = client
        .call_with_retries(|mut kv| {
            let request = request.clone();
            async move { kv.txn(request).await }
        })
        .await
        .map_err(EtcdFailure::into_error)?;
    if response.succeeded() {
        return header_revision(response.header()).map_err(EtcdFailure::into_error);
    }
    Err(conflict_in(&response, operations))
}

/// The conflict of a transaction that failed only because of its expected revisions.
fn conflict_in(response: &TxnResponse, operations: &[TransactionOp]) -> Error {
    match entries_read(response) {
        Ok(found) => failed_expectation(operations, &found).unwrap_or_else(|| Error::Unavailable {
            reason: "etcd rejected the transaction, but all expected revisions match".to_owned(),
        }),
        Err(error) => error,
    }
}

/// Sends the transaction; retries only when it certainly was not applied and never will be.
async fn commit_with_retries(
    client: ClusterClient,
    transaction: Transaction,
    mut slot: AcquiredOutcomeSlot,
    deadline: Instant,
) -> Result<Revision> {
    let mut backoff = JitteredBackoff::new(20, 500);
    loop {
        let failure = match commit_once(&client, &transaction, &mut slot, deadline).await {
            CommitAttempt::Finished(result) => return result,
            CommitAttempt::NotApplied(failure) => failure,
        };
        let again = failure.is_transient() && backoff.waits() + 1 < ATTEMPTS_MAX;
        if !again || !backoff.wait_before(deadline).await {
            return Err(failure.into_error());
        }
        if slot.is_in_doubt() {
            let replaced = slot.replace(&client, deadline).await;
            replaced.map_err(EtcdFailure::into_error)?;
        }
    }
}

/// The result of one attempt to commit.
enum CommitAttempt {
    Finished(Result<Revision>),
    /// The attempt was not applied and never will be.
    NotApplied(EtcdFailure),
}

async fn commit_once(
    client: &ClusterClient,
    transaction: &Transaction,
    slot: &mut AcquiredOutcomeSlot,
    deadline: Instant,
) -> CommitAttempt {
    let marker = slot.new_marker();
    let request = txn_request(transaction.operations(), slot, &marker);
    let sent = client.call_once(deadline, |mut kv| async move { kv.txn(request).await });
    let failure = match sent.await {
        Ok(response) => match interpret_response(transaction, slot, &marker, &response) {
            TxnResponseOutcome::Done(result) => return CommitAttempt::Finished(result),
            TxnResponseOutcome::SlotChanged => {
                return CommitAttempt::NotApplied(EtcdFailure {
                    kind: EtcdFailureKind::Busy,
                    reason: "the outcome slot of the transaction was changed in etcd".to_owned(),
                });
            }
            TxnResponseOutcome::Ambiguous(failure) => failure,
        },
        Err(failure) => failure,
    };
    match failure.kind {
        EtcdFailureKind::Ambiguous => resolve_outcome(client, slot, &marker, failure).await,
        EtcdFailureKind::NoSpace => CommitAttempt::Finished(
            resolve_outcome_when_full(client, transaction, slot, &marker, failure).await,
        ),
        _ => {
            slot.confirm(slot.mod_revision());
            CommitAttempt::NotApplied(failure)
        }
    }
}

fn txn_request(operations: &[TransactionOp], slot: &AcquiredOutcomeSlot, marker: &str) -> Txn {
    let mut when = compares(operations);
    when.push(slot.unchanged_compare());
    let mut then: Vec<TxnOp> = operations.iter().filter_map(write_op).collect();
    then.push(TxnOp::put(slot.key(), marker, None));
    let mut otherwise = expectation_reads(operations);
    otherwise.push(TxnOp::get(slot.key(), None));
    Txn::new().when(when).and_then(then).or_else(otherwise)
}

fn compares(operations: &[TransactionOp]) -> Vec<Compare> {
    let compare = |operation: &TransactionOp| {
        // In etcd a key that does not exist has mod revision zero.
        let written = match operation.expect() {
            ExpectedRevision::Any => return None,
            ExpectedRevision::Absent => 0,
            // No entry has revision zero, and an absent key must not match it.
            ExpectedRevision::At(Revision::ZERO) => -1,
            ExpectedRevision::At(revision) => to_etcd(revision),
        };
        let key = operation.key().as_bytes();
        Some(Compare::mod_revision(key, CompareOp::Equal, written))
    };
    operations.iter().filter_map(compare).collect()
}

fn write_op(operation: &TransactionOp) -> Option<TxnOp> {
    match operation {
        TransactionOp::Put { key, value, .. } => {
            Some(TxnOp::put(key.as_bytes(), value.to_vec(), None))
        }
        TransactionOp::Delete { key, .. } => Some(TxnOp::delete(key.as_bytes(), None)),
        TransactionOp::Check { .. } => None,
    }
}

/// Reads of all keys with an expected revision, to report the current entry in a conflict.
fn expectation_reads(operations: &[TransactionOp]) -> Vec<TxnOp> {
    let expecting = operations
        .iter()
        .filter(|operation| operation.expect() != ExpectedRevision::Any);
    expecting
        .map(|operation| TxnOp::get(operation.key().as_bytes(), None))
        .collect()
}

/// The interpretation of a transaction response.
enum TxnResponseOutcome {
    Done(Result<Revision>),
    /// Nothing was changed, only because the slot was changed by another client. If it was deleted, it stays in doubt.
    SlotChanged,
    /// The response is invalid; the transaction may or may not have been applied.
    Ambiguous(EtcdFailure),
}

fn interpret_response(
    transaction: &Transaction,
    slot: &mut AcquiredOutcomeSlot,
    marker: &str,
    response: &TxnResponse,
) -> TxnResponseOutcome {
    if response.succeeded() {
        return match header_revision(response.header()) {
            Ok(revision) => {
                slot.confirm(revision);
                TxnResponseOutcome::Done(Ok(revision))
            }
            Err(failure) => TxnResponseOutcome::Ambiguous(failure),
        };
    }
    let Some(TxnOpResponse::Get(get)) = response.op_responses().pop() else {
        return TxnResponseOutcome::Ambiguous(EtcdFailure::ambiguous(
            "unexpected response from etcd",
        ));
    };
    if let Some(found) = get.kvs().first() {
        let written = from_etcd(found.mod_revision());
        slot.confirm(written);
        if found.value() == marker.as_bytes() {
            // The request was delivered twice, and this is the response to the second copy.
            return TxnResponseOutcome::Done(Ok(written));
        }
    }
    match entries_read(response) {
        Ok(found) => match failed_expectation(transaction.operations(), &found) {
            Some(conflict) => TxnResponseOutcome::Done(Err(conflict)),
            None => TxnResponseOutcome::SlotChanged,
        },
        Err(error) => TxnResponseOutcome::Done(Err(error)),
    }
}

/// The results of [`expectation_reads`], in their order.
fn entries_read(response: &TxnResponse) -> Result<Vec<Option<StoreEntry>>> {
    let found = |answer| match answer {
        TxnOpResponse::Get(mut get) => get.take_kvs().pop().map(convert::entry).transpose(),
        _ => Ok(None),
    };
    response.op_responses().into_iter().map(found).collect()
}

/// The conflict of the first operation whose expected revision does not match.
fn failed_expectation(operations: &[TransactionOp], found: &[Option<StoreEntry>]) -> Option<Error> {
    let expecting = operations
        .iter()
        .filter(|operation| operation.expect() != ExpectedRevision::Any);
    expecting.zip(found).find_map(|(operation, found)| {
        let holds = operation
            .expect()
            .holds(found.as_ref().map(|entry| entry.modified));
        (!holds).then(|| Error::conflict(operation.key().clone(), found.clone()))
    })
}

/// Determines the outcome after the response was lost.
async fn resolve_outcome(
    client: &ClusterClient,
    slot: &mut AcquiredOutcomeSlot,
    marker: &str,
    failure: EtcdFailure,
) -> CommitAttempt {
    let reason = failure.reason.as_str();
    tracing::debug!(
        reason,
        slot = slot.key(),
        "lost the response to a transaction; resolving its outcome"
    );
    match fence(client, slot, marker).await {
        TransactionOutcome::Committed(revision) => CommitAttempt::Finished(Ok(revision)),
        TransactionOutcome::NotCommitted(_) => CommitAttempt::NotApplied(failure),
        TransactionOutcome::Unknown => {
            tracing::warn!(
                reason,
                "failed to resolve the outcome of a transaction; reporting it as unknown"
            );
            CommitAttempt::Finished(Err(Error::OutcomeUnknown {
                reason: failure.reason,
            }))
        }
    }
}

/// Determines the outcome after an out-of-space response. etcd sends it before applying a transaction, but also once
/// for the very transaction that exceeds the quota, which is applied.
async fn resolve_outcome_when_full(
    client: &ClusterClient,
    transaction: &Transaction,
    slot: &mut AcquiredOutcomeSlot,
    marker: &str,
    failure: EtcdFailure,
) -> Result<Revision> {
    match read_outcome(client, slot, marker).await {
        Ok(TransactionOutcome::Committed(revision)) => Ok(revision),
        Ok(TransactionOutcome::NotCommitted(_)) => {
            if needs_space(transaction) {
                return Err(failure.into_error());
            }
            delete_without_marker(client, transaction).await
        }
        Ok(TransactionOutcome::Unknown) => Err(Error::OutcomeUnknown {
            reason: failure.reason,
        }),
        Err(second) => Err(Error::OutcomeUnknown {
            reason: format!("{}; then {}", failure.reason, second.reason),
        }),
    }
}

/// Commits deletions without a marker: a server that is out of space still accepts deletions, which are needed to free
/// space, but no puts. If the response is lost, the outcome stays unknown.
async fn delete_without_marker(
    client: &ClusterClient,
    transaction: &Transaction,
) -> Result<Revision> {
    let operations = transaction.operations();
    let request = Txn::new()
        .when(compares(operations))
        .and_then(operations.iter().filter_map(write_op).collect::<Vec<_>>())
        .or_else(expectation_reads(operations));
    let sent = client.call_once(
        client.deadline(),
        |mut kv| async move { kv.txn(request).await },
    );
    match sent.await {
        Ok(response) if response.succeeded() => {
            header_revision(response.header()).map_err(|failure| Error::OutcomeUnknown {
                reason: failure.reason,
            })
        }
        Ok(response) => Err(conflict_in(&response, operations)),
        Err(failure) if failure.kind == EtcdFailureKind::Ambiguous => Err(Error::OutcomeUnknown {
            reason: failure.reason,
        }),
        Err(failure) => Err(failure.into_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, modified: u64) -> StoreEntry {
        StoreEntry {
            key: key.into(),
            value: "value".into(),
            created: Revision::new(1),
            modified: Revision::new(modified),
        }
    }

    #[test]
    fn a_conflict_names_the_first_failed_expectation() {
        let transaction = Transaction::new()
            .put("/free", "x", ExpectedRevision::Any)
            .put("/new", "x", ExpectedRevision::Absent)
            .delete("/old", ExpectedRevision::At(Revision::new(5)))
            .check("/other", ExpectedRevision::At(Revision::new(6)));
        let check = |found: [Option<StoreEntry>; 3], expect: Option<&str>| {
            let error = failed_expectation(transaction.operations(), &found);
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
