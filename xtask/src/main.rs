//! Tasks of the tree: `cargo xtask`.

mod ebpf;

use anyhow::Result;
use clap::Parser;

#[derive(Parser)]
enum Task {
    /// Builds the object of the kernel programs anew.
    Ebpf {
        /// Only compare the committed one with what the source gives.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> Result<()> {
    match Task::parse() {
        Task::Ebpf { check } => ebpf::run(check),
    }
}
