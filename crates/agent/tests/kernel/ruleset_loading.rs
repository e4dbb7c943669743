//! Rulesets and deltas written to a real kernel, compared with what `nft` lists.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rhumb_agent::nft::{
    ForeignTableChange, KernelTable, NftablesConnection, NftablesError, PodCidrRanges, TableMarker,
    TableWriteOutcome,
};
use rhumb_netpol::ruleset::{
    IpSet, IpSetElement, IpSetElementType, NodeRuleset, PolicyGroupChange, RulesetDelta,
};
use rhumb_netpol::{Direction, IpFamily};
use tokio::time::timeout;

use crate::network_namespace::{TestNetworkNamespace, is_root, table};
use crate::test_rulesets::{address, chain, group, ip, policy, set, varied};

fn held() -> PodCidrRanges {
    PodCidrRanges::from_cidrs(["10.1.0.0/24", "fd00::/64"])
}

#[tokio::test]
async fn full_ruleset_loads_and_is_replaced() {
    if !is_root() {
        return;
    }
    let namespace = TestNetworkNamespace::new();
    let mut kernel = namespace.kernel();
    kernel.probe().await.unwrap();
    assert!(!kernel.exists().await.unwrap());
    for program in [varied(), NodeRuleset::default(), varied()] {
        kernel.replace(&program, &held()).await.unwrap();
        assert!(kernel.is_intact().await.unwrap());
    }
    let full_rules = namespace.rules();
    let shown = namespace.listing();
    assert_eq!(shown.matches("comment \"a/varied\"").count(), 4, "{shown}");
    // The same ruleset by deltas, from an empty one.
    let other = TestNetworkNamespace::new();
    let mut kernel = other.kernel();
    kernel
        .replace(&NodeRuleset::default(), &PodCidrRanges::default())
        .await
        .unwrap();
    let written = kernel
        .write(&varied().delta_from_empty(), &varied(), &held())
        .await;
    assert_eq!(written.unwrap(), TableWriteOutcome::Updated);
    assert_eq!(other.rules(), full_rules);
    // And back to the empty one.
    let program = varied();
    let changes = nothing_left(&program);
    let written = kernel
        .write(&changes, &NodeRuleset::default(), &PodCidrRanges::default())
        .await;
    assert_eq!(written.unwrap(), TableWriteOutcome::Updated);
    let empty = TestNetworkNamespace::new();
    let mut kernel = empty.kernel();
    kernel
        .replace(&NodeRuleset::default(), &PodCidrRanges::default())
        .await
        .unwrap();
    assert_eq!(other.rules(), empty.rules());
}

fn nothing_left(program: &NodeRuleset) -> RulesetDelta {
    let dispatch = program.dispatch.iter();
    RulesetDelta {
        dispatch: dispatch
            .map(|(place, group)| {
                (
                    *place,
                    PolicyGroupChange {
                        before: Some(*group),
                        after: None,
                    },
                )
            })
            .collect(),
        known_addresses_removed: program.known_addresses.clone(),
        removed_groups: program.groups.keys().copied().collect(),
        removed_chains: program.chains.keys().copied().collect(),
        removed_sets: program.sets.keys().copied().collect(),
        ..RulesetDelta::default()
    }
}

/// After each delta, the kernel has the same rules as after writing the whole ruleset.
#[tokio::test]
async fn every_incremental_change_equals_a_full_load() {
    if !is_root() {
        return;
    }
    let (v4, v6) = (set(1, IpFamily::V4), set(9, IpFamily::V6));
    let (ingress, egress) = (Direction::Ingress, Direction::Egress);
    let moved = |before, after| PolicyGroupChange { before, after };
    let pod = ip("10.1.0.2");
    let changes = [
        RulesetDelta {
            new_sets: BTreeMap::from([(v6, IpSetElementType::AddressPorts)]),
            ..RulesetDelta::default()
        },
        RulesetDelta {
            removed_elements: BTreeMap::from([(v4, vec![address("10.1.0.2")])]),
            added_elements: BTreeMap::from([(v4, vec![address("10.1.0.7"), address("10.1.0.8")])]),
            ..RulesetDelta::default()
        },
        RulesetDelta {
            chains: BTreeMap::from([
                (chain(1, ingress), policy("varied", vec![])),
                (
                    chain(8, egress),
                    policy("new", varied().chains[&chain(1, egress)].rules.clone()),
                ),
            ]),
            ..RulesetDelta::default()
        },
        RulesetDelta {
            groups: BTreeMap::from([(group(8, egress), vec![chain(2, egress), chain(8, egress)])]),
            dispatch: BTreeMap::from([(
                (egress, pod),
                moved(Some(group(1, egress)), Some(group(8, egress))),
            )]),
            removed_groups: vec![group(1, egress)],
            ..RulesetDelta::default()
        },
        RulesetDelta {
            dispatch: BTreeMap::from([
                ((ingress, pod), moved(Some(group(1, ingress)), None)),
                ((egress, pod), moved(Some(group(8, egress)), None)),
                (
                    (egress, ip("10.1.0.9")),
                    moved(None, Some(group(2, egress))),
                ),
            ]),
            known_addresses_removed: BTreeSet::from([pod]),
            known_addresses_added: BTreeSet::from([ip("10.1.0.4"), ip("fd00::4")]),
            removed_groups: vec![group(8, egress), group(1, ingress)],
            removed_chains: vec![chain(1, ingress), chain(8, egress)],
            ..RulesetDelta::default()
        },
        RulesetDelta {
            removed_sets: vec![v6],
            ..RulesetDelta::default()
        },
    ];
    let namespace = TestNetworkNamespace::new();
    let mut kernel = namespace.kernel();
    let mut program = varied();
    let held = held();
    kernel.replace(&program, &held).await.unwrap();
    for (number, changes) in changes.iter().enumerate() {
        program.apply(changes);
        let written = kernel.write(changes, &program, &held).await;
        assert_eq!(written.unwrap(), TableWriteOutcome::Updated, "{number}");
        let by_changes = namespace.rules();
        let anew = TestNetworkNamespace::new();
        anew.kernel().replace(&program, &held).await.unwrap();
        assert_eq!(by_changes, anew.rules(), "{number}");
    }
    let moved = PodCidrRanges::from_cidrs(["10.2.0.0/24"]);
    let written = kernel
        .write(&RulesetDelta::default(), &program, &moved)
        .await;
    assert_eq!(written.unwrap(), TableWriteOutcome::Updated);
    let written = kernel
        .write(&RulesetDelta::default(), &program, &moved)
        .await;
    assert_eq!(written.unwrap(), TableWriteOutcome::Unchanged);
    let anew = TestNetworkNamespace::new();
    anew.kernel().replace(&program, &moved).await.unwrap();
    assert_eq!(namespace.rules(), anew.rules());
}

#[tokio::test]
async fn rejected_change_falls_back_to_a_full_load() {
    if !is_root() {
        return;
    }
    let namespace = TestNetworkNamespace::new();
    let mut kernel = namespace.kernel();
    let held = PodCidrRanges::default();
    kernel.replace(&varied(), &held).await.unwrap();
    let before = namespace.rules();
    let wrong = RulesetDelta {
        removed_elements: BTreeMap::from([(set(1, IpFamily::V4), vec![address("10.99.0.1")])]),
        ..RulesetDelta::default()
    };
    let written = kernel.write(&wrong, &varied(), &held).await;
    assert_eq!(written.unwrap(), TableWriteOutcome::Replaced);
    assert_eq!(namespace.rules(), before);
    assert!(kernel.is_intact().await.unwrap());
}

/// Compares tables that `nft` created from the script text with those created by our netlink messages.
#[tokio::test]
async fn nft_lists_the_table_as_if_it_had_written_it() {
    if !is_root() {
        return;
    }
    let (by_agent, by_nft) = (TestNetworkNamespace::new(), TestNetworkNamespace::new());
    let connection = by_agent.connection();
    let (table, marker) = (
        table(),
        TableMarker::next_after(Some(TableMarker::next_after(None))),
    );
    let (full, empty) = (varied(), NodeRuleset::default());
    let no_cidrs = PodCidrRanges::default();
    for script in [
        table.replacement_script(&full, &held(), marker),
        table.replacement_script(&empty, &no_cidrs, marker),
        table.update_script(marker, &full.delta_from_empty(), &full, Some(&held())),
        table.update_script(marker, &nothing_left(&full), &empty, Some(&no_cidrs)),
    ] {
        by_nft.nft_apply(&script.to_string());
        let listing = by_nft.listing();
        assert!(listing.contains("filter-out"), "{listing}");
        connection.apply(script).await.unwrap();
        assert_eq!(by_agent.listing(), listing);
    }
}

#[tokio::test]
async fn rejected_batch_is_reported_and_changes_nothing() {
    if !is_root() {
        return;
    }
    let namespace = TestNetworkNamespace::new();
    let connection = namespace.connection();
    let (table, marker) = (table(), TableMarker::next_after(None));
    let (program, no_cidrs) = (varied(), PodCidrRanges::default());
    let script = table.replacement_script(&program, &no_cidrs, marker);
    connection.check(script.clone()).await.unwrap();
    assert_eq!(namespace.nft_output(&["list", "tables"]), "");
    connection.apply(script).await.unwrap();
    let before = namespace.listing();
    let v4 = set(1, IpFamily::V4);
    let update =
        |marker, changes: &RulesetDelta| table.update_script(marker, changes, &program, None);
    let unknown = RulesetDelta {
        added_elements: BTreeMap::from([(v4, vec![address("10.1.0.77")])]),
        removed_elements: BTreeMap::from([(v4, vec![address("10.99.0.1")])]),
        ..RulesetDelta::default()
    };
    let in_use = RulesetDelta {
        added_elements: unknown.added_elements.clone(),
        removed_sets: vec![v4],
        ..RulesetDelta::default()
    };
    let nowhere = RulesetDelta {
        known_addresses_added: BTreeSet::from([ip("10.1.0.77")]),
        groups: BTreeMap::from([(
            group(9, Direction::Egress),
            vec![chain(9, Direction::Egress)],
        )]),
        ..RulesetDelta::default()
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
            // The table has a different marker.
            update(TableMarker::next_after(None), &unknown),
            absent,
            "delete element inet rhumb marker { ",
        ),
    ] {
        let error = connection.apply(script).await.unwrap_err().to_string();
        let expected = format!("the kernel rejected the rules: {why} in: {command}");
        assert!(error.starts_with(&expected), "{error}");
        assert_eq!(namespace.listing(), before);
    }
}

/// Larger than default socket buffers, with many messages for a single set.
#[tokio::test]
async fn large_rulesets_load() {
    if !is_root() {
        return;
    }
    const ELEMENTS: u32 = 100_000;
    let addresses = (0..ELEMENTS).map(|at| std::net::Ipv4Addr::from(0x0a00_0000 + at));
    let elements = addresses.map(|address| IpSetElement {
        address: address.into(),
        port: None,
    });
    let mut program = varied();
    let large = IpSet {
        kind: IpSetElementType::Addresses,
        elements: elements.collect(),
    };
    program.sets.insert(set(7, IpFamily::V4), large);
    let rules = program.chains[&chain(1, Direction::Egress)].rules.clone();
    for number in 100..600 {
        let policy = policy(&format!("large-{number}"), rules.clone());
        let id = chain(number, Direction::Egress);
        program.chains.insert(id, policy);
    }
    let namespace = TestNetworkNamespace::new();
    let connection = namespace
        .run_inside(NftablesConnection::open_with_monitor)
        .unwrap();
    let mut kernel = KernelTable::new(connection, table());
    kernel.replace(&program, &held()).await.unwrap();
    assert!(kernel.is_intact().await.unwrap());
    // Its notifications may overflow the receive buffer, but are not mistaken for foreign changes.
    let change = timeout(Duration::from_millis(100), kernel.next_foreign_change()).await;
    assert_ne!(change, Ok(ForeignTableChange::Changed));
    let shown = namespace.nft_output(&["list", "set", "inet", "rhumb", "s7-4"]);
    assert_eq!(shown.matches(',').count() + 1, ELEMENTS as usize);
    // Everything is rejected: the error messages overflow the buffer, and the first is reported.
    let everything = program.delta_from_empty();
    let strange = TableMarker::next_after(None);
    let script = table().update_script(strange, &everything, &program, None);
    let refused = namespace.connection().apply(script).await;
    assert!(
        matches!(
            refused,
            Err(NftablesError::Rejected {
                command: Some(_),
                ..
            })
        ),
        "{refused:?}"
    );
    assert!(kernel.is_intact().await.unwrap());
}

#[tokio::test]
async fn foreign_table_changes_are_detected() {
    if !is_root() {
        return;
    }
    let namespace = TestNetworkNamespace::new();
    let mut kernel = namespace.kernel();
    let held = PodCidrRanges::default();
    let name = format!("inet {}", table().name());
    for deed in [
        "flush ruleset".to_owned(),
        format!("flush table {name}"),
        format!("delete table {name}"),
        format!("flush chain {name} ingress"),
        format!("flush chain {name} egress"),
        format!("flush chain {name} filter-in"),
        format!("flush chain {name} filter-out"),
        format!("add table {name}; delete table {name}; add table {name}"),
    ] {
        kernel.replace(&varied(), &held).await.unwrap();
        assert!(kernel.is_intact().await.unwrap());
        namespace.nft_output(&[&deed]);
        assert!(!kernel.is_intact().await.unwrap(), "{deed}");
    }
    // Changes of other tables are ignored.
    kernel.replace(&varied(), &held).await.unwrap();
    namespace.nft_output(&["add table inet others"]);
    assert!(kernel.is_intact().await.unwrap());
    // Another agent replaces the table.
    namespace.kernel().replace(&varied(), &held).await.unwrap();
    assert!(!kernel.is_intact().await.unwrap());
}

#[tokio::test]
async fn cleanup_removes_only_this_table() {
    if !is_root() {
        return;
    }
    let namespace = TestNetworkNamespace::new();
    namespace.nft_output(&["add table inet others"]);
    let clean_up = async || {
        let connection = namespace.connection();
        rhumb_agent::remove_rules(connection, &table())
            .await
            .unwrap()
    };
    assert!(!clean_up().await);
    namespace
        .kernel()
        .replace(&varied(), &PodCidrRanges::default())
        .await
        .unwrap();
    assert!(clean_up().await);
    assert!(!clean_up().await);
    assert_eq!(
        namespace.nft_output(&["list", "ruleset"]).trim(),
        "table inet others {\n}"
    );
}
