//! Sends whose bytes the kernel need not copy: what each way needs.

use super::{Case, Direction, Engine, Test, Traffic, ZeroCopy};

impl ZeroCopy {
    /// The only engine that has it.
    pub fn engine(self) -> Engine {
        match self {
            ZeroCopy::Send => Engine::IoUring,
            ZeroCopy::Msg | ZeroCopy::File => Engine::Sockets,
        }
    }
}

impl Case {
    /// Whether the client, or else the server, sends a stream.
    pub fn streams_from(&self, client: bool) -> bool {
        self.groups.iter().any(|group| {
            let active = client == (group.direction == Direction::ClientToServer);
            group.traffic == Traffic::Stream && active
        })
    }

    /// How a side sends without copies, where it sends a stream and the case asks for it.
    pub fn zerocopy_of(&self, client: bool) -> Option<ZeroCopy> {
        self.options.zerocopy.filter(|_| self.streams_from(client))
    }
}

/// Whether the client and whether the server sends in a test of streams.
pub(super) fn senders(test: Test) -> [bool; 2] {
    match test {
        Test::Stream => [true, false],
        Test::Reverse => [false, true],
        Test::Bidir => [true, true],
        Test::Rr | Test::Crr => [false, false],
    }
}
