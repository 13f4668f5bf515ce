//! A process to which the kernel refuses chosen calls, as container runtimes do.
#![expect(
    unsafe_code,
    reason = "a filter must be installed between fork and exec"
)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW,
    SECCOMP_RET_ERRNO, sock_filter, sock_fprog,
};

/// A call that fails.
#[derive(Clone, Copy, Debug)]
pub struct Denied {
    /// Number of the call.
    pub call: libc::c_long,
    /// Only where this argument (from 0) has this value.
    pub only: Option<(u32, u32)>,
    /// Its error number.
    pub errno: i32,
}

/// The three calls of io_uring, failing with this error number.
pub fn io_uring(errno: i32) -> Vec<Denied> {
    let calls = [
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
    ];
    calls
        .into_iter()
        .map(|call| Denied {
            call,
            only: None,
            errno,
        })
        .collect()
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

/// Skips so many of the following statements unless the loaded word is `k`.
fn unless(k: u32, skip: u8) -> sock_filter {
    sock_filter {
        jf: skip,
        ..statement(BPF_JMP | BPF_JEQ | BPF_K, k)
    }
}

fn program(denied: &[Denied]) -> Vec<sock_filter> {
    // Offsets in struct seccomp_data: the number, then the arguments of 64 bits each, of which
    // the low half comes first.
    let load = |offset| statement(BPF_LD | BPF_W | BPF_ABS, offset);
    let mut all = Vec::new();
    for rule in denied {
        let mut checks = Vec::new();
        if let Some((argument, value)) = rule.only {
            checks.extend([load(16 + 8 * argument), unless(value, 1)]);
        }
        let errno = SECCOMP_RET_ERRNO | rule.errno as u32;
        all.extend([load(0), unless(rule.call as u32, checks.len() as u8 + 1)]);
        all.extend(checks);
        all.push(statement(BPF_RET | BPF_K, errno));
    }
    all.push(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    all
}

/// The command will find these calls refused.
pub fn deny<'a>(command: &'a mut Command, denied: &[Denied]) -> &'a mut Command {
    let mut filter = program(denied);
    let install = move || {
        let program = sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_mut_ptr(),
        };
        let mode = libc::SECCOMP_MODE_FILTER;
        // SAFETY: both only set attributes of this process; the kernel copies the program, which
        // lives until the call returns.
        let results = unsafe {
            [
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
                libc::prctl(libc::PR_SET_SECCOMP, mode, &program),
            ]
        };
        match results {
            [0, 0] => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure makes two system calls and allocates nothing, so that it may run
    // between fork and exec.
    unsafe { command.pre_exec(install) }
}
