//! CPUs: which are online, which this process may use, and which are threads of one core.

use std::collections::BTreeSet;
use std::path::Path;

use super::root::Root;

/// One more than the highest CPU number believed; Linux is built for 8192 at most.
const MOST_CPUS: u32 = 8192;

/// The CPUs of a host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cpus {
    /// Online, ascending.
    pub online: Vec<u32>,
    /// Online and allowed to this process by affinity and cpuset, ascending.
    pub allowed: Vec<u32>,
    /// CPUs that are hardware threads of one core, where a core has several; ascending.
    pub siblings: Vec<Vec<u32>>,
}

impl Cpus {
    /// The CPUs of the host whose file tree is at `root`. What is not stated there is taken from
    /// the other list; with neither there is no CPU.
    pub fn read(root: &Path) -> Cpus {
        Cpus::of(&Root::at(root))
    }

    /// The same, of a tree that is open already.
    pub(super) fn of(root: &Root) -> Cpus {
        let online = root
            .value("sys/devices/system/cpu/online")
            .and_then(|t| parse_list(&t));
        let allowed = status_field(root, "Cpus_allowed_list").and_then(|t| parse_list(&t));
        let (online, allowed) = match (online, allowed) {
            (Some(online), Some(allowed)) => {
                let allowed = allowed
                    .into_iter()
                    .filter(|cpu| online.contains(cpu))
                    .collect();
                (online, allowed)
            }
            (Some(one), None) | (None, Some(one)) => (one.clone(), one),
            (None, None) => (Vec::new(), Vec::new()),
        };
        let siblings = siblings(root, &online);
        Cpus {
            online,
            allowed,
            siblings,
        }
    }

    /// The hardware threads of a CPU's core, that CPU included.
    pub fn core(&self, cpu: u32) -> Vec<u32> {
        self.siblings
            .iter()
            .find(|core| core.contains(&cpu))
            .cloned()
            .unwrap_or(vec![cpu])
    }
}

/// Hardware threads that share a core, for cores with several.
fn siblings(root: &Root, online: &[u32]) -> Vec<Vec<u32>> {
    let cores: BTreeSet<Vec<u32>> = online
        .iter()
        .filter_map(|cpu| {
            let file = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            let mut core = parse_list(&root.value(&file)?)?;
            core.retain(|cpu| online.contains(cpu));
            (core.len() > 1 && core.contains(cpu)).then_some(core)
        })
        .collect();
    cores.into_iter().collect()
}

/// A field of this process's `status`.
pub(super) fn status_field(root: &Root, name: &str) -> Option<String> {
    root.text("proc/self/status")?.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key == name).then(|| value.trim().to_string())
    })
}

/// Parses the kernel's list format, such as `0,2-5`. None for anything else, for no CPU at all
/// and for a number beyond what Linux can have.
pub fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = BTreeSet::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.trim().parse().ok()?;
        let last: u32 = last.trim().parse().ok()?;
        if first > last || last >= MOST_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus.into_iter().collect())
}

/// The shortest list format of CPUs: `0,2-5`; `none` for none.
pub fn format_list(cpus: &[u32]) -> String {
    let sorted: BTreeSet<u32> = cpus.iter().copied().collect();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in sorted {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    if ranges.is_empty() {
        return "none".to_string();
    }
    let parts: Vec<String> = ranges
        .into_iter()
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        })
        .collect();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_as_the_kernel_writes_them() {
        assert_eq!(
            parse_list("0-3,8,10-11\n"),
            Some(vec![0, 1, 2, 3, 8, 10, 11])
        );
        assert_eq!(parse_list("5"), Some(vec![5]));
        assert_eq!(format_list(&[11, 3, 2, 10, 0]), "0,2-3,10-11");
        assert_eq!(format_list(&[]), "none");
    }

    #[test]
    fn anything_else_is_no_list() {
        for text in [
            "",
            ",",
            "3-1",
            "0-",
            "-",
            "a",
            "0-4294967295",
            "8192",
            "1,,2",
            "-1",
            "0x1",
        ] {
            assert_eq!(parse_list(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn printing_and_parsing_agree(
            cpus in proptest::collection::btree_set(0..MOST_CPUS, 1..50),
        ) {
            let cpus: Vec<u32> = cpus.into_iter().collect();
            prop_assert_eq!(parse_list(&format_list(&cpus)), Some(cpus));
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            if let Some(cpus) = parse_list(&text) {
                prop_assert!(!cpus.is_empty() && cpus.iter().all(|cpu| *cpu < MOST_CPUS));
            }
        }
    }
}
