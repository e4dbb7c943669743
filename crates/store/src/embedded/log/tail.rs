//! The end of the log, where everything is written.

use std::io;
use std::sync::Arc;

use super::Log;
use super::format::{FRAMES_OFFSET, Header, STATUS_OFFSETS, Status};
use super::frame::{FrameBuilder, Position};
use super::load::{Ending, segment_name, unfinished_name};
use super::segment::Segment;
use crate::embedded::disk::{Disk, DiskFile};
use crate::embedded::fault::from_io;
use crate::{Error, Result};

/// The file is made longer by this much at a time, with zeros: a sync of a file that does not grow is cheaper on
/// most file systems.
const GROWTH_BYTES: u64 = 1 << 20;

/// Where the store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) struct Reached {
    pub(in crate::embedded) revision: u64,
    pub(in crate::embedded) compacted: u64,
}

/// The segment that grows.
#[derive(Debug)]
struct Growing {
    segment: Arc<Segment>,
    salt: u64,
    /// Where the next frame belongs, and which one it is.
    end: u64,
    frames: u32,
    /// How far the file reaches.
    size: u64,
    status_number: u64,
}

#[derive(Debug)]
pub(in crate::embedded) struct Tail {
    log: Arc<Log>,
    growing: Growing,
    reached: Reached,
    segment_bytes: u64,
    buffer: Vec<u8>,
    /// Something may lie behind the end that was not acknowledged, and must go before anything is written.
    doubtful: bool,
}

impl Tail {
    /// Goes on where a log ends.
    pub(super) fn resume(
        log: &Arc<Log>,
        last: &Ending,
        reached: Reached,
        segment_bytes: u64,
    ) -> io::Result<Self> {
        let segments = log.segments();
        let segment = segments.last().ok_or(io::ErrorKind::NotFound)?;
        let mut growing = Growing::ending(segment, last);
        growing.segment.file.set_size(growing.end)?;
        growing.write_status(Status::Open)?;
        growing.segment.file.sync()?;
        Ok(Tail {
            log: Arc::clone(log),
            growing,
            reached,
            segment_bytes,
            buffer: Vec::new(),
            doubtful: false,
        })
    }

    /// Writes a frame and makes it durable. After an error that [`Error::changed_nothing`] it is not there.
    pub(in crate::embedded) fn append(
        &mut self,
        builder: &mut FrameBuilder,
        reached: Reached,
    ) -> Result<()> {
        self.cut_back()?;
        let position = Position {
            number: self.growing.frames,
            before: self.reached.revision,
            revision: reached.revision,
            compacted: reached.compacted,
        };
        builder.build(self.growing.salt, position, &mut self.buffer);
        // One that covers no revision yet would be followed by one of the same name.
        let covers_any = self.reached.revision >= self.growing.segment.first;
        let full = self.growing.end_after(&self.buffer) > self.segment_bytes;
        if covers_any && full && self.begin_segment()? {
            let position = Position {
                number: 0,
                ..position
            };
            builder.build(self.growing.salt, position, &mut self.buffer);
        }
        self.write_buffer()?;
        let rows = builder.rows_at(self.growing.end);
        self.growing.segment.add(rows);
        self.growing.end = self.growing.end_after(&self.buffer);
        self.growing.frames += 1;
        self.reached = reached;
        self.buffer.shrink_to(GROWTH_BYTES as usize);
        builder.clear();
        Ok(())
    }

    fn write_buffer(&mut self) -> Result<()> {
        let growing = &mut self.growing;
        growing.make_room(self.buffer.len() as u64, self.segment_bytes);
        let file = &growing.segment.file;
        self.doubtful = true;
        if let Err(error) = file.write(growing.end, &self.buffer) {
            // Half a frame is none, and it can go later if it cannot go now.
            let _ = self.cut_back();
            return Err(from_io(&error));
        }
        if let Err(error) = file.sync() {
            return Err(self.after_failed_sync(&error));
        }
        self.doubtful = false;
        Ok(())
    }

    /// A whole frame of which nobody knows whether the disk has it. If that was for lack of room it is taken back;
    /// until that has worked, a crash may make it durable.
    fn after_failed_sync(&mut self, error: &io::Error) -> Error {
        let error = from_io(error);
        match (&error, self.cut_back()) {
            (Error::StorageFull { reason }, Err(_)) => Error::OutcomeUnknown {
                reason: reason.clone(),
            },
            _ => error,
        }
    }

    /// Takes away what was written and not acknowledged.
    pub(in crate::embedded) fn cut_back(&mut self) -> Result<()> {
        if !self.doubtful {
            return Ok(());
        }
        let Growing { segment, end, .. } = &self.growing;
        let cut = segment
            .file
            .set_size(*end)
            .and_then(|()| segment.file.sync());
        cut.map_err(|error| from_io(&error))?;
        self.growing.size = self.growing.end;
        self.doubtful = false;
        Ok(())
    }

    /// Begins a new segment, and says so in the old one. If that is not possible now, the old one grows on. But if the
    /// new one has its name, and nobody knows whether it keeps it, nothing may be written to the old one any more.
    fn begin_segment(&mut self) -> Result<bool> {
        let (disk, first) = (self.log.disk(), self.reached.revision + 1);
        let next = match make_segment(disk, first) {
            Ok(next) => next,
            Err(error) => {
                let is_there = match disk.names() {
                    Ok(names) => names.contains(&segment_name(first)),
                    Err(_) => true,
                };
                if is_there {
                    let reason = format!("a new segment may be there or not: {error}");
                    return Err(Error::Failed { reason });
                }
                tracing::warn!("could not begin a segment: {error}");
                return Ok(false);
            }
        };
        self.growing.finish_with(|end| Status::Continued { end });
        self.log.push(Arc::clone(&next.segment));
        self.growing = next;
        Ok(true)
    }

    /// Notes that nothing is missing if the log ends here.
    pub(in crate::embedded) fn close(mut self) {
        if self.cut_back().is_ok() {
            self.growing.finish_with(|end| Status::Closed { end });
        }
    }
}

/// Says in the segment before the last one that another follows.
pub(super) fn mark_continued(log: &Log, ending: &Ending) {
    if let [.., segment, _] = &log.segments()[..] {
        Growing::ending(segment, ending).finish_with(|end| Status::Continued { end });
    }
}

impl Growing {
    /// As it was found.
    fn ending(segment: &Arc<Segment>, Ending { scanned, salt }: &Ending) -> Self {
        Growing {
            segment: Arc::clone(segment),
            salt: *salt,
            end: scanned.end,
            frames: scanned.frames,
            size: scanned.end,
            status_number: scanned.status_number,
        }
    }

    fn end_after(&self, frame: &[u8]) -> u64 {
        self.end + frame.len() as u64
    }

    /// Tries to make the file long enough for a frame and more. If there is no room for that, there may still be
    /// enough for the frame.
    fn make_room(&mut self, bytes: u64, segment_bytes: u64) {
        let needed = self.end + bytes;
        if needed <= self.size {
            return;
        }
        let size = needed.next_multiple_of(GROWTH_BYTES);
        let size = size.min(segment_bytes).max(needed);
        let zeros = vec![0; (size - self.end) as usize];
        if self.segment.file.write(self.end, &zeros).is_ok() {
            self.size = size;
        }
    }

    /// Says how the segment ends. What was acknowledged is durable without it, so it may fail.
    fn finish_with(&mut self, status: impl FnOnce(u64) -> Status) {
        let file = &self.segment.file;
        let finished = file
            .set_size(self.end)
            .and_then(|()| self.write_status(status(self.end)))
            .and_then(|()| self.segment.file.sync());
        if let Err(error) = finished {
            tracing::warn!("could not finish {}: {error}", self.segment.name);
        }
    }

    fn write_status(&mut self, status: Status) -> io::Result<()> {
        self.status_number += 1;
        let slot = (self.status_number % 2) as usize;
        let bytes = status.encode(self.status_number, self.salt);
        self.segment.file.write(STATUS_OFFSETS[slot], &bytes)
    }
}

/// Makes an empty segment that grows from a revision on, as the last one of a log.
pub(in crate::embedded) fn make_first_segment(disk: &dyn Disk, first: u64) -> io::Result<()> {
    make_segment(disk, first).map(|_| ())
}

fn make_segment(disk: &dyn Disk, first: u64) -> io::Result<Growing> {
    let (unfinished, name) = (unfinished_name(first), segment_name(first));
    let header = Header::growing_from(first);
    let file = write_header(disk, &unfinished, &header).inspect_err(|_| {
        // It is ours and useless; what matters is why.
        let _ = disk.remove(&unfinished);
    })?;
    disk.rename(&unfinished, &name)?;
    Ok(Growing {
        segment: Arc::new(Segment::new(name, first, file, Vec::new())),
        salt: header.salt,
        end: FRAMES_OFFSET,
        frames: 0,
        size: FRAMES_OFFSET,
        status_number: 1,
    })
}

fn write_header(disk: &dyn Disk, name: &str, header: &Header) -> io::Result<Box<dyn DiskFile>> {
    let mut start = [0; FRAMES_OFFSET as usize];
    let (bytes, status) = (header.encode(), Status::Open.encode(1, header.salt));
    start[..bytes.len()].copy_from_slice(&bytes);
    let slot = STATUS_OFFSETS[1] as usize;
    start[slot..slot + status.len()].copy_from_slice(&status);
    let file = disk.create(name)?;
    file.write(0, &start)?;
    file.sync()?;
    Ok(file)
}
