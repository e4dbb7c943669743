//! Finding out what became of a transaction whose answer was lost.
//!
//! Every transaction also writes a note to a *slot*, a key of its own, on the condition that nobody has
//! written to the slot since we last did. One transaction at a time holds a slot, which has been written at
//! least once, so the condition never is that there is no slot. When the answer is lost:
//!
//! ```text
//!   the slot as we last wrote it ──► write a fence to it ──► not committed, and never will be:
//!                                                            its condition can no longer hold
//!   our note in the slot         ──► committed, at the revision of the note
//!   our fence in the slot        ──► an earlier attempt to fence went through
//!   anything else, or nothing    ──► somebody has tampered with the slot: unknown
//! ```
//!
//! The fence has the same condition as the transaction, so it may be written again and again, and one that
//! arrives late does no harm.

use etcd_client::{GetOptions, KeyValue, Txn, TxnOp, TxnOpResponse, TxnResponse};
use tokio::time::Instant;

use super::backoff::Backoff;
use super::convert::{Failure, from_etcd, header_revision};
use super::link::Link;
use super::slots::HeldSlot;
use crate::{Result, Revision};

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Committed(Revision),
    /// Not carried out, and never will be. The revision is that of the slot.
    Never(Revision),
    Unknown,
}

/// Finds out what became of the transaction that was to write `note`, and makes sure that it stays so.
pub(super) async fn fence(link: &Link, slot: &mut HeldSlot, note: &str) -> Fate {
    let deadline = Instant::now() + link.settle_timeout;
    let fence = format!("{note}-fenced");
    let mut backoff = Backoff::new(20, 500);
    loop {
        match try_fence(link, slot, note, &fence, deadline).await {
            Ok(fate) => return settled(slot, fate),
            Err(failure) => {
                tracing::debug!(slot = slot.key(), reason = failure.reason, "fencing again");
            }
        }
        if !backoff.wait_before(deadline).await {
            return Fate::Unknown;
        }
    }
}

async fn try_fence(
    link: &Link,
    slot: &HeldSlot,
    note: &str,
    fence: &str,
    deadline: Instant,
) -> Result<Fate, Failure> {
    let transaction = Txn::new()
        .when([slot.unwritten()])
        .and_then([TxnOp::put(slot.key(), fence, None)])
        .or_else([TxnOp::get(slot.key(), None)]);
    let response = link
        .attempt(deadline, |mut kv| async move { kv.txn(transaction).await })
        .await?;
    if response.succeeded() {
        return header_revision(response.header()).map(Fate::Never);
    }
    Ok(judge(found_in(&response).as_ref(), note, fence))
}

/// After an answer nothing is on its way any more: it is enough to look.
pub(super) async fn look(link: &Link, slot: &mut HeldSlot, note: &str) -> Result<Fate, Failure> {
    let mut response = link.read(slot.key().as_bytes(), GetOptions::new()).await?;
    let found = response.take_kvs().pop().map(|kv| Found::from(&kv));
    let written = found.as_ref().map_or(Revision::ZERO, |found| found.written);
    let fate = if written == slot.written() {
        Fate::Never(written)
    } else {
        judge(found.as_ref(), note, "")
    };
    Ok(settled(slot, fate))
}

fn settled(slot: &mut HeldSlot, fate: Fate) -> Fate {
    if let Fate::Committed(written) | Fate::Never(written) = fate {
        slot.settle(written);
    }
    fate
}

/// What a slot holds.
#[derive(Debug)]
struct Found {
    value: Vec<u8>,
    written: Revision,
}

impl From<&KeyValue> for Found {
    fn from(kv: &KeyValue) -> Self {
        Found {
            value: kv.value().to_vec(),
            written: from_etcd(kv.mod_revision()),
        }
    }
}

fn found_in(response: &TxnResponse) -> Option<Found> {
    match response.op_responses().first() {
        Some(TxnOpResponse::Get(get)) => get.kvs().first().map(Found::from),
        _ => None,
    }
}

/// From a slot that has been written to since we last knew it.
fn judge(found: Option<&Found>, note: &str, fence: &str) -> Fate {
    match found {
        Some(found) if found.value == note.as_bytes() => Fate::Committed(found.written),
        Some(found) if found.value == fence.as_bytes() => Fate::Never(found.written),
        _ => Fate::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_tells_what_became_of_its_transaction() {
        let found = |value: &str| Found {
            value: value.as_bytes().to_vec(),
            written: Revision::new(9),
        };
        for (found, expected) in [
            (Some(found("1-5")), Fate::Committed(Revision::new(9))),
            (Some(found("1-5-fenced")), Fate::Never(Revision::new(9))),
            (Some(found("1-4")), Fate::Unknown),
            (Some(found("1-4-fenced")), Fate::Unknown),
            (None, Fate::Unknown),
        ] {
            assert_eq!(
                judge(found.as_ref(), "1-5", "1-5-fenced"),
                expected,
                "{found:?}"
            );
        }
    }
}
