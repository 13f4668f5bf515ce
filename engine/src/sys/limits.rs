//! Limits of this process.

use std::io;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};

/// A limit; none is unlimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// In force.
    pub soft: Option<u64>,
    /// As far as it can be raised without CAP_SYS_RESOURCE.
    pub hard: Option<u64>,
}

fn limit(resource: Resource) -> io::Result<Limit> {
    let (soft, hard) = getrlimit(resource)?;
    let finite = |value| (value != RLIM_INFINITY).then_some(value);
    Ok(Limit {
        soft: finite(soft),
        hard: finite(hard),
    })
}

/// Open files.
///
/// # Errors
/// None in practice.
pub fn open_files() -> io::Result<Limit> {
    limit(Resource::RLIMIT_NOFILE)
}

/// Locked memory, bytes.
///
/// # Errors
/// None in practice.
pub fn locked_memory() -> io::Result<Limit> {
    limit(Resource::RLIMIT_MEMLOCK)
}

/// Raises the limit of open files as far as it goes. Gives what is then in force.
///
/// # Errors
/// Those of setrlimit(2), none in practice.
pub fn raise_open_files() -> io::Result<Limit> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft != hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    open_files()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_reaches_the_hard_one() {
        let before = open_files().unwrap();
        let after = raise_open_files().unwrap();
        assert_eq!((after.soft, after.hard), (before.hard, before.hard));
        assert_eq!(open_files().unwrap(), after);
        assert!(locked_memory().is_ok());
    }
}
