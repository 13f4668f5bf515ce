//! What only this engine has: set-up flags, older kernels, refusals. The rest is the conformance
//! of all engines.

mod kernels;
mod refusal;

use super::Ring;
use crate::backend::conformance::{
    BUFFERS, MESSAGES, Make, SCRATCH, conformance, event, event_of, setup, tcp_pair, udp_pair,
    unix_pair,
};
use crate::backend::{Backend, Kind, ReceiveStyle, Setup};

impl Make for Ring {
    fn make(setup: &Setup) -> Ring {
        Ring::new(setup).expect("io_uring is available")
    }
}

fn ring(receive: ReceiveStyle) -> Ring {
    Ring::make(&setup(receive))
}

conformance!(Ring);
