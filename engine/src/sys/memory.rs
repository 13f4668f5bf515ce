//! Page-aligned memory that outlives everything the kernel may still do with it.
#![expect(unsafe_code, reason = "mmap and munmap are unsafe calls")]

use std::ffi::c_void;
use std::io;
use std::mem::ManuallyDrop;
use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes of a page.
const PAGE: usize = 4096;
/// Bytes of a huge page, as on all that we build for.
const HUGE: NonZeroUsize = NonZeroUsize::new(2 << 20).expect("not zero");

/// Pages of 2 MiB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum HugePages {
    /// None.
    #[default]
    None,
    /// Made by the kernel where it finds room (madvise, transparent huge pages).
    Transparent,
    /// From the host's reserve (MAP_HUGETLB, `vm.nr_hugepages`).
    Reserved,
}

impl HugePages {
    /// The name of the means, where there is one.
    pub fn name(self) -> Option<&'static str> {
        match self {
            HugePages::None => None,
            HugePages::Transparent => Some("transparent_huge_pages"),
            HugePages::Reserved => Some("hugetlb"),
        }
    }
}

/// Private anonymous memory of whole pages, zeroed.
///
/// It hands out a raw pointer only, because the kernel reads or writes it while an operation is
/// in flight; who dereferences it must know that no such operation is. `std::mem::forget` leaks
/// it on purpose where the kernel may still hold on to it.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    len: NonZeroUsize,
    huge: HugePages,
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

    /// Maps and touches at least `len` bytes, where `huge` in huge pages: reserved ones
    /// (MAP_HUGETLB) if the host has some, else such as the kernel makes where it can (transparent
    /// ones, by madvise).
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn touched(len: usize, huge: bool) -> io::Result<Pages> {
        if !huge {
            return Pages::populated(len);
        }
        let rounded = len.max(1).checked_next_multiple_of(HUGE.get());
        let rounded = rounded.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let reserved = MapFlags::MAP_HUGETLB | MapFlags::MAP_POPULATE;
        if let Ok(mut pages) = Pages::map(rounded, reserved) {
            pages.huge = HugePages::Reserved;
            return Ok(pages);
        }
        let mut pages = Pages::aligned(rounded)?;
        let start = pages.start.cast::<c_void>();
        // SAFETY: the advice is about our own mapping, and does not change its contents.
        let advised = unsafe { madvise(start, pages.len(), MmapAdvise::MADV_HUGEPAGE) };
        for at in (0..pages.len()).step_by(PAGE) {
            // SAFETY: within the mapping, of which only this function knows yet. The write is one
            // that the compiler may not leave out: it has the page made.
            unsafe { pages.as_ptr().add(at).write_volatile(0) };
        }
        if advised.is_ok() {
            pages.huge = HugePages::Transparent;
        }
        Ok(pages)
    }

    /// Maps whole huge pages' worth of address space that begins where a huge page may.
    fn aligned(len: usize) -> io::Result<Pages> {
        let mut wide = ManuallyDrop::new(Pages::map(len + HUGE.get(), MapFlags::MAP_NORESERVE)?);
        let (whole, skip) = (wide.len(), wide.start.as_ptr().align_offset(HUGE.get()));
        // SAFETY: `skip` is below a huge page, which the mapping is longer by. The parts before
        // and behind are unmapped once, here; `wide` is not dropped, and what is left is `Pages`
        // of its own.
        unsafe {
            wide.start = wide.start.add(skip);
            let (head, behind) = (wide.start.sub(skip), wide.start.add(len));
            if skip > 0 {
                munmap(head.cast(), skip)?;
            }
            if whole - len - skip > 0 {
                munmap(behind.cast(), whole - len - skip)?;
            }
        }
        let len = NonZeroUsize::new(len).unwrap_or(HUGE);
        let start = wide.start;
        let huge = HugePages::None;
        Ok(Pages { start, len, huge })
    }

    fn map(len: usize, extra: MapFlags) -> io::Result<Pages> {
        let len = len
            .max(1)
            .checked_next_multiple_of(PAGE)
            .and_then(NonZeroUsize::new);
        let len = len.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_PRIVATE | extra;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe { mmap_anonymous(None, len, prot, flags) }?;
        Ok(Pages {
            start: start.cast(),
            len,
            huge: HugePages::None,
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

    /// Whether they are huge, and by what means.
    pub fn huge(&self) -> HugePages {
        self.huge
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
    /// So many zeros, each page of which was touched, where `huge` in huge pages.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn touched(len: usize, huge: bool) -> io::Result<Bytes> {
        let pages = Pages::touched(len, huge)?;
        Ok(Bytes { pages, len })
    }

    /// A copy of `bytes`.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn of(bytes: &[u8], huge: bool) -> io::Result<Bytes> {
        let mut copy = Bytes::touched(bytes.len(), huge)?;
        copy.copy_from_slice(bytes);
        Ok(copy)
    }

    /// Whether its pages are huge, and by what means.
    pub fn huge(&self) -> HugePages {
        self.pages.huge()
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
        let mut bytes = Bytes::of(b"abc", false).unwrap();
        bytes[1] = b'x';
        assert_eq!(&*bytes, b"axc");
        assert_eq!(&*Bytes::touched(5000, true).unwrap(), [0; 5000]);
        assert!(Bytes::touched(0, false).unwrap().is_empty());
    }

    #[test]
    fn huge_pages_are_what_the_host_has() {
        for len in [1, 5000, (2 << 20) + 1] {
            let pages = Pages::touched(len, true).unwrap();
            assert_ne!(pages.huge(), HugePages::None, "the kernel has neither kind");
            assert_eq!(pages.len(), len.next_multiple_of(2 << 20));
            assert_eq!(pages.as_ptr() as usize % (2 << 20), 0);
            // SAFETY: both bytes are inside the mapping, and only this thread knows of it.
            let ends = unsafe { (*pages.as_ptr(), *pages.as_ptr().add(pages.len() - 1)) };
            assert_eq!(ends, (0, 0));
        }
        let pages = Pages::touched(5000, false).unwrap();
        assert_eq!((pages.len(), pages.huge()), (8192, HugePages::None));
        assert!(Pages::touched(usize::MAX, true).is_err());
    }

    #[test]
    fn impossible_sizes_are_errors() {
        assert!(Pages::reserved(usize::MAX).is_err());
        assert!(Pages::reserved(1 << 62).is_err());
    }
}
