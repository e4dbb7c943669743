//! Recovery: reads all segments of a log, or a backup, and rebuilds the key index. Entry points: [`load`],
//! [`load_backup`].

use std::io;
use std::sync::Arc;

use super::SegmentedLog;
use super::appender::{self, LogAppender, RevisionBounds};
use super::format::{HEADER_BYTES, SegmentHeader, SegmentHeaderError, SegmentStatus};
use super::record::{RecordHeader, RecordId};
use super::scan::{ScannedSegment, scan};
use super::segment::LogSegment;
use crate::embedded::disk::{Disk, DiskFile};
use crate::embedded::index::{KeyIndex, KeyVersion};

/// The revision of an empty store, as in etcd.
pub(in crate::embedded) const FIRST_REVISION: u64 = 1;

/// File name extensions of complete and of unfinished segments.
const SEGMENT_EXTENSION: &str = ".log";
const UNFINISHED_EXTENSION: &str = ".new";

pub(in crate::embedded) fn is_segment(name: &str) -> bool {
    name.ends_with(SEGMENT_EXTENSION)
}

pub(in crate::embedded) fn segment_name(first: u64) -> String {
    format!("{first:020}{SEGMENT_EXTENSION}")
}

pub(in crate::embedded) fn unfinished_name(first: u64) -> String {
    format!("{first:020}{UNFINISHED_EXTENSION}")
}

/// The name of the file that will become the next segment. Like all unfinished segments it is removed at the next start.
pub(in crate::embedded) fn spare_name() -> String {
    format!("next{UNFINISHED_EXTENSION}")
}

/// A file of the log that cannot be loaded, and why.
#[derive(Debug)]
pub(in crate::embedded) struct LogLoadError {
    pub(in crate::embedded) file: String,
    pub(in crate::embedded) kind: LogLoadErrorKind,
}

#[derive(Debug)]
pub(in crate::embedded) enum LogLoadErrorKind {
    Io(io::Error),
    NotALog,
    UnsupportedFormat(u32),
    Damaged(String),
}

impl LogLoadErrorKind {
    pub(super) fn damaged(reason: impl Into<String>) -> Self {
        LogLoadErrorKind::Damaged(reason.into())
    }

    fn in_file(self, file: &str) -> LogLoadError {
        LogLoadError {
            file: file.to_owned(),
            kind: self,
        }
    }
}

impl From<io::Error> for LogLoadErrorKind {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => LogLoadErrorKind::damaged("the file is truncated"),
            _ => LogLoadErrorKind::Io(error),
        }
    }
}

/// A log that was read but not modified yet.
#[derive(Debug)]
pub(in crate::embedded) struct LoadedLog {
    pub(in crate::embedded) log: SegmentedLog,
    pub(in crate::embedded) index: KeyIndex,
    /// Files left by a crash that contain nothing of value: unfinished or already packed segments.
    leftovers: Vec<String>,
    /// The end of the last segment.
    last_segment: ScannedSegmentEnd,
    /// The end of the segment before it, if a crash prevented marking it as continued.
    unmarked_segment: Option<ScannedSegmentEnd>,
}

/// The scanned end of an active or sealed segment, with its salt.
#[derive(Debug)]
pub(super) struct ScannedSegmentEnd {
    pub(super) scanned: ScannedSegment,
    pub(super) salt: u64,
}

/// Reads the log on a disk.
pub(in crate::embedded) fn load(disk: Box<dyn Disk>) -> Result<LoadedLog, LogLoadError> {
    let names = disk
        .names()
        .map_err(|error| LogLoadErrorKind::from(error).in_file(""))?;
    let (mut names, mut leftovers) = (names, Vec::new());
    leftovers.extend(names.extract_if(.., |name| name.ends_with(UNFINISHED_EXTENSION)));
    names.retain(|name| is_segment(name));
    names.sort_unstable();
    let mut reading = LogLoader::new();
    let (mut last, mut before_last) = (None, None);
    for required_name in names {
        let file = disk
            .open(&required_name)
            .map_err(|error| LogLoadErrorKind::from(error).in_file(&required_name))?;
        let header = read_header(file.as_ref()).map_err(|kind| kind.in_file(&required_name))?;
        if header.packed.is_some_and(|packed| packed.is_backup) {
            return Err(LogLoadErrorKind::damaged(
                "the file is a backup, not a segment of a store",
            )
            .in_file(&required_name));
        }
        if header.first <= reading.packed_up_to {
            leftovers.push(required_name);
            continue;
        }
        let scanned = reading.load_segment(&required_name, file, &header);
        let scanned = scanned.map_err(|kind| kind.in_file(&required_name))?;
        before_last = last.replace((scanned, header, required_name));
    }
    let missing = || LogLoadErrorKind::damaged("the next segment is missing");
    let (last, header, name) = last.ok_or_else(|| missing().in_file(&segment_name(2)))?;
    if header.packed.is_some() || matches!(last.status, SegmentStatus::Continued { .. }) {
        return Err(missing().in_file(&name));
    }
    let unmarked = before_last.filter(|(scanned, header, _)| {
        header.packed.is_none() && !matches!(scanned.status, SegmentStatus::Continued { .. })
    });
    let ending = |scanned, header: SegmentHeader| ScannedSegmentEnd {
        scanned,
        salt: header.salt,
    };
    let mut loaded = reading.finish(disk, ending(last, header));
    loaded.leftovers = leftovers;
    loaded.unmarked_segment = unmarked.map(|(scanned, header, _)| ending(scanned, header));
    Ok(loaded)
}

/// Reads a backup.
pub(in crate::embedded) fn load_backup(
    disk: Box<dyn Disk>,
    name: &str,
    file: Box<dyn DiskFile>,
) -> Result<LoadedLog, LogLoadError> {
    let read = || {
        let header = read_header(file.as_ref())?;
        if !header.packed.is_some_and(|packed| packed.is_backup) {
            return Err(LogLoadErrorKind::damaged(
                "the file is a segment of a store, not a backup",
            ));
        }
        let mut reading = LogLoader::new();
        let scanned = reading.load_segment(name, file, &header)?;
        let salt = header.salt;
        Ok((reading, ScannedSegmentEnd { scanned, salt }))
    };
    let (reading, last) = read().map_err(|kind: LogLoadErrorKind| kind.in_file(name))?;
    Ok(reading.finish(disk, last))
}

fn read_header(file: &dyn DiskFile) -> Result<SegmentHeader, LogLoadErrorKind> {
    let size = file.size()?;
    if size == 0 {
        return Err(LogLoadErrorKind::damaged("the file is empty"));
    }
    let mut bytes = [0; HEADER_BYTES];
    let there = HEADER_BYTES.min(size as usize);
    file.read(0, &mut bytes[..there])?;
    let header = SegmentHeader::decode(&bytes);
    header.map_err(|bad| match bad {
        SegmentHeaderError::WrongMagic => LogLoadErrorKind::NotALog,
        SegmentHeaderError::UnsupportedFormat(format) => {
            LogLoadErrorKind::UnsupportedFormat(format)
        }
        SegmentHeaderError::Damaged => LogLoadErrorKind::damaged("checksum mismatch in the header"),
    })
}

/// The state of loading: segments read so far and the index built from them.
struct LogLoader {
    index: KeyIndex,
    segments: Vec<Arc<LogSegment>>,
    revision: u64,
    compacted: u64,
    /// Segments that start at or before this revision are contained in a packed one; a crash prevented their removal.
    packed_up_to: u64,
}

impl LogLoader {
    fn new() -> Self {
        LogLoader {
            index: KeyIndex::new(),
            segments: Vec::new(),
            revision: FIRST_REVISION,
            compacted: 0,
            packed_up_to: 0,
        }
    }

    fn load_segment(
        &mut self,
        name: &str,
        file: Box<dyn DiskFile>,
        header: &SegmentHeader,
    ) -> Result<ScannedSegment, LogLoadErrorKind> {
        if header.first != self.revision + 1 {
            let (before, first) = (self.revision, header.first);
            return Err(LogLoadErrorKind::damaged(format!(
                "the segment starts at revision {first}, but the previous one ends at {before}"
            )));
        }
        let mut dead = Vec::new();
        let mut scanned = scan(
            file.as_ref(),
            header,
            |record_id: RecordId, head: &RecordHeader<'_>| {
                let created = head.created;
                dead.extend(
                    self.index
                        .add(&head.key.into(), KeyVersion { record_id, created }),
                );
            },
        )?;
        self.revision = scanned.revision;
        self.packed_up_to = header
            .packed
            .map_or(self.packed_up_to, |packed| packed.last);
        self.compacted = self.compacted.max(scanned.compacted);
        let rows = std::mem::take(&mut scanned.records);
        let segment = LogSegment::new(name.to_owned(), header.first, file, rows);
        self.segments.push(Arc::new(segment));
        dead.into_iter()
            .for_each(|record_id| self.mark_dead(record_id));
        Ok(scanned)
    }

    fn mark_dead(&self, record_id: RecordId) {
        if let Some(segment) = super::segment_of(&self.segments, record_id) {
            segment.mark_dead(record_id);
        }
    }

    fn finish(mut self, disk: Box<dyn Disk>, last: ScannedSegmentEnd) -> LoadedLog {
        self.index.advance_revisions(self.revision, self.compacted);
        for record_id in self.index.prune(usize::MAX) {
            self.mark_dead(record_id);
        }
        LoadedLog {
            log: SegmentedLog::new(disk, self.segments),
            index: self.index,
            leftovers: Vec::new(),
            last_segment: last,
            unmarked_segment: None,
        }
    }
}

impl LoadedLog {
    /// Prepares the log for writing: truncates unacknowledged data and removes leftover files.
    pub(in crate::embedded) fn into_writable(
        self,
        segment_bytes: u64,
    ) -> io::Result<(Arc<SegmentedLog>, KeyIndex, LogAppender)> {
        for name in &self.leftovers {
            self.log.disk().remove(name)?;
        }
        let log = Arc::new(self.log);
        let reached = RevisionBounds {
            revision: self.index.revision().get(),
            compacted: self.index.compacted().get(),
        };
        if let Some(unmarked) = &self.unmarked_segment {
            appender::mark_continued(&log, unmarked);
        }
        let tail = LogAppender::resume(&log, &self.last_segment, reached, segment_bytes)?;
        Ok((log, self.index, tail))
    }
}
