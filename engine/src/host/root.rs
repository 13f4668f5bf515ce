//! Reads small text files and directories under a root path, and never fails: what is missing,
//! too long, binary or not a regular file is absent.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Most bytes read of one file. The longest that matters is `proc/cpuinfo`, about 1.5 KiB a CPU.
const LONGEST: u64 = 4 * 1024 * 1024;

/// Most names taken of one directory.
const MOST_NAMES: usize = 4096;

/// A host's file tree: `/` for the running one, any other directory for a saved one.
#[derive(Clone, Debug)]
pub struct Root {
    path: PathBuf,
}

impl Root {
    /// The tree under `path`.
    pub fn at(path: &Path) -> Root {
        Root {
            path: path.to_path_buf(),
        }
    }

    /// Whether this is the running machine's own tree.
    pub fn is_live(&self) -> bool {
        self.path == Path::new("/")
    }

    /// The text of a file, trimmed; none where it cannot be read. Bytes that are not UTF-8 are
    /// replaced and control characters other than line feeds and tabs dropped, since everything
    /// read here may be printed.
    pub fn text(&self, relative: &str) -> Option<String> {
        let path = self.path.join(relative);
        // A named pipe or a device in a saved tree would block or never end.
        if !fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(&path)
            .ok()?
            .take(LONGEST)
            .read_to_end(&mut bytes)
            .ok()?;
        let text: String = String::from_utf8_lossy(&bytes)
            .chars()
            .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
            .collect();
        Some(text.trim().to_string())
    }

    /// The text of a file that has something in it.
    pub fn value(&self, relative: &str) -> Option<String> {
        self.text(relative).filter(|text| !text.is_empty())
    }

    /// The unsigned number that a file holds; none for a negative one, by which sysfs says that
    /// it does not know.
    pub fn number(&self, relative: &str) -> Option<u64> {
        self.text(relative)?.parse().ok()
    }

    /// Whether there is such a file or directory.
    pub fn exists(&self, relative: &str) -> bool {
        self.path.join(relative).exists()
    }

    /// Names in a directory, sorted; empty where there is none.
    pub fn names(&self, relative: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path.join(relative)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .take(MOST_NAMES)
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// The last part of a symbolic link's target, as sysfs names drivers.
    pub fn link_name(&self, relative: &str) -> Option<String> {
        let target = fs::read_link(self.path.join(relative)).ok()?;
        Some(target.file_name()?.to_str()?.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_readable_file_is_absent() {
        let root = Root::at(Path::new(env!("CARGO_MANIFEST_DIR")));
        assert_eq!(root.text("src"), None);
        assert_eq!(root.text("no/such/file"), None);
        assert_eq!(root.number("Cargo.toml"), None);
        assert_eq!(root.names("no/such/directory"), Vec::<String>::new());
        assert_eq!(root.link_name("Cargo.toml"), None);
        assert!(root.names("src").contains(&"host".to_string()));
        assert!(!root.is_live());
    }

    #[test]
    fn a_pipe_does_not_block() {
        let directory = std::env::temp_dir().join(format!("ringperf-root-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let pipe = directory.join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(Root::at(&directory).text("pipe"), None);
        fs::remove_dir_all(&directory).unwrap();
    }
}
