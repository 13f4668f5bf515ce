//! Page-aligned memory that outlives everything the kernel may still do with it.
#![expect(unsafe_code, reason = "mmap and munmap are unsafe calls")]

use std::ffi::c_void;
use std::io;
use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Private anonymous memory of whole pages, zeroed.
///
/// It hands out a raw pointer only, because the kernel reads or writes it while an operation is
/// in flight; who dereferences it must know that no such operation is. `std::mem::forget` leaks
/// it on purpose where the kernel may still hold on to it.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    len: NonZeroUsize,
}

impl Pages {
    /// Maps at least `len` bytes (one page where 0) and touches every page, so that the first
    /// use of each is not a page fault in the measurement.
    ///
    /// # Errors
    /// Those of mmap(2), in the first place ENOMEM.
    pub fn populated(len: usize) -> io::Result<Pages> {
        Pages::map(len, MapFlags::MAP_POPULATE)
    }

    /// Maps at least `len` bytes that take no memory until they are touched.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn reserved(len: usize) -> io::Result<Pages> {
        Pages::map(len, MapFlags::MAP_NORESERVE)
    }

    fn map(len: usize, extra: MapFlags) -> io::Result<Pages> {
        let page = 4096;
        let len = len
            .max(1)
            .checked_next_multiple_of(page)
            .and_then(NonZeroUsize::new);
        let len = len.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_PRIVATE | extra;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe { mmap_anonymous(None, len, prot, flags) }?;
        Ok(Pages {
            start: start.cast(),
            len,
        })
    }

    /// First byte; valid for [`Pages::len`] bytes as long as this value lives.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes mapped: whole pages.
    pub fn len(&self) -> usize {
        self.len.get()
    }

    /// Never: there is at least one page.
    pub fn is_empty(&self) -> bool {
        false
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this address and length, and no reference
        // into it exists, since only raw pointers were given out.
        let unmapped = unsafe { munmap(self.start.cast::<c_void>(), self.len.get()) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping: {unmapped:?}");
    }
}

/// Whole pages used like a slice.
///
/// In contrast to the heap's, they are nobody else's after they were dropped: what the kernel
/// still sends from them (MSG_ZEROCOPY) stays what it was.
#[derive(Debug)]
pub struct Bytes {
    pages: Pages,
    len: usize,
}

// SAFETY: the mapping is reached through this value alone, whichever thread has it.
unsafe impl Send for Bytes {}

impl Bytes {
    /// So many zeros, each page of which was touched.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn touched(len: usize) -> io::Result<Bytes> {
        let pages = Pages::populated(len)?;
        Ok(Bytes { pages, len })
    }

    /// A copy of `bytes`.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn of(bytes: &[u8]) -> io::Result<Bytes> {
        let mut copy = Bytes::touched(bytes.len())?;
        copy.copy_from_slice(bytes);
        Ok(copy)
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is at least `len` bytes of initialised memory, and only `&mut self`
        // gives a way to write it.
        unsafe { std::slice::from_raw_parts(self.pages.as_ptr(), self.len) }
    }
}

impl DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` keeps everybody else away.
        unsafe { std::slice::from_raw_parts_mut(self.pages.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_aligned_zeroed_and_rounded_up() {
        for pages in [
            Pages::populated(5000).unwrap(),
            Pages::reserved(5000).unwrap(),
        ] {
            assert_eq!(pages.len(), 8192);
            assert_eq!(pages.as_ptr() as usize % 4096, 0);
            // SAFETY: both bytes are inside the mapping, and only this thread knows of it.
            let ends = unsafe { (*pages.as_ptr(), *pages.as_ptr().add(8191)) };
            assert_eq!(ends, (0, 0));
        }
        assert_eq!(Pages::populated(0).unwrap().len(), 4096);
    }

    #[test]
    fn bytes_are_a_slice_of_the_length_asked_for() {
        let mut bytes = Bytes::of(b"abc").unwrap();
        bytes[1] = b'x';
        assert_eq!(&*bytes, b"axc");
        assert_eq!(&*Bytes::touched(5000).unwrap(), [0; 5000]);
        assert!(Bytes::touched(0).unwrap().is_empty());
    }

    #[test]
    fn impossible_sizes_are_errors() {
        assert!(Pages::reserved(usize::MAX).is_err());
        assert!(Pages::reserved(1 << 62).is_err());
    }
}
