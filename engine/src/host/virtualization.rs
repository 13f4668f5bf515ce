//! Whether the host is a virtual machine or a container, and which.

use super::root::Root;

/// Words of a firmware's vendor or product, and the hypervisor or cloud they stand for.
const FIRMWARE: [(&str, &str); 11] = [
    ("Amazon EC2", "Amazon EC2"),
    ("Google", "Google Compute Engine"),
    ("Microsoft Corporation", "Hyper-V"),
    ("VMware", "VMware"),
    ("VirtualBox", "VirtualBox"),
    ("innotek", "VirtualBox"),
    ("Xen", "Xen"),
    ("OpenStack", "OpenStack"),
    ("Parallels", "Parallels"),
    ("KVM", "KVM"),
    ("QEMU", "QEMU"),
];

/// Words of a control group's or a mount's path, and the container run-time they stand for.
const CONTAINER: [(&str, &str); 7] = [
    ("kubepods", "Kubernetes"),
    ("crio-", "CRI-O"),
    ("containerd", "containerd"),
    ("libpod", "Podman"),
    ("docker", "Docker"),
    ("/lxc", "LXC"),
    ("machine.slice", "systemd-nspawn"),
];

/// What was recognised, for people: `virtual machine (KVM); container (Docker)`. None for a
/// physical host without a container around this process, as far as it shows.
pub(super) fn read(root: &Root) -> Option<String> {
    let mut found = Vec::new();
    if let Some(hypervisor) = hypervisor(root) {
        found.push(format!("virtual machine ({hypervisor})"));
    }
    if let Some(runtime) = container(root) {
        found.push(format!("container ({runtime})"));
    }
    (!found.is_empty()).then(|| found.join("; "))
}

fn hypervisor(root: &Root) -> Option<String> {
    let flagged = root.text("proc/cpuinfo").is_some_and(|text| {
        text.lines().any(|line| {
            line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor")
        })
    });
    let firmware = ["sys_vendor", "product_name"]
        .iter()
        .filter_map(|file| root.value(&format!("sys/class/dmi/id/{file}")))
        .collect::<Vec<_>>()
        .join(" ");
    let named = FIRMWARE.iter().find(|(word, _)| firmware.contains(word));
    // A cloud's bare metal carries the vendor's name without the CPU's flag; on x86 the flag
    // decides, elsewhere there is none and the firmware has the last word.
    let has_flags = root
        .text("proc/cpuinfo")
        .is_some_and(|text| text.contains("\nflags"));
    match (flagged, named) {
        (true, Some((_, name))) => Some(name.to_string()),
        (true, None) => Some(
            root.value("sys/hypervisor/type")
                .unwrap_or("unknown".to_string()),
        ),
        (false, Some((_, name))) if !has_flags => Some(name.to_string()),
        (false, _) => None,
    }
}

fn container(root: &Root) -> Option<String> {
    let groups = root.text("proc/self/cgroup").unwrap_or_default();
    let named = |text: &str| CONTAINER.iter().find(|(word, _)| text.contains(word));
    if let Some((_, name)) = named(&groups) {
        return Some(name.to_string());
    }
    if root.exists("var/run/secrets/kubernetes.io/serviceaccount") {
        return Some("Kubernetes".to_string());
    }
    if root.exists(".dockerenv") {
        return Some("Docker".to_string());
    }
    if root.exists("run/.containerenv") {
        return Some("Podman".to_string());
    }
    // With a control-group namespace the path above is `/`; the root's mount still tells.
    let mounts = root.text("proc/self/mountinfo").unwrap_or_default();
    let root_mount = mounts
        .lines()
        .find(|line| line.split(' ').nth(4) == Some("/"))?;
    named(root_mount).map(|(_, name)| name.to_string())
}
