//! The kernel programs of ringperf.
//!
//! The source is C with CO-RE in this directory; the compiled object is committed, so that building
//! ringperf needs no clang. `cargo xtask ebpf` makes the object anew and `cargo xtask ebpf --check`
//! proves that the committed one is what the source gives.

pub mod bucket;
pub mod layout;
pub mod programs;

/// The compiled object, aligned as the loader wants it.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!("../object/ringperf.bpf.o");
