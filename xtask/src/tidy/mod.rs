//! The rules of the house that no compiler checks.
//!
//! Every rule works on texts in memory, so that its tests can break it on purpose.

mod architecture;
mod code;
mod imports;
mod lexer;
mod words;

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The rules, by the names that ARCHITECTURE.md uses.
pub const RULES: [&str; 9] = [
    "imports",
    "cycles",
    "rooms",
    "unsafe",
    "functions",
    "columns",
    "words",
    "files",
    "invariants",
];

/// A committed text.
#[derive(Clone, Debug)]
pub struct Text {
    /// Path from the top of the tree.
    pub path: String,
    /// Contents.
    pub text: String,
}

/// A breach of a rule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Problem {
    /// Path from the top of the tree.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// Rule, one of [`RULES`].
    pub rule: &'static str,
    /// What is wrong and what to do.
    pub text: String,
}

impl Problem {
    fn new(path: &str, line: usize, rule: &'static str, text: impl Into<String>) -> Problem {
        Problem {
            path: path.to_string(),
            line,
            rule,
            text: text.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}: {}",
            self.path, self.line, self.rule, self.text
        )
    }
}

/// Every breach in a tree, in order of place.
pub fn check(tree: &[Text]) -> Vec<Problem> {
    let mut problems = Vec::new();
    match tree.iter().find(|file| file.path == architecture::PAGE) {
        Some(page) => {
            problems.extend(architecture::files(page, tree));
            problems.extend(architecture::invariants(page, tree));
            match architecture::rooms(page) {
                Ok(rooms) => {
                    problems.extend(architecture::same_rooms(&rooms, tree));
                    problems.extend(imports::check(&rooms, tree));
                }
                Err(problem) => problems.push(problem),
            }
        }
        None => problems.push(Problem::new(architecture::PAGE, 1, "files", "is not there")),
    }
    for file in tree {
        problems.extend(code::check(file));
        problems.extend(words::check(file));
    }
    problems.sort();
    problems
}

/// The texts under version control in `root`, and those about to be.
///
/// # Errors
///
/// Without git, or where a file cannot be read.
pub fn tree(root: &Path) -> Result<Vec<Text>> {
    let listing = Command::new("git")
        .args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "-z",
        ])
        .current_dir(root)
        .output()
        .context("git is needed to list the tree")?;
    if !listing.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&listing.stderr));
    }
    let mut tree = Vec::new();
    for path in String::from_utf8(listing.stdout)?.split_terminator('\0') {
        let full = root.join(path);
        // Links are data of saved hosts and may point nowhere; a file may be deleted unstaged.
        if full.is_symlink() || !full.is_file() {
            continue;
        }
        let bytes = std::fs::read(&full).with_context(|| full.display().to_string())?;
        if let Ok(text) = String::from_utf8(bytes) {
            tree.push(Text {
                path: path.to_string(),
                text,
            });
        }
    }
    Ok(tree)
}
