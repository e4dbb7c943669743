//! What is written for nft is taken by kernels.

use std::collections::{BTreeMap, BTreeSet};

use rhumb_agent::nft::{Held, Written};
use rhumb_netpol::program::{Changes, Program, Redirection, SetKind};
use rhumb_netpol::{Direction, Family};

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
    let shown = namespace.ask(&["list", "table", "inet", "rhumb"]);
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

#[tokio::test]
async fn what_nft_refuses_is_told_with_the_line() {
    if !is_root() {
        return;
    }
    let namespace = Namespace::new();
    let nft = namespace.nft();
    let script = "add table inet x\nadd rule inet x nowhere accept\n";
    let error = nft.apply(script).await.unwrap_err().to_string();
    assert!(error.contains("No such file or directory"), "{error}");
    assert!(
        error.ends_with("in: add rule inet x nowhere accept"),
        "{error}"
    );
    // All or nothing.
    assert_eq!(namespace.ask(&["list", "tables"]), "");
    // One who says nothing at all has failed too.
    let silent = namespace.write_program("silent", "exit 3");
    let nft = rhumb_agent::nft::Nft::find(&silent).unwrap();
    let error = nft.apply(script).await.unwrap_err().to_string();
    assert!(error.contains("exit status: 3"), "{error}");
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
    let program = namespace.program();
    assert!(!rhumb_agent::clean_up(&program, &table()).await.unwrap());
    namespace
        .kernel()
        .replace(&varied(), &Held::default())
        .await
        .unwrap();
    assert!(rhumb_agent::clean_up(&program, &table()).await.unwrap());
    assert!(!rhumb_agent::clean_up(&program, &table()).await.unwrap());
    assert_eq!(
        namespace.ask(&["list", "ruleset"]).trim(),
        "table inet others {\n}"
    );
}
