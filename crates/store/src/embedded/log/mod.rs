//! The log on disk: every change, in the order of revisions, in a few files.
//!
//! ```text
//! 00000000000000000002.log   revisions 2 to 7041, packed: only what is still needed
//! 00000000000000007042.log   revisions 7042 to 11873, as they were written
//! 00000000000000011874.log   from 11874 on: the one that grows ([`tail`])
//! ```
//!
//! Segments follow each other without a gap. A new one is begun when the last one is large enough. What a
//! segment holds is never changed; when too much of it is no longer needed, a packed copy takes its place, or
//! that of several ([`pack`]). Whoever reads keeps the files that were there when the read began.

mod format;
mod frame;
mod load;
mod pack;
mod record;
mod scan;
mod segment;
mod tail;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

pub(super) use format::FORMAT;
pub(super) use frame::FrameBuilder;
pub(super) use load::{
    FIRST_REVISION, Loaded, Unreadable, Why, is_segment, load, load_backup, segment_name,
};
pub(super) use pack::PackWriter;
pub(super) use record::{BadRecord, Body, Head, Place, Record, deletion_bytes};
pub(super) use segment::{Row, Segment};
pub(super) use tail::{Reached, Tail, make_first_segment};

use super::disk::Disk;
use crate::{Error, Result};

/// The segments of one moment, in order.
pub(super) type Segments = Arc<Vec<Arc<Segment>>>;

#[derive(Debug)]
pub(super) struct Log {
    disk: Box<dyn Disk>,
    segments: RwLock<Segments>,
    /// Why nothing is written any more.
    halted: OnceLock<Error>,
    closed: AtomicBool,
}

impl Log {
    fn new(disk: Box<dyn Disk>, segments: Vec<Arc<Segment>>) -> Self {
        Log {
            disk,
            segments: RwLock::new(Arc::new(segments)),
            halted: OnceLock::new(),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        self.disk.as_ref()
    }

    pub(super) fn segments(&self) -> Segments {
        let segments = self.segments.read();
        Arc::clone(&segments.unwrap_or_else(PoisonError::into_inner))
    }

    fn push(&self, segment: Arc<Segment>) {
        self.change(|segments| segments.push(segment));
    }

    /// Puts a packed segment in place of those that it holds the rest of.
    pub(super) fn replace(&self, range: Range<usize>, packed: Arc<Segment>) {
        self.change(|segments| {
            segments.splice(range, [packed]);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Segment>>)) {
        let segments = self.segments.write();
        let mut segments = segments.unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut segments));
    }

    /// Nobody needs these records any more.
    pub(super) fn note_dead(&self, places: impl IntoIterator<Item = Place>) {
        let segments = self.segments();
        for place in places {
            if let Some(segment) = segment_of(&segments, place) {
                segment.note_dead(place);
            }
        }
    }

    /// From now on nothing is written, for this reason.
    pub(super) fn halt(&self, reason: Error) -> Error {
        self.halted.get_or_init(|| reason).clone()
    }

    pub(super) fn check_writable(&self) -> Result<()> {
        match self.halted.get() {
            Some(reason) => Err(reason.clone()),
            None => Ok(()),
        }
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// How much room the files take.
    pub(super) fn disk_bytes(&self) -> u64 {
        let sizes = self.segments();
        sizes.iter().map(|segment| segment.file_bytes()).sum()
    }
}

/// The bytes of a record, wherever it lies.
pub(super) fn record(segments: &[Arc<Segment>], place: Place) -> Result<Option<Vec<u8>>> {
    match segment_of(segments, place) {
        Some(segment) => segment.record(place),
        None => Ok(None),
    }
}

fn segment_of(segments: &[Arc<Segment>], place: Place) -> Option<&Arc<Segment>> {
    let after = segments.partition_point(|segment| segment.first <= place.revision);
    segments.get(after.checked_sub(1)?)
}

/// Those of the segments that may hold something after a revision.
pub(super) fn segments_after(segments: &[Arc<Segment>], revision: u64) -> &[Arc<Segment>] {
    let after = segments.partition_point(|segment| segment.first <= revision);
    &segments[after.saturating_sub(1)..]
}
