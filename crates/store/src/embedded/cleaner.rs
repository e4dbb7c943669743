//! Gives the room of what nobody needs any more back, beside the committer.
//!
//! A thread of its own copies what is still needed of a few segments into a packed one, which then takes their
//! place. Whoever reads goes on with the files that were there before.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::committer::SharedIndex;
use super::fault::{damaged, from_io};
use super::log::{Head, Log, PackWriter, Place, Segment};
use crate::{Key, Result};

/// For how long nothing is tried after a failure, such as a disk without room for a copy.
const PAUSE: Duration = Duration::from_secs(1);

/// The cleaner, as the committer knows it.
pub(super) struct Cleaning {
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    segment_bytes: u64,
}

impl Cleaning {
    pub(super) fn start(
        log: Arc<Log>,
        index: SharedIndex,
        segment_bytes: u64,
    ) -> io::Result<Cleaning> {
        let (wake, woken) = sync_channel(1);
        let cleaner = Cleaner {
            log,
            index,
            segment_bytes,
        };
        let thread = std::thread::Builder::new().name("cleaner".to_owned());
        let thread = thread.spawn(move || cleaner.run(&woken))?;
        Ok(Cleaning {
            wake: Some(wake),
            thread: Some(thread),
            segment_bytes,
        })
    }

    /// Wakes the cleaner if there is something to do.
    pub(super) fn look(&self, log: &Log) {
        if let Some(wake) = &self.wake
            && choose(&Shares::of(&log.segments()), self.segment_bytes).is_some()
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

/// What became of the records of segments that were packed.
#[derive(Default)]
struct Sorted {
    kept: Vec<(Key, Place, u64)>,
    dropped: HashMap<Key, u32>,
}

impl Cleaner {
    fn run(&self, woken: &Receiver<()>) {
        let mut rested = Instant::now();
        while woken.recv().is_ok() {
            if Instant::now() < rested {
                continue;
            }
            if let Err(error) = self.clean() {
                tracing::warn!("could not give room back: {error}");
                rested = Instant::now() + PAUSE;
            }
        }
    }

    fn clean(&self) -> Result<()> {
        while !self.log.is_closed() {
            let shares = Shares::of(&self.log.segments());
            match choose(&shares, self.segment_bytes) {
                Some(range) => self.pack(range)?,
                None => break,
            }
        }
        Ok(())
    }

    /// Puts a packed segment in place of these. The committer only adds segments behind them.
    fn pack(&self, range: Range<usize>) -> Result<()> {
        let segments = self.log.segments();
        let (old, next) = (&segments[range.clone()], &segments[range.end]);
        let packed = self.copy(old, next.first() - 1);
        let (sorted, packed) = packed.inspect_err(|_| self.log.discard_packing(old))?;
        self.show(range, packed, &sorted);
        self.log.remove_leftovers(old);
        Ok(())
    }

    fn copy(&self, old: &[Arc<Segment>], last: u64) -> Result<(Sorted, Arc<Segment>)> {
        let io = |error: io::Error| from_io(&error);
        let mut writer = self.log.begin_packing(old).map_err(io)?;
        let mut sorted = Sorted::default();
        for segment in old {
            for row in segment.all_rows() {
                let record = segment.record_at(&row)?;
                self.sort(row.place(), &record, &mut sorted, &mut writer)?;
            }
        }
        let compacted = self.index.read();
        let compacted = compacted
            .unwrap_or_else(PoisonError::into_inner)
            .compacted();
        let packed = writer.finish(last, compacted.get()).map_err(io)?;
        let segment = self.log.place_packed(packed).map_err(io)?;
        Ok((sorted, segment))
    }

    fn sort(
        &self,
        place: Place,
        record: &[u8],
        sorted: &mut Sorted,
        writer: &mut PackWriter,
    ) -> Result<()> {
        let head = Head::of(place, record)
            .map_err(|bad| damaged(&format!("revision {}", place.revision), bad.reason()))?;
        if self.can_do_without(head.key, place, sorted) {
            *sorted.dropped.entry(head.key.into()).or_default() += 1;
            return Ok(());
        }
        sorted
            .kept
            .push((head.key.into(), place, record.len() as u64));
        let written = writer.add_encoded(place, record);
        written.map_err(|error| from_io(&error))
    }

    fn can_do_without(&self, key: &str, place: Place, sorted: &Sorted) -> bool {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let dropped = sorted.dropped.get(key).copied().unwrap_or(0);
        index.can_do_without(key, place, dropped)
    }

    /// Lets readers have the packed segment. What came to be of no use since it was sorted is counted, while the
    /// committer cannot add to it.
    fn show(&self, range: Range<usize>, packed: Arc<Segment>, sorted: &Sorted) {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        for (key, place, bytes) in &sorted.kept {
            let dropped = sorted.dropped.get(key).copied().unwrap_or(0);
            if index.can_do_without(key, *place, dropped) {
                packed.add_dead_bytes(*bytes);
            }
        }
        self.log.show_packed(range, packed);
        drop(index);
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        let dropped = sorted.dropped.iter();
        let droppable: Vec<_> = dropped
            .filter_map(|(key, count)| index.dropped(key, *count))
            .collect();
        self.log.note_dead(droppable);
    }
}

/// How much of a segment is of use, and how much is not.
#[derive(Debug, Clone, Copy)]
struct Shares {
    live: u64,
    dead: u64,
}

impl Shares {
    /// Of all segments but the last, which grows.
    fn of(segments: &[Arc<Segment>]) -> Vec<Shares> {
        let sealed = segments.len().saturating_sub(1);
        let shares = segments[..sealed].iter().map(|segment| Shares {
            live: segment.live_bytes(),
            dead: segment.dead_bytes(),
        });
        shares.collect()
    }

    /// Half of it is no longer needed.
    fn is_worth_packing(&self) -> bool {
        self.dead > 0 && self.dead >= self.live
    }
}

/// Which neighbouring segments to pack into one: around one that is worth it, or small ones, so that there are never
/// many. What is copied is at most about what it helps to give back, or doubles the size of a segment.
fn choose(segments: &[Shares], segment_bytes: u64) -> Option<Range<usize>> {
    let worth = segments.iter().position(Shares::is_worth_packing);
    let small = || {
        let pair = |pair: &[Shares]| pair[0].live + pair[1].live <= segment_bytes / 2;
        segments.windows(2).position(pair)
    };
    let chosen = match worth {
        Some(index) => index..index + 1,
        None => small().map(|index| index..index + 2)?,
    };
    Some(with_neighbours(segments, chosen, segment_bytes))
}

/// Takes in neighbours that are small beside what there is already.
fn with_neighbours(
    segments: &[Shares],
    mut range: Range<usize>,
    segment_bytes: u64,
) -> Range<usize> {
    let mut live: u64 = segments[range.clone()].iter().map(|it| it.live).sum();
    let fits = |neighbour: &Shares, live: u64| {
        let small = neighbour.live <= live.max(segment_bytes / 8);
        small && neighbour.live + live <= segment_bytes
    };
    while let Some(next) = segments.get(range.end).filter(|next| fits(next, live)) {
        live += next.live;
        range.end += 1;
    }
    while let Some(before) = range.start.checked_sub(1)
        && fits(&segments[before], live)
    {
        live += segments[before].live;
        range.start = before;
    }
    range
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 800;

    fn chosen(segments: &[(u64, u64)]) -> Option<Range<usize>> {
        let shares = |&(live, dead): &(u64, u64)| Shares { live, dead };
        let segments: Vec<_> = segments.iter().map(shares).collect();
        choose(&segments, SIZE)
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
