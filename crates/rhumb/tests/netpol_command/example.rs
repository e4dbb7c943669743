//! The example, and what its page says of it.

use crate::command::{netpol, repository};

/// The blocks of the page that show what a command says.
fn sessions(page: &str) -> Vec<(&str, &str)> {
    let blocks = page.split("```text\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split_once("```").map(|(block, _)| block));
    let sessions = blocks.filter_map(|block| block.strip_prefix("$ rhumb netpol "));
    sessions
        .map(|session| session.split_once('\n').expect("an answer"))
        .collect()
}

#[test]
fn the_page_shows_what_the_commands_say() {
    let page = std::fs::read_to_string(repository("docs/network-policies.md")).expect("a page");
    let sessions = sessions(&page);
    assert!(sessions.len() >= 3, "{}", sessions.len());
    for (words, want) in sessions {
        let ended = netpol(&repository("."), words);
        assert_eq!(ended.out, want, "{words}: {}", ended.errors);
        assert_eq!(ended.errors, "", "{words}");
    }
}

#[test]
fn the_picture_of_the_page_is_the_one_that_the_command_makes() {
    let picture = std::fs::read_to_string(repository("docs/network-policies.svg"));
    let made = netpol(
        &repository("."),
        "matrix -f examples/network-policies -o svg",
    )
    .well();
    assert!(
        picture.expect("a picture") == made,
        "make it anew: rhumb netpol matrix -f examples/network-policies -o svg > docs/network-policies.svg"
    );
}

/// What the policies are for: each tier is reached by the one before, and by nobody else.
#[test]
fn the_shop_is_open_where_it_should_be() {
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
            let words = format!("check -f examples/network-policies --from {from} --to {to}");
            let ended = netpol(&repository("."), &words);
            assert_eq!(ended.code, Some(code), "{from} {to}: {}", ended.out);
        }
    }
}
