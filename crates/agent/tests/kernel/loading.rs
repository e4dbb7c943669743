//! What kernels are told is what they have, and what people are shown.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rhumb_agent::nft::{Connection, Error, Held, Kernel, Marker, News, Written};
use rhumb_netpol::program::{Changes, Element, Program, Redirection, Set, SetKind};
use rhumb_netpol::{Direction, Family};
use tokio::time::timeout;

use crate::namespace::{Namespace, is_root, table};
use crate::programs::{address, chain, group, ip, policy, set, varied};

fn held() -> Held {
    Held::of(["10.1.0.0/24", "fd00::/64"])
}

#[tokio::test]
async fn a_program_with_everything_in_it_loads_and_is_replaced_by_another() {
    if !is_root() {
        return;
    }
    let namespace = Namespace::new();
    let mut kernel = namespace.kernel();
    kernel.probe().await.unwrap();
    assert!(!kernel.exists().await.unwrap());
    for program in [varied(), Program::default(), varied()] {
        kernel.replace(&program, &held()).await.unwrap();
        assert!(kernel.is_intact().await.unwrap());
    }
    let whole = namespace.rules();
    let shown = namespace.listing();
    assert_eq!(shown.matches("comment \"a/varied\"").count(), 4, "{shown}");
    // The same by changes, from nothing.
    let other = Namespace::new();
    let mut kernel = other.kernel();
    kernel
        .replace(&Program::default(), &Held::default())
        .await
        .unwrap();
    let written = kernel
        .write(&varied().everything(), &varied(), &held())
        .await;
    assert_eq!(written.unwrap(), Written::Changes);
    assert_eq!(other.rules(), whole);
    // And back.
    let program = varied();
    let changes = nothing_left(&program);
    let written = kernel
        .write(&changes, &Program::default(), &Held::default())
        .await;
    assert_eq!(written.unwrap(), Written::Changes);
    let empty = Namespace::new();
    let mut kernel = empty.kernel();
    kernel
        .replace(&Program::default(), &Held::default())
        .await
        .unwrap();
    assert_eq!(other.rules(), empty.rules());
}

fn nothing_left(program: &Program) -> Changes {
    let dispatch = program.dispatch.iter();
    Changes {
        dispatch: dispatch
            .map(|(place, group)| {
                (
                    *place,
                    Redirection {
                        before: Some(*group),
                        after: None,
                    },
                )
            })
            .collect(),
        known_removed: program.known.clone(),
        removed_groups: program.groups.keys().copied().collect(),
        removed_chains: program.chains.keys().copied().collect(),
        removed_sets: program.sets.keys().copied().collect(),
        ..Changes::default()
    }
}

/// A change, and whether the kernel has then what it would have from the beginning.
#[tokio::test]
async fn each_kind_of_change_loads_and_means_the_same_as_everything_anew() {
    if !is_root() {
        return;
    }
    let (v4, v6) = (set(1, Family::V4), set(9, Family::V6));
    let (ingress, egress) = (Direction::Ingress, Direction::Egress);
    let moved = |before, after| Redirection { before, after };
    let pod = ip("10.1.0.2");
    let changes = [
        Changes {
            new_sets: BTreeMap::from([(v6, SetKind::Ports)]),
            ..Changes::default()
        },
        Changes {
            removed_elements: BTreeMap::from([(v4, vec![address("10.1.0.2")])]),
            added_elements: BTreeMap::from([(v4, vec![address("10.1.0.7"), address("10.1.0.8")])]),
            ..Changes::default()
        },
        Changes {
            chains: BTreeMap::from([
                (chain(1, ingress), policy("varied", vec![])),
                (
                    chain(8, egress),
                    policy("new", varied().chains[&chain(1, egress)].rules.clone()),
                ),
            ]),
            ..Changes::default()
        },
        Changes {
            groups: BTreeMap::from([(group(8, egress), vec![chain(2, egress), chain(8, egress)])]),
            dispatch: BTreeMap::from([(
                (egress, pod),
                moved(Some(group(1, egress)), Some(group(8, egress))),
            )]),
            removed_groups: vec![group(1, egress)],
            ..Changes::default()
        },
        Changes {
            dispatch: BTreeMap::from([
                ((ingress, pod), moved(Some(group(1, ingress)), None)),
                ((egress, pod), moved(Some(group(8, egress)), None)),
                (
                    (egress, ip("10.1.0.9")),
                    moved(None, Some(group(2, egress))),
                ),
            ]),
            known_removed: BTreeSet::from([pod]),
            known_added: BTreeSet::from([ip("10.1.0.4"), ip("fd00::4")]),
            removed_groups: vec![group(8, egress), group(1, ingress)],
            removed_chains: vec![chain(1, ingress), chain(8, egress)],
            ..Changes::default()
        },
        Changes {
            removed_sets: vec![v6],
            ..Changes::default()
        },
    ];
    let namespace = Namespace::new();
    let mut kernel = namespace.kernel();
    let mut program = varied();
    let held = held();
    kernel.replace(&program, &held).await.unwrap();
    for (number, changes) in changes.iter().enumerate() {
        program.apply(changes);
        let written = kernel.write(changes, &program, &held).await;
        assert_eq!(written.unwrap(), Written::Changes, "{number}");
        let by_changes = namespace.rules();
        let anew = Namespace::new();
        anew.kernel().replace(&program, &held).await.unwrap();
        assert_eq!(by_changes, anew.rules(), "{number}");
    }
    let moved = Held::of(["10.2.0.0/24"]);
    let written = kernel.write(&Changes::default(), &program, &moved).await;
    assert_eq!(written.unwrap(), Written::Changes);
    let written = kernel.write(&Changes::default(), &program, &moved).await;
    assert_eq!(written.unwrap(), Written::Nothing);
    let anew = Namespace::new();
    anew.kernel().replace(&program, &moved).await.unwrap();
    assert_eq!(namespace.rules(), anew.rules());
}

#[tokio::test]
async fn a_change_that_the_kernel_does_not_take_is_followed_by_everything() {
    if !is_root() {
        return;
    }
    let namespace = Namespace::new();
    let mut kernel = namespace.kernel();
    let held = Held::default();
    kernel.replace(&varied(), &held).await.unwrap();
    let before = namespace.rules();
    let wrong = Changes {
        removed_elements: BTreeMap::from([(set(1, Family::V4), vec![address("10.99.0.1")])]),
        ..Changes::default()
    };
    let written = kernel.write(&wrong, &varied(), &held).await;
    assert_eq!(written.unwrap(), Written::Everything);
    assert_eq!(namespace.rules(), before);
    assert!(kernel.is_intact().await.unwrap());
}

/// Rules that `nft` has written in the words of a script, beside those that the kernel was told by its messages.
#[tokio::test]
async fn people_are_shown_the_same_as_if_nft_had_written_it() {
    if !is_root() {
        return;
    }
    let (by_agent, by_nft) = (Namespace::new(), Namespace::new());
    let connection = by_agent.connection();
    let (table, marker) = (table(), Marker::after(Some(Marker::after(None))));
    let (full, empty) = (varied(), Program::default());
    let nobody = Held::default();
    for script in [
        table.whole(&full, &held(), marker),
        table.whole(&empty, &nobody, marker),
        table.update(marker, &full.everything(), &full, Some(&held())),
        table.update(marker, &nothing_left(&full), &empty, Some(&nobody)),
    ] {
        by_nft.tell(&script.to_string());
        let listing = by_nft.listing();
        assert!(listing.contains("judge-out"), "{listing}");
        connection.apply(script).await.unwrap();
        assert_eq!(by_agent.listing(), listing);
    }
}

#[tokio::test]
async fn what_the_kernel_refuses_is_told_and_changes_nothing() {
    if !is_root() {
        return;
    }
    let namespace = Namespace::new();
    let connection = namespace.connection();
    let (table, marker) = (table(), Marker::after(None));
    let (program, nobody) = (varied(), Held::default());
    let script = table.whole(&program, &nobody, marker);
    connection.check(script.clone()).await.unwrap();
    assert_eq!(namespace.ask(&["list", "tables"]), "");
    connection.apply(script).await.unwrap();
    let before = namespace.listing();
    let v4 = set(1, Family::V4);
    let update = |marker, changes: &Changes| table.update(marker, changes, &program, None);
    let unknown = Changes {
        added_elements: BTreeMap::from([(v4, vec![address("10.1.0.77")])]),
        removed_elements: BTreeMap::from([(v4, vec![address("10.99.0.1")])]),
        ..Changes::default()
    };
    let in_use = Changes {
        added_elements: unknown.added_elements.clone(),
        removed_sets: vec![v4],
        ..Changes::default()
    };
    let nowhere = Changes {
        known_added: BTreeSet::from([ip("10.1.0.77")]),
        groups: BTreeMap::from([(
            group(9, Direction::Egress),
            vec![chain(9, Direction::Egress)],
        )]),
        ..Changes::default()
    };
    let (absent, busy) = ("No such file or directory", "Device or resource busy");
    for (script, why, command) in [
        (
            update(marker, &unknown),
            absent,
            "delete element inet rhumb s1-4 { 10.99.0.1 }",
        ),
        (update(marker, &in_use), busy, "delete set inet rhumb s1-4"),
        (
            update(marker, &nowhere),
            absent,
            "add rule inet rhumb g9-out jump p9-out",
        ),
        (
            // Another's table.
            update(Marker::after(None), &unknown),
            absent,
            "delete element inet rhumb marker { ",
        ),
    ] {
        let error = connection.apply(script).await.unwrap_err().to_string();
        let said = format!("the kernel refused the rules: {why} in: {command}");
        assert!(error.starts_with(&said), "{error}");
        assert_eq!(namespace.listing(), before);
    }
}

/// More than sockets have room for by themselves, and many messages for a single set.
#[tokio::test]
async fn a_program_may_be_large() {
    if !is_root() {
        return;
    }
    const ELEMENTS: u32 = 100_000;
    let addresses = (0..ELEMENTS).map(|at| std::net::Ipv4Addr::from(0x0a00_0000 + at));
    let elements = addresses.map(|address| Element {
        address: address.into(),
        port: None,
    });
    let mut program = varied();
    let large = Set {
        kind: SetKind::Addresses,
        elements: elements.collect(),
    };
    program.sets.insert(set(7, Family::V4), large);
    let rules = program.chains[&chain(1, Direction::Egress)].rules.clone();
    for number in 100..600 {
        let policy = policy(&format!("large-{number}"), rules.clone());
        let id = chain(number, Direction::Egress);
        program.chains.insert(id, policy);
    }
    let namespace = Namespace::new();
    let connection = namespace.inside(Connection::open_and_listen).unwrap();
    let mut kernel = Kernel::new(connection, table());
    kernel.replace(&program, &held()).await.unwrap();
    assert!(kernel.is_intact().await.unwrap());
    // What is told of it may be more than there is room for, but is not taken for somebody else's.
    let news = timeout(Duration::from_millis(100), kernel.others()).await;
    assert_ne!(news, Ok(News::Changed));
    let shown = namespace.ask(&["list", "set", "inet", "rhumb", "s7-4"]);
    assert_eq!(shown.matches(',').count() + 1, ELEMENTS as usize);
    // All of it refused: there are more complaints than there is room for, and the first is told.
    let everything = program.everything();
    let strange = Marker::after(None);
    let script = table().update(strange, &everything, &program, None);
    let refused = namespace.connection().apply(script).await;
    assert!(
        matches!(
            refused,
            Err(Error::Refused {
                command: Some(_),
                ..
            })
        ),
        "{refused:?}"
    );
    assert!(kernel.is_intact().await.unwrap());
}

#[tokio::test]
async fn what_others_do_to_the_table_is_noticed() {
    if !is_root() {
        return;
    }
    let namespace = Namespace::new();
    let mut kernel = namespace.kernel();
    let held = Held::default();
    let name = format!("inet {}", table().name());
    for deed in [
        "flush ruleset".to_owned(),
        format!("flush table {name}"),
        format!("delete table {name}"),
        format!("flush chain {name} ingress"),
        format!("flush chain {name} egress"),
        format!("flush chain {name} judge-in"),
        format!("flush chain {name} judge-out"),
        format!("add table {name}; delete table {name}; add table {name}"),
    ] {
        kernel.replace(&varied(), &held).await.unwrap();
        assert!(kernel.is_intact().await.unwrap());
        namespace.ask(&[&deed]);
        assert!(!kernel.is_intact().await.unwrap(), "{deed}");
    }
    // What others do elsewhere is theirs.
    kernel.replace(&varied(), &held).await.unwrap();
    namespace.ask(&["add table inet others"]);
    assert!(kernel.is_intact().await.unwrap());
    // Another agent with the same table.
    namespace.kernel().replace(&varied(), &held).await.unwrap();
    assert!(!kernel.is_intact().await.unwrap());
}

#[tokio::test]
async fn cleaning_up_leaves_nothing_of_this_table_and_all_of_others() {
    if !is_root() {
        return;
    }
    let namespace = Namespace::new();
    namespace.ask(&["add table inet others"]);
    let clean_up = async || {
        let connection = namespace.connection();
        rhumb_agent::clean_up(connection, &table()).await.unwrap()
    };
    assert!(!clean_up().await);
    namespace
        .kernel()
        .replace(&varied(), &Held::default())
        .await
        .unwrap();
    assert!(clean_up().await);
    assert!(!clean_up().await);
    assert_eq!(
        namespace.ask(&["list", "ruleset"]).trim(),
        "table inet others {\n}"
    );
}
