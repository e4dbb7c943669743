//! Appends frames to the active segment, and rolls over to a new segment when it is full.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::SegmentedLog;
use super::format::{FRAMES_OFFSET, STATUS_OFFSETS, SegmentHeader, SegmentStatus};
use super::frame::{FrameBuilder, FramePosition};
use super::load::{ScannedSegmentEnd, segment_name, spare_name, unfinished_name};
use super::segment::LogSegment;
use crate::embedded::disk::{Disk, DiskFile};
use crate::embedded::disk_error::from_io;
use crate::{Error, Result};

/// The file is preallocated with zeros in steps of this size: on most file systems a sync is cheaper if the file size
/// does not change.
const PREALLOCATE_BYTES: u64 = 1 << 20;

/// Pause between two attempts to create a segment, while the active one grows beyond its size.
const ROLL_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The current revision and the compaction revision of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) struct RevisionBounds {
    pub(in crate::embedded) revision: u64,
    pub(in crate::embedded) compacted: u64,
}

/// The active segment: the last one, to which frames are appended.
#[derive(Debug)]
struct ActiveSegment {
    segment: Arc<LogSegment>,
    salt: u64,
    /// The offset and the index of the next frame.
    end: u64,
    frames: u32,
    /// The allocated size of the file.
    size: u64,
    status_number: u64,
}

/// Appends to the log.
#[derive(Debug)]
pub(in crate::embedded) struct LogAppender {
    log: Arc<SegmentedLog>,
    active: ActiveSegment,
    bounds: RevisionBounds,
    segment_bytes: u64,
    buffer: Vec<u8>,
    /// Unacknowledged bytes may lie after the end; they must be truncated before the next write.
    has_unacknowledged_bytes: bool,
    /// An empty file for the next segment, opened ahead of need: when the segment is full, clients may have used up all
    /// file descriptors.
    spare: Option<Box<dyn DiskFile>>,
    /// No new segment is tried before, because the last attempt failed.
    next_roll: Option<Instant>,
}

impl LogAppender {
    /// Continues at the end of a loaded log.
    pub(super) fn resume(
        log: &Arc<SegmentedLog>,
        last: &ScannedSegmentEnd,
        reached: RevisionBounds,
        segment_bytes: u64,
    ) -> io::Result<Self> {
        let segments = log.segments();
        let segment = segments.last().ok_or(io::ErrorKind::NotFound)?;
        let mut growing = ActiveSegment::resume_at(segment, last);
        growing.segment.file.set_size(growing.end)?;
        growing.write_status(SegmentStatus::Open)?;
        growing.segment.file.sync()?;
        Ok(LogAppender {
            log: Arc::clone(log),
            active: growing,
            bounds: reached,
            segment_bytes,
            buffer: Vec::new(),
            has_unacknowledged_bytes: false,
            spare: open_spare(log.disk()),
            next_roll: None,
        })
    }

    /// Writes a frame and syncs it. After an error for which [`Error::changed_nothing`] holds, the frame is not in the
    /// log.
    pub(in crate::embedded) fn append(
        &mut self,
        builder: &mut FrameBuilder,
        reached: RevisionBounds,
    ) -> Result<()> {
        self.truncate_unacknowledged()?;
        let position = FramePosition {
            number: self.active.frames,
            previous_revision: self.bounds.revision,
            revision: reached.revision,
            compacted: reached.compacted,
        };
        builder.build(self.active.salt, position, &mut self.buffer);
        // A segment that covers no revision yet must not be rolled: its successor would have the same name.
        let covers_any = self.bounds.revision >= self.active.segment.first_revision;
        let full = self.active.end_with(&self.buffer) > self.segment_bytes;
        if covers_any && full && self.roll_segment()? {
            let position = FramePosition {
                number: 0,
                ..position
            };
            builder.build(self.active.salt, position, &mut self.buffer);
        }
        self.write_buffer()?;
        let rows = builder.locations_at(self.active.end);
        self.active.segment.append_records(rows);
        self.active.end = self.active.end_with(&self.buffer);
        self.active.frames += 1;
        self.bounds = reached;
        self.buffer.shrink_to(PREALLOCATE_BYTES as usize);
        builder.clear();
        Ok(())
    }

    fn write_buffer(&mut self) -> Result<()> {
        let growing = &mut self.active;
        growing.preallocate(self.buffer.len() as u64, self.segment_bytes);
        let file = &growing.segment.file;
        self.has_unacknowledged_bytes = true;
        if let Err(error) = file.write(growing.end, &self.buffer) {
            // Best effort: an incomplete frame is ignored by recovery, and is truncated before the next write.
            let _ = self.truncate_unacknowledged();
            return Err(from_io(&error));
        }
        if let Err(error) = file.sync() {
            return Err(self.after_failed_sync(&error));
        }
        self.has_unacknowledged_bytes = false;
        Ok(())
    }

    /// Handles a failed sync, after which it is unknown whether the complete frame is on disk. If the disk was full,
    /// the frame is truncated; if that fails too, a crash may still make it durable, so the outcome is unknown.
    fn after_failed_sync(&mut self, error: &io::Error) -> Error {
        let error = from_io(error);
        match (&error, self.truncate_unacknowledged()) {
            (Error::StorageFull { reason }, Err(_)) => Error::OutcomeUnknown {
                reason: reason.clone(),
            },
            _ => error,
        }
    }

    /// Truncates written but unacknowledged bytes.
    pub(in crate::embedded) fn truncate_unacknowledged(&mut self) -> Result<()> {
        if !self.has_unacknowledged_bytes {
            return Ok(());
        }
        let ActiveSegment { segment, end, .. } = &self.active;
        let cut = segment
            .file
            .set_size(*end)
            .and_then(|()| segment.file.sync());
        cut.map_err(|error| from_io(&error))?;
        self.active.size = self.active.end;
        self.has_unacknowledged_bytes = false;
        Ok(())
    }

    /// Starts a new segment and seals the old one. If the new one cannot be created, the old one stays active and grows.
    /// But if the new file already has its name and it is unknown whether the rename is durable, no segment may be
    /// written to any more.
    fn roll_segment(&mut self) -> Result<bool> {
        if self.next_roll.is_some_and(|time| Instant::now() < time) {
            return Ok(false);
        }
        let (disk, first) = (self.log.disk(), self.bounds.revision + 1);
        let created = match self.spare.take() {
            Some(file) => finish_segment(disk, &spare_name(), file, first),
            None => create_segment(disk, first),
        };
        let next = match created {
            Ok(next) => next,
            Err(error) => {
                if disk.exists(&segment_name(first)).unwrap_or(true) {
                    let reason =
                        format!("unknown whether the rename of a new segment took effect: {error}");
                    return Err(Error::StorageFailed { reason });
                }
                self.next_roll = Some(Instant::now() + ROLL_RETRY_INTERVAL);
                tracing::warn!(%error, "failed to start a new log segment; continuing with the current one, retrying in 1s");
                return Ok(false);
            }
        };
        self.next_roll = None;
        self.active.seal(|end| SegmentStatus::Continued { end });
        self.log.push(Arc::clone(&next.segment));
        self.active = next;
        self.spare = open_spare(self.log.disk());
        Ok(true)
    }

    /// Records the end of the log as a clean shutdown.
    pub(in crate::embedded) fn close(mut self) {
        if self.truncate_unacknowledged().is_ok() {
            self.active.seal(|end| SegmentStatus::Closed { end });
        }
        if self.spare.is_some() {
            // Best effort: the next start removes it too.
            let _ = self.log.disk().remove(&spare_name());
        }
    }
}

/// Marks the segment before the last one as continued.
pub(super) fn mark_continued(log: &SegmentedLog, ending: &ScannedSegmentEnd) {
    if let [.., segment, _] = &log.segments()[..] {
        ActiveSegment::resume_at(segment, ending).seal(|end| SegmentStatus::Continued { end });
    }
}

impl ActiveSegment {
    /// An active segment that continues at its scanned end.
    fn resume_at(
        segment: &Arc<LogSegment>,
        ScannedSegmentEnd { scanned, salt }: &ScannedSegmentEnd,
    ) -> Self {
        ActiveSegment {
            segment: Arc::clone(segment),
            salt: *salt,
            end: scanned.end,
            frames: scanned.frames,
            size: scanned.end,
            status_number: scanned.status_number,
        }
    }

    fn end_with(&self, frame: &[u8]) -> u64 {
        self.end + frame.len() as u64
    }

    /// Extends the file for the next frame and more. Best effort: without space for that, the frame alone may still
    /// fit.
    fn preallocate(&mut self, bytes: u64, segment_bytes: u64) {
        let needed = self.end + bytes;
        if needed <= self.size {
            return;
        }
        let size = needed.next_multiple_of(PREALLOCATE_BYTES);
        let size = size.min(segment_bytes).max(needed);
        let zeros = vec![0; (size - self.end) as usize];
        if self.segment.file.write(self.end, &zeros).is_ok() {
            self.size = size;
        }
    }

    /// Writes the final status of the segment. Best effort: acknowledged frames are durable without it.
    fn seal(&mut self, status: impl FnOnce(u64) -> SegmentStatus) {
        let file = &self.segment.file;
        let finished = file
            .set_size(self.end)
            .and_then(|()| self.write_status(status(self.end)))
            .and_then(|()| self.segment.file.sync());
        if let Err(error) = finished {
            tracing::warn!(%error, file = self.segment.name, "failed to seal a log segment; the next start scans it");
        }
    }

    fn write_status(&mut self, status: SegmentStatus) -> io::Result<()> {
        self.status_number += 1;
        let slot = (self.status_number % 2) as usize;
        let bytes = status.encode(self.status_number, self.salt);
        self.segment.file.write(STATUS_OFFSETS[slot], &bytes)
    }
}

/// Creates an empty active segment that starts at a revision.
pub(in crate::embedded) fn create_active_segment(disk: &dyn Disk, first: u64) -> io::Result<()> {
    create_segment(disk, first).map(|_| ())
}

fn create_segment(disk: &dyn Disk, first: u64) -> io::Result<ActiveSegment> {
    let unfinished = unfinished_name(first);
    let file = disk.create(&unfinished)?;
    finish_segment(disk, &unfinished, file, first)
}

/// Opens the file of the next segment. Best effort: without it, the file is created when it is needed.
fn open_spare(disk: &dyn Disk) -> Option<Box<dyn DiskFile>> {
    disk.create(&spare_name()).ok()
}

/// Turns an empty file into a segment and gives it its name.
fn finish_segment(
    disk: &dyn Disk,
    unfinished: &str,
    file: Box<dyn DiskFile>,
    first: u64,
) -> io::Result<ActiveSegment> {
    let name = segment_name(first);
    let header = SegmentHeader::new_active(first);
    write_header(&*file, &header).inspect_err(|_| {
        // Best effort: the original error is what matters.
        let _ = disk.remove(unfinished);
    })?;
    disk.rename(unfinished, &name)?;
    Ok(ActiveSegment {
        segment: Arc::new(LogSegment::new(name, first, file, Vec::new())),
        salt: header.salt,
        end: FRAMES_OFFSET,
        frames: 0,
        size: FRAMES_OFFSET,
        status_number: 1,
    })
}

fn write_header(file: &dyn DiskFile, header: &SegmentHeader) -> io::Result<()> {
    let mut start = [0; FRAMES_OFFSET as usize];
    let (bytes, status) = (header.encode(), SegmentStatus::Open.encode(1, header.salt));
    start[..bytes.len()].copy_from_slice(&bytes);
    let slot = STATUS_OFFSETS[1] as usize;
    start[slot..slot + status.len()].copy_from_slice(&status);
    file.write(0, &start)?;
    file.sync()
}
