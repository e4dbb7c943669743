//! Resolves the outcome of a transaction whose response was lost.
//!
//! Every transaction also writes a unique marker to an *outcome slot*, a key owned by this instance, and requires
//! that the slot has not been written since this instance last wrote it. Only one transaction at a time uses a slot,
//! and a slot is written once before its first use, so the condition is never that the slot is absent. When the
//! response is lost:
//!
//! ```text
//!   slot unchanged              ──► write a fence to it ──► not committed, and never will be:
//!                                                           its condition can no longer hold
//!   slot contains our marker    ──► committed, at the mod revision of the slot
//!   slot contains our fence     ──► an earlier attempt to fence succeeded
//!   anything else, or no slot   ──► another client changed the slot: unknown
//! ```
//!
//! The fence has the same condition as the transaction, so writing it can be retried, and a delayed fence is harmless.

use etcd_client::{GetOptions, KeyValue, Txn, TxnOp, TxnOpResponse, TxnResponse};
use tokio::time::Instant;

use super::cluster_client::ClusterClient;
use super::convert::{EtcdFailure, from_etcd, header_revision};
use super::jittered_backoff::JitteredBackoff;
use super::outcome_slots::AcquiredOutcomeSlot;
use crate::{Result, Revision};

/// The outcome of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransactionOutcome {
    Committed(Revision),
    /// Not applied, and never will be. The revision is the mod revision of the slot.
    NotCommitted(Revision),
    Unknown,
}

/// Determines the outcome of the transaction with this marker. If it was not applied yet, fences it so that it never
/// will be.
pub(super) async fn fence(
    client: &ClusterClient,
    slot: &mut AcquiredOutcomeSlot,
    marker: &str,
) -> TransactionOutcome {
    let deadline = Instant::now() + client.settle_timeout;
    let fence = format!("{marker}-fenced");
    let mut backoff = JitteredBackoff::new(20, 500);
    loop {
        match try_fence(client, slot, marker, &fence, deadline).await {
            Ok(outcome) => return confirm_slot(slot, outcome),
            Err(failure) => {
                tracing::debug!(
                    slot = slot.key(),
                    reason = failure.reason,
                    "failed to fence a transaction; retrying"
                );
            }
        }
        if !backoff.wait_before(deadline).await {
            return TransactionOutcome::Unknown;
        }
    }
}

async fn try_fence(
    client: &ClusterClient,
    slot: &AcquiredOutcomeSlot,
    marker: &str,
    fence: &str,
    deadline: Instant,
) -> Result<TransactionOutcome, EtcdFailure> {
    let transaction = Txn::new()
        .when([slot.unchanged_compare()])
        .and_then([TxnOp::put(slot.key(), fence, None)])
        .or_else([TxnOp::get(slot.key(), None)]);
    let response = client
        .call_once(deadline, |mut kv| async move { kv.txn(transaction).await })
        .await?;
    if response.succeeded() {
        return header_revision(response.header()).map(TransactionOutcome::NotCommitted);
    }
    Ok(outcome_from_slot(
        slot_content(&response).as_ref(),
        marker,
        fence,
    ))
}

/// Determines the outcome by reading the slot. Enough if the server has responded: then no request is in flight.
pub(super) async fn read_outcome(
    client: &ClusterClient,
    slot: &mut AcquiredOutcomeSlot,
    marker: &str,
) -> Result<TransactionOutcome, EtcdFailure> {
    let mut response = client
        .read(slot.key().as_bytes(), GetOptions::new())
        .await?;
    let found = response.take_kvs().pop().map(|kv| SlotContent::from(&kv));
    let written = found
        .as_ref()
        .map_or(Revision::ZERO, |found| found.mod_revision);
    let outcome = if written == slot.mod_revision() {
        TransactionOutcome::NotCommitted(written)
    } else {
        outcome_from_slot(found.as_ref(), marker, "")
    };
    Ok(confirm_slot(slot, outcome))
}

fn confirm_slot(slot: &mut AcquiredOutcomeSlot, outcome: TransactionOutcome) -> TransactionOutcome {
    if let TransactionOutcome::Committed(written) | TransactionOutcome::NotCommitted(written) =
        outcome
    {
        slot.confirm(written);
    }
    outcome
}

/// The value and mod revision of a slot.
#[derive(Debug)]
struct SlotContent {
    value: Vec<u8>,
    mod_revision: Revision,
}

impl From<&KeyValue> for SlotContent {
    fn from(kv: &KeyValue) -> Self {
        SlotContent {
            value: kv.value().to_vec(),
            mod_revision: from_etcd(kv.mod_revision()),
        }
    }
}

fn slot_content(response: &TxnResponse) -> Option<SlotContent> {
    match response.op_responses().first() {
        Some(TxnOpResponse::Get(get)) => get.kvs().first().map(SlotContent::from),
        _ => None,
    }
}

/// Determines the outcome from a slot that was written since this instance last knew it.
fn outcome_from_slot(found: Option<&SlotContent>, marker: &str, fence: &str) -> TransactionOutcome {
    match found {
        Some(found) if found.value == marker.as_bytes() => {
            TransactionOutcome::Committed(found.mod_revision)
        }
        Some(found) if found.value == fence.as_bytes() => {
            TransactionOutcome::NotCommitted(found.mod_revision)
        }
        _ => TransactionOutcome::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_reveals_the_outcome_of_its_transaction() {
        let found = |value: &str| SlotContent {
            value: value.as_bytes().to_vec(),
            mod_revision: Revision::new(9),
        };
        for (found, expected) in [
            (
                Some(found("1-5")),
                TransactionOutcome::Committed(Revision::new(9)),
            ),
            (
                Some(found("1-5-fenced")),
                TransactionOutcome::NotCommitted(Revision::new(9)),
            ),
            (Some(found("1-4")), TransactionOutcome::Unknown),
            (Some(found("1-4-fenced")), TransactionOutcome::Unknown),
            (None, TransactionOutcome::Unknown),
        ] {
            assert_eq!(
                outcome_from_slot(found.as_ref(), "1-5", "1-5-fenced"),
                expected,
                "{found:?}"
            );
        }
    }
}
