//! Names of numbers, from the running kernel's own type information.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use btf_rs::{Btf, Type};
use ringperf_ebpf::layout;

/// Prefix of the core drop reasons.
const DROP_PREFIX: &str = "SKB_DROP_REASON_";
/// Enumeration of the core drop reasons; those of subsystems and modules end like it, and their
/// values carry the subsystem's number above the low 16 bits.
const DROP_SUFFIX: &str = "_drop_reason";
const CONGESTION: &str = "tcp_ca_state";
const CONGESTION_PREFIX: &str = "TCP_CA_";

/// Names of drop reasons and of the states of congestion control.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Names {
    drops: BTreeMap<u64, String>,
    congestion: BTreeMap<u64, String>,
}

impl Names {
    /// Reads `sys/kernel/btf` below `root`: the kernel's and its modules'. What cannot be read
    /// stays without a name, and the log says so.
    pub fn read(root: &Path) -> Names {
        let mut names = Names::default();
        let directory = root.join("sys/kernel/btf");
        let vmlinux = directory.join("vmlinux");
        let kernel = match Btf::from_file(&vmlinux) {
            Ok(btf) => btf,
            Err(e) => {
                log::info!(
                    "drop reasons stay numbers: cannot read {}: {e}",
                    vmlinux.display()
                );
                return names;
            }
        };
        names.take(&kernel);
        let Ok(entries) = fs::read_dir(&directory) else {
            return names;
        };
        for entry in entries
            .flatten()
            .filter(|entry| entry.file_name() != "vmlinux")
        {
            match Btf::from_split_file(entry.path(), &kernel) {
                Ok(module) => names.take(&module),
                Err(e) => log::debug!("cannot read {}: {e}", entry.path().display()),
            }
        }
        names
    }

    /// Takes the enumerations that matter out of one object. A number keeps its first name: later
    /// ones are bounds and masks.
    fn take(&mut self, btf: &Btf) {
        let (first, last) = btf.split().unwrap_or(btf.base()).type_id_range();
        for id in first..=last {
            let Ok(Type::Enum(list)) = btf.resolve_type_by_id(id) else {
                continue;
            };
            let Ok(name) = btf.resolve_name(&list) else {
                continue;
            };
            let (into, prefix) = if name.ends_with(DROP_SUFFIX) {
                (&mut self.drops, DROP_PREFIX)
            } else if name == CONGESTION {
                (&mut self.congestion, CONGESTION_PREFIX)
            } else {
                continue;
            };
            for member in &list.members {
                let Ok(name) = btf.resolve_name(member) else {
                    continue;
                };
                let short = name.strip_prefix(prefix).unwrap_or(&name).to_string();
                into.entry(u64::from(member.val())).or_insert(short);
            }
        }
    }

    /// Name of a drop reason; its number where the kernel does not name it.
    pub fn drop_reason(&self, number: u64) -> String {
        if number == layout::REASON_NONE {
            return "none".to_string();
        }
        self.drops
            .get(&number)
            .cloned()
            .unwrap_or_else(|| format!("{number:#x}"))
    }

    /// Name of a retransmission's cause.
    pub(super) fn cause(&self, number: u64) -> String {
        match number {
            layout::CAUSE_SYN => "SYN".to_string(),
            layout::CAUSE_SYNACK => "SYN-ACK".to_string(),
            _ => self
                .congestion
                .get(&number)
                .cloned()
                .unwrap_or_else(|| number.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_type_information_numbers_stay() {
        let directory = tempfile::tempdir().unwrap();
        let names = Names::read(directory.path());
        assert_eq!(names.drop_reason(0x2_0003), "0x20003");
        assert_eq!(names.drop_reason(layout::REASON_NONE), "none");
        assert_eq!(names.cause(layout::CAUSE_SYNACK), "SYN-ACK");
        assert_eq!(names.cause(4), "4");
    }
}
