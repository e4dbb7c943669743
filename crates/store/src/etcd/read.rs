//! Reads, and compaction: what may be asked again without harm.

use etcd_client::{GetOptions, GetResponse, WatchOptions};
use tokio::time::{Duration, timeout};

use super::OUTCOMES_PREFIX;
use super::convert::{self, Failure, Kind, from_etcd, header_revision, to_etcd};
use super::link::Link;
use crate::types::{check_key, check_prefix, prefix_end};
use crate::{Entry, Error, Page, Range, Result, Revision};

/// The most entries asked for at once, so that a large range does not block the server,
const ENTRIES_PER_ANSWER_MAX: usize = 500;
/// how many at first, when it is not known how large they are,
const ENTRIES_IN_FIRST_ANSWER: usize = 16;
/// and how large an answer should be.
const ANSWER_BYTES_AIM: usize = 4 * 1024 * 1024;

/// How often a range of the latest entries is begun anew because its revision was compacted on the way.
const RANGE_ATTEMPTS_MAX: usize = 3;

/// How long the server may take to say where its history begins: it looks at new streams ten times a second.
const OLDEST_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) async fn get(link: &Link, key: &str) -> Result<Option<Entry>> {
    check_key(key)?;
    convert::check_visible(key)?;
    let mut response = link
        .read(key.as_bytes(), GetOptions::new())
        .await
        .map_err(Failure::into_error)?;
    response.take_kvs().pop().map(convert::entry).transpose()
}

pub(super) async fn revision(link: &Link) -> Result<Revision> {
    // Any key will do; this one is surely readable for us.
    let options = GetOptions::new().with_keys_only();
    link.read(OUTCOMES_PREFIX.as_bytes(), options)
        .await
        .and_then(|response| header_revision(response.header()))
        .map_err(Failure::into_error)
}

pub(super) async fn range(link: &Link, range: Range<'_>) -> Result<Page> {
    check_prefix(range.prefix)?;
    if range.at == Some(Revision::ZERO) {
        return before_everything(link, range).await;
    }
    for _ in 1..RANGE_ATTEMPTS_MAX {
        match read_pages(link, range).await {
            // The caller asked for the latest entries: that these are no longer the latest is no error.
            Err(Error::Compacted { .. }) if range.at.is_none() => {}
            done => return done,
        }
    }
    read_pages(link, range).await
}

/// At revision zero there is nothing, as long as the history reaches back to its beginning. For etcd zero
/// means the latest, and its first revision, one, is that of the empty store.
async fn before_everything(link: &Link, range: Range<'_>) -> Result<Page> {
    let first = range.at(Revision::new(1)).limit(1);
    read_pages(link, first).await.map_err(|error| match error {
        Error::Compacted { oldest, .. } => Error::Compacted {
            requested: Revision::ZERO,
            oldest,
        },
        other => other,
    })?;
    Ok(Page {
        entries: Vec::new(),
        revision: Revision::ZERO,
        more: false,
    })
}

async fn read_pages(link: &Link, range: Range<'_>) -> Result<Page> {
    let mut start = range.start();
    if start.is_empty() {
        // To etcd no key is empty; this is its first possible one.
        start.push(0);
    }
    // An end of one zero byte is etcd's way to say that there is none.
    let end = prefix_end(range.prefix.as_bytes()).unwrap_or_else(|| vec![0]);
    // Where hidden keys may follow, only one more entry than wanted shows whether there are more.
    let may_hide = OUTCOMES_PREFIX.starts_with(range.prefix);
    let limit = range.limit.map_or(usize::MAX, std::num::NonZeroUsize::get);
    let wanted = limit.saturating_add(usize::from(may_hide));
    let mut entries = Vec::new();
    let mut at = range.at;
    let mut page_size = ENTRIES_IN_FIRST_ANSWER;
    loop {
        let count = (wanted - entries.len()).min(page_size);
        let mut response = read_page(link, &start, &end, count, at).await?;
        let read_at = header_revision(response.header()).map_err(Failure::into_error)?;
        // All pages are of one revision: that of the first.
        let revision = *at.get_or_insert(read_at);
        let more_follow = response.more();
        let found = response.take_kvs();
        if let Some(last) = found.last() {
            start = [last.key(), &[0]].concat();
        }
        let bytes = found.iter().map(|kv| kv.key().len() + kv.value().len());
        page_size = next_page_size(found.len(), bytes.sum());
        for kv in found {
            if !(may_hide && convert::is_hidden(kv.key())) {
                entries.push(convert::entry(kv)?);
            }
        }
        if entries.len() >= wanted || !more_follow {
            let more = entries.len() > limit || (more_follow && !may_hide);
            entries.truncate(limit);
            return Ok(Page {
                entries,
                revision,
                more,
            });
        }
    }
}

/// As many entries as should fit, if they are like the last ones; they may as well be larger, so it grows
/// by steps.
fn next_page_size(entries: usize, bytes: usize) -> usize {
    let fitting = ANSWER_BYTES_AIM.saturating_mul(entries.max(1)) / bytes.max(1);
    let most = (entries.max(1) * 8).min(ENTRIES_PER_ANSWER_MAX);
    fitting.clamp(1, most)
}

async fn read_page(
    link: &Link,
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
    match link.read(start, options).await {
        Ok(response) => Ok(response),
        Err(failure) => Err(at_revision(link, at.unwrap_or_default(), failure).await),
    }
}

/// What a failed call means that named a revision.
pub(super) async fn at_revision(link: &Link, requested: Revision, failure: Failure) -> Error {
    match failure.kind {
        Kind::Compacted => Error::Compacted {
            requested,
            oldest: oldest(link, requested).await,
        },
        Kind::FutureRevision => match revision(link).await {
            Ok(current) => Error::FutureRevision { requested, current },
            Err(error) => error,
        },
        _ => failure.into_error(),
    }
}

/// Where the history begins, given a revision before that. etcd tells it only to a stream that asks for
/// more than there is.
async fn oldest(link: &Link, compacted: Revision) -> Revision {
    let ask = async {
        let options = WatchOptions::new().with_start_revision(to_etcd(compacted).max(1));
        let (member, deadline) = link.next_member(link.deadline()).ok()?;
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
    let told = timeout(OLDEST_TIMEOUT, ask).await.ok().flatten();
    told.unwrap_or_else(|| compacted.next())
}

pub(super) async fn compact(link: &Link, revision: Revision) -> Result<()> {
    if revision == Revision::ZERO {
        return Ok(());
    }
    let compacted = link
        .retrying(|mut kv| async move { kv.compact(to_etcd(revision), None).await })
        .await;
    match compacted {
        Ok(_) => Ok(()),
        Err(failure) if failure.kind == Kind::Compacted => Ok(()),
        Err(failure) => Err(at_revision(link, revision, failure).await),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_grow_by_steps_and_shrink_at_once() {
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
