//! This process's capabilities and limits, read where the kernel tells them of itself.

use caps::Capability;

use super::cpus::status_field;
use super::root::Root;

/// Capabilities that decide what ringperf can do or see.
const MATTER: [Capability; 9] = [
    Capability::CAP_BPF,
    Capability::CAP_IPC_LOCK,
    Capability::CAP_NET_ADMIN,
    Capability::CAP_NET_BIND_SERVICE,
    Capability::CAP_NET_RAW,
    Capability::CAP_PERFMON,
    Capability::CAP_SYS_ADMIN,
    Capability::CAP_SYS_NICE,
    Capability::CAP_SYS_RESOURCE,
];

/// Effective capabilities that matter here, by name.
pub(super) fn capabilities(root: &Root) -> Vec<String> {
    let effective = status_field(root, "CapEff")
        .and_then(|text| u64::from_str_radix(&text, 16).ok())
        .unwrap_or(0);
    MATTER
        .iter()
        .filter(|capability| effective & capability.bitmask() != 0)
        .map(|capability| capability.to_string())
        .collect()
}

/// The soft limit of that name in `proc/self/limits`; none where it is unlimited or not known.
pub(super) fn soft_limit(root: &Root, name: &str) -> Option<u64> {
    let limits = root.text("proc/self/limits")?;
    let values = limits.lines().find_map(|line| line.strip_prefix(name))?;
    values.split_whitespace().next()?.parse().ok()
}
