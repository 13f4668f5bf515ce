//! A run in a file: one JSON document, whole or not there at all.
//!
//! A file is written beside its place, flushed to the disk and then renamed, so that a reader, a
//! full disk or a power cut never leaves half a document under the name.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use crate::record::{ReadError, Run, read as parse};
use crate::report::json;

/// Why a run file could not be written or read.
#[derive(thiserror::Error, Debug)]
pub enum StoreError {
    /// Writing failed; nothing is left behind and an older file of the name is as it was.
    #[error("cannot save the result as {}: {}", path.display(), reason(cause))]
    Write {
        /// The file that was to be.
        path: PathBuf,
        /// Why it is not there.
        cause: io::Error,
    },
    /// The directory is not there and cannot be made.
    #[error("cannot save results in {}: {cause}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why there is none.
        cause: io::Error,
    },
    /// The file cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// The file is no result that this version knows.
    #[error("{}: {cause}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: ReadError,
    },
}

fn reason(cause: &io::Error) -> String {
    match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => format!(
            "{cause}. Nothing of it was kept there, and an earlier file of that name is as it \
             was: free some space, or save elsewhere"
        ),
        _ => cause.to_string(),
    }
}

/// Whether the name of a path is a document's own: what is there and no regular file (a pipe,
/// `/dev/null`) takes a document once, and cannot have it replaced.
pub fn is_replaceable(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |found| found.is_file() || found.is_dir())
}

/// Tries whether [`save_in`] could save there. The directory is made if it is not there.
///
/// # Errors
///
/// When the directory cannot be made or takes no file.
pub fn try_in(directory: &Path) -> Result<(), StoreError> {
    make(directory)?;
    probe(&directory.join("ringperf")).map_err(|cause| StoreError::Directory {
        path: directory.to_path_buf(),
        cause,
    })
}

/// Tries whether [`save_as`] could save there. What is there stays as it is.
///
/// # Errors
///
/// When no file could be written there.
pub fn try_as(path: &Path) -> Result<(), StoreError> {
    let tried = match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        // Opening would wait for a pipe's reader, or tell one that is there of an early end.
        Ok(found) if !found.is_file() => access(path, AccessFlags::W_OK).map_err(io::Error::from),
        _ => probe(path),
    };
    tried.map_err(|cause| StoreError::Write {
        path: path.to_path_buf(),
        cause,
    })
}

/// Makes the file beside a path that [`replace`] would make, and takes it away again.
fn probe(path: &Path) -> io::Result<()> {
    let (_, temporary) = beside(path)?;
    File::create(&temporary)?;
    fs::remove_file(&temporary)
}

fn make(directory: &Path) -> Result<(), StoreError> {
    fs::create_dir_all(directory).map_err(|cause| StoreError::Directory {
        path: directory.to_path_buf(),
        cause,
    })
}

/// Saves a run as `UUID.json` in a directory, which is made if it is not there. Returns the
/// file's path.
///
/// # Errors
///
/// When the directory or the file cannot be written.
pub fn save_in(directory: &Path, run: &Run) -> Result<PathBuf, StoreError> {
    make(directory)?;
    let path = directory.join(format!("{}.json", run.uuid));
    save_as(&path, run)?;
    Ok(path)
}

/// Saves a run under a path. What is there and no regular file (a pipe, `/dev/null`) is written
/// to as it is.
///
/// # Errors
///
/// When the file cannot be written.
pub fn save_as(path: &Path, run: &Run) -> Result<(), StoreError> {
    let text = json::render(run);
    let written = if is_replaceable(path) {
        replace(path, text.as_bytes())
    } else {
        File::options()
            .write(true)
            .open(path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
    };
    written.map_err(|cause| StoreError::Write {
        path: path.to_path_buf(),
        cause,
    })
}

/// Writes beside the path, then renames over it.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (path, temporary) = beside(path)?;
    let written = write_through(&temporary, bytes).and_then(|()| fs::rename(&temporary, &path));
    if written.is_err() {
        // Best effort: the cause that is reported is the one that matters.
        let _ = fs::remove_file(&temporary);
        return written;
    }
    // The rename itself survives a power cut only once the directory is on the disk.
    File::open(parent(&path))?.sync_all()
}

/// The file that a path means, and the one beside it that is written first. A link keeps
/// pointing at its file: the file is replaced, not the link.
fn beside(path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let name = format!(".{}.{}", name.display(), std::process::id());
    let temporary = parent(&path).join(name);
    Ok((path, temporary))
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn write_through(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Reads a run file, whichever version of the schema it has, as long as this tool knows it.
///
/// # Errors
///
/// When the file cannot be read or is no such document.
pub fn read(path: &Path) -> Result<Run, StoreError> {
    let text = fs::read_to_string(path).map_err(|cause| StoreError::Read {
        path: path.to_path_buf(),
        cause,
    })?;
    parse(&text).map_err(|cause| StoreError::Parse {
        path: path.to_path_buf(),
        cause,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{SCHEMA, canned};

    /// A directory of its own, removed at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let id = std::process::id();
            let path = std::env::temp_dir().join(format!("ringperf-store-{id}-{name}"));
            fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            entries
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn every_run_is_kept_by_its_uuid_and_reads_back() {
        let scratch = Scratch::new("keep");
        for run in canned::runs() {
            let path = save_in(&scratch.0.join("a/b"), &run).unwrap();
            assert_eq!(
                path.file_name().unwrap().to_str().unwrap(),
                format!("{}.json", run.uuid)
            );
            let loaded = read(&path).unwrap();
            assert_eq!(loaded, run);
            assert_eq!(json::render(&loaded), fs::read_to_string(&path).unwrap());
        }
        assert!(!canned::busy().complete, "an interrupted run is among them");
    }

    #[test]
    fn saving_again_replaces_and_leaves_nothing_else() {
        let scratch = Scratch::new("replace");
        let path = scratch.0.join("out.json");
        save_as(&path, &canned::busy()).unwrap();
        save_as(&path, &canned::tour()).unwrap();
        assert_eq!(read(&path).unwrap(), canned::tour());
        assert_eq!(scratch.names(), ["out.json"]);
    }

    #[test]
    fn a_link_stays_a_link() {
        let scratch = Scratch::new("link");
        let (file, link) = (scratch.0.join("file.json"), scratch.0.join("link.json"));
        save_as(&file, &canned::busy()).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        save_as(&link, &canned::tour()).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(read(&file).unwrap(), canned::tour());
    }

    #[test]
    fn a_full_disk_says_what_was_kept() {
        let error = save_as(Path::new("/dev/full"), &canned::tour())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("/dev/full") && error.contains("Nothing of it was kept"),
            "{error}"
        );
        save_as(Path::new("/dev/null"), &canned::tour()).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn what_can_be_saved_is_known_before() {
        let scratch = Scratch::new("tried");
        let file = scratch.0.join("file");
        fs::write(&file, "x").unwrap();
        try_in(&scratch.0.join("a/b")).unwrap();
        for good in [&file, &scratch.0.join("new"), Path::new("/dev/full")] {
            try_as(good).unwrap();
        }
        for bad in [&scratch.0, &file.join("below"), &scratch.0.join("none/new")] {
            let error = try_as(bad).unwrap_err().to_string();
            assert!(error.contains(bad.to_str().unwrap()), "{error}");
        }
        try_in(&file).unwrap_err();
        try_in(Path::new("/proc/ringperf")).unwrap_err();
        assert_eq!(fs::read_to_string(&file).unwrap(), "x", "as it was");
        assert_eq!(fs::read_dir(scratch.0.join("a/b")).unwrap().count(), 0);
        let mut names = scratch.names();
        names.sort();
        assert_eq!(names, ["a", "file"], "nothing is left of the trial");
    }

    #[test]
    fn a_failed_save_leaves_the_earlier_file() {
        let scratch = Scratch::new("failed");
        let file = scratch.0.join("file");
        fs::write(&file, "x").unwrap();
        let error = save_in(&file, &canned::tour()).unwrap_err();
        assert!(matches!(error, StoreError::Directory { .. }), "{error}");
        let error = save_as(&file.join("below.json"), &canned::tour()).unwrap_err();
        assert!(matches!(error, StoreError::Write { .. }), "{error}");
        assert_eq!(scratch.names(), ["file"]);
        assert_eq!(fs::read_to_string(&file).unwrap(), "x");
    }

    #[test]
    fn what_is_no_result_says_so() {
        let scratch = Scratch::new("other");
        let path = scratch.0.join("other.json");
        let missing = read(&path).unwrap_err().to_string();
        assert!(missing.contains("other.json"), "{missing}");
        fs::write(&path, "{\"schema\": \"ringperf.result/7\"}").unwrap();
        let unknown = read(&path).unwrap_err().to_string();
        assert!(
            unknown.contains("ringperf.result/7") && unknown.contains(SCHEMA),
            "{unknown}"
        );
    }
}
