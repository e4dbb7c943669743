//! Gives the room of what nobody needs any more back, beside the committer.
//!
//! A thread of its own copies what is still needed of a few segments into a packed one, which then takes their
//! place. Whoever reads goes on with the files that were there before.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::fault::{from_io, guarded, nameless};
use super::index::SharedIndex;
use super::log::{Head, Log, Row, Segment};
use crate::{Error, Key, Result};

/// How many records are looked at for one packed segment, unless a single segment has more.
const ROWS_MAX: usize = 50_000;

/// For how many keys the index is told at a time what has been dropped of them.
const DROPPED_MAX: usize = 1024;

/// For how long nothing is tried after a failure, such as a disk without room for a copy.
const PAUSE: Duration = Duration::from_secs(1);

/// The cleaner, as the committer knows it.
pub(super) struct Cleaning {
    cleaner: Arc<Cleaner>,
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Cleaning {
    pub(super) fn start(
        log: Arc<Log>,
        index: SharedIndex,
        segment_bytes: u64,
    ) -> io::Result<Cleaning> {
        let (wake, woken) = sync_channel(1);
        let cleaner = Arc::new(Cleaner {
            log,
            index,
            segment_bytes,
        });
        let works = Arc::clone(&cleaner);
        let thread = std::thread::Builder::new().name("cleaner".to_owned());
        let thread = thread.spawn(move || works.run(&woken))?;
        Ok(Cleaning {
            cleaner,
            wake: Some(wake),
            thread: Some(thread),
        })
    }

    /// Wakes the cleaner if there is something to do.
    pub(super) fn look(&self) {
        if let Some(wake) = &self.wake
            && self.cleaner.next_range().is_some()
        {
            // Full means that it is awake.
            let _ = wake.try_send(());
        }
    }

    /// Waits until it is done with what it does.
    pub(super) fn end(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            // What it had not finished is left over, and removed by the next start.
            let _ = thread.join();
        }
    }
}

struct Cleaner {
    log: Arc<Log>,
    index: SharedIndex,
    segment_bytes: u64,
}

/// How many records of each key a packed segment does without.
type Dropped = HashMap<Key, u32>;

impl Cleaner {
    fn run(&self, woken: &Receiver<()>) {
        let mut rested = Instant::now();
        while woken.recv().is_ok() {
            if Instant::now() < rested {
                continue;
            }
            let cleaned = guarded(|| self.clean()).and_then(|cleaned| cleaned);
            if let Err(error) = cleaned {
                tracing::warn!("could not give room back: {error}");
                rested = Instant::now() + PAUSE;
            }
        }
    }

    fn clean(&self) -> Result<()> {
        while self.goes_on()
            && let Some(range) = self.next_range()
        {
            self.pack(range)?;
        }
        Ok(())
    }

    /// Which segments are to be packed into one, if any.
    fn next_range(&self) -> Option<Range<usize>> {
        let pinned_bytes = self.index.read().pinned_bytes();
        choose(
            &Shares::of(&self.log.segments()),
            pinned_bytes,
            self.segment_bytes,
        )
    }

    fn goes_on(&self) -> bool {
        !self.log.is_closed() && self.log.check_writable().is_ok()
    }

    /// Puts a packed segment in place of these. The committer only adds segments behind them.
    fn pack(&self, range: Range<usize>) -> Result<()> {
        let segments = self.log.segments();
        let (old, next) = (&segments[range.clone()], &segments[range.end]);
        let dead_before = dead_bytes(old);
        let packed = self.copy(old, next.first() - 1);
        let (dropped, packed) = packed.inspect_err(|_| self.log.discard_packing(old))?;
        // While the committer cannot add to it. Some of what has died meanwhile was dropped already: that it counts does
        // no harm.
        let index = self.index.read();
        packed.add_dead_bytes(dead_bytes(old) - dead_before);
        self.log.replace(range, packed);
        drop(index);
        self.note_dropped(dropped);
        self.log.remove_leftovers(old);
        Ok(())
    }

    fn copy(&self, old: &[Arc<Segment>], last: u64) -> Result<(Dropped, Arc<Segment>)> {
        let io = |error: io::Error| from_io(&error);
        let mut writer = self.log.begin_packing(old).map_err(io)?;
        let mut dropped = Dropped::new();
        for segment in old {
            for row in segment.all_rows() {
                if !self.goes_on() {
                    return Err(Error::Closed);
                }
                let kept = self.look_at(segment, &row, &mut dropped);
                if let Some(record) = kept.inspect_err(|_| segment.note_bad())? {
                    writer.add_encoded(row.place(), &record).map_err(io)?;
                }
            }
        }
        let compacted = self.index.read().compacted();
        let packed = writer.finish(last, compacted.get()).map_err(io)?;
        // Nobody knows which file the next start finds: what is dropped from now on could come back with the other.
        let placed = self.log.place_packed(packed);
        let segment = placed.map_err(|error| {
            let reason = format!("a packed segment may be in place or not: {error}");
            self.log.halt(Error::Failed { reason })
        })?;
        Ok((dropped, segment))
    }

    /// The record, if it is still needed.
    fn look_at(
        &self,
        segment: &Segment,
        row: &Row,
        dropped: &mut Dropped,
    ) -> Result<Option<Vec<u8>>> {
        let (record, place) = (segment.record_at(row)?, row.place());
        let head = Head::of(place, &record).map_err(|bad| nameless(place, bad))?;
        let others = dropped.get(head.key).copied().unwrap_or(0);
        if self.index.read().can_do_without(head.key, place, others) {
            *dropped.entry(head.key.into()).or_default() += 1;
            return Ok(None);
        }
        Ok(Some(record))
    }

    /// Bit by bit: others wait for the index meanwhile.
    fn note_dropped(&self, dropped: Dropped) {
        let dropped: Vec<_> = dropped.into_iter().collect();
        for part in dropped.chunks(DROPPED_MAX) {
            let mut index = self.index.write();
            let droppable: Vec<_> = part
                .iter()
                .filter_map(|(key, count)| index.dropped(key, *count))
                .collect();
            self.log.note_dead(droppable);
        }
    }
}

fn dead_bytes(segments: &[Arc<Segment>]) -> u64 {
    segments.iter().map(|segment| segment.dead_bytes()).sum()
}

/// How much of a segment is of use, and how much is not.
#[derive(Debug, Clone, Copy)]
struct Shares {
    live: u64,
    dead: u64,
    rows: usize,
    /// It cannot be read, and has to stay as it is.
    is_bad: bool,
}

impl Shares {
    /// Of all segments but the last, which grows.
    fn of(segments: &[Arc<Segment>]) -> Vec<Shares> {
        let sealed = segments.len().saturating_sub(1);
        let shares = segments[..sealed].iter().map(|segment| Shares {
            live: segment.live_bytes(),
            dead: segment.dead_bytes(),
            rows: segment.row_count(),
            is_bad: segment.is_bad(),
        });
        shares.collect()
    }

    /// Half of it is no longer needed.
    fn is_worth_packing(&self) -> bool {
        !self.is_bad && self.dead > 0 && self.dead >= self.live
    }
}

/// Which neighbouring segments to pack into one: around one that is worth it, or small ones, so that there are never
/// many. What is copied is at most about what it helps to give back, or doubles the size of a segment.
fn choose(segments: &[Shares], pinned_bytes: u64, segment_bytes: u64) -> Option<Range<usize>> {
    let chosen = most_worth(segments)
        .or_else(|| oldest_of_a_wasteful_log(segments, pinned_bytes))
        .map(|index| index..index + 1)
        .or_else(|| small_pair(segments, segment_bytes))?;
    Some(with_neighbours(segments, chosen, segment_bytes))
}

/// The one that needs the least room for its copy: the disk may be full.
fn most_worth(segments: &[Shares]) -> Option<usize> {
    let worth = segments.iter().enumerate();
    let worth = worth.filter(|(_, segment)| segment.is_worth_packing());
    worth
        .min_by_key(|(_, segment)| segment.live)
        .map(|(index, _)| index)
}

/// Deletions stay as long as what they deleted, wherever that lies. When too much of the log is one or the other, the
/// oldest goes first, and lets the others go.
fn oldest_of_a_wasteful_log(segments: &[Shares], pinned_bytes: u64) -> Option<usize> {
    let live: u64 = segments.iter().map(|segment| segment.live).sum();
    let dead: u64 = segments.iter().map(|segment| segment.dead).sum();
    let is_wasteful = pinned_bytes > 0 && dead + pinned_bytes >= live.saturating_sub(pinned_bytes);
    let can_go = |segment: &Shares| segment.dead > 0 && !segment.is_bad;
    segments.iter().position(can_go).filter(|_| is_wasteful)
}

fn small_pair(segments: &[Shares], segment_bytes: u64) -> Option<Range<usize>> {
    let fits = |pair: &[Shares]| {
        let readable = !pair[0].is_bad && !pair[1].is_bad;
        let rows = pair[0].rows + pair[1].rows;
        readable && rows <= ROWS_MAX && pair[0].live + pair[1].live <= segment_bytes / 2
    };
    let first = segments.windows(2).position(fits)?;
    Some(first..first + 2)
}

/// Takes in neighbours that are small beside what there is already.
fn with_neighbours(
    segments: &[Shares],
    mut range: Range<usize>,
    segment_bytes: u64,
) -> Range<usize> {
    let chosen = &segments[range.clone()];
    let mut live: u64 = chosen.iter().map(|it| it.live).sum();
    let mut rows: usize = chosen.iter().map(|it| it.rows).sum();
    let fits = |neighbour: &Shares, live: u64, rows: usize| {
        let small = neighbour.live <= live.max(segment_bytes / 8);
        let bounded = neighbour.live + live <= segment_bytes && neighbour.rows + rows <= ROWS_MAX;
        small && bounded && !neighbour.is_bad
    };
    while let Some(next) = segments
        .get(range.end)
        .filter(|next| fits(next, live, rows))
    {
        (live, rows) = (live + next.live, rows + next.rows);
        range.end += 1;
    }
    while let Some(before) = range.start.checked_sub(1)
        && let Some(next) = Some(&segments[before]).filter(|next| fits(next, live, rows))
    {
        (live, rows) = (live + next.live, rows + next.rows);
        range.start = before;
    }
    range
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 800;

    fn chosen(segments: &[(u64, u64)]) -> Option<Range<usize>> {
        choose(&shares(segments), 0, SIZE)
    }

    fn shares(segments: &[(u64, u64)]) -> Vec<Shares> {
        let shares = |&(live, dead): &(u64, u64)| Shares {
            live,
            dead,
            rows: (live + dead) as usize,
            is_bad: false,
        };
        segments.iter().map(shares).collect()
    }

    #[test]
    fn what_cannot_be_read_is_left_alone() {
        let mut segments = shares(&[(100, 700), (100, 700), (100, 0), (100, 0)]);
        segments[1].is_bad = true;
        assert_eq!(choose(&segments, 0, SIZE), Some(0..1));
        segments[0].dead = 0;
        assert_eq!(choose(&segments, 0, SIZE), Some(2..4));
        segments[2].is_bad = true;
        assert_eq!(choose(&segments, 0, SIZE), None);
    }

    #[test]
    fn deletions_go_with_the_oldest_of_what_they_deleted() {
        let segments = shares(&[(800, 0), (500, 300), (500, 300)]);
        assert_eq!(choose(&segments, 100, SIZE), None);
        assert_eq!(choose(&segments, 700, SIZE), Some(1..2));
    }

    #[test]
    fn one_pack_is_bounded_in_records() {
        let mut segments = shares(&[(0, 800); 10]);
        segments.iter_mut().for_each(|it| it.rows = ROWS_MAX / 4);
        assert_eq!(choose(&segments, 0, SIZE), Some(0..4));
    }

    #[test]
    fn what_is_mostly_needed_is_left_alone() {
        assert_eq!(chosen(&[]), None);
        assert_eq!(chosen(&[(800, 0), (500, 300), (410, 390)]), None);
    }

    #[test]
    fn what_is_half_dead_is_packed() {
        assert_eq!(chosen(&[(800, 0), (400, 400), (800, 0)]), Some(1..2));
        assert_eq!(chosen(&[(800, 0), (0, 800), (800, 0)]), Some(1..2));
    }

    #[test]
    fn small_neighbours_go_along() {
        let segments = [(800, 0), (90, 0), (300, 500), (100, 0), (800, 0)];
        assert_eq!(chosen(&segments), Some(1..4));
        // A large one is not copied for the sake of a small one.
        assert_eq!(chosen(&[(500, 0), (100, 700), (600, 0)]), Some(1..2));
    }

    #[test]
    fn there_are_never_many_small_ones() {
        assert_eq!(
            chosen(&[(800, 0), (200, 0), (200, 0), (800, 0)]),
            Some(1..3)
        );
        assert_eq!(chosen(&[(800, 0), (0, 0), (800, 0)]), None);
        let mut segments = vec![(1, 0); 100];
        while let Some(range) = chosen(&segments) {
            let live = segments[range.clone()].iter().map(|it| it.0).sum();
            segments.splice(range, [(live, 0)]);
        }
        assert_eq!(segments, [(100, 0)]);
    }
}
