//! After random histories, a kernel table that was updated by deltas equals a newly written one, and one written by
//! `nft`.

use rhumb_agent::nft::{PodCidrRanges, TableMarker, TableWriteOutcome};
use rhumb_netpol::EngineScope;

use crate::event_script::{apply_event, engine_after_events};
use crate::generator::{NODES, random_history};
use crate::network_namespace::{TestNetworkNamespace, is_root, table};
use rhumb_seeded_rng::SeededRng;

const HISTORIES: u64 = 12;
const EVENTS: usize = 40;
/// The most events in one transaction.
const TOGETHER_MAX: usize = 4;

#[tokio::test]
async fn incremental_updates_equal_a_full_load() {
    if !is_root() {
        return;
    }
    let [by_changes, anew, by_nft] = [(); 3].map(|()| TestNetworkNamespace::new());
    let held = PodCidrRanges::from_cidrs(["10.0.0.0/24"]);
    let mut transactions = 0;
    for seed in 0..HISTORIES {
        let mut rng = SeededRng::new(seed);
        let script = random_history(&mut rng, EVENTS);
        let node = *rng.pick(&NODES);
        let mut engine = engine_after_events(
            EngineScope::Node(node.to_owned()),
            &script.capabilities,
            &[],
        );
        let mut kernel = by_changes.kernel();
        kernel.replace(engine.ruleset(), &held).await.unwrap();
        let mut events = script.events.iter().peekable();
        while events.peek().is_some() {
            let together = rng.between(1, TOGETHER_MAX);
            let now = events.by_ref().take(together);
            now.for_each(|event| apply_event(&mut engine, event));
            let changes = engine.take_ruleset_delta();
            let written = kernel.write(&changes, engine.ruleset(), &held).await;
            match written.unwrap() {
                TableWriteOutcome::Updated => transactions += 1,
                TableWriteOutcome::Unchanged => assert!(changes.is_empty()),
                TableWriteOutcome::Replaced => panic!("history {seed}: {changes:#?}"),
            }
        }
        anew.kernel()
            .replace(engine.ruleset(), &held)
            .await
            .unwrap();
        let rules = by_changes.rules();
        assert_eq!(rules, anew.rules(), "history {seed}");
        let script =
            table().replacement_script(engine.ruleset(), &held, TableMarker::next_after(None));
        by_nft.nft_apply(&script.to_string());
        assert_eq!(rules, by_nft.rules(), "history {seed}");
    }
    assert!(transactions > HISTORIES * 5, "{transactions}");
}
