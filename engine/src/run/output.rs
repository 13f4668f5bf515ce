//! The result to the user, to files, and to the exit code.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::control::crew::Side;
use crate::control::wire::Refusal;
use crate::plan::{Case, JsonTarget, RunInvocation};
use crate::record::{ErrorReport, Finding, Progress, Run, Severity, exit};
use crate::report;
use crate::report::live::Position;
use crate::report::table::Style;
use crate::store::runfile::{self, StoreError};
use crate::sys::stdio;

use super::ledger::Ledger;

/// Width of the table where stdout is no terminal, columns.
const PIPE_WIDTH: usize = 100;

/// A place for the document, besides standard output.
enum Place {
    /// `UUID.json` in a directory.
    Directory(PathBuf),
    /// A path.
    Path(PathBuf),
}

impl Place {
    fn tried(&self) -> Result<(), StoreError> {
        match self {
            Place::Directory(path) => runfile::try_in(path),
            Place::Path(path) => runfile::try_as(path),
        }
    }

    fn save(&self, run: &Run) -> Result<(), StoreError> {
        match self {
            Place::Directory(path) => runfile::save_in(path, run).map(drop),
            Place::Path(path) => runfile::save_as(path, run),
        }
    }

    /// What is saved there can be saved again.
    fn is_replaceable(&self) -> bool {
        match self {
            Place::Directory(_) => true,
            Place::Path(path) => runfile::is_replaceable(path),
        }
    }

    fn flag(&self) -> &'static str {
        match self {
            Place::Directory(_) => "--output",
            Place::Path(_) => "--json",
        }
    }
}

/// Where the result goes.
pub(super) struct Outputs(Vec<Place>);

impl Outputs {
    /// Every place that was asked for.
    pub(super) fn of(invocation: &RunInvocation) -> Outputs {
        let directory = invocation.output_dir.clone().map(Place::Directory);
        let path = match &invocation.json {
            Some(JsonTarget::Path(path)) => Some(Place::Path(path.clone())),
            _ => None,
        };
        let mut places: Vec<Place> = directory.into_iter().chain(path).collect();
        // What takes a document once gets it last, when all is known that can be.
        places.sort_by_key(|place| !place.is_replaceable());
        Outputs(places)
    }

    /// The places that can be written as far as that shows before any traffic, and why the
    /// others cannot.
    pub(super) fn tried(invocation: &RunInvocation) -> (Outputs, Option<Refusal>) {
        let mut wrong = Vec::new();
        let mut outputs = Outputs::of(invocation);
        outputs.0.retain(|place| match place.tried() {
            Ok(()) => true,
            Err(error) => {
                wrong.push(format!("{}: {error}", place.flag()));
                false
            }
        });
        let refusal = Refusal::new(exit::USAGE, "output", wrong.join("\n"));
        (outputs, (!wrong.is_empty()).then_some(refusal))
    }

    /// Writes the run everywhere and to standard output. Where one of them fails, the others have
    /// the run with that error. Returns the exit code of it all.
    pub(super) fn write(self, mut run: Run, invocation: &RunInvocation) -> u8 {
        let mut failures = Vec::new();
        let mut saved: Vec<&Place> = self.0.iter().collect();
        saved.retain(|place| match place.save(&run) {
            Ok(()) => true,
            Err(error) => {
                note(&mut run, &error.to_string());
                failures.push(error);
                false
            }
        });
        if !failures.is_empty() {
            again(&saved, &run);
        }
        if let Err(error) = show(&run, invocation) {
            note(&mut run, &format!("the result cannot be written: {error}"));
            again(&saved, &run);
        }
        exit_code(&run)
    }
}

/// An output failed: the run says so, beside what else went wrong.
fn note(run: &mut Run, text: &str) {
    const CODE: &str = "output-failed";
    log::error!("{text}");
    if run.error.is_some() {
        run.findings.push(Finding::new(Severity::Error, CODE, text));
        return;
    }
    run.error = Some(ErrorReport {
        exit_code: exit::FAILED,
        code: CODE.to_string(),
        text: text.to_string(),
    });
}

/// Saves what is new once more.
fn again(saved: &[&Place], run: &Run) {
    for place in saved.iter().filter(|place| place.is_replaceable()) {
        if let Err(error) = place.save(run) {
            log::error!("{error}");
        }
    }
}

/// The table or the document, to standard output.
fn show(run: &Run, invocation: &RunInvocation) -> io::Result<()> {
    if stdio::output_was_closed() {
        return Err(io::Error::other("standard output is closed"));
    }
    match &invocation.json {
        Some(JsonTarget::Stdout) => document(run, invocation.json_stream),
        _ if invocation.json_stream => document(run, true),
        _ => table(run),
    }
}

fn document(run: &Run, one_line: bool) -> io::Result<()> {
    let text = match one_line {
        true => report::json::render_line(run),
        false => report::json::render(run),
    };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()
}

fn table(run: &Run) -> io::Result<()> {
    let style = Style {
        width: width(),
        ..Style::default()
    };
    let mut out = io::stdout().lock();
    out.write_all(report::table::render(run, style).as_bytes())?;
    out.flush()
}

fn width() -> usize {
    terminal_size::terminal_size().map_or(PIPE_WIDTH, |(width, _)| usize::from(width.0))
}

/// Writes one interval of one side as a line of JSON; nothing once the document, which is the
/// last line, is on its way.
pub(super) fn interval(
    ledger: &Ledger,
    case: &Case,
    position: Position,
    side: Side,
    progress: &Progress,
) {
    let name = match side {
        Side::Client => "client",
        Side::Server => "server",
    };
    let line = report::live::object(case, position, name, progress);
    let mut out = io::stdout().lock();
    if ledger.is_taken() {
        return;
    }
    if let Err(error) = out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
        log::debug!("stdout cannot be written: {error}");
    }
}

/// The gravest of what ended cases and samples early.
pub(super) fn gravest(run: &Run) -> Option<ErrorReport> {
    let mut errors = Vec::new();
    for case in &run.cases {
        errors.extend(&case.error);
        errors.extend(case.samples.iter().filter_map(|s| s.error.as_ref()));
    }
    let codes: Vec<u8> = errors.iter().map(|error| error.exit_code).collect();
    let worst = exit::worst(&codes);
    let first = errors.into_iter().find(|error| error.exit_code == worst);
    first.cloned()
}

/// The exit code of what happened: the first of 5, 2, 4, 3, 1 that applies.
fn exit_code(run: &Run) -> u8 {
    let samples = run.cases.iter().flat_map(|case| &case.samples);
    let found = run
        .findings
        .iter()
        .chain(samples.flat_map(|sample| &sample.findings));
    let wrong = found.into_iter().any(|f| f.severity == Severity::Error);
    let errors = [gravest(run), run.error.clone()];
    let mut codes: Vec<u8> = errors.iter().flatten().map(|e| e.exit_code).collect();
    codes.push(if wrong { exit::FAILED } else { exit::OK });
    exit::worst(&codes)
}
