//! Sysctls that decide what a network measurement shows.

use std::collections::BTreeMap;

use super::root::Root;

/// Names as `sysctl` prints them.
const MATTER: [&str; 34] = [
    "kernel.io_uring_disabled",
    "kernel.io_uring_group",
    "kernel.numa_balancing",
    "kernel.perf_event_paranoid",
    "kernel.timer_migration",
    "kernel.unprivileged_bpf_disabled",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.rps_sock_flow_entries",
    "net.core.somaxconn",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_available_congestion_control",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_wmem",
    "net.ipv4.udp_mem",
];

/// Longest value kept, characters; the kernel's own are far shorter.
const LONGEST: usize = 200;

/// The sysctls that matter and are there, with runs of white space made one blank.
pub(super) fn read(root: &Root) -> BTreeMap<String, String> {
    MATTER
        .iter()
        .filter_map(|name| {
            let value = root.value(&format!("proc/sys/{}", name.replace('.', "/")))?;
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            Some((name.to_string(), value.chars().take(LONGEST).collect()))
        })
        .collect()
}
