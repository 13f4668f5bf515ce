//! Which function an address of the kernel lies in.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Reads `proc/kallsyms` below `root` and gives the function that each address lies in. Addresses
/// that it does not tell (all are zero without CAP_SYSLOG or with kernel.kptr_restrict = 2) are
/// left out.
pub fn places(root: &Path, addresses: &BTreeSet<u64>) -> BTreeMap<u64, String> {
    if addresses.is_empty() {
        return BTreeMap::new();
    }
    let path = root.join("proc/kallsyms");
    let mut reader = match File::open(&path) {
        Ok(file) => BufReader::new(file),
        Err(e) => {
            log::info!(
                "places of drops stay hidden: cannot read {}: {e}",
                path.display()
            );
            return BTreeMap::new();
        }
    };
    // The nearest symbol at or below each address; the file is not sorted across modules, and
    // too long to keep.
    let mut nearest: BTreeMap<u64, (u64, String)> = BTreeMap::new();
    let mut line = String::new();
    while matches!(reader.read_line(&mut line), Ok(1..)) {
        if let Some((start, name)) = function(&line) {
            for address in addresses.range(start..) {
                let better = nearest.get(address).is_none_or(|(best, _)| start > *best);
                if better {
                    nearest.insert(*address, (start, name.to_string()));
                }
            }
        }
        line.clear();
    }
    nearest
        .into_iter()
        .map(|(address, (_, name))| (address, name))
        .collect()
}

/// Address and name on a line of a function: `ffffffff81000000 T name [module]`.
fn function(line: &str) -> Option<(u64, &str)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?;
    let name = words.next()?;
    (address != 0 && kind.eq_ignore_ascii_case("t")).then_some((address, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_functions_with_an_address_count() {
        assert_eq!(
            function("ffffffff81000010 t foo\t[nf_tables]\n"),
            Some((0xffffffff81000010, "foo"))
        );
        assert_eq!(function("ffffffff81000010 D foo\n"), None);
        assert_eq!(function("0000000000000000 T foo\n"), None);
        assert_eq!(function("\n"), None);
    }

    #[test]
    fn the_nearest_function_below_is_the_place() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("proc")).unwrap();
        let text = "0000000000000200 T late\n0000000000000100 T early\n0000000000000180 d data\n";
        std::fs::write(directory.path().join("proc/kallsyms"), text).unwrap();
        let found = places(
            directory.path(),
            &BTreeSet::from([0x50, 0x1ff, 0x200, 0x900]),
        );
        let names: Vec<(u64, &str)> = found.iter().map(|(a, n)| (*a, n.as_str())).collect();
        assert_eq!(names, [(0x1ff, "early"), (0x200, "late"), (0x900, "late")]);
    }
}
