//! Socket options that must stand before a flow connects and that nix does not know.
#![expect(unsafe_code, reason = "setsockopt and getsockopt take raw pointers")]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// SO_BUSY_POLL, microseconds. Raising it needs CAP_NET_ADMIN.
pub fn set_busy_poll(socket: &impl AsFd, microseconds: u32) -> io::Result<()> {
    let value = libc::c_int::try_from(microseconds).unwrap_or(libc::c_int::MAX);
    let length = size_of_val(&value) as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    let pointer = (&raw const value).cast();
    // SAFETY: `pointer` and `length` describe `value`, which outlives the call, and `fd` is open
    // while `socket` is borrowed.
    let result =
        unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, pointer, length) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// MTU of the path of a connected IPv4 socket, bytes.
pub fn path_mtu_v4(socket: &impl AsFd) -> io::Result<u32> {
    get_int(socket, libc::IPPROTO_IP, libc::IP_MTU)
}

/// MTU of the path of a connected IPv6 socket, bytes.
pub fn path_mtu_v6(socket: &impl AsFd) -> io::Result<u32> {
    get_int(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU)
}

fn get_int(socket: &impl AsFd, level: libc::c_int, name: libc::c_int) -> io::Result<u32> {
    let mut value: libc::c_int = 0;
    let mut length = size_of_val(&value) as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    let pointer = (&raw mut value).cast();
    // SAFETY: `pointer` and `length` describe `value`, which outlives the call and is not read
    // before it returns; `fd` is open while `socket` is borrowed.
    let result = unsafe { libc::getsockopt(fd, level, name, pointer, &raw mut length) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    u32::try_from(value).map_err(io::Error::other)
}
