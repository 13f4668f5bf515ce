//! The `ringperf` command.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    ExitCode::from(ringperf::cli::main(
        &args,
        &mut io::stdout(),
        &mut io::stderr(),
    ))
}
