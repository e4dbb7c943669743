//! Backup of a running store, restore into an empty directory, and a check of everything stored.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rhumb_meta::Revision;

use super::directory::Directory;
use super::disk::{Disk, Folder};
use super::fault::{from_io, short};
use super::file::{FileError, private, put_in_free_place};
use super::log::{
    Body, FIRST_REVISION, Loaded, PackWriter, Place, Record, load, load_backup, make_first_segment,
    segment_name,
};
use super::read::Contents;
use super::{Embedded, Options, SEGMENT_BYTES};
use crate::{Entry, Error, Expect, Range, Result, Store, Transaction};

/// How far a restored store's revisions are moved on at least. Clients may have seen revisions that came
/// after the backup: none of them may ever be given to another change, and all must count as compacted.
pub const RESTORE_REVISION_GAP: u64 = 1 << 30;

/// What a store or a backup holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub revision: Revision,
    pub entries: u64,
    pub bytes: u64,
    /// Keys whose stored value is damaged, each with the reason.
    pub damaged: Vec<String>,
}

impl Embedded {
    /// Writes all entries of this moment to a new file, while writers go on. The file is there only when
    /// it is whole.
    pub async fn backup(&self, file: &Path) -> Result<Report, FileError> {
        let contents = self
            .reader
            .run(|reader| reader.contents(&Range::prefix("")))
            .await
            .map_err(|error| FileError::not_written(file, short(&error)))?;
        let path = file.to_owned();
        let write = tokio::task::spawn_blocking(move || write_backup(contents, &path));
        write
            .await
            .unwrap_or_else(|error| Err(FileError::not_written(file, error)))
    }
}

fn write_backup(contents: Contents, file: &Path) -> Result<Report, FileError> {
    if file.exists() {
        return Err(FileError::Exists {
            path: file.to_owned(),
        });
    }
    let unfinished = unfinished(file);
    let created = private().create_new(true).open(&unfinished);
    let created = created.map_err(FileError::io(file))?;
    let report = write_packed(contents, created).map_err(|error| {
        // It is ours and useless; what matters is why.
        let _ = fs::remove_file(&unfinished);
        FileError::not_written(file, short(&error))
    })?;
    put_in_free_place(&unfinished, file)?;
    Ok(report)
}

fn write_packed(contents: Contents, file: File) -> Result<Report> {
    let mut writer = PackWriter::new(Box::new(file), FIRST_REVISION + 1);
    let revision = contents.revision;
    let mut report = Report::new(revision);
    for_each_entry(contents, |place, entry| {
        report.count(&entry);
        add(&mut writer, place, &entry)
    })?;
    writer
        .finish_backup(revision.get())
        .map_err(|error| from_io(&error))?;
    Ok(report)
}

/// In the order of the log.
fn for_each_entry(
    mut contents: Contents,
    mut visit: impl FnMut(Place, Entry) -> Result<()>,
) -> Result<()> {
    let mut keys = std::mem::take(&mut contents.keys);
    keys.sort_unstable_by_key(|(_, place)| *place);
    for (key, place) in keys {
        visit(place, contents.entry(&key, place)?)?;
    }
    Ok(())
}

fn add(writer: &mut PackWriter, place: Place, entry: &Entry) -> Result<()> {
    let body = Body::Put {
        created: entry.created.get(),
        value: &entry.value,
    };
    let key = &entry.key;
    let added = writer.add(place, &Record { key, body });
    added.map_err(|error| from_io(&error))
}

/// How many this process has begun.
static BACKUPS: AtomicU64 = AtomicU64::new(0);

/// A name that nobody else uses, also after a crash and in a container where all processes have one id.
fn unfinished(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    let process = std::process::id();
    // Two backups can begin within one microsecond.
    let number = BACKUPS.fetch_add(1, Ordering::Relaxed);
    name.push(format!(".{process}-{}-{number}.partial", now_micros()));
    name.into()
}

fn now_micros() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_micros() as u64)
}

/// Backs up a store that no process is using.
pub fn backup_file(directory: &Path, file: &Path) -> Result<Report, FileError> {
    let directory = Directory::hold_existing(directory)?;
    write_backup(contents_of_store(&directory)?, file)
}

/// Reads every entry of a store that no process is using, and says which are damaged.
pub fn check(directory: &Path) -> Result<Report, FileError> {
    let directory = Directory::hold_existing(directory)?;
    let contents = contents_of_store(&directory)?;
    let mut report = Report::new(contents.revision);
    for (key, place) in &contents.keys {
        match contents.entry(key, *place) {
            Ok(entry) => report.count(&entry),
            Err(Error::Damaged { key, reason }) => {
                report.damaged.push(format!("{key}: {reason}"));
            }
            Err(error) => return Err(FileError::damaged(&directory.log(), short(&error))),
        }
    }
    Ok(report)
}

/// What a store holds that no process is using. It is not changed.
fn contents_of_store(directory: &Directory) -> Result<Contents, FileError> {
    let path = directory.log();
    let folder = Folder::open(&path).map_err(FileError::io(&path))?;
    let loaded = load(Box::new(folder)).map_err(FileError::unreadable(&path))?;
    contents(&loaded, &path)
}

fn contents_of_backup(file: &Path) -> Result<Contents, FileError> {
    let parent = file.parent().filter(|path| !path.as_os_str().is_empty());
    let path = parent.unwrap_or(Path::new("."));
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    // It is only read: it may lie where nothing can be written.
    let opened = File::open(file).map_err(FileError::io(file))?;
    let folder = Folder::open(path).map_err(FileError::io(path))?;
    let backup = load_backup(Box::new(folder), &name, Box::new(opened));
    contents(&backup.map_err(FileError::unreadable(path))?, file)
}

fn contents(loaded: &Loaded, path: &Path) -> Result<Contents, FileError> {
    Contents::of(&Range::prefix(""), &loaded.index, loaded.log.segments())
        .map_err(|error| FileError::damaged(path, short(&error)))
}

/// Deletes an entry whose value is damaged from a store that no process is using.
pub async fn drop_damaged(directory: &Path, key: &str) -> Result<(), FileError> {
    let existing = Directory::hold_existing(directory)?;
    let log = existing.log();
    drop(existing);
    let store = Embedded::open(directory, Options::default()).await?;
    let result = match store.get(key).await {
        Err(Error::Damaged { .. }) => {
            let delete = Transaction::new().delete(key, Expect::Any);
            let deleted = store.commit(delete).await.map(|_| ());
            deleted.map_err(|error| FileError::not_written(&log, short(&error)))
        }
        Ok(_) => Err(FileError::NotDamaged {
            path: log,
            key: key.to_owned(),
        }),
        Err(error) => Err(FileError::damaged(&log, short(&error))),
    };
    store.close().await;
    result
}

/// Makes a store in an empty directory from a backup, which is not changed.
pub fn restore(file: &Path, directory: &Path) -> Result<Report, FileError> {
    let backup = contents_of_backup(file)?;
    let directory = Directory::hold(directory)?;
    if directory.log().exists() {
        return Err(FileError::Occupied {
            path: directory.log(),
        });
    }
    let revision = first_revision_after(backup.revision.get(), now_micros());
    let mut report = Report::new(Revision::new(revision));
    directory.create_log(|folder| {
        write_store(backup, folder, &mut report)
            .map_err(|error| FileError::not_written(&directory.log(), short(&error)))
    })?;
    Ok(report)
}

/// Where a restored store goes on. No store makes a million changes a second, so one that is restored later,
/// be it from the same backup, begins after all that an earlier one has come to.
fn first_revision_after(backup: u64, now_micros: u64) -> u64 {
    now_micros.max(backup + RESTORE_REVISION_GAP)
}

/// Writes a log whose history begins and ends at the report's revision.
fn write_store(backup: Contents, disk: &dyn Disk, report: &mut Report) -> Result<()> {
    let io = |error| from_io(&error);
    let begin = |first: u64| {
        let file = disk.create(&segment_name(first)).map_err(io)?;
        Ok(PackWriter::new(file, first))
    };
    let compacted = report.revision.get();
    let mut writer = begin(FIRST_REVISION + 1)?;
    let mut reached = FIRST_REVISION;
    for_each_entry(backup, |place, entry| {
        // A segment never ends amid the changes of a revision.
        if writer.bytes() >= SEGMENT_BYTES && place.revision > reached {
            let full = std::mem::replace(&mut writer, begin(reached + 1)?);
            full.finish(reached, compacted).map_err(io)?;
        }
        reached = place.revision;
        report.count(&entry);
        add(&mut writer, place, &entry)
    })?;
    writer.finish(compacted, compacted).map_err(io)?;
    make_first_segment(disk, compacted + 1).map_err(io)
}

impl Report {
    fn new(revision: Revision) -> Self {
        Report {
            revision,
            entries: 0,
            bytes: 0,
            damaged: Vec::new(),
        }
    }

    fn count(&mut self, entry: &Entry) {
        self.entries += 1;
        self.bytes += entry.value.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restored_store_goes_on_after_all_that_anybody_has_seen() {
        let (backup, hour) = (5_000, 3_600_000_000);
        let first = first_revision_after(backup, 1_700_000_000_000_000);
        let second = first_revision_after(backup, 1_700_000_000_000_000 + hour);
        assert!(
            second - first >= hour,
            "room for what the first has written"
        );
        // A clock that is wrong leaves at least the gap.
        assert_eq!(
            first_revision_after(backup, 0),
            backup + RESTORE_REVISION_GAP
        );
        assert!(first_revision_after(first + 7, 0) > first + 7);
    }
}
