//! Which room imports which, held against the table, and cycles among them.
//!
//! Code that is compiled for tests only is left out: a room's tests may need another room to make
//! their input or to read their output, and nothing of that is in the program.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::architecture::{PAGE, Room, SOURCE, room_of};
use super::lexer;
use super::{Problem, Text};

type Edges = BTreeMap<String, BTreeSet<String>>;

/// An import of one room by another.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Import {
    /// The imported room.
    to: String,
    /// Where, in bytes of the file.
    at: usize,
}

/// Checks every import of the engine's source.
pub fn check(rooms: &[Room], tree: &[Text]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut found = Edges::new();
    let tests = test_files(tree);
    for file in tree.iter().filter(|file| file.path.ends_with(".rs")) {
        let Some(from) = room_of(&file.path).filter(|_| !tests.contains(&file.path)) else {
            continue;
        };
        let room = rooms.iter().find(|room| room.name == from);
        for import in imports(file).into_iter().filter(|import| import.to != from) {
            let line = lexer::line_of(&file.text, import.at);
            let text = match rooms.iter().any(|room| room.name == import.to) {
                false => format!("`{}` at the library's root is no room", import.to),
                true if room.is_some_and(|room| allows(room, &import.to)) => {
                    found.entry(from.to_string()).or_default().insert(import.to);
                    continue;
                }
                true => format!(
                    "`{from}` may not use `{}`: see the table of rooms",
                    import.to
                ),
            };
            problems.push(Problem::new(&file.path, line, "imports", text));
        }
    }
    problems.extend(cycle(&table_edges(rooms)).map(|cycle| told(&cycle, "the table allows")));
    problems.extend(cycle(&found).map(|cycle| told(&cycle, "the source has")));
    problems
}

fn allows(room: &Room, to: &str) -> bool {
    room.may_use.as_ref().is_none_or(|names| names.contains(to))
}

fn told(cycle: &[String], who: &str) -> Problem {
    Problem::new(
        PAGE,
        1,
        "cycles",
        format!("{who} a cycle: {}", cycle.join(" -> ")),
    )
}

/// The table's edges; rooms that may use all are the top and cannot be used by others.
fn table_edges(rooms: &[Room]) -> Edges {
    let edges = rooms
        .iter()
        .filter_map(|room| Some((room.name.clone(), room.may_use.clone()?)));
    edges.collect()
}

/// A cycle, if there is one: its rooms in order, the first again at the end.
fn cycle(edges: &Edges) -> Option<Vec<String>> {
    fn walk(edges: &Edges, at: &String, way: &mut Vec<String>) -> Option<Vec<String>> {
        if let Some(first) = way.iter().position(|room| room == at) {
            let mut cycle = way.split_off(first);
            cycle.push(at.clone());
            return Some(cycle);
        }
        way.push(at.clone());
        for next in edges.get(at).into_iter().flatten() {
            if let Some(cycle) = walk(edges, next, way) {
                return Some(cycle);
            }
        }
        way.pop();
        None
    }
    edges
        .keys()
        .find_map(|room| walk(edges, room, &mut Vec::new()))
}

/// The rooms that a file's code names, by `crate::` or by a `super::` that leaves the room.
fn imports(file: &Text) -> Vec<Import> {
    let mut code = lexer::code(&file.text);
    for range in test_items(&code) {
        code.replace_range(range.clone(), &" ".repeat(range.len()));
    }
    let mut imports = Vec::new();
    for at in lexer::words(&code, "crate") {
        if let Some(path) = after_colons(&code, at + "crate".len()) {
            imports.extend(targets(&code, path));
        }
    }
    for at in lexer::words(&code, "super") {
        let continues = code[..at].trim_end().ends_with("super::");
        let (count, path) = supers(&code, at);
        if !continues && count >= depth(&file.path, &code, at) {
            imports.extend(path.into_iter().flat_map(|path| targets(&code, path)));
        }
    }
    imports
}

/// The position after `::`, if that is what comes next.
fn after_colons(code: &str, at: usize) -> Option<usize> {
    let at = lexer::skip_space(code, at);
    code[at..]
        .starts_with("::")
        .then(|| lexer::skip_space(code, at + 2))
}

/// How many `super` in a row, and where the path goes on after them.
fn supers(code: &str, at: usize) -> (usize, Option<usize>) {
    let mut count = 1;
    let mut path = after_colons(code, at + "super".len());
    while let Some(next) = path.filter(|next| lexer::identifier(code, *next) == "super") {
        count += 1;
        path = after_colons(code, next + "super".len());
    }
    (count, path)
}

/// How many modules deep a position is: so many `super` lead to the library's root.
fn depth(path: &str, code: &str, at: usize) -> usize {
    let inside = path.strip_prefix(SOURCE).unwrap_or(path);
    let inside = inside.trim_end_matches(".rs").trim_end_matches("/mod");
    let inline = lexer::words(code, "mod").into_iter().filter(|start| {
        let name = lexer::skip_space(code, start + "mod".len());
        let open = lexer::skip_space(code, name + lexer::identifier(code, name).len());
        let body = code.as_bytes().get(open) == Some(&b'{');
        body && (open..lexer::closing(code, open)).contains(&at)
    });
    inside.split('/').count() + inline.count()
}

/// What a path at the library's root names: one room, or each of a group in braces.
fn targets(code: &str, at: usize) -> Vec<Import> {
    if code.as_bytes().get(at) != Some(&b'{') {
        let name = lexer::identifier(code, at);
        let to = if name.is_empty() { "*" } else { name };
        return vec![Import {
            to: to.to_string(),
            at,
        }];
    }
    let end = lexer::closing(code, at) - 1;
    let mut targets = Vec::new();
    let (mut depth, mut begins) = (0, true);
    for i in at + 1..end {
        match code.as_bytes()[i] {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 0 => begins = true,
            byte if begins && lexer::is_word(byte) => {
                begins = false;
                targets.push(Import {
                    to: lexer::identifier(code, i).to_string(),
                    at: i,
                });
            }
            _ => {}
        }
    }
    targets.retain(|import| import.to != "self");
    targets
}

/// Where items stand that are compiled for tests only.
fn test_items(code: &str) -> Vec<Range<usize>> {
    let starts = code.match_indices("#[cfg(test)]").map(|(at, _)| at);
    starts.map(|at| at..item_end(code, at)).collect()
}

/// The end of the item whose attributes begin here: its `;`, or the end of its first braces.
fn item_end(code: &str, at: usize) -> usize {
    match lexer::head_end(code, at) {
        Some(i) if code.as_bytes()[i] == b'{' => lexer::closing(code, i),
        Some(i) => i + 1,
        None => code.len(),
    }
}

/// Files that are modules compiled for tests only.
fn test_files(tree: &[Text]) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    for file in tree.iter().filter(|file| file.path.starts_with(SOURCE)) {
        let code = lexer::code(&file.text);
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let own = file.path.trim_end_matches(".rs").trim_end_matches("/mod");
        for range in test_items(&code)
            .into_iter()
            .filter(|range| code[..range.end].ends_with(';'))
        {
            let item = &code[range.clone()];
            let Some(at) = lexer::words(item, "mod").first().copied() else {
                continue;
            };
            let name = lexer::identifier(item, lexer::skip_space(item, at + "mod".len()));
            let source = &file.text[range];
            match source
                .split_once("path = \"")
                .and_then(|(_, rest)| rest.split_once('"'))
            {
                Some((path, _)) => files.insert(format!("{folder}/{path}")),
                None => files.insert(format!("{own}/{name}.rs")),
            };
        }
    }
    files
}
