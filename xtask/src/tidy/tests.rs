//! Each rule, broken on purpose in a tree that is otherwise in order.

use super::*;

const ARCHITECTURE: &str = "\
# A page

| room | what belongs | what does not | may use |
|---|---|---|---|
| low | a | b | - |
| mid | a | b | low |
| cli, main | a | | all |

Named: `engine/src/low/mod.rs`, `mid/mod.rs`, not `cargo test`, `10.0.0.0/8` or `/proc/stat`.

## Invariants

1. Imports follow the table.
   Check: `tidy imports`, `lint unsafe_code`.
2. Low is low. Check: `engine/src/low/mod.rs::low_is_low`.

## After
";

const LOW: &str = "\
//! Low.
/// Gives its argument back.
pub fn low(x: u32) -> u32 {
    x
}

#[cfg(test)]
mod tests {
    use crate::mid;

    #[test]
    fn low_is_low() {
        assert_eq!(super::low(1), mid::mid() - 1);
    }
}
";

const MID: &str = "\
//! Mid. Not `use crate::cli`.
use crate::low;

/// A comment on unsafe, and \"crate::cli\".
pub fn mid() -> u32 {
    low::low(1) + \"use crate::cli\".len() as u32
}
";

fn clean() -> Vec<Text> {
    let file = |path: &str, text: &str| Text {
        path: path.to_string(),
        text: text.to_string(),
    };
    vec![
        file("ARCHITECTURE.md", ARCHITECTURE),
        file(
            "Cargo.toml",
            "[workspace.lints.rust]\nunsafe_code = \"deny\"\n",
        ),
        file(
            "engine/src/lib.rs",
            "//! The library.\npub mod cli;\npub mod low;\npub mod mid;\n",
        ),
        file("engine/src/main.rs", "//! The program.\nfn main() {}\n"),
        file(
            "engine/src/cli/mod.rs",
            "//! The command line.\nuse crate::{low, mid::mid};\n",
        ),
        file("engine/src/low/mod.rs", LOW),
        file("engine/src/mid/mod.rs", MID),
    ]
}

/// The clean tree with one file replaced or added.
fn with(path: &str, text: &str) -> Vec<Text> {
    let mut tree = clean();
    tree.retain(|file| file.path != path);
    tree.push(Text {
        path: path.to_string(),
        text: text.to_string(),
    });
    tree
}

/// The clean tree with a text of one file replaced.
fn edited(path: &str, from: &str, to: &str) -> Vec<Text> {
    let tree = clean();
    let text = &tree.iter().find(|file| file.path == path).unwrap().text;
    assert!(text.contains(from), "{from} is not in {path}");
    with(path, &text.replace(from, to))
}

/// Rule and line of every problem of one file; all others must be in order.
fn problems(tree: &[Text], path: &str) -> Vec<(&'static str, usize)> {
    let problems = check(tree);
    let elsewhere: Vec<&Problem> = problems.iter().filter(|p| p.path != path).collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
    problems
        .iter()
        .map(|problem| (problem.rule, problem.line))
        .collect()
}

#[test]
fn a_tree_in_order_passes() {
    assert_eq!(check(&clean()), []);
}

#[test]
fn an_import_outside_the_table_fails() {
    let forms = [
        "//! Low.\nuse crate::mid;\n",
        "//! Low.\nuse crate::{self, mid::{mid, other}};\n",
        "//! Low.\nfn f() { crate::mid::mid(); }\n",
        "//! Low.\nuse crate ::\n    mid;\n",
        "//! Low.\nuse super::super::mid;\n",
        "//! Low.\nmod inner { use super::super::super::mid; }\n",
        "//! Low.\nmacro_rules! m { () => { $crate::mid::mid() } }\n",
    ];
    for form in forms {
        let tree = with("engine/src/low/deep.rs", form);
        let found = problems(&tree, "engine/src/low/deep.rs");
        assert!(
            matches!(found[..], [("imports", 2 | 3)]),
            "{form}: {found:?}"
        );
    }
}

#[test]
fn a_super_that_stays_inside_passes() {
    let text = "//! Deep.\nuse super::low;\nmod inner {\n    use super::super::low;\n}\n";
    assert_eq!(check(&with("engine/src/low/deep.rs", text)), []);
}

#[test]
fn what_is_no_room_fails_at_the_root() {
    let tree = with(
        "engine/src/mid/deep.rs",
        "//! Deep.\nuse crate::helper;\nuse crate::*;\n",
    );
    let found = problems(&tree, "engine/src/mid/deep.rs");
    assert_eq!(found, [("imports", 2), ("imports", 3)]);
}

#[test]
fn test_modules_may_import_but_only_they() {
    let tests = "//! Tests.\nuse crate::cli;\n";
    let mut tree = edited(
        "engine/src/low/mod.rs",
        "mod tests {",
        "mod others;\n\nmod tests {",
    );
    tree.push(Text {
        path: "engine/src/low/others.rs".into(),
        text: tests.into(),
    });
    // The attribute stands above `others` now, so that the module below it is the program's.
    assert_eq!(problems(&tree, "engine/src/low/mod.rs"), [("imports", 11)]);
    let named = "#[cfg(test)]\n#[path = \"others.rs\"]\nmod tests;\n";
    let mut tree = with("engine/src/low/deep.rs", &format!("//! Deep.\n{named}"));
    tree.push(Text {
        path: "engine/src/low/others.rs".into(),
        text: tests.into(),
    });
    assert_eq!(check(&tree), []);
}

#[test]
fn a_cycle_fails() {
    let tree = edited(
        "ARCHITECTURE.md",
        "| low | a | b | - |",
        "| low | a | b | mid |",
    );
    let found = check(&tree);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].rule, "cycles");
    assert!(found[0].text.contains("low -> mid -> low"), "{}", found[0]);
}

#[test]
fn rooms_and_table_must_agree() {
    let tree = with("engine/src/extra.rs", "//! Extra.\n");
    assert_eq!(problems(&tree, "ARCHITECTURE.md"), [("rooms", 1)]);
    let row = "| mid | a | b | low |";
    let tree = edited(
        "ARCHITECTURE.md",
        row,
        "| mid | a | b | low |\n| gone | a | b | - |",
    );
    assert_eq!(problems(&tree, "ARCHITECTURE.md"), [("rooms", 7)]);
    let tree = edited("ARCHITECTURE.md", row, "| mid | a | b | lower |");
    assert_eq!(problems(&tree, "ARCHITECTURE.md"), [("rooms", 6)]);
    let tree = edited("ARCHITECTURE.md", "| room |", "| rooms |");
    assert_eq!(problems(&tree, "ARCHITECTURE.md"), [("rooms", 1)]);
}

#[test]
fn a_room_without_a_doc_fails() {
    let tree = edited(
        "engine/src/mid/mod.rs",
        "//! Mid. Not `use crate::cli`.\n",
        "",
    );
    assert_eq!(problems(&tree, "engine/src/mid/mod.rs"), [("rooms", 1)]);
}

#[test]
fn unsafe_outside_its_rooms_fails() {
    let text = "//! Deep.\nfn f() {\n    // SAFETY: none.\n    unsafe { g() }\n}\n";
    let tree = with("engine/src/low/deep.rs", text);
    assert_eq!(problems(&tree, "engine/src/low/deep.rs"), [("unsafe", 4)]);
    assert_eq!(check(&with("engine/tests/support/alloc.rs", text)), []);
}

#[test]
fn unsafe_without_a_reason_fails() {
    let path = "engine/tests/support/alloc.rs";
    let bare = "fn f() {\n    let a = 1;\n    unsafe { g() }\n}\nunsafe impl Send for A {}\n";
    assert_eq!(
        problems(&with(path, bare), path),
        [("unsafe", 3), ("unsafe", 5)]
    );
    let reasoned = "fn f() {\n    // SAFETY: g is\n    // harmless.\n    let a =\n        \
                    unsafe { g() };\n}\n// SAFETY: no pointers.\nunsafe impl Send for A {}\n";
    assert_eq!(check(&with(path, reasoned)), []);
    let of_another =
        "fn f() {\n    // SAFETY: of g.\n    unsafe { g() };\n    unsafe { h() };\n}\n";
    assert_eq!(problems(&with(path, of_another), path), [("unsafe", 4)]);
}

#[test]
fn a_long_function_fails() {
    let body = |lines: usize| {
        let comments = "    // counts for nothing\n\n".repeat(50);
        format!(
            "//! F.\nfn f(x: [u8; 2]) {{\n{comments}{}}}\n",
            "    g();\n".repeat(lines)
        )
    };
    assert_eq!(check(&with("engine/src/low/deep.rs", &body(69))), []);
    let tree = with("engine/src/low/deep.rs", &body(70));
    assert_eq!(
        problems(&tree, "engine/src/low/deep.rs"),
        [("functions", 2)]
    );
}

#[test]
fn a_long_line_fails() {
    let line = |length: usize| format!("//! D.\n//{}\n", "é".repeat(length - 2));
    assert_eq!(check(&with("engine/src/low/deep.rs", &line(99))), []);
    let tree = with("engine/src/low/deep.rs", &line(100));
    assert_eq!(problems(&tree, "engine/src/low/deep.rs"), [("columns", 2)]);
    let quoted = format!("//! D.\nconst A: &str = r\"\n{}\n\";\n", "x".repeat(120));
    assert_eq!(check(&with("engine/src/low/deep.rs", &quoted)), []);
    let row = format!("# R\n| {} |\n", "x".repeat(120));
    assert_eq!(check(&with("README.md", &row)), []);
    let text = format!("# R\n{}\n", "x".repeat(120));
    assert_eq!(
        problems(&with("README.md", &text), "README.md"),
        [("columns", 2)]
    );
}

#[test]
fn banned_words_fail() {
    let words = [
        format!("{}do!()", "to"),
        format!("{}g!(x)", "db"),
        format!("index.{}.io", "crates"),
        format!("https://{}.org/simple", "pypi"),
        format!("/{}/here", "work"),
    ];
    for word in words {
        let tree = with("README.md", &format!("# R\n{word}\n"));
        assert_eq!(problems(&tree, "README.md"), [("words", 2)], "{word}");
        assert_eq!(check(&with("Cargo.lock", &word)), []);
    }
}

#[test]
fn a_file_that_is_not_there_fails() {
    let tree = edited("ARCHITECTURE.md", "`mid/mod.rs`", "`mid/gone.rs`");
    assert_eq!(problems(&tree, "ARCHITECTURE.md"), [("files", 9)]);
    let mut tree = clean();
    tree.retain(|file| file.path != "ARCHITECTURE.md");
    assert_eq!(problems(&tree, "ARCHITECTURE.md"), [("files", 1)]);
}

#[test]
fn an_invariant_without_a_check_fails() {
    let check_line = "   Check: `tidy imports`, `lint unsafe_code`.";
    let broken = [
        "",
        "   Check: by reading.",
        "   Check: `tidy no-such-rule`.",
        "   Check: `lint no_such_lint`.",
        "   Check: `engine/src/low/mod.rs::no_such_test`.",
        "   Check: `engine/src/low/mod.rs::low`.",
    ];
    for line in broken {
        let tree = edited("ARCHITECTURE.md", check_line, line);
        assert_eq!(
            problems(&tree, "ARCHITECTURE.md"),
            [("invariants", 13)],
            "{line}"
        );
    }
    let tree = edited("ARCHITECTURE.md", "## Invariants", "## Others");
    assert_eq!(problems(&tree, "ARCHITECTURE.md"), [("invariants", 1)]);
}

#[test]
fn every_rule_is_broken_by_a_test_above() {
    let source = include_str!("tests.rs");
    for rule in RULES {
        assert!(
            source.contains(&format!("(\"{rule}\",")) || rule == "cycles",
            "{rule}"
        );
    }
}
