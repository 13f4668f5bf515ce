//! The kernel programs of ringperf.
//!
//! The source is C with CO-RE in this directory; the compiled object is committed, so that
//! building ringperf needs no clang. `cargo xtask ebpf` makes the object anew and
//! `cargo xtask ebpf --check` proves that the committed one is what the source gives.

pub mod bucket;
pub mod layout;
pub mod programs;

/// The loader reads the object's headers in place, which wants them on words of 64 bits.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

static ALIGNED: &Aligned<[u8]> = &Aligned(*include_bytes!("../object/ringperf.bpf.o"));

/// The compiled object, aligned as the loader wants it.
pub static OBJECT: &[u8] = &ALIGNED.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_is_aligned() {
        assert_eq!(OBJECT.as_ptr().addr() % 8, 0);
        assert!(OBJECT.starts_with(b"\x7fELF"));
    }
}
