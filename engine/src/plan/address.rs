//! Hosts as typed: names, IPv4 and IPv6 addresses, with or without a port.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use crate::units::ParseError;

/// Port of the server unless told otherwise.
pub const DEFAULT_PORT: u16 = 5301;

/// A host and a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostPort {
    /// Name or address; an IPv6 address stands without brackets and may carry a zone.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A host as typed: `name`, `name:port`, `192.0.2.1:port`, `::1`, `[::1]`, `[::1]:port`.
///
/// An IPv6 address without brackets has no port. Where its last group looks like one
/// (`::1:5390`) it is refused: nothing tells which was meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypedHost {
    /// Name or address; an IPv6 address stands without brackets and may carry a zone.
    pub host: String,
    /// Port, where one was typed.
    pub port: Option<u16>,
}

impl TypedHost {
    /// The address, where it is one and not a name.
    pub fn address(&self) -> Option<IpAddr> {
        let unscoped = self.host.split('%').next().unwrap_or("");
        unscoped.parse().ok()
    }
}

impl fmt::Display for TypedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => HostPort {
                host: self.host.clone(),
                port,
            }
            .fmt(f),
            None if looks_like_a_port(&self.host).is_some() => write!(f, "[{}]", self.host),
            None => f.write_str(&self.host),
        }
    }
}

impl FromStr for TypedHost {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<TypedHost, ParseError> {
        let error = |reason: &str| ParseError::new("a host", text, reason);
        if let Some((host, port)) = looks_like_a_port(text) {
            let reason = format!(
                "write [{host}]:{port} for port {port} of {host}, or [{text}] for that address"
            );
            return Err(error(&reason));
        }
        let (host, port) = if is_ipv6(text) {
            (text, None)
        } else if let Some(rest) = text.strip_prefix('[') {
            let (host, tail) = rest
                .split_once(']')
                .ok_or_else(|| error("its bracket is not closed"))?;
            if !is_ipv6(host) {
                return Err(error("no IPv6 address stands in its brackets"));
            }
            match tail.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if tail.is_empty() => (host, None),
                None => return Err(error("after the bracket comes :PORT")),
            }
        } else {
            match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        if host.is_empty() || host.starts_with('-') || host.contains(forbidden) {
            return Err(error("write a name or an address, with or without :PORT"));
        }
        let port = port
            .map(|port| typed_port(port).ok_or_else(|| error("its port must be from 1 to 65535")));
        Ok(TypedHost {
            host: host.to_string(),
            port: port.transpose()?,
        })
    }
}

/// Characters that stand in no host name; names in other scripts resolve where the system can.
fn forbidden(c: char) -> bool {
    c.is_whitespace() || c.is_control() || matches!(c, '/' | '@' | '[' | ']')
}

fn is_ipv6(text: &str) -> bool {
    match text.split_once('%') {
        Some((address, zone)) => {
            !zone.is_empty() && !zone.contains(forbidden) && address.parse::<Ipv6Addr>().is_ok()
        }
        None => text.parse::<Ipv6Addr>().is_ok(),
    }
}

/// Lowest number that is taken for a port where it could as well be a group of an address.
const LOWEST: u16 = 1024;

/// An IPv6 address whose last group may have been meant as a port: what stands before it, and
/// the port.
fn looks_like_a_port(text: &str) -> Option<(&str, u16)> {
    let (host, last) = text.rsplit_once(':')?;
    let port = typed_port(last).filter(|port| *port >= LOWEST)?;
    (is_ipv6(text) && is_ipv6(host)).then_some((host, port))
}

fn typed_port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port != 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hosts_with_and_without_ports() {
        for (text, host, port) in [
            ("node-1", "node-1", None),
            ("node-1.example:5302", "node-1.example", Some(5302)),
            ("192.0.2.1", "192.0.2.1", None),
            ("192.0.2.1:80", "192.0.2.1", Some(80)),
            ("::1", "::1", None),
            ("[::1]", "::1", None),
            ("[::1]:5301", "::1", Some(5301)),
            ("fe80::1%eth0", "fe80::1%eth0", None),
            ("[fe80::1%eth0]:5301", "fe80::1%eth0", Some(5301)),
            ("2001:db8::5301", "2001:db8::5301", None),
            ("fd00::1:53", "fd00::1:53", None),
            ("fd00::1:abcd", "fd00::1:abcd", None),
            ("1:2:3:4:5:6:7:5390", "1:2:3:4:5:6:7:5390", None),
            ("[::1:5390]", "::1:5390", None),
            ("[::1:5390]:5301", "::1:5390", Some(5301)),
        ] {
            let typed: TypedHost = text.parse().unwrap();
            assert_eq!((typed.host.as_str(), typed.port), (host, port), "{text}");
        }
        for text in [
            "",
            ":5301",
            "a:b",
            "a:0",
            "a:65536",
            "a:+1",
            "a:1:2",
            "[::1",
            "[::1]5301",
            "[a]:1",
            "[]:1",
            "a b",
            "http://a",
            "-a",
            "a:",
            "fe80::1%",
            "::1:5390",
            "fd00::1:1024",
            "fe80::1%eth0:5301",
            "[fe80::1%a b]:1",
        ] {
            assert!(text.parse::<TypedHost>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_may_be_a_port_is_explained() {
        let error = "::1:5390".parse::<TypedHost>().unwrap_err().to_string();
        for wanted in ["[::1]:5390", "[::1:5390]"] {
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn addresses_are_told_from_names() {
        let address = |text: &str| text.parse::<TypedHost>().unwrap().address();
        assert!(address("fe80::1%eth0").unwrap().is_ipv6());
        assert!(address("192.0.2.1:9").unwrap().is_ipv4());
        assert_eq!(address("node"), None);
    }

    proptest! {
        #[test]
        fn printed_hosts_read_back(text in "[a-z:.0-9%\\[\\]]{0,24}", address: IpAddr, port: u16) {
            let hosts = [text, address.to_string(), format!("[{address}]:{port}")];
            for host in hosts.iter().filter_map(|text| text.parse::<TypedHost>().ok()) {
                prop_assert_eq!(host.to_string().parse::<TypedHost>().unwrap(), host);
            }
        }
    }
}
