//! The example, and its documentation page.

use crate::command::{netpol, repository};

/// The blocks of the page that show command output.
fn sessions(page: &str) -> Vec<(&str, &str)> {
    let blocks = page.split("```text\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split_once("```").map(|(block, _)| block));
    let sessions = blocks.filter_map(|block| block.strip_prefix("$ rhumb netpol "));
    sessions
        .map(|session| session.split_once('\n').expect("an answer"))
        .collect()
}

#[test]
fn documented_sessions_match_the_command_output() {
    let page = std::fs::read_to_string(repository("docs/network-policies.md")).expect("a page");
    let sessions = sessions(&page);
    assert!(sessions.len() >= 3, "{}", sessions.len());
    for (arguments, want) in sessions {
        let output = netpol(&repository("."), arguments);
        assert_eq!(output.out, want, "{arguments}: {}", output.errors);
        assert_eq!(output.errors, "", "{arguments}");
    }
}

#[test]
fn documented_svg_matches_the_command_output() {
    let picture = std::fs::read_to_string(repository("docs/network-policies.svg"));
    let made = netpol(
        &repository("."),
        "matrix -f examples/network-policies -o svg",
    )
    .success_stdout();
    assert!(
        picture.expect("a picture") == made,
        "make it anew: rhumb netpol matrix -f examples/network-policies -o svg > docs/network-policies.svg"
    );
}

/// The purpose of the policies: each tier is reachable only from the previous one.
#[test]
fn example_policies_allow_and_deny_as_documented() {
    let open = [
        ("store-web/frontend-1", "store-app/cart:http"),
        ("store-web/frontend-2", "store-app/orders:http"),
        ("store-app/orders", "store-data/postgres:sql"),
        ("store-app/cart", "store-data/redis:redis"),
        ("monitoring/prometheus", "store-app/mailer:metrics"),
        ("store-app/mailer", "203.0.113.25:587"),
        ("198.51.100.7", "store-web/frontend-1:http"),
    ];
    let closed = [
        ("store-web/frontend-1", "store-data/postgres:sql"),
        ("store-app/cart", "store-data/postgres:sql"),
        ("store-app/mailer", "203.0.113.200:587"),
        ("store-app/mailer", "store-app/cart:http"),
        ("monitoring/prometheus", "store-data/redis:redis"),
        ("198.51.100.7", "store-app/cart:http"),
        ("store-data/postgres", "198.51.100.7:443"),
    ];
    for (code, connections) in [(0, open), (1, closed)] {
        for (from, to) in connections {
            let arguments = format!("check -f examples/network-policies --from {from} --to {to}");
            let output = netpol(&repository("."), &arguments);
            assert_eq!(output.code, Some(code), "{from} {to}: {}", output.out);
        }
    }
}
