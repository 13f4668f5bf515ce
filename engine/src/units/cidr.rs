//! Address prefixes.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::ParseError;

/// An address prefix such as `10.0.0.0/8`; an address alone is a prefix of its full length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cidr {
    address: IpAddr,
    length: u8,
}

impl Cidr {
    /// The network's address and its length, bits.
    pub fn parts(&self) -> (IpAddr, u8) {
        (self.address, self.length)
    }

    /// Whether an address is in it. An IPv4 address mapped into IPv6 counts as what it maps.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(host)) => {
                let differ = u32::from(net) ^ u32::from(host);
                differ.checked_shr(32 - u32::from(self.length)).unwrap_or(0) == 0
            }
            (IpAddr::V6(net), IpAddr::V6(host)) => {
                let differ = u128::from(net) ^ u128::from(host);
                differ
                    .checked_shr(128 - u32::from(self.length))
                    .unwrap_or(0)
                    == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Cidr {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Cidr, ParseError> {
        let error = |reason: &str| ParseError::new("an address prefix", text, reason);
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address
            .parse()
            .map_err(|_| error("write an address with a length, such as 10.0.0.0/8"))?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => most,
            Some(text) if text.bytes().all(|b| b.is_ascii_digit()) => text
                .parse()
                .ok()
                .filter(|length| *length <= most)
                .ok_or_else(|| error("its length is more than the address has bits"))?,
            Some(_) => return Err(error("its length is not a number")),
        };
        Ok(Cidr { address, length })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn prefixes_contain_their_addresses() {
        for (net, address, inside) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.7", "10.0.0.7", true),
            ("10.0.0.7", "10.0.0.6", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fe80::1", false),
            ("::/0", "2001:db8::1", true),
        ] {
            let net: Cidr = net.parse().unwrap();
            assert_eq!(
                net.contains(address.parse().unwrap()),
                inside,
                "{net} {address}"
            );
        }
        for text in [
            "",
            "/8",
            "10.0.0.0/33",
            "::/129",
            "10/8",
            "10.0.0.0/",
            "10.0.0.0/+8",
        ] {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_prefixes_read_back(address: IpAddr, length in 0u8..=128) {
            let length = if address.is_ipv4() { length % 33 } else { length };
            let net = Cidr { address, length };
            prop_assert_eq!(net.to_string().parse::<Cidr>().unwrap(), net);
        }

        #[test]
        fn any_text_is_a_prefix_or_an_error(text in "[0-9a-f.:/]{0,45}") {
            let _ = text.parse::<Cidr>();
        }
    }
}
