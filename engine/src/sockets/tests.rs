//! What only this engine has; the rest is the conformance of all engines.

use super::Sockets;
use crate::backend::Setup;
use crate::backend::conformance::{Make, conformance};

impl Make for Sockets {
    fn make(setup: &Setup) -> Sockets {
        Sockets::new(setup).expect("epoll is available")
    }
}

conformance!(Sockets);
