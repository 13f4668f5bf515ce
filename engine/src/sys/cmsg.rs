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
pub fn parse(mut control: &[u8]) -> Received {
    let mut found = Received::default();
    while control.len() >= HEADER {
        let word = size_of::<usize>();
        let len = usize::from_ne_bytes(control[..word].try_into().expect("a word"));
        if len < HEADER || len > control.len() {
            break;
        }
        let level = int(&control[word..]);
        let kind = int(&control[word + 4..]);
        let data = &control[HEADER..len];
        if level == libc::SOL_SOCKET && kind == libc::SCM_TIMESTAMPNS {
            found.realtime_ns = timespec(data);
        } else if level == libc::SOL_UDP && kind == libc::UDP_GRO && data.len() >= 4 {
            found.segment_bytes = u32::try_from(int(data)).unwrap_or(0);
        }
        control = control.get(len.next_multiple_of(word)..).unwrap_or(&[]);
    }
    found
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

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            parse(&bytes);
        }

        #[test]
        fn truncation_never_invents(cut in 0usize..24) {
            let bytes = message(libc::SOL_UDP, libc::UDP_GRO, &1400i32.to_ne_bytes());
            let expected = if cut < 20 { 0 } else { 1400 };
            prop_assert_eq!(parse(&bytes[..cut]).segment_bytes, expected);
        }
    }
}
