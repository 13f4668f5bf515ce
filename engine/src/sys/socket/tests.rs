//! Options are set on real sockets, and their effects looked for.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;

use super::*;

fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener.accept().unwrap().0, theirs)
}

fn udp(address: &str) -> (UdpSocket, UdpSocket) {
    let (one, two) = (
        UdpSocket::bind(address).unwrap(),
        UdpSocket::bind(address).unwrap(),
    );
    one.connect(two.local_addr().unwrap()).unwrap();
    two.connect(one.local_addr().unwrap()).unwrap();
    (one, two)
}

#[test]
fn tcp_options_come_back_as_set() {
    let (socket, _peer) = tcp();
    let fd = socket.as_fd();
    for on in [true, false] {
        set_nodelay(fd, on).unwrap();
        assert_eq!(nodelay(fd).unwrap(), on);
    }
    let name = congestion(fd).unwrap();
    set_congestion(fd, &name).unwrap();
    assert_eq!(congestion(fd).unwrap(), name);
    let error = set_congestion(fd, "no_such_cc").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    for rate in [1_000_000, 40_000_000_000] {
        set_pacing_rate(fd, rate).unwrap();
        assert_eq!(pacing_rate(fd).unwrap(), rate);
    }
    set_receive_low_water(fd, 5000).unwrap();
    assert_eq!(receive_low_water(fd).unwrap(), 5000);
    assert!(mss(fd).unwrap() > 500);
    assert!(is_stream(fd).unwrap() && !is_ipv6(fd).unwrap());
    assert!(take_error(fd).unwrap().is_none());
}

#[test]
fn the_segment_size_is_limited_before_connecting() {
    use nix::sys::socket::{SockFlag, SockType, SockaddrIn, connect, socket};
    use std::os::fd::AsRawFd;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let flags = SockFlag::SOCK_CLOEXEC;
    let ours = socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap();
    set_mss(ours.as_fd(), 1000).unwrap();
    let to = SockaddrIn::new(127, 0, 0, 1, listener.local_addr().unwrap().port());
    connect(ours.as_raw_fd(), &to).unwrap();
    assert!((900..=1000).contains(&mss(ours.as_fd()).unwrap()));
}

#[test]
fn a_reset_is_what_the_other_side_sees() {
    use std::io::Read;
    let (socket, mut peer) = tcp();
    set_close_by_reset(socket.as_fd(), true).unwrap();
    drop(socket);
    let error = peer.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ECONNRESET));
}

#[test]
fn both_families_take_dscp_fragmentation_and_mtu() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (socket, _peer) = udp(address);
        let fd = socket.as_fd();
        let mtu = path_mtu(fd).unwrap();
        assert!(mtu >= 1280, "{mtu}");
        set_dscp(fd, 46).unwrap();
        assert_eq!(dscp(fd).unwrap(), 46);
        assert_eq!(
            set_dscp(fd, 64).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
        assert!(!is_stream(fd).unwrap());
        set_fragmentation(fd, Fragmentation::Never).unwrap();
        if mtu < 65000 {
            let error = socket.send(&vec![0; 65000]).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
        }
        set_fragmentation(fd, Fragmentation::Probe).unwrap();
        set_fragmentation(fd, Fragmentation::Allowed).unwrap();
        socket.send(&vec![0; 65000]).unwrap();
    }
}

#[test]
fn a_mapped_address_has_an_mtu() {
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let socket = UdpSocket::bind("[::]:0").unwrap();
    let port = peer.local_addr().unwrap().port();
    socket
        .connect(format!("[::ffff:127.0.0.1]:{port}"))
        .unwrap();
    assert!(path_mtu(socket.as_fd()).unwrap() >= 1280);
    let unconnected = UdpSocket::bind("127.0.0.1:0").unwrap();
    let error = path_mtu(unconnected.as_fd()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOTCONN));
}

#[test]
fn a_full_receive_buffer_counts_drops() {
    let (socket, peer) = udp("127.0.0.1:0");
    set_receive_buffer(socket.as_fd(), 4096).unwrap();
    assert_eq!(receive_buffer(socket.as_fd()).unwrap(), 8192);
    let mut sent = 0;
    while sent < 50 {
        peer.send(&[0; 1000]).unwrap();
        sent += 1;
    }
    let info = memory_info(socket.as_fd()).unwrap();
    assert!(info.drops > 0 && info.receive_queued > 0, "{info:?}");
    assert_eq!(info.receive_buffer, 8192);
    socket.set_nonblocking(true).unwrap();
    let received = std::iter::from_fn(|| socket.recv(&mut [0; 1000]).ok()).count() as u32;
    assert_eq!(received + info.drops, sent);
}

#[test]
fn the_receiving_cpu_is_known_after_the_first_packet() {
    let (socket, peer) = udp("127.0.0.1:0");
    peer.send(b"x").unwrap();
    socket.recv(&mut [0; 1]).unwrap();
    let cpu = incoming_cpu(socket.as_fd()).unwrap();
    assert!(cpu.is_some_and(|cpu| cpu < 8192), "{cpu:?}");
}

#[test]
fn ports_are_shared_and_flags_stick() {
    use nix::sys::socket::{Backlog, SockFlag, SockType, SockaddrIn, bind, listen, socket};
    use std::os::fd::AsRawFd;
    let flags = SockFlag::SOCK_CLOEXEC;
    let mut port = 0;
    let mut held = Vec::new();
    for _ in 0..2 {
        let fd = socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap();
        set_reuse_port(fd.as_fd(), true).unwrap();
        set_reuse_address(fd.as_fd(), true).unwrap();
        bind(fd.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, port)).unwrap();
        listen(&fd, Backlog::new(8).unwrap()).unwrap();
        let local: SockaddrIn = getsockname(fd.as_raw_fd()).unwrap();
        port = local.port();
        held.push(fd);
    }
    let fd = held[0].as_fd();
    for on in [true, false] {
        set_nonblocking(fd, on).unwrap();
        let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL).unwrap());
        assert_eq!(flags.contains(OFlag::O_NONBLOCK), on);
    }
    let error = bind_device(fd, "no-such-if0").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
}

#[test]
fn segmentation_gives_datagrams_of_the_size() {
    let (socket, peer) = udp("[::1]:0");
    set_udp_segment(socket.as_fd(), 300).unwrap();
    socket.send(&[1; 900]).unwrap();
    let mut bytes = [0; 2000];
    for _ in 0..3 {
        assert_eq!(peer.recv(&mut bytes).unwrap(), 300);
    }
    set_udp_gro(peer.as_fd(), true).unwrap();
    socket.send(&[1; 900]).unwrap();
    assert_eq!(peer.recv(&mut bytes).unwrap(), 900);
}

#[test]
fn forcing_and_polling_are_privileged() {
    let (socket, _peer) = udp("127.0.0.1:0");
    match force_receive_buffer(socket.as_fd(), 64 << 20) {
        Ok(()) => assert_eq!(receive_buffer(socket.as_fd()).unwrap(), 128 << 20),
        Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM)),
    }
    match set_busy_poll(socket.as_fd(), 50) {
        Ok(()) => {}
        Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM)),
    }
    set_send_buffer(socket.as_fd(), 10_000).unwrap();
    assert_eq!(send_buffer(socket.as_fd()).unwrap(), 20_000);
}
