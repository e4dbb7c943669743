//! Get, range, revision and compaction: idempotent calls, with retries.

use etcd_client::{GetOptions, GetResponse, WatchOptions};
use tokio::time::{Duration, timeout};

use super::OUTCOMES_PREFIX;
use super::cluster_client::ClusterClient;
use super::convert::{self, EtcdFailure, EtcdFailureKind, from_etcd, header_revision, to_etcd};
use crate::entries::{check_key, check_prefix, prefix_end};
use crate::{Error, RangePage, RangeRequest, Result, Revision, StoreEntry};

/// The maximum number of entries per request, so that a large range does not block the server.
const PAGE_ENTRIES_MAX: usize = 500;
/// The number of entries of the first request, when their size is unknown.
const FIRST_PAGE_ENTRIES: usize = 16;
/// The target size of a response.
const PAGE_TARGET_BYTES: usize = 4 * 1024 * 1024;

/// How often a range of the latest entries is restarted because its revision was compacted between pages.
const RANGE_ATTEMPTS_MAX: usize = 3;

/// How long the server may take to report its compaction revision: it processes new watches ten times a second.
const OLDEST_REVISION_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) async fn get(client: &ClusterClient, key: &str) -> Result<Option<StoreEntry>> {
    check_key(key)?;
    convert::reject_reserved_key(key)?;
    let mut response = client
        .read(key.as_bytes(), GetOptions::new())
        .await
        .map_err(EtcdFailure::into_error)?;
    response.take_kvs().pop().map(convert::entry).transpose()
}

pub(super) async fn revision(client: &ClusterClient) -> Result<Revision> {
    // Any key will do; this one is readable for every rhumb user.
    let options = GetOptions::new().with_keys_only();
    client
        .read(OUTCOMES_PREFIX.as_bytes(), options)
        .await
        .and_then(|response| header_revision(response.header()))
        .map_err(EtcdFailure::into_error)
}

pub(super) async fn range(client: &ClusterClient, range: RangeRequest<'_>) -> Result<RangePage> {
    check_prefix(range.prefix)?;
    if range.at == Some(Revision::ZERO) {
        return range_at_revision_zero(client, range).await;
    }
    for _ in 1..RANGE_ATTEMPTS_MAX {
        match read_pages(client, range).await {
            // The caller asked for the latest entries, so restart at a newer revision.
            Err(Error::Compacted { .. }) if range.at.is_none() => {}
            done => return done,
        }
    }
    read_pages(client, range).await
}

/// A range at revision zero is empty, provided that the history is not compacted. etcd cannot be asked: it takes zero
/// as the latest revision. Its empty store has revision one.
async fn range_at_revision_zero(
    client: &ClusterClient,
    range: RangeRequest<'_>,
) -> Result<RangePage> {
    let first = range.at(Revision::new(1)).limit(1);
    read_pages(client, first)
        .await
        .map_err(|error| match error {
            Error::Compacted { oldest, .. } => Error::Compacted {
                requested: Revision::ZERO,
                oldest,
            },
            other => other,
        })?;
    Ok(RangePage {
        entries: Vec::new(),
        revision: Revision::ZERO,
        more: false,
    })
}

async fn read_pages(client: &ClusterClient, range: RangeRequest<'_>) -> Result<RangePage> {
    let mut start = range.start();
    if start.is_empty() {
        // etcd does not allow an empty key; this is the first possible one.
        start.push(0);
    }
    // In etcd a range end of one zero byte means no upper bound.
    let end = prefix_end(range.prefix.as_bytes()).unwrap_or_else(|| vec![0]);
    // If reserved keys may follow, read one entry more than requested to know whether there are more.
    let may_hide = OUTCOMES_PREFIX.starts_with(range.prefix);
    let limit = range.limit.map_or(usize::MAX, std::num::NonZeroUsize::get);
    let wanted = limit.saturating_add(usize::from(may_hide));
    let mut entries = Vec::new();
    let mut at = range.at;
    let mut page_size = FIRST_PAGE_ENTRIES;
    loop {
        let count = (wanted - entries.len()).min(page_size);
        let mut response = read_page(client, &start, &end, count, at).await?;
        let read_at = header_revision(response.header()).map_err(EtcdFailure::into_error)?;
        // All pages are read at the revision of the first.
        let revision = *at.get_or_insert(read_at);
        let more_follow = response.more();
        let found = response.take_kvs();
        if let Some(last) = found.last() {
            start = [last.key(), &[0]].concat();
        }
        let bytes = found.iter().map(|kv| kv.key().len() + kv.value().len());
        page_size = next_page_size(found.len(), bytes.sum());
        for kv in found {
            if !(may_hide && convert::is_reserved(kv.key())) {
                entries.push(convert::entry(kv)?);
            }
        }
        if entries.len() >= wanted || !more_follow {
            let more = entries.len() > limit || (more_follow && !may_hide);
            entries.truncate(limit);
            return Ok(RangePage {
                entries,
                revision,
                more,
            });
        }
    }
}

/// The number of entries that fit into the target size, if they are as large as the last ones. They may be larger, so
/// the page size grows stepwise.
fn next_page_size(entries: usize, bytes: usize) -> usize {
    let fitting = PAGE_TARGET_BYTES.saturating_mul(entries.max(1)) / bytes.max(1);
    let most = (entries.max(1) * 8).min(PAGE_ENTRIES_MAX);
    fitting.clamp(1, most)
}

async fn read_page(
    client: &ClusterClient,
    start: &[u8],
    end: &[u8],
    limit: usize,
    at: Option<Revision>,
) -> Result<GetResponse> {
    let mut options = GetOptions::new()
        .with_range(end)
        .with_limit(i64::try_from(limit).unwrap_or(i64::MAX));
    if let Some(at) = at {
        options = options.with_revision(to_etcd(at));
    }
    match client.read(start, options).await {
        Ok(response) => Ok(response),
        Err(failure) => Err(revision_error(client, at.unwrap_or_default(), failure).await),
    }
}

/// Converts the failure of a call that requested a revision.
pub(super) async fn revision_error(
    client: &ClusterClient,
    requested: Revision,
    failure: EtcdFailure,
) -> Error {
    match failure.kind {
        EtcdFailureKind::Compacted => Error::Compacted {
            requested,
            oldest: oldest_revision(client, requested).await,
        },
        EtcdFailureKind::FutureRevision => match revision(client).await {
            Ok(current) => Error::FutureRevision { requested, current },
            Err(error) => error,
        },
        _ => failure.into_error(),
    }
}

/// Determines the compaction revision, given a revision before it. etcd reports it only in the cancellation of a watch
/// that starts at a compacted revision.
async fn oldest_revision(client: &ClusterClient, compacted: Revision) -> Revision {
    let request = async {
        let options = WatchOptions::new().with_start_revision(to_etcd(compacted).max(1));
        let (member, deadline) = client.next_member(client.deadline()).ok()?;
        let mut watch = member.watch(deadline).await.ok()?;
        let mut stream = watch.watch(OUTCOMES_PREFIX, Some(options)).await.ok()?;
        while let Some(message) = stream.message().await.ok()? {
            if message.canceled() {
                let oldest = from_etcd(message.compact_revision());
                return (oldest > compacted).then_some(oldest);
            }
        }
        None
    };
    let reported = timeout(OLDEST_REVISION_TIMEOUT, request)
        .await
        .ok()
        .flatten();
    reported.unwrap_or_else(|| compacted.next())
}

pub(super) async fn compact(client: &ClusterClient, revision: Revision) -> Result<()> {
    if revision == Revision::ZERO {
        return Ok(());
    }
    let compacted = client
        .call_with_retries(|mut kv| async move { kv.compact(to_etcd(revision), None).await })
        .await;
    match compacted {
        Ok(_) => Ok(()),
        Err(failure) if failure.kind == EtcdFailureKind::Compacted => Ok(()),
        Err(failure) => Err(revision_error(client, revision, failure).await),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_size_grows_in_steps_and_shrinks_immediately() {
        for (entries, bytes, expected) in [
            (16, 16 * 100, 128),
            (128, 128 * 100, 500),
            (500, 500 * 100, 500),
            (16, 16 * 1024 * 1024, 4),
            (500, 500 * 1024 * 1024, 4),
            (1, 100 * 1024 * 1024, 1),
            (4, 4 * 100, 32),
            (0, 0, 8),
        ] {
            assert_eq!(
                next_page_size(entries, bytes),
                expected,
                "{entries} {bytes}"
            );
        }
    }
}
