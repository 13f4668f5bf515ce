//! TCP_INFO: what the kernel knows of a connection.

use std::io;
use std::mem::offset_of;
use std::os::fd::BorrowedFd;

use super::option;

/// The kernel's `struct tcp_info`, as far as its fields are used here. It only ever grows at the
/// end, and older kernels write less of it.
#[repr(C)]
struct Layout {
    state: u8,
    ca_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    window_scales: u8,
    flags: u8,
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last_data_sent: u32,
    last_ack_sent: u32,
    last_data_recv: u32,
    last_ack_recv: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,
}

/// What the kernel knows of a connection. None where this kernel is too old to tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpInfo {
    /// State: 1 is established; the numbers are the kernel's.
    pub state: u8,
    /// Smoothed round-trip time, microseconds.
    pub rtt_us: u32,
    /// Congestion window, segments.
    pub cwnd_segments: u32,
    /// Maximum segment size for sending, bytes.
    pub mss_send: u32,
    /// Maximum segment size of what was received, bytes.
    pub mss_receive: u32,
    /// Segments retransmitted, over the life of the connection.
    pub retransmits: u32,
    /// Path MTU, bytes.
    pub path_mtu: u32,
    /// Lowest round-trip time in the kernel's window (5 minutes by default), microseconds. None
    /// also before the first sample.
    pub min_rtt_us: Option<u32>,
    /// Bytes that the other side acknowledged.
    pub bytes_acked: Option<u64>,
    /// Bytes that arrived in order.
    pub bytes_received: Option<u64>,
    /// Segments sent, acknowledgements and retransmissions included.
    pub segments_sent: Option<u32>,
    /// Segments received.
    pub segments_received: Option<u32>,
    /// Segments with data sent.
    pub data_segments_sent: Option<u32>,
    /// Segments with data received.
    pub data_segments_received: Option<u32>,
    /// Latest delivery rate, bytes per second.
    pub delivery_rate: Option<u64>,
    /// Time with data outstanding, microseconds.
    pub busy_us: Option<u64>,
    /// Thereof limited by the receiver's window, microseconds.
    pub receiver_limited_us: Option<u64>,
    /// Thereof limited by the send buffer, microseconds.
    pub send_buffer_limited_us: Option<u64>,
}

/// Reads what the kernel knows of a connection.
///
/// # Errors
/// EOPNOTSUPP or ENOPROTOOPT on a socket that is not one of TCP.
pub fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let mut bytes = [0; size_of::<Layout>()];
    let len = option::get(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)?;
    Ok(read(&bytes[..len]))
}

fn read(bytes: &[u8]) -> TcpInfo {
    let word = |at: usize| {
        let word = bytes.get(at..at + 4)?;
        Some(u32::from_ne_bytes(word.try_into().expect("4 bytes")))
    };
    let long = |at: usize| {
        let long = bytes.get(at..at + 8)?;
        Some(u64::from_ne_bytes(long.try_into().expect("8 bytes")))
    };
    // Since 2.6; a kernel without them does not exist any more.
    let old = |at| word(at).unwrap_or(0);
    TcpInfo {
        state: bytes.get(offset_of!(Layout, state)).copied().unwrap_or(0),
        rtt_us: old(offset_of!(Layout, rtt)),
        cwnd_segments: old(offset_of!(Layout, snd_cwnd)),
        mss_send: old(offset_of!(Layout, snd_mss)),
        mss_receive: old(offset_of!(Layout, rcv_mss)),
        retransmits: old(offset_of!(Layout, total_retrans)),
        path_mtu: old(offset_of!(Layout, pmtu)),
        // All ones, or zero in some states, before there is one.
        min_rtt_us: word(offset_of!(Layout, min_rtt)).filter(|us| *us != u32::MAX && *us != 0),
        bytes_acked: long(offset_of!(Layout, bytes_acked)),
        bytes_received: long(offset_of!(Layout, bytes_received)),
        segments_sent: word(offset_of!(Layout, segs_out)),
        segments_received: word(offset_of!(Layout, segs_in)),
        data_segments_sent: word(offset_of!(Layout, data_segs_out)),
        data_segments_received: word(offset_of!(Layout, data_segs_in)),
        delivery_rate: long(offset_of!(Layout, delivery_rate)),
        busy_us: long(offset_of!(Layout, busy_time)),
        receiver_limited_us: long(offset_of!(Layout, rwnd_limited)),
        send_buffer_limited_us: long(offset_of!(Layout, sndbuf_limited)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_connection_that_moved_bytes_says_so() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut receiver = listener.accept().unwrap().0;
        sender.write_all(&[1; 100_000]).unwrap();
        receiver.read_exact(&mut [0; 100_000]).unwrap();
        let info = tcp_info(receiver.as_fd()).unwrap();
        assert_eq!((info.state, info.bytes_received), (1, Some(100_000)));
        assert!(info.data_segments_received.unwrap() > 0 && info.mss_receive > 500);
        // The last acknowledgement may still be on its way.
        let mut acked = 0;
        for _ in 0..200 {
            let info = tcp_info(sender.as_fd()).unwrap();
            acked = info.bytes_acked.unwrap();
            if acked >= 100_000 {
                assert!(info.rtt_us > 0 && info.cwnd_segments > 0 && info.mss_send > 500);
                assert!(info.segments_sent.unwrap() >= info.data_segments_sent.unwrap());
                assert!(info.busy_us.unwrap() < 10_000_000);
                assert_eq!(
                    info.send_buffer_limited_us.map(|us| us < 10_000_000),
                    Some(true)
                );
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("{acked} bytes of 100000 acknowledged");
    }

    #[test]
    fn the_layout_is_the_kernels() {
        // Offsets in include/uapi/linux/tcp.h, where the kernel promises to keep them.
        assert_eq!(offset_of!(Layout, rtt), 68);
        assert_eq!(offset_of!(Layout, total_retrans), 100);
        assert_eq!(offset_of!(Layout, bytes_acked), 120);
        assert_eq!(offset_of!(Layout, min_rtt), 148);
        assert_eq!(offset_of!(Layout, delivery_rate), 160);
        assert_eq!(size_of::<Layout>(), 192);
    }

    #[test]
    fn older_kernels_tell_less() {
        let bytes = [1; size_of::<Layout>()];
        assert!(read(&bytes).send_buffer_limited_us.is_some());
        let linux_4_2 = read(&bytes[..144]);
        assert_eq!(linux_4_2.segments_received, Some(0x0101_0101));
        assert_eq!((linux_4_2.min_rtt_us, linux_4_2.busy_us), (None, None));
        let linux_3 = read(&bytes[..104]);
        assert_eq!(
            (linux_3.retransmits, linux_3.bytes_acked),
            (0x0101_0101, None)
        );
        read(&[]);
    }

    #[test]
    fn other_sockets_have_none() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(tcp_info(socket.as_fd()).is_err());
    }
}
