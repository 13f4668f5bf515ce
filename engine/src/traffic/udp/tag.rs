//! Matching of requests and responses that are too small for a header.
//!
//! A request carries the low bytes of its sequence number, and the response the same bytes. With
//! one byte a response is told from those of the 255 requests before it, with two from 65535.

/// Most bytes of a tag.
const MAX_TAG: usize = 8;

/// Bytes of the tag that fit in both directions.
pub fn tag_len(request_bytes: usize, response_bytes: usize) -> usize {
    request_bytes.min(response_bytes).min(MAX_TAG)
}

/// The tag of a sequence number: its low `len` bytes.
pub fn tag(sequence: u64, len: usize) -> u64 {
    if len >= MAX_TAG {
        sequence
    } else {
        sequence & ((1 << (8 * len)) - 1)
    }
}

/// Writes the tag of a sequence number over all of `to`, or over its first 8 bytes.
pub fn write_tag(sequence: u64, to: &mut [u8]) {
    for (byte, value) in to.iter_mut().zip(sequence.to_le_bytes()) {
        *byte = value;
    }
}

/// Reads a tag from all of `from`, or from its first 8 bytes. It is an answer to the request with
/// sequence number `s` where it equals `tag(s, from.len())`.
pub fn read_tag(from: &[u8]) -> u64 {
    let mut bytes = [0; MAX_TAG];
    for (byte, value) in bytes.iter_mut().zip(from) {
        *byte = *value;
    }
    u64::from_le_bytes(bytes)
}
