//! Tests of the reader against hosts saved as directories, and against hostile ones.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

fn saved(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/hosts")
        .join(name)
}

/// A directory of this test's own, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let name = format!("ringperf-facts-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn write(&self, relative: &str, bytes: &[u8]) {
        let path = self.0.join(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_small_virtual_machine() {
    let facts = read(&saved("vm"), Some("eth0"));
    assert_eq!(facts.hostname, "vm-2cpu");
    assert_eq!(facts.kernel, "6.18.44");
    assert_eq!(facts.architecture, "x86_64");
    assert_eq!(facts.cpu_model.as_deref(), Some("AMD EPYC"));
    assert_eq!((facts.cpus_online, facts.cpus_allowed), (2, vec![0, 1]));
    assert_eq!(facts.governors, Vec::<String>::new());
    assert_eq!(facts.clocksource.as_deref(), Some("tsc"));
    assert_eq!(facts.memory_bytes, Some(24_683_652 * 1024));
    assert_eq!(
        facts.virtualization.as_deref(),
        Some("virtual machine (unknown)")
    );
    assert_eq!(facts.sysctls["net.ipv4.tcp_congestion_control"], "bbr");
    assert_eq!(facts.sysctls["net.ipv4.tcp_rmem"], "4096 131072 6291456");
    assert_eq!(facts.sysctls["kernel.io_uring_disabled"], "0");
    assert!(!facts.sysctls.contains_key("net.core.busy_poll"));
    assert_eq!(facts.capabilities.len(), 9);
    assert_eq!(
        (facts.limit_nofile, facts.limit_memlock),
        (Some(1024), Some(8_388_608))
    );
    let [nic] = &facts.nics[..] else {
        panic!("{:?}", facts.nics)
    };
    assert_eq!(
        (nic.name.as_str(), nic.state.as_str(), nic.mtu),
        ("eth0", "up", 1400)
    );
    assert_eq!(nic.driver.as_deref(), Some("virtio_net"));
    assert_eq!(
        (nic.speed_mbps, nic.numa_node, nic.queues),
        (None, None, (1, 1))
    );
}

#[test]
fn a_server_with_two_sockets_and_a_bond() {
    let facts = read(&saved("two-socket"), Some("bond0"));
    assert_eq!(
        facts.cpu_model.as_deref(),
        Some("Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz")
    );
    assert_eq!((facts.cpus_online, facts.cpus_allowed.len()), (16, 16));
    assert_eq!(facts.governors, ["performance", "powersave"]);
    assert_eq!(facts.virtualization, None);
    assert_eq!(
        (facts.limit_nofile, facts.limit_memlock),
        (Some(1_048_576), None)
    );
    let names: Vec<&str> = facts.nics.iter().map(|nic| nic.name.as_str()).collect();
    assert_eq!(names, ["bond0", "ens1f0np0", "ens1f1np1"]);
    let port = &facts.nics[1];
    assert_eq!(port.driver.as_deref(), Some("mlx5_core"));
    assert_eq!(
        (port.speed_mbps, port.numa_node, port.mtu),
        (Some(100_000), Some(1), 9000)
    );
    assert_eq!(port.queues, (4, 4));
    assert_eq!(
        (&facts.nics[0].driver, facts.nics[0].speed_mbps),
        (&None, Some(200_000))
    );

    let cpus = Cpus::read(&saved("two-socket"));
    assert_eq!(cpus.siblings.len(), 8);
    assert_eq!(cpus.core(9), [1, 9]);
}

#[test]
fn without_a_path_the_physical_interfaces_that_are_up() {
    let facts = read(&saved("two-socket"), None);
    let names: Vec<&str> = facts.nics.iter().map(|nic| nic.name.as_str()).collect();
    assert_eq!(names, ["ens1f0np0", "ens1f1np1"]);
}

#[test]
fn a_container_held_to_a_cpuset() {
    let facts = read(&saved("container"), Some("eth0"));
    assert_eq!((facts.cpus_online, facts.cpus_allowed), (12, vec![2, 3, 8]));
    let kind = "virtual machine (Amazon EC2); container (Kubernetes)";
    assert_eq!(facts.virtualization.as_deref(), Some(kind));
    assert_eq!(facts.capabilities, ["CAP_NET_BIND_SERVICE", "CAP_NET_RAW"]);
    assert_eq!(facts.sysctls["kernel.io_uring_disabled"], "2");
    assert_eq!(
        (
            facts.nics[0].driver.as_deref(),
            facts.nics[0].state.as_str()
        ),
        (None, "up")
    );
}

#[test]
fn an_arm64_board() {
    let facts = read(&saved("arm64-board"), Some("end0"));
    assert_eq!(facts.architecture, "aarch64");
    assert_eq!(
        facts.cpu_model.as_deref(),
        Some("Raspberry Pi 4 Model B Rev 1.5")
    );
    assert_eq!((facts.cpus_online, facts.cpus_allowed), (3, vec![0, 1, 2]));
    assert_eq!(facts.governors, ["ondemand"]);
    assert_eq!(facts.clocksource.as_deref(), Some("arch_sys_counter"));
    assert_eq!(facts.virtualization, None);
    assert_eq!(facts.nics[0].driver.as_deref(), Some("bcmgenet"));
    assert_eq!(facts.nics[0].speed_mbps, Some(1000));
}

#[test]
fn an_empty_root_has_nothing_and_no_error() {
    let scratch = Scratch::new("empty");
    let facts = read(&scratch.0, Some("eth0"));
    let version = env!("CARGO_PKG_VERSION").to_string();
    assert_eq!(
        facts,
        HostFacts {
            ringperf: version,
            ..HostFacts::default()
        }
    );
}

#[test]
fn the_running_host_reads() {
    let facts = read(Path::new("/"), Some("lo"));
    assert!(!facts.hostname.is_empty() && !facts.kernel.is_empty());
    assert!(facts.cpus_online >= 1 && !facts.cpus_allowed.is_empty());
    assert!(facts.memory_bytes.is_some_and(|bytes| bytes > 1 << 20));
    assert_eq!(facts.nics[0].name, "lo");
    assert!(
        facts.nics[0]
            .offloads
            .contains_key("tx-generic-segmentation")
    );
    let (soft, _) =
        nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap();
    assert_eq!(facts.limit_nofile, Some(soft));
}

#[test]
fn an_interfaces_name_is_not_a_way_out() {
    for name in [
        "..",
        ".",
        "",
        "../../../proc",
        "a/b",
        "a b",
        "sixteen-bytes-xx",
    ] {
        assert_eq!(read(Path::new("/"), Some(name)).nics, [], "{name:?}");
    }
}

#[test]
fn members_that_point_at_each_other_end() {
    let scratch = Scratch::new("loop");
    scratch.write("sys/class/net/a/lower_b/mtu", b"1");
    scratch.write("sys/class/net/b/lower_a/mtu", b"1");
    assert_eq!(read(&scratch.0, Some("a")).nics.len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn hostile_contents_never_panic(
        files in proptest::collection::vec(
            (0..HOSTILE.len(), proptest::collection::vec(any::<u8>(), 0..80), 0..PREFIXES.len()),
            1..12,
        ),
    ) {
        let scratch = Scratch::new("hostile");
        for (file, bytes, prefix) in &files {
            let mut contents = PREFIXES[*prefix].as_bytes().to_vec();
            contents.extend(bytes);
            scratch.write(HOSTILE[*file], &contents);
        }
        let facts = read(&scratch.0, Some("eth0"));
        let text = serde_json::to_string(&facts).unwrap();
        prop_assert_eq!(serde_json::from_str::<HostFacts>(&text).unwrap(), facts.clone());
        prop_assert!(facts.cpus_allowed.len() <= 8192);
        prop_assert!(!facts.hostname.contains(ESCAPE));
    }
}

/// What begins a terminal's control sequences.
const ESCAPE: char = '\u{1b}';

const HOSTILE: [&str; 15] = [
    "proc/sys/kernel/hostname",
    "proc/sys/kernel/osrelease",
    "proc/cpuinfo",
    "proc/meminfo",
    "proc/self/status",
    "proc/self/limits",
    "proc/self/cgroup",
    "proc/self/mountinfo",
    "proc/sys/net/ipv4/tcp_rmem",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "sys/class/dmi/id/sys_vendor",
    "sys/class/net/eth0/mtu",
    "sys/class/net/eth0/speed",
];

/// What real files begin with, so that the parsers get past their first step.
const PREFIXES: [&str; 8] = [
    "",
    "0-",
    "MemTotal: ",
    "Cpus_allowed_list:\t0-1,",
    "CapEff:\t",
    "Max open files   ",
    "flags\t: hypervisor ",
    "\u{1b}[2J18446744073709551615 ",
];
