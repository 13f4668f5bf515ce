//! Words of memory that the kernel and this process both read and write.
#![expect(unsafe_code, reason = "mmap and munmap are unsafe calls")]

use std::ffi::c_void;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// A shared mapping of whole 64-bit words, each read and written by itself: what is read of
/// several words need not be of one moment.
#[derive(Debug)]
pub struct SharedWords {
    start: NonNull<c_void>,
    bytes: NonZeroUsize,
    words: usize,
}

// SAFETY: the memory is reached through atomic words alone, and unmapped only by the last owner.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Maps the first `words` words of what a descriptor stands for, such as an array map of the
    /// kernel's programs.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn of<F: AsFd>(fd: F, words: usize) -> io::Result<SharedWords> {
        let bytes = whole_pages(words)?;
        let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe { mmap(None, bytes, prot, MapFlags::MAP_SHARED, fd, 0) }?;
        Ok(SharedWords {
            start,
            bytes,
            words,
        })
    }

    /// Words that only this process knows of, zeroed.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn anonymous(words: usize) -> io::Result<SharedWords> {
        let bytes = whole_pages(words)?;
        let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: as above.
        let start = unsafe { mmap_anonymous(None, bytes, prot, MapFlags::MAP_SHARED) }?;
        Ok(SharedWords {
            start,
            bytes,
            words,
        })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned and longer than these words, lives as long as this
        // value, and any bytes are a number; whoever else writes it does so by whole words.
        unsafe { std::slice::from_raw_parts(self.start.cast().as_ptr(), self.words) }
    }

    /// The word at an index; 0 beyond the end.
    #[inline]
    pub fn load(&self, index: usize) -> u64 {
        self.words()
            .get(index)
            .map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Writes the word at an index; nothing beyond the end.
    #[inline]
    pub fn store(&self, index: usize, value: u64) {
        if let Some(word) = self.words().get(index) {
            word.store(value, Ordering::Relaxed);
        }
    }
}

/// Bytes of so many words in whole pages.
fn whole_pages(words: usize) -> io::Result<NonZeroUsize> {
    words
        .max(1)
        .checked_mul(size_of::<u64>())
        .and_then(|bytes| bytes.checked_next_multiple_of(4096))
        .and_then(NonZeroUsize::new)
        .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this address and length, and no reference into it
        // outlives this value.
        let unmapped = unsafe { munmap(self.start, self.bytes.get()) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping: {unmapped:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_what_was_written_and_end_where_they_end() {
        let words = SharedWords::anonymous(3).unwrap();
        words.store(2, 7);
        words.store(3, 9);
        assert_eq!([0, 1, 2, 3].map(|index| words.load(index)), [0, 0, 7, 0]);
    }

    #[test]
    fn both_mappings_of_a_file_are_the_same_words() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let (one, two) = (SharedWords::of(&file, 2), SharedWords::of(&file, 2));
        one.unwrap().store(1, 5);
        assert_eq!(two.unwrap().load(1), 5);
    }

    #[test]
    fn impossible_sizes_are_errors() {
        assert!(SharedWords::anonymous(usize::MAX).is_err());
    }
}
