//! Facts of a host that decide a network measurement.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A network interface.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug, Default)]
#[serde(default)]
pub struct NicFacts {
    /// Interface name.
    pub name: String,
    /// Kernel driver; none for interfaces without one in sysfs.
    pub driver: Option<String>,
    /// MTU, bytes.
    pub mtu: u32,
    /// Link speed, megabits per second.
    pub speed_mbps: Option<u64>,
    /// `up`, `down` or `unknown`.
    pub state: String,
    /// Receive and transmit queues.
    pub queues: (u32, u32),
    /// NUMA node.
    pub numa_node: Option<u32>,
    /// Offload features, by their ethtool names; absent where they could not be read.
    pub offloads: BTreeMap<String, bool>,
}

/// A host as found.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug, Default)]
#[serde(default)]
pub struct HostFacts {
    /// Host name.
    pub hostname: String,
    /// The kernel's identifier of this boot: two hosts with the same one are one machine.
    pub boot_id: String,
    /// Kernel release.
    pub kernel: String,
    /// CPU architecture.
    pub architecture: String,
    /// CPU model.
    pub cpu_model: Option<String>,
    /// CPUs online.
    pub cpus_online: u32,
    /// CPUs that this process may use.
    pub cpus_allowed: Vec<u32>,
    /// Frequency governors in use.
    pub governors: Vec<String>,
    /// Clock source.
    pub clocksource: Option<String>,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Hypervisor or container run-time, where recognised.
    pub virtualization: Option<String>,
    /// Interface of the path to the other side, first; then those asked about.
    pub nics: Vec<NicFacts>,
    /// Sysctls that matter for networking, by name.
    pub sysctls: BTreeMap<String, String>,
    /// Effective capabilities that matter here.
    pub capabilities: Vec<String>,
    /// Soft limits: open files, locked memory (bytes); none is unlimited.
    pub limit_nofile: Option<u64>,
    /// Locked memory limit, bytes.
    pub limit_memlock: Option<u64>,
    /// io_uring: `available`, or why it is not.
    pub io_uring: String,
    /// Version of ringperf on that host.
    pub ringperf: String,
}
