//! A server is killed while many want room. Nothing has to be counted back afterwards, and nothing is let in twice.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::make::object;
use crate::rush::{Trio, crowd, rush};
use crate::space::{Space, forbidden, pod, start};

const ROUNDS: usize = 3;
const HARD: usize = 40;

/// So many answers after which a server is killed: it has begun, and is far from the end.
const BEGUN: usize = 4;

/// Requests that are under way when a server is killed, at least.
const CAUGHT: usize = 20;

/// Requests that a server may get beyond those of the crowd until it is killed.
const LATE_MAX: usize = 500;

/// Creates pods at all servers at once, and kills one of them amid that. Returns the names of those that were answered
/// as made. Who asked another server is told nothing but that, or that the quota is exceeded.
async fn rush_into_a_crash(
    spaces: &[Space],
    round: usize,
    victim: usize,
    kill: impl FnOnce(),
) -> BTreeSet<String> {
    let mut creations = JoinSet::new();
    let create = |creations: &mut JoinSet<_>, at: usize, pod: Value| {
        let space = spaces[at].clone();
        creations.spawn(async move {
            let name = object::<Pod>(pod.clone()).name_any();
            (at, name, space.create(pod).await)
        });
    };
    for (place, pod) in crowd(round).into_iter().enumerate() {
        create(&mut creations, place % spaces.len(), pod);
    }
    let mut late = 0;
    let mut kill = Some(kill);
    let mut created = BTreeSet::new();
    let mut unanswered = 0;
    while let Some(ended) = creations.join_next().await {
        let (at, name, result) = ended.expect("an end");
        match result {
            Ok(_) => {
                created.insert(name);
            }
            Err(kube::Error::Api(_)) => {
                let message = forbidden(result);
                assert!(message.contains("exceeded quota: q, "), "{message}");
            }
            Err(_) if at == victim => unanswered += 1,
            Err(other) => panic!("a server that is well does not answer: {other}"),
        }
        if created.len() >= BEGUN
            && let Some(kill) = kill.take()
        {
            // It may have answered all it had by now, so it gets more, and is killed as soon as they are under way.
            for more in 0..CAUGHT {
                let pod = pod(&format!("caught-{round}-{more}"));
                create(&mut creations, victim, pod);
            }
            tokio::task::yield_now().await;
            kill();
        }
        // As long as it lives it has something to do, so that it is always killed amid that.
        if at == victim && kill.is_some() && late < LATE_MAX {
            late += 1;
            create(&mut creations, at, pod(&format!("late-{round}-{late}")));
        }
    }
    assert!(unanswered > 0, "it was killed too late");
    created
}

/// All that was answered is there, no more than may be, and the quota says so. Returns how many there are.
async fn check_kept(space: &Space, answered: &BTreeSet<String>) -> usize {
    let names: BTreeSet<String> = space.names().await.into_iter().collect();
    assert!(answered.is_subset(&names), "{answered:?} {names:?}");
    assert!(names.len() <= HARD, "{names:?}");
    let used = json!({"pods": names.len().to_string()});
    assert_eq!(space.used("q").await, used);
    names.len()
}

#[tokio::test]
async fn after_a_crash_what_is_there_is_used_and_the_rest_is_free() {
    let mut server = start();
    let mut space = Space::make(&server.client().await, "a").await;
    let spec = json!({"hard": {"pods": HARD.to_string()}});
    space.make_quota("q", spec).await;
    for round in 0..ROUNDS {
        let spaces = [space.clone()];
        let answered = rush_into_a_crash(&spaces, round, 0, || server.kill()).await;
        server.start_again();
        space = Space::of(&server.client().await, "a");
        let there = check_kept(&space, &answered).await;
        let rushed = rush(&[space.clone()], crowd(ROUNDS + round)).await;
        assert_eq!(there + rushed.created.len(), HARD, "round {round}");
        space.delete_all().await;
    }
}

#[tokio::test]
async fn a_server_of_several_may_crash() {
    let mut trio = Trio::start().await;
    let mut spaces = trio.make_spaces("a").await;
    let spec = json!({"hard": {"pods": HARD.to_string()}});
    spaces[0].make_quota("q", spec).await;
    for round in 0..ROUNDS {
        let victim = round % spaces.len();
        let server = &mut trio.servers[victim];
        let answered = rush_into_a_crash(&spaces, round, victim, || server.kill()).await;
        // The others go on without it.
        let mut others = spaces.clone();
        others.remove(victim);
        let there = check_kept(&others[0], &answered).await;
        let rushed = rush(&others, crowd(ROUNDS + round)).await;
        assert_eq!(there + rushed.created.len(), HARD, "round {round}");

        server.start_again();
        spaces[victim] = Space::of(&server.client().await, "a");
        let back = &spaces[victim];
        assert_eq!(check_kept(back, &answered).await, HARD);
        back.delete_all().await;
    }
    // The one that was killed last lets in as much as any other.
    let rushed = rush(&spaces[ROUNDS - 1..], crowd(2 * ROUNDS)).await;
    assert_eq!(rushed.created.len(), HARD);
}
