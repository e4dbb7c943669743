//! Backup of a running or stopped store, restore into an empty directory, and a check of all stored entries
//! (`rhumb store backup|restore|check|drop-damaged`; `etcdctl snapshot` in etcd).
//!
//! A backup is a single packed segment that holds all entries as of one revision.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rhumb_meta::Revision;

use super::directory::DataDirectory;
use super::disk::{Disk, DiskDirectory};
use super::disk_error::{from_io, reason_only};
use super::file::{DataDirectoryError, owner_only_options, publish_without_overwrite};
use super::log::{
    FIRST_REVISION, LoadedLog, LogRecord, LogRecordBody, PackedSegmentWriter, RecordId,
    create_active_segment, load, load_backup, segment_name,
};
use super::read::RangeSnapshot;
use super::{EmbeddedOptions, EmbeddedStore, SEGMENT_BYTES};
use crate::{Error, ExpectedRevision, RangeRequest, Result, Store, StoreEntry, Transaction};

/// The minimum distance between the revision of a backup and that of the restored store. Clients may have seen
/// revisions after the backup: these must never be reused, and must count as compacted.
pub const RESTORE_REVISION_GAP: u64 = 1 << 30;

/// The contents of a store or a backup: result of a check, backup or restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreContentsReport {
    pub revision: Revision,
    pub entries: u64,
    pub bytes: u64,
    /// Keys whose stored value is damaged, each with the reason, as `key: reason`.
    pub damaged: Vec<String>,
}

impl EmbeddedStore {
    /// Writes a snapshot of all entries to a new file, without blocking writers. The file gets its name only when it is
    /// complete.
    pub async fn backup(&self, file: &Path) -> Result<StoreContentsReport, DataDirectoryError> {
        let contents = self
            .reader
            .run(|reader| reader.range_snapshot(&RangeRequest::prefix("")))
            .await
            .map_err(|error| DataDirectoryError::not_written(file, reason_only(&error)))?;
        let path = file.to_owned();
        let write = tokio::task::spawn_blocking(move || write_backup(contents, &path));
        write
            .await
            .unwrap_or_else(|error| Err(DataDirectoryError::not_written(file, error)))
    }
}

fn write_backup(
    contents: RangeSnapshot,
    file: &Path,
) -> Result<StoreContentsReport, DataDirectoryError> {
    if file.exists() {
        return Err(DataDirectoryError::Exists {
            path: file.to_owned(),
        });
    }
    let unfinished = partial_path(file);
    let created = owner_only_options().create_new(true).open(&unfinished);
    let created = created.map_err(DataDirectoryError::io(file))?;
    let report = write_packed(contents, created).map_err(|error| {
        // Best effort: the original error is what matters.
        let _ = fs::remove_file(&unfinished);
        DataDirectoryError::not_written(file, reason_only(&error))
    })?;
    publish_without_overwrite(&unfinished, file)?;
    Ok(report)
}

fn write_packed(contents: RangeSnapshot, file: File) -> Result<StoreContentsReport> {
    let mut writer = PackedSegmentWriter::new(Box::new(file), FIRST_REVISION + 1);
    let revision = contents.revision;
    let mut report = StoreContentsReport::new(revision);
    for_each_entry(contents, |record_id, entry| {
        report.count(&entry);
        add_entry(&mut writer, record_id, &entry)
    })?;
    writer
        .finish_backup(revision.get())
        .map_err(|error| from_io(&error))?;
    Ok(report)
}

/// Visits all entries in log order, for sequential reads.
fn for_each_entry(
    mut contents: RangeSnapshot,
    mut visit: impl FnMut(RecordId, StoreEntry) -> Result<()>,
) -> Result<()> {
    let mut keys = std::mem::take(&mut contents.keys);
    keys.sort_unstable_by_key(|(_, record_id)| *record_id);
    for (key, record_id) in keys {
        visit(record_id, contents.read_entry(&key, record_id)?)?;
    }
    Ok(())
}

fn add_entry(
    writer: &mut PackedSegmentWriter,
    record_id: RecordId,
    entry: &StoreEntry,
) -> Result<()> {
    let body = LogRecordBody::Put {
        created: entry.created.get(),
        value: &entry.value,
    };
    let key = &entry.key;
    let added = writer.add(record_id, &LogRecord { key, body });
    added.map_err(|error| from_io(&error))
}

/// How many backups this process has started; makes file names unique.
static BACKUPS_STARTED: AtomicU64 = AtomicU64::new(0);

/// A unique temporary name, also after a crash and in containers, where every process may have the same id.
fn partial_path(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    let process = std::process::id();
    // Two backups can start within one microsecond.
    let number = BACKUPS_STARTED.fetch_add(1, Ordering::Relaxed);
    name.push(format!(".{process}-{}-{number}.partial", now_micros()));
    name.into()
}

fn now_micros() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_micros() as u64)
}

/// Backs up a store that is not in use by any process.
pub fn backup_offline(
    directory: &Path,
    file: &Path,
) -> Result<StoreContentsReport, DataDirectoryError> {
    let directory = DataDirectory::lock_existing(directory)?;
    write_backup(snapshot_of_store(&directory)?, file)
}

/// Reads every entry of a store that is not in use, and reports the damaged ones.
pub fn check_store(directory: &Path) -> Result<StoreContentsReport, DataDirectoryError> {
    let directory = DataDirectory::lock_existing(directory)?;
    let contents = snapshot_of_store(&directory)?;
    let mut report = StoreContentsReport::new(contents.revision);
    for (key, record_id) in &contents.keys {
        match contents.read_entry(key, *record_id) {
            Ok(entry) => report.count(&entry),
            Err(Error::Damaged { key, reason }) => {
                report.damaged.push(format!("{key}: {reason}"));
            }
            Err(error) => {
                return Err(DataDirectoryError::damaged(
                    &directory.log_path(),
                    reason_only(&error),
                ));
            }
        }
    }
    Ok(report)
}

/// Snapshot of a store that is not in use. Opens the log read-only.
fn snapshot_of_store(directory: &DataDirectory) -> Result<RangeSnapshot, DataDirectoryError> {
    let path = directory.log_path();
    let log_directory = DiskDirectory::open(&path).map_err(DataDirectoryError::io(&path))?;
    let loaded =
        load(Box::new(log_directory)).map_err(DataDirectoryError::from_load_error(&path))?;
    snapshot_of_log(&loaded, &path)
}

fn snapshot_of_backup(file: &Path) -> Result<RangeSnapshot, DataDirectoryError> {
    let parent = file.parent().filter(|path| !path.as_os_str().is_empty());
    let path = parent.unwrap_or(Path::new("."));
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    // Open read-only: the backup may be on a read-only file system.
    let opened = File::open(file).map_err(DataDirectoryError::io(file))?;
    let log_directory = DiskDirectory::open(path).map_err(DataDirectoryError::io(path))?;
    let backup = load_backup(Box::new(log_directory), &name, Box::new(opened));
    snapshot_of_log(
        &backup.map_err(DataDirectoryError::from_load_error(path))?,
        file,
    )
}

fn snapshot_of_log(loaded: &LoadedLog, path: &Path) -> Result<RangeSnapshot, DataDirectoryError> {
    RangeSnapshot::capture(
        &RangeRequest::prefix(""),
        &loaded.index,
        loaded.log.segments(),
    )
    .map_err(|error| DataDirectoryError::damaged(path, reason_only(&error)))
}

/// Deletes an entry whose value is damaged from a store that is not in use.
pub async fn delete_damaged_entry(directory: &Path, key: &str) -> Result<(), DataDirectoryError> {
    let existing = DataDirectory::lock_existing(directory)?;
    let log = existing.log_path();
    drop(existing);
    let store = EmbeddedStore::open(directory, EmbeddedOptions::default()).await?;
    let result = match store.get(key).await {
        Err(Error::Damaged { .. }) => {
            let delete = Transaction::new().delete(key, ExpectedRevision::Any);
            let deleted = store.commit(delete).await.map(|_| ());
            deleted.map_err(|error| DataDirectoryError::not_written(&log, reason_only(&error)))
        }
        Ok(_) => Err(DataDirectoryError::NotDamaged {
            path: log,
            key: key.to_owned(),
        }),
        Err(error) => Err(DataDirectoryError::damaged(&log, reason_only(&error))),
    };
    store.close().await;
    result
}

/// Creates a store in an empty directory from a backup. The backup file is not changed.
pub fn restore(file: &Path, directory: &Path) -> Result<StoreContentsReport, DataDirectoryError> {
    let backup = snapshot_of_backup(file)?;
    let directory = DataDirectory::lock(directory)?;
    if directory.log_path().exists() {
        return Err(DataDirectoryError::Occupied {
            path: directory.log_path(),
        });
    }
    let revision = first_revision_after(backup.revision.get(), now_micros());
    let mut report = StoreContentsReport::new(Revision::new(revision));
    directory.create_log(|log_directory| {
        write_store(backup, log_directory, &mut report).map_err(|error| {
            DataDirectoryError::not_written(&directory.log_path(), reason_only(&error))
        })
    })?;
    Ok(report)
}

/// The revision of a restored store: microseconds since the epoch. No store commits a million transactions a second, so
/// a later restore, even of the same backup, starts after every revision of an earlier one.
fn first_revision_after(backup: u64, now_micros: u64) -> u64 {
    now_micros.max(backup + RESTORE_REVISION_GAP)
}

/// Writes a log that is at the revision of the report and compacted to it.
fn write_store(
    backup: RangeSnapshot,
    disk: &dyn Disk,
    report: &mut StoreContentsReport,
) -> Result<()> {
    let io = |error| from_io(&error);
    let begin = |first: u64| {
        let file = disk.create(&segment_name(first)).map_err(io)?;
        Ok(PackedSegmentWriter::new(file, first))
    };
    let compacted = report.revision.get();
    let mut writer = begin(FIRST_REVISION + 1)?;
    let mut reached = FIRST_REVISION;
    for_each_entry(backup, |record_id, entry| {
        // A segment must not end between the changes of one revision.
        if writer.bytes() >= SEGMENT_BYTES && record_id.revision > reached {
            let full = std::mem::replace(&mut writer, begin(reached + 1)?);
            full.finish(reached, compacted).map_err(io)?;
        }
        reached = record_id.revision;
        report.count(&entry);
        add_entry(&mut writer, record_id, &entry)
    })?;
    writer.finish(compacted, compacted).map_err(io)?;
    create_active_segment(disk, compacted + 1).map_err(io)
}

impl StoreContentsReport {
    fn new(revision: Revision) -> Self {
        StoreContentsReport {
            revision,
            entries: 0,
            bytes: 0,
            damaged: Vec::new(),
        }
    }

    fn count(&mut self, entry: &StoreEntry) {
        self.entries += 1;
        self.bytes += entry.value.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restored_store_starts_after_all_used_revisions() {
        let (backup, hour) = (5_000, 3_600_000_000);
        let first = first_revision_after(backup, 1_700_000_000_000_000);
        let second = first_revision_after(backup, 1_700_000_000_000_000 + hour);
        assert!(
            second - first >= hour,
            "the second store starts after all revisions of the first"
        );
        // With a wrong clock the gap still applies.
        assert_eq!(
            first_revision_after(backup, 0),
            backup + RESTORE_REVISION_GAP
        );
        assert!(first_revision_after(first + 7, 0) > first + 7);
    }
}
