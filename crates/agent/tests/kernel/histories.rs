//! A kernel that was told each change has what one has that was told everything at once, and what `nft` makes of the
//! same rules.

use rhumb_agent::nft::{Held, Marker, Written};
use rhumb_netpol::Scope;

use crate::dice::Dice;
use crate::generator::{NODES, history};
use crate::namespace::{Namespace, is_root, table};
use crate::script::{engine, tell};

const HISTORIES: u64 = 12;
const EVENTS: usize = 40;
/// Events that are often in one transaction.
const TOGETHER_MAX: usize = 4;

#[tokio::test]
async fn after_random_changes_a_kernel_is_like_one_that_is_told_everything() {
    if !is_root() {
        return;
    }
    let [by_changes, anew, by_nft] = [(); 3].map(|()| Namespace::new());
    let held = Held::of(["10.0.0.0/24"]);
    let mut transactions = 0;
    for seed in 0..HISTORIES {
        let mut dice = Dice::new(seed);
        let script = history(&mut dice, EVENTS);
        let node = *dice.pick(&NODES);
        let mut engine = engine(Scope::Node(node.to_owned()), &script.knowledge, &[]);
        let mut kernel = by_changes.kernel();
        kernel.replace(engine.program(), &held).await.unwrap();
        let mut events = script.events.iter().peekable();
        while events.peek().is_some() {
            let together = dice.between(1, TOGETHER_MAX);
            let now = events.by_ref().take(together);
            now.for_each(|event| tell(&mut engine, event));
            let changes = engine.take_changes();
            let written = kernel.write(&changes, engine.program(), &held).await;
            match written.unwrap() {
                Written::Changes => transactions += 1,
                Written::Nothing => assert!(changes.is_empty()),
                Written::Everything => panic!("history {seed}: {changes:#?}"),
            }
        }
        anew.kernel()
            .replace(engine.program(), &held)
            .await
            .unwrap();
        let rules = by_changes.rules();
        assert_eq!(rules, anew.rules(), "history {seed}");
        let script = table().whole(engine.program(), &held, Marker::after(None));
        by_nft.tell(&script.to_string());
        assert_eq!(rules, by_nft.rules(), "history {seed}");
    }
    assert!(transactions > HISTORIES * 5, "{transactions}");
}
