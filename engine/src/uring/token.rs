//! What a completion needs to find its way back, packed into the 64 bits that the kernel returns.
//!
//! | bits | field | meaning |
//! |---|---|---|
//! | 56..64 | operation | what was asked for |
//! | 32..56 | generation | of the slot, counted up at every reuse: an older one is stale |
//! | 0..32 | index | the slot; of a send, its entry in the table of sends |

/// What an operation was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Op {
    /// A receive on a flow.
    Receive = 1,
    /// A send; the index is that of the table of sends.
    Send = 2,
    /// An accept on a listener.
    Accept = 3,
    /// A connect.
    Connect = 4,
    /// A close.
    Close = 5,
    /// A poll on a waker.
    Wake = 6,
    /// A cancellation; its own outcome does not matter.
    Cancel = 7,
    /// Buffers given back one by one, on kernels without buffer rings.
    Provide = 8,
    /// A send whose success has no completion; the index is the slot's.
    Quiet = 9,
    /// A send of the shared payload without a copy: its entry in the table of sends is gone
    /// before the kernel is done with the bytes.
    Lend = 10,
}

impl Op {
    fn from_bits(bits: u8) -> Option<Op> {
        Some(match bits {
            1 => Op::Receive,
            2 => Op::Send,
            3 => Op::Accept,
            4 => Op::Connect,
            5 => Op::Close,
            6 => Op::Wake,
            7 => Op::Cancel,
            8 => Op::Provide,
            9 => Op::Quiet,
            10 => Op::Lend,
            _ => return None,
        })
    }
}

/// Generations wrap here; 16 million reuses of a slot cannot happen while an operation of it is
/// in flight.
pub(super) const GENERATIONS: u32 = 1 << 24;

/// An operation of a slot's generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Token {
    /// What was asked for.
    pub(super) op: Op,
    /// Of the slot when it was asked, below [`GENERATIONS`].
    pub(super) generation: u32,
    /// Slot, or entry in the table of sends.
    pub(super) index: u32,
}

impl Token {
    /// The 64 bits for the kernel.
    pub(super) fn encode(self) -> u64 {
        debug_assert!(self.generation < GENERATIONS);
        let Token {
            op,
            generation,
            index,
        } = self;
        u64::from(op as u8) << 56 | u64::from(generation) << 32 | u64::from(index)
    }

    /// Reads them back; none for bits that [`Token::encode`] does not make.
    pub(super) fn decode(bits: u64) -> Option<Token> {
        let op = Op::from_bits((bits >> 56) as u8)?;
        let generation = (bits >> 32) as u32 & (GENERATIONS - 1);
        Some(Token {
            op,
            generation,
            index: bits as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_goes_in_comes_out(op in 1u8..=10, generation in 0..GENERATIONS, index: u32) {
            let op = Op::from_bits(op).unwrap();
            let token = Token { op, generation, index };
            prop_assert_eq!(Token::decode(token.encode()), Some(token));
        }

        #[test]
        fn fields_do_not_overlap(bits: u64) {
            if let Some(token) = Token::decode(bits) {
                prop_assert_eq!(token.encode(), bits);
            }
        }
    }

    #[test]
    fn unknown_operations_are_none() {
        assert_eq!(Token::decode(0), None);
        assert_eq!(Token::decode(11 << 56), None);
        assert_eq!(Token::decode(u64::MAX), None);
    }
}
