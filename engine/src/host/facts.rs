//! Everything about a host that decides a network measurement.

use std::collections::BTreeSet;
use std::path::Path;

use super::cpus::Cpus;
use super::root::Root;
use super::{nics, process, sysctls, virtualization};
use crate::record::HostFacts;

/// The facts of the host whose file tree is at `root`: `/` for the running one.
///
/// `path_interface` is the interface towards the other side, described first. `io_uring` is left
/// empty for the caller, who has tried it. A fact that cannot be read is absent.
pub fn read(root: &Path, path_interface: Option<&str>) -> HostFacts {
    let root = Root::at(root);
    let cpus = Cpus::of(&root);
    let kernel = |name: &str| {
        root.value(&format!("proc/sys/kernel/{name}"))
            .unwrap_or_default()
    };
    HostFacts {
        hostname: kernel("hostname"),
        boot_id: kernel("random/boot_id"),
        kernel: kernel("osrelease"),
        architecture: architecture(&root),
        cpu_model: cpu_model(&root),
        cpus_online: cpus.online.len() as u32,
        governors: governors(&root, &cpus.allowed),
        cpus_allowed: cpus.allowed,
        clocksource: root.value("sys/devices/system/clocksource/clocksource0/current_clocksource"),
        memory_bytes: memory_bytes(&root),
        virtualization: virtualization::read(&root),
        nics: nics::read(&root, path_interface),
        sysctls: sysctls::read(&root),
        capabilities: process::capabilities(&root),
        limit_nofile: process::soft_limit(&root, "Max open files"),
        limit_memlock: process::soft_limit(&root, "Max locked memory"),
        io_uring: String::new(),
        ringperf: env!("CARGO_PKG_VERSION").to_string(),
    }
}

/// Linux tells its architecture in a file from 6.1 on; before, what this was compiled for.
fn architecture(root: &Root) -> String {
    let compiled = || root.is_live().then(|| std::env::consts::ARCH.to_string());
    root.value("proc/sys/kernel/arch")
        .or_else(compiled)
        .unwrap_or_default()
}

fn cpu_model(root: &Root) -> Option<String> {
    let info = root.text("proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        info.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name && !value.trim().is_empty()).then(|| value.trim().to_string())
        })
    };
    // arm64 has no model name: the board's from the device tree says most, then the part number.
    field("model name")
        .or_else(|| root.value("proc/device-tree/model"))
        .or_else(|| {
            let (implementer, part) = (field("CPU implementer")?, field("CPU part")?);
            Some(format!("implementer {implementer} part {part}"))
        })
}

/// Frequency governors of the CPUs that this process may use, each once.
fn governors(root: &Root, cpus: &[u32]) -> Vec<String> {
    let governor = |cpu: &u32| {
        root.value(&format!(
            "sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"
        ))
    };
    cpus.iter()
        .filter_map(governor)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

fn memory_bytes(root: &Root) -> Option<u64> {
    let info = root.text("proc/meminfo")?;
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
#[path = "facts_tests.rs"]
mod tests;
