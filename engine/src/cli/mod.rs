//! Parse, dispatch, exit code.
//!
//! `run_args` and `serve_args` define the flags, `convert` makes a `plan::Spec` of what was
//! typed, `dispatch` hands the checked plan on, `failure` reports what is wrong with it.

mod convert;
mod dispatch;
mod failure;
mod logging;
mod run_args;
mod serve_args;
#[cfg(test)]
mod tests;

use clap::{ArgAction, Parser, Subcommand};

pub use dispatch::main;

/// TCP and UDP load from pinned io_uring workers, with honest numbers.
#[derive(Parser, Debug)]
#[command(name = "ringperf", version, max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = true)]
struct Cli {
    /// Say more on stderr: -v steps, -vv details, -vvv everything (or set RINGPERF_LOG)
    #[arg(short, long, action = ArgAction::Count, global = true)]
    verbose: u8,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Drive traffic to a server and report what happened
    ///
    /// Without HOST, client and server are in this process and talk over loopback. Without any
    /// dimension either, a short tour shows the main kinds of traffic.
    Run(Box<run_args::RunArgs>),
    /// Wait for clients and serve them
    Serve(serve_args::ServeArgs),
}
