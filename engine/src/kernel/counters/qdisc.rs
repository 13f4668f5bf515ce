//! Counters of queueing disciplines, by route netlink. Reading them needs no privilege.

use neli::consts::nl::NlmF;
use neli::consts::rtnl::{Rtm, Tca};
use neli::consts::socket::NlFamily;
use neli::nl::{NlPayload, Nlmsghdr};
use neli::router::synchronous::NlRouter;
use neli::rtnl::{Tcmsg, TcmsgBuilder};
use neli::utils::Groups;

use super::Reading;

/// Offsets of `struct tc_stats` (linux/pkt_sched.h), which every kernel fills.
const BYTES: usize = 0;
const NARROW: [(usize, &str); 5] = [
    (8, "packets"),
    (12, "drops"),
    (16, "overlimits"),
    (28, "qlen"),
    (32, "backlog"),
];

/// Reads the disciplines of every device of the calling thread's network namespace.
pub(super) fn read(reading: &mut Reading) -> Result<(), String> {
    let (router, _multicast) = NlRouter::connect(NlFamily::Route, None, Groups::empty())
        .map_err(|e| format!("no netlink socket: {e}"))?;
    let request = TcmsgBuilder::default()
        .tcm_family(0)
        .tcm_ifindex(0)
        .tcm_handle(0)
        .tcm_parent(0)
        .tcm_info(0)
        .build()
        .map_err(|e| format!("request not built: {e}"))?;
    let replies = router
        .send::<Rtm, Tcmsg, Rtm, Tcmsg>(
            Rtm::Getqdisc,
            NlmF::DUMP | NlmF::ACK,
            NlPayload::Payload(request),
        )
        .map_err(|e| format!("request not sent: {e}"))?;
    for reply in replies {
        let reply: Nlmsghdr<Rtm, Tcmsg> = reply.map_err(|e| e.to_string())?;
        if let NlPayload::Payload(message) = reply.nl_payload() {
            take(message, reading);
        }
    }
    Ok(())
}

/// Takes one discipline: `qdisc.<device>.<kind>.<handle>`.
fn take(message: &Tcmsg, reading: &mut Reading) {
    let attributes = message.rtattrs().get_attr_handle();
    let kind = attributes
        .get_attr_payload_as_with_len::<String>(Tca::Kind)
        .unwrap_or_default();
    let index = u32::try_from(*message.tcm_ifindex()).unwrap_or_default();
    let device = nix::net::if_::if_indextoname(index).map_or_else(
        |_| index.to_string(),
        |name| name.to_string_lossy().into_owned(),
    );
    let source = format!("qdisc.{device}.{kind}.{:x}", message.tcm_handle() >> 16);
    let Some(stats) = attributes.get_attribute(Tca::Stats) else {
        return;
    };
    let bytes = stats.rta_payload().as_ref();
    if let Some(value) = bytes.get(BYTES..BYTES + 8) {
        let value = value.try_into().map_or(0, u64::from_ne_bytes);
        reading.put(&source, "bytes", value);
    }
    for (offset, name) in NARROW {
        if let Some(value) = bytes.get(offset..offset + 4) {
            let value = value.try_into().map_or(0, u32::from_ne_bytes);
            reading.put(&source, name, u64::from(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loopback has a discipline on every host where this can run at all.
    #[test]
    fn loopback_has_a_discipline() {
        let mut reading = Reading::default();
        read(&mut reading).expect("netlink needs no privilege");
        let names: Vec<&String> = reading.counters.keys().map(|(source, _)| source).collect();
        assert!(
            names.iter().any(|source| source.starts_with("qdisc.lo.")),
            "{names:?}"
        );
    }
}
