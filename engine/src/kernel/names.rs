//! Names of numbers, from the running kernel's own type information.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ringperf_ebpf::layout;

use super::btf::enumerations;

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
        let kernel = match fs::read(&vmlinux) {
            Ok(kernel) => kernel,
            Err(e) => {
                log::info!(
                    "drop reasons stay numbers: cannot read {}: {e}",
                    vmlinux.display()
                );
                return names;
            }
        };
        names.take(&vmlinux, &kernel, None);
        let Ok(entries) = fs::read_dir(&directory) else {
            return names;
        };
        for entry in entries
            .flatten()
            .filter(|entry| entry.file_name() != "vmlinux")
        {
            match fs::read(entry.path()) {
                Ok(module) => names.take(&entry.path(), &module, Some(&kernel)),
                Err(e) => log::debug!("cannot read {}: {e}", entry.path().display()),
            }
        }
        names
    }

    /// Takes the enumerations that matter out of one object. A number keeps its first name: later
    /// ones are bounds and masks.
    fn take(&mut self, path: &Path, data: &[u8], kernel: Option<&[u8]>) {
        let wanted = |name: &str| name.ends_with(DROP_SUFFIX) || name == CONGESTION;
        let found = match enumerations(data, kernel, wanted) {
            Ok(found) => found,
            Err(e) => {
                log::info!("some drop reasons stay numbers: {}: {e}", path.display());
                return;
            }
        };
        for list in found {
            let (into, prefix) = match list.name == CONGESTION {
                true => (&mut self.congestion, CONGESTION_PREFIX),
                false => (&mut self.drops, DROP_PREFIX),
            };
            for (name, value) in list.members {
                let short = name.strip_prefix(prefix).unwrap_or(&name).to_string();
                into.entry(u64::from(value)).or_insert(short);
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
    use super::super::btf::tests::object;
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

    #[test]
    fn kernel_and_modules_name_their_reasons() {
        let directory = tempfile::tempdir().unwrap();
        let btf = directory.path().join("sys/kernel/btf");
        fs::create_dir_all(&btf).unwrap();
        let strings = b"\0skb_drop_reason\0SKB_DROP_REASON_FOO\0tcp_ca_state\0TCP_CA_Loss\0";
        let types = [[1, 6 << 24 | 1, 4, 17, 9], [37, 6 << 24 | 1, 4, 50, 4]].concat();
        fs::write(btf.join("vmlinux"), object(&types, strings)).unwrap();
        let first = strings.len() as u32;
        let types = [first, 6 << 24 | 1, 4, first + 16, 2 << 16 | 3];
        let module = object(&types, b"ovs_drop_reason\0OVS_DROP_BAR\0");
        fs::write(btf.join("openvswitch"), module).unwrap();
        fs::write(btf.join("broken"), b"no").unwrap();
        let names = Names::read(directory.path());
        assert_eq!(names.drop_reason(9), "FOO");
        assert_eq!(names.drop_reason(0x2_0003), "OVS_DROP_BAR");
        assert_eq!(names.cause(4), "Loss");
    }
}
