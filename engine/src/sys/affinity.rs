//! CPUs that this process may use, and pinning a thread to one.

use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;

/// CPUs that the calling thread may use, ascending.
///
/// # Errors
/// EINVAL on a machine with more than 1024 possible CPUs.
pub fn allowed_cpus() -> io::Result<Vec<u32>> {
    let set = sched_getaffinity(Pid::from_raw(0))?;
    let allowed = |cpu: &usize| set.is_set(*cpu).unwrap_or(false);
    Ok((0..CpuSet::count())
        .filter(allowed)
        .map(|cpu| cpu as u32)
        .collect())
}

/// Pins the calling thread to one CPU and checks that the kernel took it.
///
/// # Errors
/// EINVAL where the CPU is not there or not allowed to this process.
pub fn pin_thread(cpu: u32) -> io::Result<()> {
    let id = core_affinity::CoreId { id: cpu as usize };
    if (cpu as usize) < CpuSet::count()
        && core_affinity::set_for_current(id)
        && allowed_cpus()? == [cpu]
    {
        return Ok(());
    }
    Err(io::Error::from_raw_os_error(libc::EINVAL))
}

/// Lets the calling thread run on these CPUs only.
///
/// # Errors
/// EINVAL where none of them is there and allowed to this process.
pub fn restrict_thread(cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu as usize)?;
    }
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// CPU that the calling thread runs on now.
///
/// # Errors
/// ENOSYS on kernels without getcpu(2).
pub fn current_cpu() -> io::Result<u32> {
    Ok(sched_getcpu()? as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restricted_thread_keeps_to_its_cpus() {
        let allowed = allowed_cpus().unwrap();
        let last = *allowed.last().unwrap();
        let kept = std::thread::spawn(move || {
            restrict_thread(&[last]).unwrap();
            allowed_cpus().unwrap()
        });
        assert_eq!(kept.join().unwrap(), [last]);
        assert!(restrict_thread(&[]).is_err());
    }

    #[test]
    fn a_pinned_thread_stays_where_it_was_put() {
        let before = allowed_cpus().unwrap();
        assert!(!before.is_empty());
        for cpu in before.clone() {
            let pinned = std::thread::spawn(move || {
                pin_thread(cpu).unwrap();
                (current_cpu().unwrap(), allowed_cpus().unwrap())
            });
            assert_eq!(pinned.join().unwrap(), (cpu, vec![cpu]));
        }
        assert_eq!(allowed_cpus().unwrap(), before);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error() {
        for cpu in [1023, 1024, u32::MAX] {
            assert_eq!(
                pin_thread(cpu).unwrap_err().raw_os_error(),
                Some(libc::EINVAL)
            );
        }
    }
}
