//! Below the tables: findings and errors.

use super::head::IN_HEAD;
use super::wrap;
use crate::record::{ErrorReport, Finding, Run, Severity};

/// A finding with everything that it applies to.
struct Note<'a> {
    first: &'a Finding,
    texts: usize,
    cases: Vec<&'a str>,
}

/// Each kind of finding once, the gravest first, with the cases it applies to.
pub(super) fn findings(run: &Run, width: usize) -> String {
    let mut notes: Vec<Note<'_>> = Vec::new();
    let of_run = run.findings.iter().map(|finding| (finding, None));
    let of_cases = run.cases.iter().flat_map(|case| {
        let name = Some(case.case.name.as_str());
        case.samples
            .iter()
            .flat_map(|s| &s.findings)
            .map(move |finding| (finding, name))
    });
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (finding, case) in of_run.chain(of_cases) {
        if IN_HEAD.contains(&finding.code.as_str()) {
            continue;
        }
        let same = |note: &&mut Note<'_>| {
            note.first.code == finding.code && note.first.severity == finding.severity
        };
        let new_text = !seen.contains(&(&finding.code, &finding.text));
        seen.push((&finding.code, &finding.text));
        match notes.iter_mut().find(same) {
            Some(note) => {
                note.texts += usize::from(new_text);
                note.cases
                    .extend(case.filter(|case| !note.cases.contains(case)));
            }
            None => {
                notes.push(Note {
                    first: finding,
                    texts: 1,
                    cases: case.into_iter().collect(),
                });
            }
        }
    }
    notes.sort_by_key(|note| std::cmp::Reverse(note.first.severity));
    block(
        "findings",
        notes
            .iter()
            .map(|note| (severity(note.first.severity), text(note))),
        width,
    )
}

fn text(note: &Note<'_>) -> String {
    let Note {
        first,
        texts,
        cases,
    } = note;
    let more = match texts - 1 {
        0 => String::new(),
        more => format!(" (and {more} more like it)"),
    };
    let cases = match cases.as_slice() {
        [] => String::new(),
        cases => format!(" [{}]", cases.join("; ")),
    };
    format!("{}: {}{more}{cases}", first.code, first.text)
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

/// Each error once, with the cases it ended.
pub(super) fn errors(run: &Run, width: usize) -> String {
    let mut errors: Vec<(&ErrorReport, Vec<&str>)> = Vec::new();
    let of_run = run.error.iter().map(|error| (error, None));
    let of_cases = run.cases.iter().flat_map(|case| {
        let of_samples = case
            .samples
            .iter()
            .filter_map(|sample| sample.error.as_ref());
        case.error
            .iter()
            .chain(of_samples)
            .map(|error| (error, Some(case.case.name.as_str())))
    });
    for (error, case) in of_run.chain(of_cases) {
        let at = errors
            .iter()
            .position(|(known, _)| *known == error)
            .unwrap_or(errors.len());
        if at == errors.len() {
            errors.push((error, Vec::new()));
        }
        let cases = &mut errors[at].1;
        cases.extend(case.filter(|case| !cases.contains(case)));
    }
    let lines = errors.iter().map(|(error, cases)| {
        let cases = match cases.as_slice() {
            [] => String::new(),
            cases => format!(" [{}]", cases.join("; ")),
        };
        let label = match error.exit_code {
            0 => "".to_string(),
            code => format!(" (exit {code})"),
        };
        (
            "error",
            format!("{}: {}{label}{cases}", error.code, error.text),
        )
    });
    block("errors", lines, width)
}

fn block(
    title: &str,
    entries: impl Iterator<Item = (&'static str, String)>,
    width: usize,
) -> String {
    const LABEL: usize = 10;
    let lines: Vec<String> = entries
        .flat_map(|(label, text)| wrap(label, LABEL, &text, width))
        .collect();
    if lines.is_empty() {
        String::new()
    } else {
        format!("{title}\n{}", lines.join("\n"))
    }
}
