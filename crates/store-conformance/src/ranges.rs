//! Cases about range reads: order, prefix, paging, reads at a revision.

use rhumb_store::{Error, RangeRequest, Revision, Store};

use crate::ConformanceBackend;
use crate::support::{all, delete, put, text, value_of};

fn keys(page: &rhumb_store::RangePage) -> Vec<&str> {
    page.entries.iter().map(|entry| &*entry.key).collect()
}

async fn fill(store: &dyn Store, count: usize) {
    for index in 0..count {
        put(store, &format!("/a/{index:04}"), &index.to_string()).await;
    }
}

pub async fn a_range_is_ordered_and_limited_to_its_prefix(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    for key in [
        "/pods/b",
        "/podsets/a",
        "/pods/a/2",
        "/pods/a",
        "/pod",
        "/q",
        "/pods/é",
    ] {
        put(&*store, key, key).await;
    }
    let page = store
        .range(RangeRequest::prefix("/pods/"))
        .await
        .expect("range read");
    assert_eq!(keys(&page), ["/pods/a", "/pods/a/2", "/pods/b", "/pods/é"]);
    assert!(page.entries.iter().all(|entry| text(entry) == *entry.key));
    assert!(!page.more);
    let all = store
        .range(RangeRequest::prefix(""))
        .await
        .expect("range read");
    assert_eq!(all.entries.len(), 7);
    let page = store
        .range(RangeRequest::prefix("/none/"))
        .await
        .expect("range read");
    assert_eq!((page.entries.len(), page.more), (0, false));
    let outside = RangeRequest::prefix("/pods/").after("/a");
    assert_eq!(
        store
            .range(outside)
            .await
            .expect("range read")
            .entries
            .len(),
        4
    );
    let beyond = RangeRequest::prefix("/pods/").after("/z");
    assert_eq!(
        store.range(beyond).await.expect("range read").entries.len(),
        0
    );
}

pub async fn pages_visit_every_entry_once(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    fill(&*store, 25).await;
    put(&*store, "/b/other", "x").await;
    for limit in [1, 7, 25, 100] {
        let first = store
            .range(RangeRequest::prefix("/a/").limit(limit))
            .await
            .expect("range read");
        let revision = first.revision;
        let mut visited: Vec<String> = keys(&first).iter().map(ToString::to_string).collect();
        let mut more = first.more;
        while more {
            let last = visited
                .last()
                .expect("a page with more entries is not empty")
                .clone();
            let range = RangeRequest::prefix("/a/")
                .limit(limit)
                .after(&last)
                .at(revision);
            let page = store.range(range).await.expect("range read");
            assert_eq!(page.revision, revision);
            visited.extend(keys(&page).iter().map(ToString::to_string));
            more = page.more;
        }
        let expected: Vec<_> = (0..25).map(|index| format!("/a/{index:04}")).collect();
        assert_eq!(visited, expected, "limit {limit}");
    }
}

pub async fn a_page_knows_whether_more_follows(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    fill(&*store, 3).await;
    put(&*store, "/b/after", "x").await;
    delete(&*store, "/a/0002").await;
    for (limit, count, more) in [(1, 1, true), (2, 2, false), (3, 2, false), (0, 2, false)] {
        let page = store
            .range(RangeRequest::prefix("/a/").limit(limit))
            .await
            .expect("range read");
        assert_eq!(
            (page.entries.len(), page.more),
            (count, more),
            "limit {limit}"
        );
    }
}

pub async fn later_pages_ignore_later_writes(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    fill(&*store, 6).await;
    let first = store
        .range(RangeRequest::prefix("/a/").limit(2))
        .await
        .expect("range read");
    put(&*store, "/a/0003", "changed").await;
    put(&*store, "/a/00025", "new").await;
    delete(&*store, "/a/0004").await;
    let rest = RangeRequest::prefix("/a/")
        .after("/a/0001")
        .at(first.revision);
    let rest = store.range(rest).await.expect("range read");
    assert_eq!(keys(&rest), ["/a/0002", "/a/0003", "/a/0004", "/a/0005"]);
    assert_eq!(text(&rest.entries[1]), "3");
}

pub async fn past_revisions_can_be_read(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let first = put(&*store, "/a/x", "1").await;
    let second = put(&*store, "/a/x", "2").await;
    let third = delete(&*store, "/a/x").await;
    let fourth = put(&*store, "/a/x", "3").await;
    for (at, expected) in [
        (first, Some("1")),
        (second, Some("2")),
        (third, None),
        (fourth, Some("3")),
    ] {
        let page = store
            .range(RangeRequest::prefix("/a/").at(at))
            .await
            .expect("range read");
        assert_eq!(page.revision, at);
        assert_eq!(
            page.entries.first().map(text).as_deref(),
            expected,
            "at {at}"
        );
    }
}

pub async fn future_revisions_cannot_be_read(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let now = put(&*store, "/a/x", "1").await;
    for future in [now.get() + 1, now.get() + 1000, u64::MAX] {
        let future = Revision::new(future);
        match store.range(RangeRequest::prefix("/a/").at(future)).await {
            Err(Error::FutureRevision { requested, current }) => {
                assert_eq!(requested, future);
                assert!(current >= now && current < future, "{current}");
            }
            other => panic!("expected FutureRevision, got {other:?}"),
        }
    }
}

pub async fn a_write_is_immediately_readable(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    for round in 0..50 {
        let value = round.to_string();
        let revision = put(&*store, "/a/x", &value).await;
        assert_eq!(value_of(&*store, "/a/x").await.as_ref(), Some(&value));
        assert_eq!(all(&*store, "/a/").await, [("/a/x".to_owned(), value)]);
        let page = store
            .range(RangeRequest::prefix("/a/"))
            .await
            .expect("range read");
        assert!(page.revision >= revision);
    }
}
