//! Offload features of an interface, by the kernel's ethtool netlink family.
//!
//! Reading them needs no privilege. The numbers are those of `linux/ethtool_netlink.h`.

use std::collections::BTreeMap;
use std::iter::once;

use neli::consts::nl::NlmF;
use neli::consts::socket::NlFamily;
use neli::genl::{AttrTypeBuilder, Genlmsghdr, GenlmsghdrBuilder, Nlattr, NlattrBuilder};
use neli::genl::{GenlAttrHandle, NoUserHeader};
use neli::nl::{NlPayload, Nlmsghdr};
use neli::router::synchronous::NlRouter;
use neli::types::{Buffer, GenlBuffer};
use neli::utils::Groups;

/// ETHTOOL_MSG_FEATURES_GET.
const FEATURES_GET: u8 = 11;
/// ETHTOOL_GENL_VERSION.
const VERSION: u8 = 1;
/// ETHTOOL_A_FEATURES_HEADER.
const HEADER: u16 = 1;
/// ETHTOOL_A_HEADER_DEV_NAME.
const DEVICE_NAME: u16 = 2;
/// ETHTOOL_A_FEATURES_HW: what the device can change, listing every feature there is.
const CHANGEABLE: u16 = 2;
/// ETHTOOL_A_FEATURES_ACTIVE: what is on, listing only that.
const ACTIVE: u16 = 4;
/// ETHTOOL_A_BITSET_BITS.
const BITS: u16 = 3;
/// ETHTOOL_A_BITSET_BIT_NAME.
const BIT_NAME: u16 = 2;

/// The features that change what a load test measures; the kernel knows some sixty.
const MATTER: [&str; 18] = [
    "rx-checksum",
    "rx-gro",
    "rx-gro-hw",
    "rx-gro-list",
    "rx-hashing",
    "rx-lro",
    "rx-ntuple-filter",
    "rx-udp-gro-forwarding",
    "tx-checksum-ip-generic",
    "tx-checksum-ipv4",
    "tx-checksum-ipv6",
    "tx-generic-segmentation",
    "tx-gso-partial",
    "tx-nocache-copy",
    "tx-scatter-gather",
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "tx-udp-segmentation",
];

type Features = Genlmsghdr<u8, u16>;

/// Offload features of an interface of the running host, by their ethtool names, and whether
/// each is on. Empty where the kernel does not tell; the reason is logged.
pub(super) fn offloads(interface: &str) -> BTreeMap<String, bool> {
    match ask(interface) {
        Ok(features) => features,
        Err(reason) => {
            log::info!("offloads of {interface} are not known: {reason}");
            BTreeMap::new()
        }
    }
}

fn ask(interface: &str) -> Result<BTreeMap<String, bool>, String> {
    let (router, _multicast) = NlRouter::connect(NlFamily::Generic, None, Groups::empty())
        .map_err(|e| format!("no netlink socket: {e}"))?;
    let family = router.resolve_genl_family("ethtool").map_err(|e| {
        format!("the kernel has no ethtool netlink family (Linux 5.6 has it): {e}")
    })?;
    let request = request(interface).map_err(|e| format!("request not built: {e}"))?;
    let replies = router
        .send::<u16, Features, u16, Features>(family, NlmF::ACK, NlPayload::Payload(request))
        .map_err(|e| format!("request not sent: {e}"))?;
    let mut features = BTreeMap::new();
    for reply in replies {
        let reply: Nlmsghdr<u16, Features> = reply.map_err(|e| e.to_string())?;
        if let NlPayload::Payload(payload) = reply.nl_payload() {
            let attributes = payload.attrs().get_attr_handle();
            features.extend(
                names(&attributes, CHANGEABLE)
                    .into_iter()
                    .map(|name| (name, false)),
            );
            features.extend(
                names(&attributes, ACTIVE)
                    .into_iter()
                    .map(|name| (name, true)),
            );
        }
    }
    features.retain(|name, _| MATTER.contains(&name.as_str()));
    Ok(features)
}

fn request(interface: &str) -> Result<Features, Box<dyn std::error::Error>> {
    let name = attribute(DEVICE_NAME, false, interface)?;
    let header = attribute(
        HEADER,
        true,
        once(name).collect::<GenlBuffer<u16, Buffer>>(),
    )?;
    let message = GenlmsghdrBuilder::<u8, u16, NoUserHeader>::default()
        .cmd(FEATURES_GET)
        .version(VERSION)
        .attrs(once(header).collect::<GenlBuffer<u16, Buffer>>())
        .build()?;
    Ok(message)
}

fn attribute<P>(
    kind: u16,
    nested: bool,
    payload: P,
) -> Result<Nlattr<u16, Buffer>, Box<dyn std::error::Error>>
where
    P: neli::Size + neli::ToBytes,
{
    let kind = AttrTypeBuilder::default()
        .nla_type(kind)
        .nla_nested(nested)
        .build()?;
    Ok(NlattrBuilder::default()
        .nla_type(kind)
        .nla_payload(payload)
        .build()?)
}

/// Names of the bits listed in a bit set; none where the reply has no such set.
fn names(attributes: &GenlAttrHandle<'_, u16>, set: u16) -> Vec<String> {
    let Ok(set) = attributes.get_nested_attributes::<u16>(set) else {
        return Vec::new();
    };
    let Ok(bits) = set.get_nested_attributes::<u16>(BITS) else {
        return Vec::new();
    };
    bits.iter()
        .filter_map(|bit| {
            let bit = bit.get_attr_handle::<u16>().ok()?;
            bit.get_attr_payload_as_with_len::<String>(BIT_NAME).ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_offloads() {
        // Every Linux since 5.6 segments for `lo` in software, with or without privilege.
        let features = ask("lo").unwrap();
        assert_eq!(
            features.get("tx-generic-segmentation"),
            Some(&true),
            "{features:?}"
        );
        assert_eq!(features.get("rx-lro"), Some(&false), "{features:?}");
    }

    #[test]
    fn an_unknown_interface_has_none() {
        assert!(ask("no-such-if").is_err());
        assert!(offloads("no-such-if").is_empty());
    }
}
