//! Network interfaces, from sysfs and, on the running host, ethtool.

use std::collections::BTreeMap;

use super::ethtool;
use super::root::Root;
use crate::record::host::NicFacts;

/// Most interfaces described: the path's own and what it stands on, not every virtual function.
const MOST: usize = 8;

/// Most bytes of an interface's name (IFNAMSIZ less the end).
const LONGEST_NAME: usize = 15;

/// The interface of the path first, then the ones it stands on (members of a bond or bridge, the
/// parent of a VLAN). Without a path, the physical interfaces that are up.
pub(super) fn read(root: &Root, path_interface: Option<&str>) -> Vec<NicFacts> {
    let names = match path_interface {
        Some(name) => with_lower(root, name),
        None => physical(root),
    };
    names
        .iter()
        .take(MOST)
        .map(|name| describe(root, name))
        .collect()
}

/// Whether a name can be an interface's: not a way out of its directory.
fn is_name(name: &str) -> bool {
    let other = |c: char| c == '/' || c.is_whitespace() || c.is_control();
    !name.is_empty()
        && name.len() <= LONGEST_NAME
        && name != "."
        && name != ".."
        && !name.contains(other)
}

fn with_lower(root: &Root, name: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut waiting = vec![name.to_string()];
    while let Some(name) = waiting.pop() {
        let there = is_name(&name) && root.exists(&format!("sys/class/net/{name}"));
        if !there || names.contains(&name) || names.len() == MOST {
            continue;
        }
        let entries = root.names(&format!("sys/class/net/{name}"));
        let lower = entries
            .iter()
            .filter_map(|entry| entry.strip_prefix("lower_"));
        waiting.extend(lower.rev().map(str::to_string));
        names.push(name);
    }
    names
}

fn physical(root: &Root) -> Vec<String> {
    let mut names = root.names("sys/class/net");
    names.retain(|name| {
        let state = root.text(&format!("sys/class/net/{name}/operstate"));
        is_name(name)
            && root.exists(&format!("sys/class/net/{name}/device"))
            && state.as_deref() == Some("up")
    });
    names
}

fn describe(root: &Root, name: &str) -> NicFacts {
    let file = |relative: &str| format!("sys/class/net/{name}/{relative}");
    let queues = root.names(&file("queues"));
    let count = |prefix: &str| queues.iter().filter(|q| q.starts_with(prefix)).count() as u32;
    let small = |value: u64| u32::try_from(value).ok();
    NicFacts {
        name: name.to_string(),
        driver: root.link_name(&file("device/driver")),
        mtu: root.number(&file("mtu")).and_then(small).unwrap_or(0),
        speed_mbps: root.number(&file("speed")),
        state: root
            .value(&file("operstate"))
            .unwrap_or("unknown".to_string()),
        queues: (count("rx-"), count("tx-")),
        numa_node: root.number(&file("device/numa_node")).and_then(small),
        offloads: match root.is_live() {
            true => ethtool::offloads(name),
            false => BTreeMap::new(),
        },
    }
}
