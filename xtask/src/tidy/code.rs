//! Rules on single Rust files: where `unsafe` may stand, and how long a function may be.

use super::lexer;
use super::{Problem, Text};

/// A function's body has fewer lines of code than this.
const FUNCTION_LINES: usize = 70;

/// Where `unsafe` may stand.
const UNSAFE: [&str; 3] = [
    "engine/src/sys/",
    "engine/src/uring/",
    "engine/tests/support/",
];

/// Checks one file; any but Rust source passes.
pub fn check(file: &Text) -> Vec<Problem> {
    if !file.path.ends_with(".rs") {
        return Vec::new();
    }
    let code = lexer::code(&file.text);
    let mut problems = unsafe_blocks(file, &code);
    problems.extend(long_functions(file, &code));
    problems
}

fn unsafe_blocks(file: &Text, code: &str) -> Vec<Problem> {
    let allowed = UNSAFE.iter().any(|folder| file.path.starts_with(folder));
    let lines: Vec<&str> = file.text.lines().collect();
    let mut problems = Vec::new();
    for at in lexer::words(code, "unsafe") {
        let line = lexer::line_of(code, at);
        let mut problem = |text: &str| {
            problems.push(Problem::new(&file.path, line, "unsafe", text));
        };
        if !allowed {
            problem("`unsafe` stands only in sys, uring and the tests' support");
        }
        let next = lexer::skip_space(code, at + "unsafe".len());
        let needs_reason = matches!(code.as_bytes().get(next), Some(b'{'))
            || lexer::identifier(code, next) == "impl";
        if needs_reason && !has_reason(&lines, line) {
            problem("no SAFETY comment above this block");
        }
    }
    problems
}

/// Whether a comment with SAFETY stands on the line (from 1) or above its statement.
fn has_reason(lines: &[&str], line: usize) -> bool {
    if lines[line - 1].contains("// SAFETY:") {
        return true;
    }
    for above in lines[..line - 1].iter().rev() {
        let above = above.trim();
        if above.starts_with("//") {
            if above.contains("SAFETY:") {
                return true;
            }
            continue;
        }
        let ends_statement = above.is_empty() || above.ends_with([';', '{', '}', ',']);
        if ends_statement && !above.starts_with("#[") {
            return false;
        }
    }
    false
}

fn long_functions(file: &Text, code: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for at in lexer::words(code, "fn") {
        let name_at = lexer::skip_space(code, at + "fn".len());
        let name = lexer::identifier(code, name_at);
        // A function pointer's type has no name, a trait's declaration no body.
        let head = lexer::head_end(code, name_at).filter(|_| !name.is_empty());
        let Some(open) = head.filter(|i| code.as_bytes()[*i] == b'{') else {
            continue;
        };
        let body = &code[open..lexer::closing(code, open)];
        // Lines that hold code, the braces' own lines apart: comments were blanked.
        let lines = body
            .lines()
            .filter(|line| !line.trim().is_empty())
            .count()
            .saturating_sub(2);
        if lines >= FUNCTION_LINES {
            let text = format!("`{name}` has {lines} lines; functions stay under 70");
            problems.push(Problem::new(
                &file.path,
                lexer::line_of(code, at),
                "functions",
                text,
            ));
        }
    }
    problems
}
