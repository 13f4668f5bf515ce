//! Why a ring cannot be made, in words that name the remedy.

use std::io;

use thiserror::Error;

/// Why a ring cannot be made. Every one of them means that this host cannot run it.
#[derive(Error, Debug)]
pub enum RingError {
    /// `io_uring_setup` was refused.
    #[error("io_uring is not available here ({}): {cause}", errno_name(*.errno))]
    Refused {
        /// EPERM, EACCES or ENOSYS.
        errno: i32,
        /// What refuses it, and the remedy.
        cause: Refusal,
    },
    /// The kernel's io_uring lacks something that there is no way around.
    #[error(
        "this kernel's io_uring is too old: it lacks {missing}. \
         Remedy: a kernel of 5.11 or later (6.1 or later for full speed)"
    )]
    TooOld {
        /// What it lacks.
        missing: String,
    },
    /// The kernel's io_uring lacks what only this set-up needs.
    #[error("this kernel's io_uring lacks {what}. Remedy: {remedy}")]
    Lacks {
        /// What it lacks.
        what: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// Not enough memory.
    #[error(
        "not enough memory for {what} ({bytes} bytes). Remedy: fewer flows, smaller or fewer \
         buffers; a larger memory limit of the container; on kernels before 5.12 also a larger \
         locked-memory limit (ulimit -l, or CAP_IPC_LOCK)"
    )]
    Memory {
        /// What it was for.
        what: &'static str,
        /// How much; 0 where the kernel decides.
        bytes: u64,
    },
    /// No descriptor is left for the ring.
    #[error(
        "no file descriptor is left for an io_uring. \
         Remedy: a larger limit of open files (ulimit -n), or fewer workers"
    )]
    Descriptors,
    /// Anything else.
    #[error("{call} failed: {source}")]
    System {
        /// The call.
        call: &'static str,
        /// Its error.
        source: io::Error,
    },
}

impl RingError {
    /// What the process ends with: 5, this host cannot run it.
    pub fn exit_code(&self) -> u8 {
        5
    }

    /// Stable code of the refusal.
    pub fn code(&self) -> &'static str {
        match self {
            RingError::Lacks { .. } => "zerocopy-unavailable",
            _ => "io-uring-unavailable",
        }
    }

    /// The cause in a few words, with the errno where there is one.
    pub fn brief(&self) -> String {
        match self {
            RingError::Refused { errno, cause } => {
                format!("{} ({})", cause.brief(), errno_name(*errno))
            }
            RingError::TooOld { .. } => "too old a kernel".to_string(),
            RingError::Lacks { what, .. } => format!("no {what}"),
            RingError::Memory { .. } => "not enough memory".to_string(),
            RingError::Descriptors => "no file descriptor is left".to_string(),
            RingError::System { call, source } => format!("{call} failed: {source}"),
        }
    }

    /// Names an error of `io_uring_setup`.
    pub(super) fn of_setup(error: io::Error) -> RingError {
        match error.raw_os_error() {
            Some(errno @ (libc::EPERM | libc::EACCES | libc::ENOSYS)) => RingError::Refused {
                errno,
                cause: Refusal::find(errno),
            },
            Some(libc::ENOMEM) => RingError::Memory {
                what: "the io_uring queues",
                bytes: 0,
            },
            Some(libc::EMFILE | libc::ENFILE) => RingError::Descriptors,
            _ => RingError::System {
                call: "io_uring_setup",
                source: error,
            },
        }
    }

    /// Names an error of a mapping or registration of `bytes` bytes for `what`.
    pub(super) fn of_memory(what: &'static str, bytes: usize) -> impl Fn(io::Error) -> RingError {
        move |error| match error.raw_os_error() {
            Some(libc::ENOMEM) => RingError::Memory {
                what,
                bytes: bytes as u64,
            },
            _ => RingError::System {
                call: what,
                source: error,
            },
        }
    }
}

fn errno_name(errno: i32) -> String {
    match errno {
        libc::EPERM => "EPERM".into(),
        libc::EACCES => "EACCES".into(),
        libc::ENOSYS => "ENOSYS".into(),
        other => format!("errno {other}"),
    }
}

/// What refuses io_uring. Its text names the remedy.
#[derive(Error, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// `kernel.io_uring_disabled` is 2.
    #[error(
        "the sysctl kernel.io_uring_disabled is 2, off for everybody (the default of RHEL 9). \
         Remedy: sysctl -w kernel.io_uring_disabled=0 on the host"
    )]
    SysctlOff,
    /// `kernel.io_uring_disabled` is 1.
    #[error(
        "the sysctl kernel.io_uring_disabled is 1, which leaves it to CAP_SYS_ADMIN and to the \
         group in kernel.io_uring_group. Remedy: sysctl -w kernel.io_uring_disabled=0 on the \
         host, membership in that group, or CAP_SYS_ADMIN"
    )]
    SysctlPrivileged,
    /// A seccomp filter that answers EPERM.
    #[error(
        "a seccomp filter blocks it, as the default profiles of Docker since 25.0, of Docker \
         Desktop since 4.42 and of containerd since 2.0 do. {SECCOMP_REMEDY}"
    )]
    SeccompDocker,
    /// A seccomp filter that answers ENOSYS.
    #[error(
        "a seccomp filter blocks it, as the default profiles of Podman and CRI-O do. \
         {SECCOMP_REMEDY}"
    )]
    SeccompPodman,
    /// No filter is in force and the kernel does not know the call.
    #[error(
        "the kernel has no io_uring: it is older than 5.1 or built without CONFIG_IO_URING. \
         Remedy: a kernel of 5.11 or later with it"
    )]
    NotInKernel,
    /// Neither the sysctl nor seccomp.
    #[error(
        "neither kernel.io_uring_disabled nor a seccomp filter accounts for it; a security \
         module may (SELinux: class io_uring). Remedy: look for a denial in the audit log"
    )]
    Unknown,
}

const SECCOMP_REMEDY: &str = "Remedy in Kubernetes: seccompProfile Localhost with a profile that \
    is the run-time's default plus io_uring_setup, io_uring_enter and io_uring_register (on every \
    node under /var/lib/kubelet/seccomp), or seccompProfile Unconfined, or privileged: true; with \
    docker or podman: --security-opt seccomp=PROFILE or seccomp=unconfined";

impl Refusal {
    fn brief(self) -> &'static str {
        match self {
            Refusal::SysctlOff | Refusal::SysctlPrivileged => "kernel.io_uring_disabled",
            Refusal::SeccompDocker | Refusal::SeccompPodman => "seccomp",
            Refusal::NotInKernel => "not in this kernel",
            Refusal::Unknown => "by an unknown cause",
        }
    }

    fn find(errno: i32) -> Refusal {
        let sysctl = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok();
        let status = std::fs::read_to_string("/proc/thread-self/status").ok();
        Refusal::diagnose(errno, sysctl.as_deref(), status.as_deref())
    }

    /// The likely cause of `errno`, given the sysctl's text and the thread's `status` file.
    fn diagnose(errno: i32, sysctl: Option<&str>, status: Option<&str>) -> Refusal {
        let filtered = status.is_some_and(|status| {
            let mode = status
                .lines()
                .find_map(|line| line.strip_prefix("Seccomp:"));
            mode.is_some_and(|mode| mode.trim() == "2")
        });
        let sysctl = sysctl.map(str::trim);
        match errno {
            libc::ENOSYS if filtered => Refusal::SeccompPodman,
            libc::ENOSYS => Refusal::NotInKernel,
            _ if sysctl == Some("2") => Refusal::SysctlOff,
            // A privileged process is not refused by 1, but the filter can be there as well, so
            // the sysctl is named first only where nothing else is in force.
            _ if filtered => Refusal::SeccompDocker,
            _ if sysctl == Some("1") => Refusal::SysctlPrivileged,
            _ => Refusal::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILTER: Option<&str> = Some("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n");
    const NO_FILTER: Option<&str> = Some("Name:\tx\nSeccomp:\t0\nSeccomp_filters:\t0\n");

    #[test]
    fn causes_are_told_apart() {
        let cases = [
            (libc::EPERM, Some("2\n"), FILTER, Refusal::SysctlOff),
            (
                libc::EPERM,
                Some("1\n"),
                NO_FILTER,
                Refusal::SysctlPrivileged,
            ),
            (libc::EPERM, Some("0\n"), FILTER, Refusal::SeccompDocker),
            (libc::EPERM, None, FILTER, Refusal::SeccompDocker),
            (libc::EPERM, Some("0\n"), NO_FILTER, Refusal::Unknown),
            (libc::EACCES, None, None, Refusal::Unknown),
            (libc::ENOSYS, None, FILTER, Refusal::SeccompPodman),
            (libc::ENOSYS, None, NO_FILTER, Refusal::NotInKernel),
        ];
        for (errno, sysctl, status, expected) in cases {
            assert_eq!(
                Refusal::diagnose(errno, sysctl, status),
                expected,
                "{errno} {sysctl:?}"
            );
        }
    }

    #[test]
    fn every_refusal_has_a_remedy_and_its_errno() {
        for errno in [libc::EPERM, libc::ENOSYS] {
            let error = RingError::of_setup(io::Error::from_raw_os_error(errno));
            assert!(matches!(error, RingError::Refused { errno: e, .. } if e == errno));
            let text = error.to_string();
            assert!(
                text.contains("Remedy") && text.contains(&errno_name(errno)),
                "{text}"
            );
        }
        let error = RingError::of_setup(io::Error::from_raw_os_error(libc::EMFILE));
        assert!(error.to_string().contains("ulimit -n"));
    }

    #[test]
    fn memory_is_named() {
        let name = RingError::of_memory("receive buffers", 4096);
        let text = name(io::Error::from_raw_os_error(libc::ENOMEM)).to_string();
        assert!(
            text.contains("receive buffers") && text.contains("4096"),
            "{text}"
        );
        assert_eq!(name(io::Error::from_raw_os_error(libc::EIO)).exit_code(), 5);
    }
}
