//! What no committed text may contain, and how long its lines may be.

use super::lexer;
use super::{Problem, Text};

/// Lines are shorter than this, in characters.
const COLUMNS: usize = 100;

/// Written in two halves, so that this file does not break its own rule.
const BANNED: [(&str, &str, &str); 13] = [
    ("to", "do!(", "unfinished code does not land"),
    ("unimple", "mented!(", "unfinished code does not land"),
    ("TO", "DO", "file an issue instead"),
    ("FIX", "ME", "file an issue instead"),
    ("db", "g!(", "left over from debugging"),
    (
        "crates",
        ".io",
        "registries are named by their client's settings only",
    ),
    (
        "pypi",
        ".org",
        "registries are named by their client's settings only",
    ),
    (
        "python",
        "hosted.org",
        "registries are named by their client's settings only",
    ),
    (
        "deb.debian",
        ".org",
        "registries are named by their client's settings only",
    ),
    (
        "security.debian",
        ".org",
        "registries are named by their client's settings only",
    ),
    (
        "npmjs",
        ".org",
        "registries are named by their client's settings only",
    ),
    (
        "proxy.golang",
        ".org",
        "registries are named by their client's settings only",
    ),
    ("\x2fwork", "/", "a path of one machine"),
];

/// Machine-made: cargo writes its registry into it.
const LOCK: &str = "Cargo.lock";

/// Checks the words and the lines of one text.
pub fn check(file: &Text) -> Vec<Problem> {
    let mut problems = Vec::new();
    let quoted = match file.path.ends_with(".rs") {
        true => lexer::in_raw_string(&file.text),
        false => Vec::new(),
    };
    for (index, line) in file.text.lines().enumerate() {
        let number = index + 1;
        if file.path != LOCK {
            let found = BANNED
                .iter()
                .filter(|(a, b, _)| line.contains(&format!("{a}{b}")));
            problems.extend(found.map(|(a, b, why)| {
                Problem::new(&file.path, number, "words", format!("`{a}{b}`: {why}"))
            }));
        }
        let length = line.chars().count();
        let is_quoted = quoted.get(index).copied().unwrap_or(false);
        if length >= COLUMNS && is_counted(&file.path, line) && !is_quoted {
            let text = format!("{length} columns; lines stay under {COLUMNS}");
            problems.push(Problem::new(&file.path, number, "columns", text));
        }
    }
    problems
}

/// Code, settings and pages; a row of a table cannot be broken, and pages under `docs` are made
/// from the code's own texts.
fn is_counted(path: &str, line: &str) -> bool {
    let page = path.ends_with(".md") && !path.starts_with("docs/");
    let code = path.ends_with(".rs") || path.ends_with(".toml") || path.starts_with(".ci/");
    code || (page && !line.starts_with('|'))
}
