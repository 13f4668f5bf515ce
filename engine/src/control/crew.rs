//! What the shells ask of the data plane. The `run` room implements it for both sides.
//!
//! Everything here is called from the control thread, polled, and never waits long.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use super::wire::{Offer, Refusal};
use crate::record::{Progress, SideReport};

/// Code of a refusal that says that a flow broke: the symptom of whatever the other side says
/// next, if it says anything.
pub const FLOW_FAILED: &str = "flow-failed";

/// Which side of the pair this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Asked for the test.
    Client,
    /// Serves it.
    Server,
}

/// A flow within a sample: its group and its number within the group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct FlowKey {
    /// Group of traffic.
    pub group: u32,
    /// Number within the group, from 0.
    pub flow: u32,
}

/// What a crew reports when polled.
#[derive(Debug)]
pub enum CrewEvent {
    /// Every worker has its flows and waits for the start.
    Armed,
    /// An interval (or a part of the warm-up) ended on this side.
    Progress(Progress),
    /// This side's window ended, or its limit was reached; traffic goes on until `stop`.
    WindowDone,
    /// Every worker has stopped; `finish` returns at once.
    Stopped,
    /// A connection accepted by a worker that is not the session's (crr): the control plane's.
    Stranger(OwnedFd, SocketAddr),
    /// The sample cannot go on.
    Failed(Refusal),
}

/// The workers of one side for one sample.
pub trait Crew {
    /// CPUs of the workers, where they are pinned.
    fn cpus(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Gives a connected flow to the worker it belongs to.
    fn adopt(&mut self, key: FlowKey, socket: OwnedFd) -> Result<(), Refusal>;

    /// crr on the serving side: workers accept on this socket; connections from `peer` are
    /// transactions, any other comes back as [`CrewEvent::Stranger`].
    fn adopt_listener(&mut self, socket: OwnedFd, peer: std::net::IpAddr) -> Result<(), Refusal>;

    /// crr on the asking side: where to connect.
    fn target(&mut self, server: SocketAddr);

    /// Every flow is there: set up what traffic needs. [`CrewEvent::Armed`] follows.
    fn arm(&mut self) -> Result<(), Refusal>;

    /// Traffic begins; this side's clock starts.
    fn start(&mut self);

    /// What happened since the last call.
    fn poll(&mut self) -> Vec<CrewEvent>;

    /// Senders stop, streams are ended, receivers drain. [`CrewEvent::Stopped`] follows within
    /// the drain's bound. The window closes now if it has not yet.
    fn stop(&mut self);

    /// Ends what is left and reports. Also after a failure: what was measured is not lost.
    fn finish(self: Box<Self>) -> SideReport;
}

/// Makes crews.
pub trait CrewFactory {
    /// Checks that this host can run the offer (CPUs, descriptors, locked memory, engine) and
    /// starts its workers, pinned and waiting.
    fn build(&mut self, side: Side, offer: &Offer) -> Result<Box<dyn Crew>, Refusal>;
}
