//! Reclaims disk space: the segment cleaner (as in log-structured file systems, or Kafka's log cleaner).
//!
//! A background thread copies the records that are still needed from a few adjacent segments into one packed segment,
//! which replaces them. Readers keep using the old files until they are done.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::disk_error::{catch_panic, damaged_at, from_io};
use super::index::SharedKeyIndex;
use super::log::{LogSegment, RecordHeader, RecordLocation, SegmentedLog};
use crate::{Error, Key, Result};

/// The maximum number of records read for one packed segment, unless a single segment has more.
const PACK_RECORDS_MAX: usize = 50_000;

/// For how many keys dropped records are reported to the index under one lock.
const DROPPED_KEYS_PER_LOCK: usize = 1024;

/// How long the cleaner pauses after a failure, such as no disk space for the copy.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// Handle of the cleaner thread, owned by the committer.
pub(super) struct SegmentCleanerHandle {
    cleaner: Arc<SegmentCleaner>,
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SegmentCleanerHandle {
    pub(super) fn start(
        log: Arc<SegmentedLog>,
        index: SharedKeyIndex,
        segment_bytes: u64,
    ) -> io::Result<SegmentCleanerHandle> {
        let (wake, woken) = sync_channel(1);
        let cleaner = Arc::new(SegmentCleaner {
            log,
            index,
            segment_bytes,
        });
        let cleaner_task = Arc::clone(&cleaner);
        let thread = std::thread::Builder::new().name("cleaner".to_owned());
        let thread = thread.spawn(move || cleaner_task.run(&woken))?;
        Ok(SegmentCleanerHandle {
            cleaner,
            wake: Some(wake),
            thread: Some(thread),
        })
    }

    /// Wakes the cleaner if there are segments to pack.
    pub(super) fn wake_if_needed(&self) {
        if let Some(wake) = &self.wake
            && self.cleaner.next_range().is_some()
        {
            // A full channel means that a wake-up is already pending.
            let _ = wake.try_send(());
        }
    }

    /// Stops the cleaner and waits for its thread.
    pub(super) fn stop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            // An unfinished packed segment is removed at the next start.
            let _ = thread.join();
        }
    }
}

struct SegmentCleaner {
    log: Arc<SegmentedLog>,
    index: SharedKeyIndex,
    segment_bytes: u64,
}

/// How many records of each key were dropped when a segment was packed.
type DroppedRecordCounts = HashMap<Key, u32>;

impl SegmentCleaner {
    fn run(&self, woken: &Receiver<()>) {
        let mut last_pause = Instant::now();
        while woken.recv().is_ok() {
            if Instant::now() < last_pause {
                continue;
            }
            let cleaned = catch_panic(|| self.clean()).and_then(|cleaned| cleaned);
            if let Err(error) = cleaned {
                tracing::warn!(%error, "failed to pack log segments; retrying after a pause");
                last_pause = Instant::now() + FAILURE_PAUSE;
            }
        }
    }

    fn clean(&self) -> Result<()> {
        while self.should_continue()
            && let Some(range) = self.next_range()
        {
            self.pack(range)?;
        }
        Ok(())
    }

    /// The adjacent segments to pack into one, if any.
    fn next_range(&self) -> Option<Range<usize>> {
        let pinned_bytes = self.index.read().pinned_bytes();
        choose_segments(
            &SegmentUsage::of_sealed(&self.log.segments()),
            pinned_bytes,
            self.segment_bytes,
        )
    }

    fn should_continue(&self) -> bool {
        !self.log.is_closed() && self.log.check_writable().is_ok()
    }

    /// Replaces these segments by a packed one. The committer only appends segments after them.
    fn pack(&self, range: Range<usize>) -> Result<()> {
        let segments = self.log.segments();
        let (old, next) = (&segments[range.clone()], &segments[range.end]);
        let dead_before = dead_bytes(old);
        let packed = self.write_packed_copy(old, next.first_revision() - 1);
        let (dropped, packed) = packed.inspect_err(|_| self.log.discard_packed_segment(old))?;
        // Under the index lock, so that the committer cannot mark more records dead meanwhile. Some of the records that
        // died during the copy were already dropped; counting them as dead bytes is harmless.
        let index = self.index.read();
        packed.add_dead_bytes(dead_bytes(old) - dead_before);
        self.log.replace_with_packed(range, packed);
        drop(index);
        self.report_dropped(dropped);
        self.log.remove_leftovers(old);
        Ok(())
    }

    fn write_packed_copy(
        &self,
        old: &[Arc<LogSegment>],
        last: u64,
    ) -> Result<(DroppedRecordCounts, Arc<LogSegment>)> {
        let io = |error: io::Error| from_io(&error);
        let mut writer = self.log.begin_packed_segment(old).map_err(io)?;
        let mut dropped = DroppedRecordCounts::new();
        for segment in old {
            for row in segment.all_records() {
                if !self.should_continue() {
                    return Err(Error::Closed);
                }
                let kept = self.read_if_needed(segment, &row, &mut dropped);
                if let Some(record) = kept.inspect_err(|_| segment.mark_unreadable())? {
                    writer.add_encoded(row.record_id(), &record).map_err(io)?;
                }
            }
        }
        let compacted = self.index.read().compacted();
        let packed = writer.finish(last, compacted.get()).map_err(io)?;
        // If this fails, it is unknown which file the next start finds, and records dropped from now on could reappear.
        let placed = self.log.install_packed_segment(packed);
        let segment = placed.map_err(|error| {
            let reason =
                format!("unknown whether the rename of a packed segment took effect: {error}");
            self.log.halt(Error::StorageFailed { reason })
        })?;
        Ok((dropped, segment))
    }

    /// Reads a record, and returns it if it is still needed.
    fn read_if_needed(
        &self,
        segment: &LogSegment,
        row: &RecordLocation,
        dropped: &mut DroppedRecordCounts,
    ) -> Result<Option<Vec<u8>>> {
        let (record, record_id) = (segment.read_record_at(row)?, row.record_id());
        let head = RecordHeader::decode_either_copy(record_id, &record)
            .map_err(|bad| damaged_at(record_id, bad))?;
        let others = dropped.get(head.key).copied().unwrap_or(0);
        if self.index.read().is_droppable(head.key, record_id, others) {
            *dropped.entry(head.key.into()).or_default() += 1;
            return Ok(None);
        }
        Ok(Some(record))
    }

    /// Reports dropped records to the index in chunks, because readers and the committer wait for the lock.
    fn report_dropped(&self, dropped: DroppedRecordCounts) {
        let dropped: Vec<_> = dropped.into_iter().collect();
        for part in dropped.chunks(DROPPED_KEYS_PER_LOCK) {
            let mut index = self.index.write();
            let droppable: Vec<_> = part
                .iter()
                .filter_map(|(key, count)| index.records_dropped(key, *count))
                .collect();
            self.log.mark_dead(droppable);
        }
    }
}

fn dead_bytes(segments: &[Arc<LogSegment>]) -> u64 {
    segments.iter().map(|segment| segment.dead_bytes()).sum()
}

/// Live and dead bytes of a segment.
#[derive(Debug, Clone, Copy)]
struct SegmentUsage {
    live_bytes: u64,
    dead_bytes: u64,
    rows: usize,
    /// A part of the segment cannot be read, so it must not be packed.
    is_unreadable: bool,
}

impl SegmentUsage {
    /// The usage of all sealed segments, that is, all but the last.
    fn of_sealed(segments: &[Arc<LogSegment>]) -> Vec<SegmentUsage> {
        let sealed = segments.len().saturating_sub(1);
        let shares = segments[..sealed].iter().map(|segment| SegmentUsage {
            live_bytes: segment.live_bytes(),
            dead_bytes: segment.dead_bytes(),
            rows: segment.record_count(),
            is_unreadable: segment.is_unreadable(),
        });
        shares.collect()
    }

    /// At least half of the segment is dead.
    fn is_worth_packing(&self) -> bool {
        !self.is_unreadable && self.dead_bytes > 0 && self.dead_bytes >= self.live_bytes
    }
}

/// Chooses adjacent segments to pack into one: a mostly dead segment with its small neighbours, or a pair of small
/// segments, so that their number stays low. The copied bytes are at most about those reclaimed, or the resulting
/// segment is at least twice as large.
fn choose_segments(
    segments: &[SegmentUsage],
    pinned_bytes: u64,
    segment_bytes: u64,
) -> Option<Range<usize>> {
    let chosen = smallest_worth_packing(segments)
        .or_else(|| oldest_if_log_is_wasteful(segments, pinned_bytes))
        .map(|index| index..index + 1)
        .or_else(|| small_pair(segments, segment_bytes))?;
    Some(with_neighbours(segments, chosen, segment_bytes))
}

/// Of the mostly dead segments, the one with the smallest copy, because the disk may be full.
fn smallest_worth_packing(segments: &[SegmentUsage]) -> Option<usize> {
    let worth = segments.iter().enumerate();
    let worth = worth.filter(|(_, segment)| segment.is_worth_packing());
    worth
        .min_by_key(|(_, segment)| segment.live_bytes)
        .map(|(index, _)| index)
}

/// A deletion record must stay as long as any older record of its key is in the log. When too much of the log consists
/// of such deletions and dead records, the oldest segment with dead records is packed first, which frees the deletions.
fn oldest_if_log_is_wasteful(segments: &[SegmentUsage], pinned_bytes: u64) -> Option<usize> {
    let live: u64 = segments.iter().map(|segment| segment.live_bytes).sum();
    let dead: u64 = segments.iter().map(|segment| segment.dead_bytes).sum();
    let is_wasteful = pinned_bytes > 0 && dead + pinned_bytes >= live.saturating_sub(pinned_bytes);
    let can_go = |segment: &SegmentUsage| segment.dead_bytes > 0 && !segment.is_unreadable;
    segments.iter().position(can_go).filter(|_| is_wasteful)
}

fn small_pair(segments: &[SegmentUsage], segment_bytes: u64) -> Option<Range<usize>> {
    let fits = |pair: &[SegmentUsage]| {
        let readable = !pair[0].is_unreadable && !pair[1].is_unreadable;
        let rows = pair[0].rows + pair[1].rows;
        readable
            && rows <= PACK_RECORDS_MAX
            && pair[0].live_bytes + pair[1].live_bytes <= segment_bytes / 2
    };
    let first = segments.windows(2).position(fits)?;
    Some(first..first + 2)
}

/// Extends the range by neighbours that are small compared with it.
fn with_neighbours(
    segments: &[SegmentUsage],
    mut range: Range<usize>,
    segment_bytes: u64,
) -> Range<usize> {
    let chosen = &segments[range.clone()];
    let mut live: u64 = chosen.iter().map(|it| it.live_bytes).sum();
    let mut rows: usize = chosen.iter().map(|it| it.rows).sum();
    let fits = |neighbour: &SegmentUsage, live: u64, rows: usize| {
        let small = neighbour.live_bytes <= live.max(segment_bytes / 8);
        let bounded = neighbour.live_bytes + live <= segment_bytes
            && neighbour.rows + rows <= PACK_RECORDS_MAX;
        small && bounded && !neighbour.is_unreadable
    };
    while let Some(next) = segments
        .get(range.end)
        .filter(|next| fits(next, live, rows))
    {
        (live, rows) = (live + next.live_bytes, rows + next.rows);
        range.end += 1;
    }
    while let Some(before) = range.start.checked_sub(1)
        && let Some(next) = Some(&segments[before]).filter(|next| fits(next, live, rows))
    {
        (live, rows) = (live + next.live_bytes, rows + next.rows);
        range.start = before;
    }
    range
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 800;

    fn chosen(segments: &[(u64, u64)]) -> Option<Range<usize>> {
        choose_segments(&shares(segments), 0, SIZE)
    }

    fn shares(segments: &[(u64, u64)]) -> Vec<SegmentUsage> {
        let shares = |&(live, dead): &(u64, u64)| SegmentUsage {
            live_bytes: live,
            dead_bytes: dead,
            rows: (live + dead) as usize,
            is_unreadable: false,
        };
        segments.iter().map(shares).collect()
    }

    #[test]
    fn unreadable_segments_are_not_packed() {
        let mut segments = shares(&[(100, 700), (100, 700), (100, 0), (100, 0)]);
        segments[1].is_unreadable = true;
        assert_eq!(choose_segments(&segments, 0, SIZE), Some(0..1));
        segments[0].dead_bytes = 0;
        assert_eq!(choose_segments(&segments, 0, SIZE), Some(2..4));
        segments[2].is_unreadable = true;
        assert_eq!(choose_segments(&segments, 0, SIZE), None);
    }

    #[test]
    fn segments_of_obsolete_deletions_are_packed() {
        let segments = shares(&[(800, 0), (500, 300), (500, 300)]);
        assert_eq!(choose_segments(&segments, 100, SIZE), None);
        assert_eq!(choose_segments(&segments, 700, SIZE), Some(1..2));
    }

    #[test]
    fn the_records_per_packing_are_bounded() {
        let mut segments = shares(&[(0, 800); 10]);
        segments
            .iter_mut()
            .for_each(|it| it.rows = PACK_RECORDS_MAX / 4);
        assert_eq!(choose_segments(&segments, 0, SIZE), Some(0..4));
    }

    #[test]
    fn mostly_live_segments_are_not_packed() {
        assert_eq!(chosen(&[]), None);
        assert_eq!(chosen(&[(800, 0), (500, 300), (410, 390)]), None);
    }

    #[test]
    fn half_dead_segments_are_packed() {
        assert_eq!(chosen(&[(800, 0), (400, 400), (800, 0)]), Some(1..2));
        assert_eq!(chosen(&[(800, 0), (0, 800), (800, 0)]), Some(1..2));
    }

    #[test]
    fn small_neighbours_are_packed_along() {
        let segments = [(800, 0), (90, 0), (300, 500), (100, 0), (800, 0)];
        assert_eq!(chosen(&segments), Some(1..4));
        // A large neighbour is not copied along with a small segment.
        assert_eq!(chosen(&[(500, 0), (100, 700), (600, 0)]), Some(1..2));
    }

    #[test]
    fn small_segments_are_merged() {
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
