//! Which programs are here, and what they can do.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::exec::{Show, run};

/// Longest that a program may take to say what it is.
const LIMIT: Duration = Duration::from_secs(5);

/// Programs of a directory and of the path, the directory's first.
#[derive(Debug)]
pub struct Programs {
    folders: Vec<PathBuf>,
    said: RefCell<HashMap<String, String>>,
}

impl Programs {
    /// Looks in the directory, if there is one, and then on the path.
    pub fn new(first: Option<&Path>) -> Programs {
        let mut folders: Vec<PathBuf> = first.into_iter().map(Path::to_path_buf).collect();
        let path = std::env::var_os("PATH").unwrap_or_default();
        folders.extend(std::env::split_paths(&path));
        Programs {
            folders,
            said: RefCell::default(),
        }
    }

    /// Where a program is; none where it is not here, or where its path could not be written in
    /// a command line that is cut at spaces.
    pub fn find(&self, program: &str) -> Option<String> {
        let found = self
            .folders
            .iter()
            .map(|folder| folder.join(program))
            .find(|file| file.is_file())?;
        let path = found.canonicalize().ok()?.to_str()?.to_string();
        (!path.contains(char::is_whitespace)).then_some(path)
    }

    /// Everything that a program says when called so; nothing where it cannot be.
    pub fn says(&self, path: &str, argument: &str) -> String {
        self.says_with(path, &[argument])
    }

    /// The same with several arguments.
    pub fn says_with(&self, path: &str, arguments: &[&str]) -> String {
        let key = format!("{path} {}", arguments.join(" "));
        if let Some(said) = self.said.borrow().get(&key) {
            return said.clone();
        }
        let say = || -> Result<String> {
            // Some leave logs where they are, whatever they are asked.
            let scratch = tempfile::tempdir()?;
            let mut command = Command::new(path);
            command.current_dir(scratch.path()).args(arguments);
            let finished = run(command, LIMIT, Show::No)?;
            Ok(finished.stdout + &finished.stderr)
        };
        let said = say().unwrap_or_default();
        self.said.borrow_mut().insert(key, said.clone());
        said
    }
}

/// The first word of a text that looks like a version: digits with a dot.
pub fn version(text: &str) -> Option<String> {
    text.split(|c: char| c.is_whitespace() || c == ',' || c == '-' || c == '#')
        .map(|word| word.trim_start_matches('v'))
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))
        .map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_tools_say() {
        for (text, expected) in [
            ("iperf 3.21+ (cJSON 1.7.15)", "3.21+"),
            ("iperf version 2.1.8 (12 August 2022) pthreads", "2.1.8"),
            ("sockperf, version 3.7-no.git", "3.7"),
            ("nuttcp-6.1.2", "6.1.2"),
            ("Netperf version 2.7.1", "2.7.1"),
            ("qperf 0.4.11", "0.4.11"),
        ] {
            assert_eq!(version(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(version("usage: tool"), None);
    }

    #[test]
    fn the_directory_comes_before_the_path() {
        let folder = std::env::temp_dir().join(format!("ringperf-peers-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("sh"), "").unwrap();
        let found = Programs::new(Some(&folder)).find("sh");
        let elsewhere = Programs::new(None).find("sh");
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(found.unwrap().contains("ringperf-peers-"));
        assert!(!elsewhere.unwrap().contains("ringperf-peers-"));
        assert_eq!(Programs::new(None).find("no-such-program-here"), None);
    }
}
