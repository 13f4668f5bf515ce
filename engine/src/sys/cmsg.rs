//! Control messages of a received datagram, read from bytes.

/// Bytes of control data that hold the two messages we ask for (receive time: 32, segment size:
/// 24), rounded up for one that somebody else asked for.
pub const CONTROL_BYTES: usize = 128;

/// Length, level and type of `struct cmsghdr`.
const HEADER: usize = size_of::<usize>() + 8;

/// What came with a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Received {
    /// SCM_TIMESTAMPNS: kernel receive time, CLOCK_REALTIME nanoseconds.
    pub realtime_ns: Option<u64>,
    /// UDP_GRO: bytes of each datagram merged into this one; 0 where there is one only.
    pub segment_bytes: u32,
}

/// Reads what `recvmsg` put into its control buffer. Messages of other kinds are skipped, and
/// anything malformed ends the reading.
pub fn parse(control: &[u8]) -> Received {
    let mut found = Received::default();
    for (level, kind, data) in messages(control) {
        if (level, kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
            found.realtime_ns = timespec(data);
        } else if (level, kind) == (libc::SOL_UDP, libc::UDP_GRO) && data.len() >= 4 {
            found.segment_bytes = u32::try_from(int(data)).unwrap_or(0);
        }
    }
    found
}

/// Sends of which the kernel says that it is done with their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notice {
    /// Number of the first: each socket counts its sends with MSG_ZEROCOPY from 0, and begins
    /// anew behind the highest.
    pub first: u32,
    /// Number of the last.
    pub last: u32,
    /// The kernel copied them after all.
    pub copied: bool,
}

impl Notice {
    /// How many sends it is about.
    pub fn sends(&self) -> u64 {
        u64::from(self.last.wrapping_sub(self.first)) + 1
    }

    /// Whether it is about the send of this number.
    pub fn covers(&self, number: u32) -> bool {
        number.wrapping_sub(self.first) <= self.last.wrapping_sub(self.first)
    }
}

/// Reads a notice from what came out of a socket's error queue; none where that was something
/// else, such as an ICMP message.
pub fn notice(control: &[u8]) -> Option<Notice> {
    const ORIGIN_ZEROCOPY: u8 = 5;
    const CODE_COPIED: u8 = 1;
    let queued = [
        (libc::SOL_IP, libc::IP_RECVERR),
        (libc::SOL_IPV6, libc::IPV6_RECVERR),
    ];
    // `struct sock_extended_err`: errno, origin, type, code, padding, info, data.
    let (_, _, data) = messages(control).find(|(level, kind, data)| {
        let from_queue = queued.contains(&(*level, *kind));
        from_queue && data.len() >= 16 && data[4] == ORIGIN_ZEROCOPY
    })?;
    Some(Notice {
        first: int(&data[8..]) as u32,
        last: int(&data[12..]) as u32,
        copied: data[6] & CODE_COPIED != 0,
    })
}

/// The control messages one by one: level, type, data.
fn messages(mut control: &[u8]) -> impl Iterator<Item = (i32, i32, &[u8])> {
    let word = size_of::<usize>();
    std::iter::from_fn(move || {
        let len = usize::from_ne_bytes(control.get(..word)?.try_into().ok()?);
        if control.len() < HEADER || len < HEADER || len > control.len() {
            return None;
        }
        let (level, kind) = (int(&control[word..]), int(&control[word + 4..]));
        let data = &control[HEADER..len];
        control = control.get(len.next_multiple_of(word)..).unwrap_or(&[]);
        Some((level, kind, data))
    })
}

fn int(bytes: &[u8]) -> i32 {
    i32::from_ne_bytes(bytes[..4].try_into().expect("four bytes"))
}

fn timespec(data: &[u8]) -> Option<u64> {
    let seconds = u64::from_ne_bytes(data.get(..8)?.try_into().ok()?);
    let nanoseconds = u64::from_ne_bytes(data.get(8..16)?.try_into().ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER + data.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn reads_both_and_skips_the_rest() {
        let mut stamp = 3u64.to_ne_bytes().to_vec();
        stamp.extend(7u64.to_ne_bytes());
        let mut bytes = message(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &[1, 0, 0, 0]);
        bytes.extend(message(
            libc::SOL_UDP,
            libc::UDP_GRO,
            &1400i32.to_ne_bytes(),
        ));
        bytes.extend(message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, &stamp));
        let expected = Received {
            realtime_ns: Some(3_000_000_007),
            segment_bytes: 1400,
        };
        assert_eq!(parse(&bytes), expected);
    }

    #[test]
    fn notices_are_told_from_other_errors() {
        let error = |origin: u8, code: u8| {
            let mut data = vec![0, 0, 0, 0, origin, 0, code, 0];
            data.extend(u32::MAX.to_ne_bytes());
            data.extend(1u32.to_ne_bytes());
            data.extend([0; 16]);
            data
        };
        for (level, kind) in [
            (libc::SOL_IP, libc::IP_RECVERR),
            (libc::SOL_IPV6, libc::IPV6_RECVERR),
        ] {
            let mut bytes = message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, &[0; 16]);
            bytes.extend(message(level, kind, &error(5, 1)));
            let got = notice(&bytes).unwrap();
            assert_eq!((got.first, got.last, got.copied), (u32::MAX, 1, true));
            // Numbers come round.
            assert_eq!(got.sends(), 3);
            assert!(got.covers(u32::MAX) && got.covers(0) && got.covers(1));
            assert!(!got.covers(2) && !got.covers(u32::MAX - 1));
            let whole = notice(&message(level, kind, &error(5, 0))).unwrap();
            assert!(!whole.copied);
            assert_eq!(notice(&message(level, kind, &error(2, 1))), None);
        }
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            parse(&bytes);
            notice(&bytes);
        }

        #[test]
        fn truncation_never_invents(cut in 0usize..24) {
            let bytes = message(libc::SOL_UDP, libc::UDP_GRO, &1400i32.to_ne_bytes());
            let expected = if cut < 20 { 0 } else { 1400 };
            prop_assert_eq!(parse(&bytes[..cut]).segment_bytes, expected);
        }
    }
}
