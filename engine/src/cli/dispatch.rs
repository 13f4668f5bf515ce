//! From arguments to an exit code.

use std::ffi::OsString;
use std::io::Write;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use log::LevelFilter;

use super::failure::{Failure, command};
use super::run_args::RunArgs;
use super::serve_args::ServeArgs;
use super::{Cli, Command, convert, logging};
use crate::plan::check::{check, check_serve};
use crate::plan::{PlanError, RunInvocation};
use crate::record::exit;

/// What the arguments ask for.
pub(super) enum Asked {
    Run(Box<RunInvocation>),
    Serve(crate::plan::ServeOptions),
    /// Nothing is left to do but to end with this code.
    Nothing(u8),
}

/// The program: parses the arguments (the program's name first), does what they ask for, and
/// gives the exit code.
pub fn main(args: &[OsString], out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    match asked(args, out, err) {
        Asked::Run(invocation) => crate::run::execute(*invocation),
        Asked::Serve(options) => crate::run::serve(options),
        Asked::Nothing(code) => code,
    }
}

/// Parses and checks; what is wrong is reported here.
pub(super) fn asked(args: &[OsString], out: &mut dyn Write, err: &mut dyn Write) -> Asked {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => return Asked::Nothing(unparsed(args, &error, out, err)),
    };
    match cli.command {
        Command::Run(run) => {
            logging::start(cli.verbose, LevelFilter::Warn);
            prepare_run(args, *run, out, err)
        }
        Command::Serve(serve) => {
            logging::start(cli.verbose, LevelFilter::Info);
            prepare_serve(args, serve, out, err)
        }
    }
}

/// Help and version, and what clap refuses.
fn unparsed(
    args: &[OsString],
    error: &clap::Error,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                Ok(()) => exit::OK,
                Err(_) => exit::FAILED,
            }
        }
        _ => Failure {
            args,
            code: "usage",
            text: negative(args, error).unwrap_or(text),
        }
        .report(out, err),
    }
}

/// A negative number is read as a flag, of which there is none; what was meant is the value of
/// the flag before it, and no value is negative.
fn negative(args: &[OsString], error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let number =
        |arg: &str| arg.starts_with('-') && arg[1..].starts_with(|c: char| c.is_ascii_digit());
    let words: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
    let pair = words.windows(2).find(|pair| {
        pair[0].starts_with('-') && number(pair[1]) && pair[1].starts_with(unknown)
    })?;
    let (flag, value) = (pair[0], pair[1]);
    Some(format!(
        "error: {flag} {value}: no value is negative; `--help` says what it may be"
    ))
}

fn prepare_run(
    args: &[OsString],
    run: RunArgs,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Asked {
    if run.matrix.iperf_bitrate.is_some() && !run.output.quiet {
        let _ = writeln!(
            err,
            "note: -b is the bitrate of all flows of a direction together; iperf3's is per stream"
        );
    }
    let json = convert::json(&run.output);
    let (json_stream, quiet) = (run.output.json_stream, run.output.quiet);
    let output_dir = run.output.output.clone();
    let spec = convert::spec(run);
    match check(&spec) {
        Err(errors) => Asked::Nothing(refused(args, &errors, out, err)),
        Ok(plan) => Asked::Run(Box::new(RunInvocation {
            plan,
            host: spec.host_port(),
            json,
            json_stream,
            output_dir,
            quiet,
            wait_for_server_ns: spec.wait_for_server,
            command: command(args),
        })),
    }
}

fn prepare_serve(
    args: &[OsString],
    serve: ServeArgs,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Asked {
    let options = serve.options();
    match check_serve(&options) {
        Err(errors) => Asked::Nothing(refused(args, &errors, out, err)),
        Ok(()) => Asked::Serve(options),
    }
}

fn refused(
    args: &[OsString],
    errors: &[PlanError],
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let lines: Vec<String> = errors
        .iter()
        .map(|error| format!("error: {error}"))
        .collect();
    Failure {
        args,
        code: "plan",
        text: lines.join("\n"),
    }
    .report(out, err)
}
