//! The machine as found. Reads from a root path and changes nothing.
//!
//! Nothing here fails for a file that is missing: a fact that cannot be read is absent. The root
//! path lets tests read whole hosts that were saved as directories.

pub mod cpus;
pub mod facts;
pub mod path;
pub mod placement;

mod ethtool;
mod nics;
mod process;
mod root;
mod sysctls;
mod virtualization;

pub use cpus::Cpus;
