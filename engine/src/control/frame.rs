//! Framing of the control connection: bytes in, messages out, and back.

use super::wire::{MAX_FRAME, Message};

/// Bytes of a frame's header.
const HEADER: usize = 4;

/// What is wrong with the bytes of a peer. A connection is useless after any of these.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WireError {
    /// The header announces, or a message needs, more than [`MAX_FRAME`] bytes.
    #[error("a frame of {0} bytes, where {MAX_FRAME} are allowed")]
    TooLong(u64),
    /// A frame without a body.
    #[error("an empty frame")]
    Empty,
    /// The body is not a message of this protocol.
    #[error("not a message of this protocol: {0}")]
    Malformed(String),
    /// Pieces of a result out of order, or too many.
    #[error("a result's pieces do not fit together: {0}")]
    Pieces(String),
}

/// Turns arriving bytes, however they were split, into messages.
///
/// Holds what has arrived and is not yet a whole frame; what a header claims reserves nothing.
#[derive(Default, Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    taken: usize,
    failed: Option<WireError>,
}

impl Decoder {
    /// A decoder that has seen nothing.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Takes bytes as they arrived. After an error they are ignored.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        if self.taken > 0 {
            self.buffer.drain(..self.taken);
            self.taken = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message; `None` until more bytes arrive. An error is final.
    pub fn next_message(&mut self) -> Result<Option<Message>, WireError> {
        let Some(body) = self.next_frame()? else {
            return Ok(None);
        };
        match parse(&body) {
            Ok(message) => Ok(Some(message)),
            Err(error) => Err(self.fail(error)),
        }
    }

    /// The next whole frame's body, for readers that must tell versions apart first.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>, WireError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let bytes = &self.buffer[self.taken..];
        let Some(header) = bytes.first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*header) as usize;
        if length == 0 {
            return Err(self.fail(WireError::Empty));
        }
        if length > MAX_FRAME {
            return Err(self.fail(WireError::TooLong(length as u64)));
        }
        let Some(body) = bytes[HEADER..].get(..length) else {
            return Ok(None);
        };
        let body = body.to_vec();
        self.taken += HEADER + length;
        Ok(Some(body))
    }

    fn fail(&mut self, error: WireError) -> WireError {
        self.failed = Some(error.clone());
        self.buffer = Vec::new();
        self.taken = 0;
        error
    }
}

/// A frame's body as a message.
pub fn parse(body: &[u8]) -> Result<Message, WireError> {
    serde_json::from_slice(body).map_err(|error| WireError::Malformed(error.to_string()))
}

/// A message as a frame. Fails only where the message is too large for one.
pub fn encode(message: &Message) -> Result<Vec<u8>, WireError> {
    let mut frame = vec![0; HEADER];
    serde_json::to_writer(&mut frame, message)
        .map_err(|error| WireError::Malformed(error.to_string()))?;
    let length = frame.len() - HEADER;
    if length > MAX_FRAME {
        return Err(WireError::TooLong(length as u64));
    }
    let header = (length as u32).to_be_bytes();
    frame[..HEADER].copy_from_slice(&header);
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::wire::Refusal;
    use super::*;
    use crate::record::{HostFacts, Progress};

    fn message() -> impl Strategy<Value = Message> {
        prop_oneof![
            Just(Message::Heartbeat),
            Just(Message::Ready),
            Just(Message::Bye),
            any::<i64>().prop_map(|index| {
                Message::Progress(Box::new(Progress {
                    index,
                    ..Progress::default()
                }))
            }),
            (any::<u8>(), ".{0,40}")
                .prop_map(|(code, text)| { Message::Refused(Refusal::new(code, "code", text)) }),
            (any::<u32>(), any::<bool>(), ".{0,200}")
                .prop_map(|(piece, last, text)| Message::Results { piece, last, text }),
            (any::<u32>(), ".{0,20}").prop_map(|(protocol, version)| Message::Hello {
                protocol,
                version,
                run: "r".into(),
                peer_timeout_ns: 1,
                boot: String::new(),
                host: Box::new(HostFacts::default()),
            }),
        ]
    }

    fn drain(decoder: &mut Decoder) -> (Vec<Message>, Option<WireError>) {
        let mut messages = Vec::new();
        loop {
            match decoder.next_message() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => return (messages, None),
                Err(error) => return (messages, Some(error)),
            }
        }
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_messages(
            sent in prop::collection::vec(message(), 1..6),
            cuts in prop::collection::vec(1usize..97, 1..40),
        ) {
            let bytes: Vec<u8> = sent.iter().flat_map(|m| encode(m).unwrap()).collect();
            let mut decoder = Decoder::new();
            let mut got = Vec::new();
            let (mut at, mut cut) = (0, 0);
            while at < bytes.len() {
                let end = (at + cuts[cut % cuts.len()]).min(bytes.len());
                decoder.feed(&bytes[at..end]);
                let (messages, error) = drain(&mut decoder);
                prop_assert!(error.is_none());
                got.extend(messages);
                (at, cut) = (end, cut + 1);
            }
            prop_assert_eq!(got, sent);
        }

        #[test]
        fn a_truncated_frame_waits(sent in message(), keep in 0.0f64..1.0) {
            let bytes = encode(&sent).unwrap();
            let keep = (bytes.len() as f64 * keep) as usize;
            let mut decoder = Decoder::new();
            decoder.feed(&bytes[..keep]);
            prop_assert_eq!(decoder.next_message(), Ok(None));
        }

        #[test]
        fn a_flipped_bit_never_panics(sent in message(), at in any::<usize>(), bit in 0u8..8) {
            let mut bytes = encode(&sent).unwrap();
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            let mut decoder = Decoder::new();
            decoder.feed(&bytes);
            drain(&mut decoder);
            prop_assert!(decoder.buffer.capacity() <= 2 * bytes.len());
        }

        #[test]
        fn hostile_bytes_allocate_no_more_than_arrived(
            bytes in prop::collection::vec(any::<u8>(), 0..2000),
        ) {
            let mut decoder = Decoder::new();
            decoder.feed(&bytes);
            drain(&mut decoder);
            prop_assert!(decoder.buffer.capacity() <= 2 * bytes.len().max(8));
        }
    }

    #[test]
    fn a_claimed_length_reserves_nothing_and_an_excess_fails_at_once() {
        let mut decoder = Decoder::new();
        decoder.feed(&(MAX_FRAME as u32).to_be_bytes());
        assert_eq!(decoder.next_message(), Ok(None));
        assert!(decoder.buffer.capacity() < 100);
        let mut decoder = Decoder::new();
        decoder.feed(b"GET / HTTP/1.1\r\n");
        assert!(matches!(decoder.next_message(), Err(WireError::TooLong(_))));
        decoder.feed(&encode(&Message::Heartbeat).unwrap());
        assert!(decoder.next_message().is_err(), "an error is final");
    }

    #[test]
    fn deep_nesting_is_an_error() {
        let mut bytes = Vec::new();
        bytes.extend((100_000u32).to_be_bytes());
        bytes.extend(std::iter::repeat_n(b'[', 100_000));
        let mut decoder = Decoder::new();
        decoder.feed(&bytes);
        assert!(matches!(
            decoder.next_message(),
            Err(WireError::Malformed(_))
        ));
    }
}
