//! Diagnostics on stderr.

use log::LevelFilter;

/// Name of the environment variable that sets levels, in env_logger's syntax.
const VARIABLE: &str = "RINGPERF_LOG";

/// Starts the logger; a second call in the same process changes nothing.
pub(super) fn start(verbose: u8, usual: LevelFilter) {
    let level = match verbose {
        0 => usual,
        1 => LevelFilter::Info.max(usual),
        2 => LevelFilter::Debug,
        _ => LevelFilter::Trace,
    };
    let mut logger = env_logger::Builder::new();
    logger.filter_module("ringperf", level).parse_env(VARIABLE);
    // An error says that a logger is there already, which is as good.
    let _ = logger.try_init();
}
