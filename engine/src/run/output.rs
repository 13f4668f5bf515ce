//! The result to the user, to files, and to the exit code.

use std::io::{self, Write};

use crate::control::crew::Side;
use crate::plan::{Case, JsonTarget, RunInvocation};
use crate::record::exit::worst;
use crate::record::{Progress, Run, Severity};
use crate::report;
use crate::report::table::Style;
use crate::store::runfile;

/// Width of the table where stdout is no terminal, columns.
const PIPE_WIDTH: usize = 100;

/// Writes what was asked for. Returns the exit code that the writing itself deserves.
pub(super) fn write(run: &Run, invocation: &RunInvocation) -> u8 {
    let mut code = 0;
    if let Some(dir) = &invocation.output_dir
        && let Err(error) = runfile::save_in(dir, run)
    {
        log::error!("{error}");
        code = 4;
    }
    let shown = match &invocation.json {
        Some(JsonTarget::Stdout) => document(run, invocation.json_stream),
        Some(JsonTarget::Path(path)) => {
            if let Err(error) = runfile::save_as(path, run) {
                log::error!("{error}");
                code = 4;
            }
            table(run, invocation.json_stream)
        }
        None if invocation.json_stream => document(run, true),
        None => table(run, false),
    };
    if let Err(error) = shown {
        log::error!("the result cannot be written: {error}");
        code = 4;
    }
    code
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

fn table(run: &Run, after_stream: bool) -> io::Result<()> {
    if after_stream {
        return document(run, true);
    }
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

/// Writes one interval of one side as a line of JSON.
pub(super) fn interval(case: &Case, sample: u32, side: Side, progress: &Progress) {
    let name = match side {
        Side::Client => "client",
        Side::Server => "server",
    };
    let line = report::live::object(case, sample, name, progress);
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
        log::debug!("stdout cannot be written: {error}");
    }
}

/// The exit code of what happened: the first of 5, 2, 4, 3, 1 that applies.
pub(super) fn exit_code(run: &Run, own: u8) -> u8 {
    let mut codes = vec![own];
    codes.extend(run.error.iter().map(|e| e.exit_code));
    for case in &run.cases {
        codes.extend(case.error.iter().map(|e| e.exit_code));
        for sample in &case.samples {
            codes.extend(sample.error.iter().map(|e| e.exit_code));
            let wrong = sample
                .findings
                .iter()
                .any(|f| f.severity == Severity::Error);
            codes.push(if wrong { 4 } else { 0 });
        }
    }
    worst(&codes)
}
