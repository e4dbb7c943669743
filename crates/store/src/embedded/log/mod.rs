//! The segmented log on disk: every change, in revision order.
//!
//! ```text
//! 00000000000000000002.log   revisions 2 to 7041, packed: only records that are still needed
//! 00000000000000007042.log   revisions 7042 to 11873, sealed: as they were written
//! 00000000000000011874.log   from 11874 on: the active segment ([`appender`])
//! ```
//!
//! Segments follow each other without a gap. When the active segment is large enough, it is sealed and a new one is
//! started. Written records are never modified; when too many records of a segment are dead, a packed copy replaces it,
//! possibly together with its neighbours ([`packed_segment`]). Readers keep the segment list of their start.

mod appender;
mod format;
mod frame;
mod load;
mod packed_segment;
mod record;
mod scan;
mod segment;

use parking_lot::{Mutex, RwLock};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

pub(super) use appender::{LogAppender, RevisionBounds, create_active_segment};
pub(super) use format::FORMAT;
pub(super) use frame::FrameBuilder;
pub(super) use load::{
    FIRST_REVISION, LoadedLog, LogLoadError, LogLoadErrorKind, is_segment, load, load_backup,
    segment_name,
};
pub(super) use packed_segment::PackedSegmentWriter;
pub(super) use record::{
    LogRecord, LogRecordBody, RecordDamage, RecordHeader, RecordId, deletion_bytes,
};
pub(super) use segment::{LogSegment, RecordLocation};

use super::disk::Disk;
use crate::{Error, Result};

/// An immutable list of segments in revision order.
pub(super) type SegmentList = Arc<Vec<Arc<LogSegment>>>;

/// The log: its disk, its current segment list, and whether it can be written.
#[derive(Debug)]
pub(super) struct SegmentedLog {
    disk: Box<dyn Disk>,
    segments: RwLock<SegmentList>,
    /// The storage failure after which all writes are rejected.
    halted: OnceLock<Error>,
    /// When the last write failed for lack of space.
    full_since: Mutex<Option<Instant>>,
    closed: AtomicBool,
}

/// How long a full disk is reported after the last failed write.
const FULL_REPORTED: Duration = Duration::from_secs(10);

impl SegmentedLog {
    fn new(disk: Box<dyn Disk>, segments: Vec<Arc<LogSegment>>) -> Self {
        SegmentedLog {
            disk,
            segments: RwLock::new(Arc::new(segments)),
            halted: OnceLock::new(),
            full_since: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        self.disk.as_ref()
    }

    pub(super) fn segments(&self) -> SegmentList {
        let segments = self.segments.read();
        Arc::clone(&segments)
    }

    fn push(&self, segment: Arc<LogSegment>) {
        self.update_segments(|segments| segments.push(segment));
    }

    /// Replaces a range of segments by their packed copy.
    pub(super) fn replace_with_packed(&self, range: Range<usize>, packed: Arc<LogSegment>) {
        self.update_segments(|segments| {
            segments.splice(range, [packed]);
        });
    }

    fn update_segments(&self, change: impl FnOnce(&mut Vec<Arc<LogSegment>>)) {
        let segments = self.segments.write();
        let mut segments = segments;
        change(Arc::make_mut(&mut segments));
    }

    /// Counts these records as dead in their segments.
    pub(super) fn mark_dead(&self, record_ids: impl IntoIterator<Item = RecordId>) {
        let segments = self.segments();
        for record_id in record_ids {
            if let Some(segment) = segment_of(&segments, record_id) {
                segment.mark_dead(record_id);
            }
        }
    }

    /// Rejects all further writes with this error. Returns the error of the first failure.
    pub(super) fn halt(&self, reason: Error) -> Error {
        self.halted.get_or_init(|| reason).clone()
    }

    pub(super) fn check_writable(&self) -> Result<()> {
        match self.halted.get() {
            Some(reason) => Err(reason.clone()),
            None => Ok(()),
        }
    }

    /// Records whether the last write failed for lack of space.
    pub(super) fn set_full(&self, is_full: bool) {
        *self.full_since.lock() = is_full.then(Instant::now);
    }

    /// Whether a write failed for lack of space, and none succeeded since. Without further writes this is forgotten:
    /// clients that wait until the server is ready would never try whether there is space again.
    pub(super) fn is_full(&self) -> bool {
        let since = *self.full_since.lock();
        since.is_some_and(|since| since.elapsed() < FULL_REPORTED)
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The total size of the segment files.
    pub(super) fn disk_bytes(&self) -> u64 {
        let sizes = self.segments();
        sizes.iter().map(|segment| segment.file_bytes()).sum()
    }
}

/// Reads the bytes of a record from its segment.
pub(super) fn read_record(
    segments: &[Arc<LogSegment>],
    record_id: RecordId,
) -> Result<Option<Vec<u8>>> {
    match segment_of(segments, record_id) {
        Some(segment) => segment.read_record(record_id),
        None => Ok(None),
    }
}

fn segment_of(segments: &[Arc<LogSegment>], record_id: RecordId) -> Option<&Arc<LogSegment>> {
    let after = segments.partition_point(|segment| segment.first_revision <= record_id.revision);
    segments.get(after.checked_sub(1)?)
}

/// The segments that may contain records at or after a revision.
pub(super) fn segments_after(segments: &[Arc<LogSegment>], revision: u64) -> &[Arc<LogSegment>] {
    let after = segments.partition_point(|segment| segment.first_revision <= revision);
    &segments[after.saturating_sub(1)..]
}
