//! The conductor: plan to session to crew to result. The only room that sees both sides.
//!
//! | file | what |
//! |---|---|
//! | `conductor` | the client's session: every case, every sample, one result |
//! | `probed` | the further sample with the stage probes |
//! | `ledger` | the run so far, for whoever ends it |
//! | `local` | the server in this process, for a run without a host |
//! | `serving` | `ringperf serve` |
//! | `factory`, `crew`, `collect`, `options` | the workers behind the control room's traits |
//! | `engine` | which engine drives a side's sockets, and why |
//! | `witness`, `stages` | the kernel's probes and counters around the window |
//! | `side`, `assemble` | what the workers counted, then what both sides counted |
//! | `output` | the result to the user, to files, to the exit code |
//! | `interrupt` | signals |

pub mod assemble;

mod collect;
mod conductor;
mod crew;
mod effects;
mod engine;
mod factory;
mod interrupt;
mod ledger;
mod local;
mod options;
mod output;
mod probed;
mod serving;
mod side;
mod stages;
mod witness;

pub use conductor::execute;
pub use serving::serve;

/// The version of this program.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The kernel's boot identifier: two processes that read the same share one machine's CPUs.
fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_string()
}

/// This host's facts, with what only the engine knows.
fn host_facts(path_interface: Option<&str>) -> crate::record::HostFacts {
    let mut facts = crate::host::facts::read(std::path::Path::new("/"), path_interface);
    facts.io_uring = match crate::uring::available() {
        Ok(_) => "available".to_string(),
        Err(error) => error.to_string(),
    };
    facts.ringperf = VERSION.to_string();
    facts
}

/// This host's facts on the path that ends at an address of its own.
fn path_facts(own: std::net::SocketAddr) -> crate::record::HostFacts {
    host_facts(crate::host::path::interface_to(own).as_deref())
}
