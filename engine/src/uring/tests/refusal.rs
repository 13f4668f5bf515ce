//! A filter like that of a container run-time, on this thread only.
#![expect(unsafe_code, reason = "installs a seccomp filter")]

use crate::uring::{Refusal, RingError, available};

/// `BPF_LD | BPF_W | BPF_ABS`: load the word at an offset into `struct seccomp_data`.
const LOAD: u16 = 0x20;
/// `BPF_JMP | BPF_JEQ | BPF_K`: skip as many as stated if it equals the constant, or not.
const IF_EQUAL: u16 = 0x15;
/// `BPF_RET | BPF_K`: the verdict.
const RETURN: u16 = 0x06;

/// Makes io_uring_setup fail with `errno` on the calling thread, for good.
fn refuse(errno: i32) -> std::io::Result<()> {
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = [
        step(LOAD, 0, 0, 0),
        step(IF_EQUAL, 0, 1, libc::SYS_io_uring_setup as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: both calls change the calling thread only, and the kernel copies the program, which
    // is well-formed and lives across the call.
    let installed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program, 0, 0) == 0
    };
    if installed {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

#[test]
fn a_filter_is_named_with_its_remedy() {
    let cases = [
        (libc::EPERM, Refusal::SeccompDocker, "containerd"),
        (libc::ENOSYS, Refusal::SeccompPodman, "Podman"),
    ];
    for (errno, cause, name) in cases {
        let refused = std::thread::spawn(move || {
            refuse(errno).expect("a thread may restrict itself");
            available()
        });
        let error = refused
            .join()
            .unwrap()
            .expect_err("io_uring_setup is blocked");
        assert!(
            matches!(error, RingError::Refused { errno: e, cause: c } if (e, c) == (errno, cause)),
            "{error:?}"
        );
        let text = error.to_string();
        assert!(
            text.contains(name) && text.contains("seccompProfile"),
            "{text}"
        );
        assert_eq!(error.exit_code(), 5);
    }
}
