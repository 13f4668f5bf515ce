//! `ebpf/expected.toml`: the kernels, where Debian has them, and what each must show.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// A kernel and what it must show.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// The first two numbers of its version.
    pub version: String,
    /// Debian's suite that has it.
    pub suite: String,
    /// Whether every check boots it.
    #[serde(default)]
    pub always: bool,
    /// Whether its machine has cmpxchg16b. Without it kernels from 7.x on have no memory for what
    /// programs keep with a socket (kmalloc_nolock); with it 6.12 panicked now and then under
    /// emulation.
    #[serde(default)]
    pub cx16: bool,
    /// Stages that TCP transactions show on both sides.
    pub tcp: Vec<String>,
    /// Stages that UDP transactions show on both sides.
    pub udp: Vec<String>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Page {
    kernel: Vec<Kernel>,
}

/// Reads the page.
///
/// # Errors
///
/// Where it cannot be read or is not as it must be.
pub fn read(root: &Path) -> Result<Vec<Kernel>> {
    let path = root.join("ebpf/expected.toml");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let page: Page = toml::from_str(&text).with_context(|| format!("{}", path.display()))?;
    Ok(page.kernel)
}

/// The kernels of these versions; without any all or those of every check.
///
/// # Errors
///
/// Where a version is not on the page.
pub fn choose<'a>(all: &'a [Kernel], versions: &[String], every: bool) -> Result<Vec<&'a Kernel>> {
    if versions.is_empty() {
        return Ok(all.iter().filter(|k| every || k.always).collect());
    }
    let mut chosen = Vec::new();
    for version in versions {
        let Some(kernel) = all.iter().find(|k| k.version == *version) else {
            let known: Vec<&str> = all.iter().map(|k| k.version.as_str()).collect();
            bail!(
                "{version} is not in ebpf/expected.toml, which has {}",
                known.join(", ")
            );
        };
        chosen.push(kernel);
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Vec<Kernel> {
        read(&crate::root()).unwrap()
    }

    #[test]
    fn the_page_is_readable_and_every_check_has_two_kernels() {
        let all = page();
        let always: Vec<_> = choose(&all, &[], false).unwrap();
        assert_eq!(always.len(), 2);
        assert_eq!(choose(&all, &[], true).unwrap().len(), all.len());
        for kernel in &all {
            assert_eq!(kernel.tcp.is_empty(), kernel.udp.is_empty(), "{kernel:?}");
        }
    }

    #[test]
    fn a_version_is_taken_or_refused_by_name() {
        let all = page();
        let one = choose(&all, &["6.12".to_string()], false).unwrap();
        assert_eq!(one[0].suite, "trixie");
        let error = choose(&all, &["4.4".to_string()], false).unwrap_err();
        assert!(error.to_string().contains("4.4 is not in"), "{error}");
    }
}
