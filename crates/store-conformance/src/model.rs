//! Random transactions, compared with a simple in-memory model.

use std::collections::BTreeMap;

use rhumb_store::{
    Error, ExpectedRevision, KeyChange, RangeRequest, Revision, Store, Transaction, TransactionOp,
};

use crate::support::{next_set, text};
use crate::{ConformanceBackend, SeededRng};

/// Few keys, so that transactions conflict often.
const KEYS: usize = 8;
const STEPS: usize = 120;
const SEEDS: [u64; 3] = [0x5eed_cafe_f00d_1234, 0x0dd_ba11, 0xfeed_face];

/// Every state of the store, by revision.
type ModelHistory = BTreeMap<Revision, BTreeMap<String, (String, Revision)>>;

pub async fn random_histories_agree_with_a_model(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    for seed in SEEDS {
        let empty = (0..KEYS).fold(Transaction::new(), |transaction, key| {
            transaction.delete(format!("/m/{key}"), ExpectedRevision::Any)
        });
        store.commit(empty).await.expect("commit initial state");
        random_history(&*store, SeededRng::new(seed)).await;
    }
}

async fn random_history(store: &dyn Store, mut random: SeededRng) {
    let start = store.revision().await.expect("read revision");
    let mut history = ModelHistory::from([(start, BTreeMap::new())]);
    let mut compacted = Revision::ZERO;
    for step in 0..STEPS {
        let (_, state) = history.last_key_value().expect("history has a state");
        let mut state = state.clone();
        let transaction = random_transaction(&mut random, &state, step);
        let is_applicable = holds(&transaction, &state);
        match store.commit(transaction.clone()).await {
            Ok(revision) => {
                assert!(
                    is_applicable,
                    "step {step}: a conflicting transaction was committed: {transaction:?}"
                );
                apply(&transaction, &mut state, revision);
                history.insert(revision, state);
            }
            Err(Error::Conflict(_)) => assert!(!is_applicable, "step {step}: {transaction:?}"),
            Err(error) => panic!("step {step}: {error}"),
        }
        if step % 60 == 59 {
            compacted = *history
                .keys()
                .nth(history.len() - 20)
                .expect("history has 20 states");
            store.compact(compacted).await.expect("compact");
        }
    }
    history.retain(|revision, _| *revision >= compacted);
    every_revision_equals_the_model(store, &history).await;
    stream_changes_lead_from_state_to_state(store, &history).await;
}

fn random_transaction(
    random: &mut SeededRng,
    state: &BTreeMap<String, (String, Revision)>,
    step: usize,
) -> Transaction {
    let mut transaction = Transaction::new();
    let first = random.below(KEYS);
    for offset in 0..=random.below(3) {
        let key = format!("/m/{}", (first + offset) % KEYS);
        let expect = match (random.below(10), state.get(&key)) {
            (0..=3, _) => ExpectedRevision::Any,
            (4..=7, Some((_, modified))) => ExpectedRevision::At(*modified),
            (4..=8, _) => ExpectedRevision::Absent,
            (_, _) => ExpectedRevision::At(Revision::new(1 + random.below(40) as u64)),
        };
        transaction = match random.below(10) {
            0..=5 => transaction.put(key, format!("{step}.{offset}"), expect),
            6..=8 => transaction.delete(key, expect),
            _ => transaction.check(key, expect),
        };
    }
    transaction
}

fn holds(transaction: &Transaction, state: &BTreeMap<String, (String, Revision)>) -> bool {
    transaction.operations().iter().all(|operation| {
        let found = state.get(&**operation.key());
        match operation.expect() {
            ExpectedRevision::Any => true,
            ExpectedRevision::Absent => found.is_none(),
            ExpectedRevision::At(revision) => {
                found.is_some_and(|(_, modified)| *modified == revision)
            }
        }
    })
}

fn apply(
    transaction: &Transaction,
    state: &mut BTreeMap<String, (String, Revision)>,
    revision: Revision,
) {
    for operation in transaction.operations() {
        match operation {
            TransactionOp::Put { key, value, .. } => {
                let value = String::from_utf8_lossy(value).into_owned();
                state.insert(key.to_string(), (value, revision));
            }
            TransactionOp::Delete { key, .. } => {
                state.remove(&**key);
            }
            TransactionOp::Check { .. } => {}
        }
    }
}

async fn every_revision_equals_the_model(store: &dyn Store, history: &ModelHistory) {
    for (revision, state) in history {
        let page = store
            .range(RangeRequest::prefix("/m/").at(*revision))
            .await
            .expect("range read");
        let read: BTreeMap<_, _> = page
            .entries
            .iter()
            .map(|entry| (entry.key.to_string(), (text(entry), entry.modified)))
            .collect();
        assert_eq!(&read, state, "at {revision}");
    }
}

async fn stream_changes_lead_from_state_to_state(store: &dyn Store, history: &ModelHistory) {
    let (first, state) = history.first_key_value().expect("history has a state");
    let (last, end) = history.last_key_value().expect("history has a state");
    let mut state = state.clone();
    let mut stream = store.changes("/m/", *first).await.expect("open stream");
    let mut reached = *first;
    while state != *end || reached < *last && differs_later(history, reached) {
        let set = next_set(&mut *stream).await;
        assert!(set.revision > reached);
        reached = set.revision;
        for change in set.changes.iter() {
            match change {
                KeyChange::Put { key, value, .. } => {
                    let value = String::from_utf8_lossy(value).into_owned();
                    state.insert(key.to_string(), (value, reached));
                }
                KeyChange::Delete { key } => {
                    state.remove(&**key);
                }
            }
        }
        assert_eq!(Some(&state), history.get(&reached), "after {reached}");
    }
}

/// Whether the model changes after a revision; a transaction without effect has a revision but no change.
fn differs_later(history: &ModelHistory, revision: Revision) -> bool {
    let current = history.get(&revision);
    history
        .range(revision..)
        .any(|(_, state)| Some(state) != current)
}
