//! How a datagram's answer names its request.
//!
//! Where request and response both have room for the header, the header does. Where they are
//! smaller, as many low bytes of the request's number as fit in both.

use super::udp::{HEADER_BYTES, Header};

/// The rule for one case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag {
    bytes: usize,
}

impl Tag {
    /// The rule for these sizes.
    pub fn new(request_bytes: u64, response_bytes: u64) -> Tag {
        let room = request_bytes.min(response_bytes).min(HEADER_BYTES as u64) as usize;
        Tag {
            bytes: if room < HEADER_BYTES {
                room.min(8)
            } else {
                HEADER_BYTES
            },
        }
    }

    /// Whether the header names the request.
    pub fn is_header(&self) -> bool {
        self.bytes == HEADER_BYTES
    }

    /// The bits of the number that an answer carries.
    pub fn mask(&self) -> u64 {
        if self.bytes >= 8 {
            u64::MAX
        } else {
            (1 << (8 * self.bytes)) - 1
        }
    }

    /// Writes the tag of a small request, and zeros behind it as far as a header would reach,
    /// whatever was there before.
    pub fn write(&self, datagram: &mut [u8], sequence: u64) {
        let low = sequence.to_le_bytes();
        datagram[..self.bytes].copy_from_slice(&low[..self.bytes]);
        clear_head(datagram, self.bytes);
    }

    /// The number, cut to the mask, that a datagram carries; none where it is not of this flow.
    pub fn read(&self, datagram: &[u8], session: u32, flow: u32) -> Option<u64> {
        if self.is_header() {
            let header = Header::decode(datagram)?;
            let ours = header.session == session && header.flow == flow;
            return ours.then_some(header.sequence);
        }
        let mut low = [0; 8];
        low[..self.bytes].copy_from_slice(datagram.get(..self.bytes)?);
        // Behind the tag there are zeros, but in a hello that comes again there are none.
        let rest = &datagram[self.bytes..datagram.len().min(HEADER_BYTES)];
        let ours = rest.iter().all(|byte| *byte == 0);
        ours.then(|| u64::from_le_bytes(low))
    }
}

/// Fills what lies between the first `from` bytes and where a header would end with zeros.
pub fn clear_head(datagram: &mut [u8], from: usize) {
    let end = datagram.len().min(HEADER_BYTES);
    datagram[from.min(end)..end].fill(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_small_tag_survives_the_way(size in 1u64..24, sequence: u64) {
            let tag = Tag::new(size, 100);
            // What a buffer held before is of no matter.
            let mut datagram = vec![0xa5; size as usize];
            tag.write(&mut datagram, sequence);
            prop_assert_eq!(tag.read(&datagram, 1, 2), Some(sequence & tag.mask()));
        }
    }

    #[test]
    fn tags_fill_what_both_directions_have() {
        for (request, response, mask) in
            [(1, 1000, 0xff), (1000, 3, 0xff_ffff), (23, 23, u64::MAX)]
        {
            assert_eq!(Tag::new(request, response).mask(), mask);
        }
    }

    #[test]
    fn a_hello_is_no_small_request() {
        let tag = Tag::new(96, 1);
        let mut datagram = [0xa5; 96];
        tag.write(&mut datagram, 0x52);
        assert_eq!(tag.read(&datagram, 1, 2), Some(0x52));
        datagram[..4].copy_from_slice(b"RPUQ");
        assert_eq!(tag.read(&datagram, 1, 2), None);
    }

    #[test]
    fn a_header_of_another_flow_is_not_ours() {
        let tag = Tag::new(64, 64);
        assert!(tag.is_header());
        let header = Header {
            session: 7,
            flow: 3,
            phase: crate::traffic::udp::Phase::Window,
            sequence: 99,
            stamp_ns: 0,
        };
        let mut datagram = [0; 64];
        header.encode(&mut datagram);
        assert_eq!(tag.read(&datagram, 7, 3), Some(99));
        assert_eq!(tag.read(&datagram, 7, 4), None);
        assert_eq!(tag.read(&datagram, 8, 3), None);
    }
}
