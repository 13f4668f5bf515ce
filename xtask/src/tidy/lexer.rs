//! Rust source with its comments and literals blanked, so that the rules see code only.

use std::ops::Range;

/// Blanks comments, strings and character literals. The result has the same length in bytes and
/// the same line breaks, so that positions in it are positions in the source.
pub fn code(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        match end {
            Some(end) => {
                blank(&mut out, at..end);
                at = end;
            }
            None => at += 1,
        }
    }
    String::from_utf8(out).expect("blanking whole literals leaves UTF-8")
}

/// Whether each line begins inside a raw string: text that is quoted as it is, such as the
/// expected output of a test, and cannot be broken.
pub fn in_raw_string(source: &str) -> Vec<bool> {
    let bytes = source.as_bytes();
    let mut lines = vec![false; source.lines().count()];
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at).unwrap_or(at + 1);
        if matches!(bytes[at..], [b'r', ..] | [b'b' | b'c', b'r', ..]) && end > at + 1 {
            let (first, last) = (line_of(source, at), line_of(source, end));
            lines[first..last].fill(true);
        }
        at = end;
    }
    lines
}

fn blank(out: &mut [u8], range: Range<usize>) {
    for byte in &mut out[range] {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

/// The end of the comment or literal that begins here, if one does.
fn literal_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    let in_word = at > 0 && is_word(bytes[at - 1]);
    match rest {
        [b'/', b'/', ..] => Some(find(bytes, at, b"\n").unwrap_or(bytes.len())),
        [b'/', b'*', ..] => Some(block_comment_end(bytes, at)),
        [b'"', ..] => Some(string_end(bytes, at + 1)),
        [b'\'', ..] => character_end(bytes, at),
        [b'r', b'"' | b'#', ..] if !in_word => raw_end(bytes, at + 1),
        [b'b' | b'c', b'r', b'"' | b'#', ..] if !in_word => raw_end(bytes, at + 2),
        _ => None,
    }
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    bytes[from..]
        .windows(what.len())
        .position(|window| window == what)
        .map(|i| from + i)
}

fn block_comment_end(bytes: &[u8], at: usize) -> usize {
    let (mut depth, mut i) = (0, at);
    while i < bytes.len() {
        match &bytes[i..] {
            [b'/', b'*', ..] => (depth, i) = (depth + 1, i + 2),
            [b'*', b'/', ..] => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], from: usize) -> usize {
    let mut i = from;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => i += 2,
            b'"' => return i + 1,
            _ => i += 1,
        }
    }
    bytes.len()
}

/// A raw string from its hashes on; none for a raw identifier.
fn raw_end(bytes: &[u8], from: usize) -> Option<usize> {
    let hashes = bytes[from..]
        .iter()
        .take_while(|byte| **byte == b'#')
        .count();
    if bytes.get(from + hashes) != Some(&b'"') {
        return None;
    }
    let closing = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    let end = find(bytes, from + hashes + 1, &closing).map(|i| i + closing.len());
    Some(end.unwrap_or(bytes.len()))
}

/// A character literal; none for a lifetime.
fn character_end(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at + 1)? {
        // The escaped character may itself be a quote.
        b'\\' => find(bytes, at + 3, b"'").map(|i| i + 1),
        first => {
            let length = match first {
                0..=0x7f => 1,
                0xc0..=0xdf => 2,
                0xe0..=0xef => 3,
                _ => 4,
            };
            (bytes.get(at + 1 + length) == Some(&b'\'')).then_some(at + 2 + length)
        }
    }
}

/// Whether a byte can be part of an identifier.
pub fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Positions of a whole word in code.
pub fn words(code: &str, word: &str) -> Vec<usize> {
    let bytes = code.as_bytes();
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(|at| {
            let before = at.checked_sub(1).map(|i| bytes[i]);
            let after = bytes.get(at + word.len()).copied();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
        .collect()
}

/// The identifier at a position, if there is one.
pub fn identifier(code: &str, at: usize) -> &str {
    let length = code.as_bytes()[at..]
        .iter()
        .take_while(|byte| is_word(**byte))
        .count();
    &code[at..at + length]
}

/// The first position from `at` on that is not white space.
pub fn skip_space(code: &str, at: usize) -> usize {
    let space = code.as_bytes()[at..]
        .iter()
        .take_while(|byte| byte.is_ascii_whitespace());
    at + space.count()
}

/// The position after the brace that closes the one at `open`.
pub fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0usize;
    for (i, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return i + 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    code.len()
}

/// The `;` or `{` that ends an item's head, from `at` on: not one within brackets or parentheses,
/// as in `[u8; 4]`.
pub fn head_end(code: &str, at: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (i, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b';' | b'{' if depth == 0 => return Some(i),
            _ => {}
        }
    }
    None
}

/// The line of a position, from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        let cases = [
            ("a // b\nc", "a ____\nc"),
            ("a /* b /* c */ d */ e", "a _________________ e"),
            (r#"x("crate::\" y") z"#, "x(_____________) z"),
            ("r#\"a \" b\"# c", "__________ c"),
            ("br\"\\\" c", "_____ c"),
            ("'{' '\\'' '\\u{1b}' 'é' x", "___ ____ ________ ____ x"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("r#fn r#type", "r#fn r#type"),
        ];
        for (source, expected) in cases {
            assert_eq!(code(source), expected.replace('_', " "), "{source}");
            assert_eq!(code(source).len(), source.len());
        }
    }

    #[test]
    fn raw_strings_are_found_by_line() {
        let source = "f(r#\"a\nb\nc\"#);\n\"d\ne\";\nr(1);\nr\"x\";\ny\n";
        let expected = [false, true, true, false, false, false, false, false];
        assert_eq!(in_raw_string(source), expected);
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(words("unsafe_code unsafe {", "unsafe"), [12]);
        assert_eq!(words("mycrate::a crate::b", "crate"), [11]);
    }

    #[test]
    fn braces_match() {
        assert_eq!(closing("a { b { c } d } e", 2), 15);
    }
}
