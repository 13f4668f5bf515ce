//! getsockopt and setsockopt on bytes.
#![expect(unsafe_code, reason = "getsockopt and setsockopt take pointers")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets an option to the bytes of its value.
pub(super) fn set(socket: BorrowedFd<'_>, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    let (start, len) = (value.as_ptr().cast(), value.len() as libc::socklen_t);
    // SAFETY: the kernel reads `len` bytes from the start of `value`, which has as many.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, start, len) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads an option into `value`. Gives how many bytes the kernel wrote.
pub(super) fn get(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &mut [u8],
) -> io::Result<usize> {
    let mut len = value.len() as libc::socklen_t;
    let start = value.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `len` bytes to the start of `value`, which has as many,
    // and how many it wrote to `len`.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, start, &mut len) };
    if result == 0 {
        Ok(len as usize)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sets an `int` option.
pub(super) fn set_int(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: i32,
) -> io::Result<()> {
    set(socket, level, name, &value.to_ne_bytes())
}

/// Reads an `int` option.
pub(super) fn get_int(socket: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<i32> {
    let mut value = [0; 4];
    get(socket, level, name, &mut value)?;
    Ok(i32::from_ne_bytes(value))
}
