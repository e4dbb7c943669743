//! `ipBlock` peers, and the addresses of pods that selectors match.

use serde_json::{Value, json};

use crate::cluster::{Allowed, ClusterHarness, Denied, two_by_two};
use crate::objects::{app, egress, ingress, pod};

/// A policy that allows egress from pods of `a` to these peers only.
fn to(peers: Value) -> ClusterHarness {
    two_by_two().with(egress("a/p", json!([{"to": peers}])))
}

fn block(cidr: &str, except: &[&str]) -> Value {
    json!({"ipBlock": {"cidr": cidr, "except": except}})
}

#[track_caller]
fn check(cidr: &str, except: &[&str], allowed: &[&str], denied: &[&str]) {
    let mut cluster = to(json!([block(cidr, except)]));
    for (addresses, want) in [(allowed, Allowed), (denied, Denied)] {
        for address in addresses {
            cluster.check(&format!("a/x -> {address}:80/TCP"), want);
        }
    }
}

#[test]
fn an_ip_block_covers_its_first_to_last_address() {
    check(
        "203.0.113.64/26",
        &[],
        &["203.0.113.64", "203.0.113.100", "203.0.113.127"],
        &["203.0.113.63", "203.0.113.128", "203.0.112.64"],
    );
    check(
        "203.0.113.7/32",
        &[],
        &["203.0.113.7"],
        &["203.0.113.6", "203.0.113.8"],
    );
    check("0.0.0.0/0", &[], &["0.0.0.1", "255.255.255.255"], &["::1"]);
    check(
        "2001:db8::40/122",
        &[],
        &["2001:db8::40", "2001:db8::7f"],
        &["2001:db8::3f", "2001:db8::80", "2001:db9::40"],
    );
    check("::/0", &[], &["::1", "2001:db8::1"], &["203.0.113.1"]);
}

#[test]
fn an_ip_block_matches_ingress_sources() {
    let rules = json!([{"from": [block("203.0.113.0/24", &["203.0.113.128/25"])]}]);
    let mut cluster = two_by_two().with(ingress("a/p", rules));
    cluster.allows(&["203.0.113.1 -> a/x:80/TCP"]);
    cluster.denies(&[
        "203.0.113.128 -> a/x:80/TCP",
        "203.0.112.1 -> a/x:80/TCP",
        "b/x -> a/x:80/TCP",
    ]);
}

#[test]
fn an_ip_block_matches_pod_addresses() {
    let mut cluster = to(json!([block("10.0.2.0/31", &[])]));
    cluster.allows(&["10.0.1.1 -> 10.0.2.1:80/TCP"]);
    cluster.denies(&[
        "10.0.1.1 -> 10.0.2.2:80/TCP",
        "fd00:0:0:1::1 -> fd00:0:0:2::1:80/TCP",
    ]);
}

#[test]
fn an_ip_block_matches_only_its_own_ip_family() {
    let mut cluster = to(json!([block("0.0.0.0/0", &[])]));
    cluster.allows(&["10.0.1.1 -> 10.0.2.1:80/TCP"]);
    cluster.denies(&["a/x -> fd00:0:0:2::1:80/TCP", "a/x -> 2001:db8::1:80/TCP"]);
    let mut cluster = to(json!([block("::/0", &[])]));
    cluster.allows(&["a/x -> fd00:0:0:2::1:80/TCP", "a/x -> 2001:db8::1:80/TCP"]);
    cluster.denies(&["10.0.1.1 -> 10.0.2.1:80/TCP", "a/x -> 203.0.113.1:80/TCP"]);
}

#[test]
fn an_ipv4_mapped_block_is_an_ipv4_block() {
    check(
        "::ffff:203.0.113.0/120",
        &["::ffff:203.0.113.128/121"],
        &["203.0.113.0", "203.0.113.127"],
        &["203.0.113.128", "203.0.114.0", "2001:db8::1"],
    );
}

#[test]
fn a_selector_matches_every_address_of_a_pod() {
    let mut cluster = to(json!([{"namespaceSelector": {}, "podSelector": app("y")}]));
    cluster.allows(&[
        "10.0.1.1 -> 10.0.2.2:80/TCP",
        "fd00:0:0:1::1 -> fd00:0:0:2::2:80/TCP",
    ]);
    cluster.denies(&[
        "10.0.1.1 -> 10.0.2.1:80/TCP",
        "fd00:0:0:1::1 -> fd00:0:0:2::1:80/TCP",
    ]);
}

#[test]
fn a_policy_isolates_every_address_of_a_pod() {
    let mut cluster = two_by_two().with(ingress("a/p", json!([])));
    cluster.denies(&[
        "203.0.113.1 -> 10.0.1.1:80/TCP",
        "2001:db8::1 -> fd00:0:0:1::1:80/TCP",
    ]);
}

#[test]
fn except_is_excluded_from_its_block() {
    check(
        "10.9.0.0/16",
        &["10.9.1.0/24", "10.9.2.128/25", "10.9.255.255/32"],
        &[
            "10.9.0.0",
            "10.9.0.255",
            "10.9.2.0",
            "10.9.2.127",
            "10.9.3.0",
            "10.9.255.254",
        ],
        &[
            "10.9.1.0",
            "10.9.1.255",
            "10.9.2.128",
            "10.9.2.255",
            "10.9.255.255",
            "10.10.0.0",
        ],
    );
    check(
        "2001:db8::/32",
        &["2001:db8:0:1::/64"],
        &["2001:db8::1", "2001:db8:0:2::"],
        &["2001:db8:0:1::", "2001:db8:0:1:ffff:ffff:ffff:ffff"],
    );
}

#[test]
fn excepts_may_overlap() {
    check(
        "10.9.0.0/16",
        &["10.9.0.0/17", "10.9.1.0/24", "10.9.127.0/24"],
        &["10.9.128.0"],
        &["10.9.0.0", "10.9.1.1", "10.9.127.255"],
    );
}

#[test]
fn blocks_and_excepts_may_include_the_lowest_and_highest_address() {
    check(
        "0.0.0.0/0",
        &["0.0.0.0/32", "255.255.255.255/32"],
        &["0.0.0.1", "255.255.255.254"],
        &["0.0.0.0", "255.255.255.255"],
    );
    check(
        "0.0.0.0/0",
        &["0.0.0.0/1"],
        &["128.0.0.0", "255.255.255.255"],
        &["0.0.0.0", "127.255.255.255"],
    );
    check(
        "::/0",
        &["8000::/1"],
        &["::", "7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
        &["8000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
    );
    check(
        "::/0",
        &["::/128"],
        &["::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
        &["::"],
    );
}

#[test]
fn except_applies_only_to_its_own_peer() {
    let mut cluster = to(json!([
        block("10.9.0.0/16", &["10.9.1.0/24"]),
        block("10.9.1.0/28", &[]),
    ]));
    cluster.allows(&["a/x -> 10.9.1.15:80/TCP", "a/x -> 10.9.2.0:80/TCP"]);
    cluster.denies(&["a/x -> 10.9.1.16:80/TCP"]);
    let mut cluster = to(json!([
        block("10.0.0.0/16", &["10.0.2.0/24"]),
        {"namespaceSelector": {}, "podSelector": app("y")},
    ]));
    cluster.allows(&["a/x -> 10.0.2.2:80/TCP"]);
    cluster.denies(&["a/x -> 10.0.2.1:80/TCP"]);
}

#[test]
fn except_does_not_restrict_other_policies() {
    let mut cluster = to(json!([block("10.9.0.0/16", &["10.9.1.0/24"])]))
        .with(egress("a/q", json!([{"to": [block("10.9.1.7/32", &[])]}])));
    cluster.allows(&["a/x -> 10.9.1.7:80/TCP"]);
    cluster.denies(&["a/x -> 10.9.1.8:80/TCP"]);
}

#[test]
fn excepts_that_cover_or_miss_their_block_are_applied_literally() {
    check(
        "10.9.0.0/16",
        &["10.9.0.0/16"],
        &[],
        &["10.9.0.0", "10.9.255.255"],
    );
    check(
        "10.9.0.0/16",
        &["10.0.0.0/8"],
        &[],
        &["10.9.0.0", "10.8.0.0"],
    );
    check(
        "10.9.0.0/16",
        &["10.8.0.0/16", "::/0"],
        &["10.9.0.0"],
        &["10.8.0.0"],
    );
    check(
        "10.9.0.0/16",
        &["10.9.1.0", "none"],
        &["10.9.1.0"],
        &["10.8.0.0"],
    );
}

#[test]
fn an_ambiguous_cidr_means_the_whole_block() {
    check(
        "203.0.113.5/24",
        &["203.0.113.77/26"],
        &[
            "203.0.113.0",
            "203.0.113.5",
            "203.0.113.63",
            "203.0.113.255",
        ],
        &["203.0.113.64", "203.0.113.127", "203.0.114.5"],
    );
    check(
        "2001:db8::5/64",
        &[],
        &["2001:db8::", "2001:db8::ffff"],
        &["2001:db8:0:1::5"],
    );
}

#[test]
fn numbers_with_leading_zeros_are_decimal() {
    check(
        "010.009.0.0/016",
        &["10.009.010.0/24"],
        &["10.9.0.0", "10.9.8.0"],
        &["8.9.0.0", "10.9.10.0"],
    );
}

#[test]
fn an_unparsable_block_matches_nothing() {
    for cidr in [
        "",
        "10.9.0.0",
        "10.9.0/16",
        "10.9.0.0/33",
        "10.9.0.256/8",
        "2001:db8::/129",
        "x/8",
        "10.9.0.0/-1",
    ] {
        check(cidr, &[], &[], &["10.9.0.0", "2001:db8::1", "10.0.2.1"]);
    }
    let mut cluster = to(json!([{"ipBlock": {}}]));
    cluster.denies(&["a/x -> 10.9.0.0:80/TCP"]);
}

#[test]
fn ip_blocks_match_node_addresses() {
    let mut cluster =
        to(json!([block("192.168.0.0/24", &[])])).with(pod("b/other", "10.0.2.9", json!({})));
    cluster.allows(&["a/x -> 192.168.0.2:80/TCP"]);
    cluster.denies(&["a/x -> 192.168.1.2:80/TCP"]);
}
