//! What ARCHITECTURE.md says, and whether it is true.

use std::collections::BTreeSet;

use super::{Problem, RULES, Text};

/// The page that the rules are read from.
pub const PAGE: &str = "ARCHITECTURE.md";

/// Where the rooms are.
pub const SOURCE: &str = "engine/src/";

/// A row of the table of rooms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Room {
    /// Name of the module.
    pub name: String,
    /// Line of the row in the page.
    pub line: usize,
    /// Rooms that it may import; none stands for all.
    pub may_use: Option<BTreeSet<String>>,
}

/// Reads the table of rooms.
///
/// # Errors
///
/// Where there is no such table, or a row names a room that the table does not have.
pub fn rooms(page: &Text) -> Result<Vec<Room>, Problem> {
    let mut rooms: Vec<Room> = Vec::new();
    let mut in_table = false;
    for (number, line) in page.text.lines().enumerate() {
        let cells: Vec<&str> = line
            .trim()
            .trim_matches('|')
            .split('|')
            .map(str::trim)
            .collect();
        if !line.starts_with('|') {
            in_table = false;
        } else if cells.first() == Some(&"room") && cells.last() == Some(&"may use") {
            in_table = true;
        } else if in_table && !cells[0].starts_with("---") {
            let may_use = may_use(cells[cells.len() - 1]);
            rooms.extend(cells[0].split(',').map(|name| Room {
                name: name.trim().to_string(),
                line: number + 1,
                may_use: may_use.clone(),
            }));
        }
    }
    if rooms.is_empty() {
        let text = "has no table whose first column is `room` and last column `may use`";
        return Err(Problem::new(PAGE, 1, "rooms", text));
    }
    let names: BTreeSet<&String> = rooms.iter().map(|room| &room.name).collect();
    for room in &rooms {
        if let Some(other) = room
            .may_use
            .iter()
            .flatten()
            .find(|name| !names.contains(name))
        {
            let text = format!("`{}` may use `{other}`, which is no room", room.name);
            return Err(Problem::new(PAGE, room.line, "rooms", text));
        }
    }
    Ok(rooms)
}

fn may_use(cell: &str) -> Option<BTreeSet<String>> {
    match cell {
        "all" => None,
        "-" => Some(BTreeSet::new()),
        list => Some(
            list.split(',')
                .map(|name| name.trim().to_string())
                .collect(),
        ),
    }
}

/// The room that a source file belongs to; `main` for the binary's, none for others and for the
/// library's root, which only lists the rooms.
pub fn room_of(path: &str) -> Option<&str> {
    let inside = path.strip_prefix(SOURCE)?;
    let first = inside.split('/').next()?;
    let name = first.strip_suffix(".rs").unwrap_or(first);
    (name != "lib").then_some(name)
}

/// The table has exactly the rooms that there are, and each says what it is.
pub fn same_rooms(rooms: &[Room], tree: &[Text]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let found: BTreeSet<&str> = tree
        .iter()
        .filter(|file| file.path.ends_with(".rs"))
        .filter_map(|file| room_of(&file.path))
        .collect();
    for room in rooms
        .iter()
        .filter(|room| !found.contains(room.name.as_str()))
    {
        let text = format!("`{}` is not under {SOURCE}", room.name);
        problems.push(Problem::new(PAGE, room.line, "rooms", text));
    }
    for name in found {
        if !rooms.iter().any(|room| room.name == name) {
            let text = format!("{SOURCE}{name} is not in the table of rooms");
            problems.push(Problem::new(PAGE, 1, "rooms", text));
        }
        let paths = [
            format!("{SOURCE}{name}/mod.rs"),
            format!("{SOURCE}{name}.rs"),
        ];
        let file = tree.iter().find(|file| paths.contains(&file.path));
        if let Some(file) = file.filter(|file| !file.text.starts_with("//!")) {
            let text = "the room does not begin with a `//!` that says what belongs in it";
            problems.push(Problem::new(&file.path, 1, "rooms", text));
        }
    }
    problems
}

/// Every file that the page names in a code span is there.
pub fn files(page: &Text, tree: &[Text]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, line) in page.text.lines().enumerate() {
        for span in spans(line).into_iter().filter(|span| is_path(span)) {
            let path = span
                .split("::")
                .next()
                .unwrap_or(span)
                .trim_end_matches('/');
            let folder = format!("{path}/");
            let there = |base: &str| {
                tree.iter().any(|file| {
                    let rest = file.path.strip_prefix(base);
                    rest.is_some_and(|rest| rest == path || rest.starts_with(&folder))
                })
            };
            if !there("") && !there(SOURCE) {
                let text = format!("names `{span}`, which is not there");
                problems.push(Problem::new(PAGE, number + 1, "files", text));
            }
        }
    }
    problems
}

/// The code spans of a line.
fn spans(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

/// Whether a code span names a file of this tree: not a command, a pattern, an absolute path, an
/// address or a ratio; a check with its file is the invariants' own.
fn is_path(span: &str) -> bool {
    let named = span.contains('/') || [".rs", ".md", ".toml"].iter().any(|e| span.ends_with(e));
    let other = |c: char| c.is_whitespace() || "*<>{}()[]=,|$:".contains(c);
    named && !span.contains(other) && !span.starts_with(['/', '-']) && !span.starts_with(is_digit)
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

/// Every invariant names a check, and the check exists.
pub fn invariants(page: &Text, tree: &[Text]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let items = items(&page.text);
    if items.is_empty() {
        let text = "has no numbered list under the heading `Invariants`";
        problems.push(Problem::new(PAGE, 1, "invariants", text));
    }
    for (line, item) in items {
        let mut problem = |text: String| {
            problems.push(Problem::new(PAGE, line, "invariants", text));
        };
        let checks = item
            .split_once("Check:")
            .map(|(_, after)| spans(after))
            .unwrap_or_default();
        if checks.is_empty() {
            problem("names no check: add `Check:` and a rule of tidy, a lint or a test".into());
        }
        for check in checks.into_iter().filter(|check| !exists(check, tree)) {
            problem(format!("its check `{check}` does not exist"));
        }
    }
    problems
}

/// The numbered items under the heading `Invariants`, with the line that each begins on.
fn items(page: &str) -> Vec<(usize, String)> {
    let mut items: Vec<(usize, String)> = Vec::new();
    let mut inside = false;
    for (number, line) in page.lines().enumerate() {
        if line.starts_with('#') {
            inside = line.trim_start_matches('#').trim() == "Invariants";
        } else if inside {
            let begins = line
                .split_once(". ")
                .is_some_and(|(n, _)| n.parse::<u32>().is_ok());
            match items.last_mut() {
                _ if begins => items.push((number + 1, line.to_string())),
                Some((_, item)) => *item = format!("{item} {}", line.trim()),
                None => {}
            }
        }
    }
    items
}

/// Whether a named check is there: `tidy RULE`, `lint NAME` (denied for the workspace), or a test
/// as `FILE::NAME`.
fn exists(check: &str, tree: &[Text]) -> bool {
    if let Some(rule) = check.strip_prefix("tidy ") {
        return RULES.contains(&rule);
    }
    if let Some(lint) = check.strip_prefix("lint ") {
        let denied = format!("{lint} = \"deny\"");
        let manifest = tree.iter().find(|file| file.path == "Cargo.toml");
        return manifest.is_some_and(|file| file.text.lines().any(|line| line == denied));
    }
    let Some((path, name)) = check.split_once("::") else {
        return false;
    };
    let function = format!("fn {name}(");
    let file = tree.iter().find(|file| file.path == path);
    file.is_some_and(|file| is_test(&file.text, &function))
}

/// Whether a function stands directly below the attributes of a test.
fn is_test(text: &str, function: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let Some(at) = lines.iter().position(|line| line.starts_with(function)) else {
        return false;
    };
    let above = lines[..at].iter().rev();
    let mut attributes = above.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    attributes.any(|line| *line == "#[test]")
}
