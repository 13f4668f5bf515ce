//! What integration tests share: namespaces joined by a veth pair, a relay that harms datagrams
//! by a script, and an allocator that counts.
#![allow(
    dead_code,
    reason = "each test binary uses the part of this that it needs"
)]

pub mod alloc;
pub mod netns;
pub mod process;
pub mod relay;
pub mod seccomp;
pub mod session;
pub mod sound;
