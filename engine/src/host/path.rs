//! The way to the other side: which interface traffic leaves by.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_indextoname};

/// Discard; any port does, since nothing is sent.
const ANY_PORT: u16 = 9;

/// The interface by which this host reaches `addr`; none where there is no route or the address
/// is no interface's. Sends nothing: connecting a UDP socket only looks up the route.
pub fn interface_to(addr: SocketAddr) -> Option<String> {
    if let SocketAddr::V6(v6) = addr
        && v6.scope_id() != 0
    {
        let name = if_indextoname(v6.scope_id()).ok()?;
        // An unknown index comes back as an empty name rather than as an error.
        return name.into_string().ok().filter(|name| !name.is_empty());
    }
    let ip = addr.ip().to_canonical();
    // A host reaches all of its own addresses by the loopback interface.
    if ip.is_loopback() || interface_with(ip).is_some() {
        return loopback();
    }
    interface_with(source_towards(ip, addr.port())?)
}

/// The source address that the kernel would give to traffic towards `ip`.
fn source_towards(ip: IpAddr, port: u16) -> Option<IpAddr> {
    let any: IpAddr = match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let port = if port == 0 { ANY_PORT } else { port };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((ip, port)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

fn interface_with(ip: IpAddr) -> Option<String> {
    getifaddrs().ok()?.find_map(|interface| {
        let address = interface.address?;
        let own: IpAddr = match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
            (Some(v4), _) => v4.ip().into(),
            (_, Some(v6)) => v6.ip().into(),
            _ => return None,
        };
        (own == ip).then_some(interface.interface_name)
    })
}

fn loopback() -> Option<String> {
    let mut interfaces = getifaddrs().ok()?;
    interfaces
        .find(|interface| interface.flags.contains(InterfaceFlags::IFF_LOOPBACK))
        .map(|interface| interface.interface_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_go_by_lo() {
        assert_eq!(
            interface_to("127.0.0.1:5301".parse().unwrap()).as_deref(),
            Some("lo")
        );
        assert_eq!(
            interface_to("127.9.8.7:0".parse().unwrap()).as_deref(),
            Some("lo")
        );
        assert_eq!(
            interface_to("[::ffff:127.0.0.1]:1".parse().unwrap()).as_deref(),
            Some("lo")
        );
    }

    #[test]
    fn the_hosts_own_addresses_go_by_lo() {
        let own = getifaddrs()
            .unwrap()
            .filter_map(|i| i.address?.as_sockaddr_in().map(|a| a.ip()));
        for ip in own {
            assert_eq!(interface_to((ip, 1).into()).as_deref(), Some("lo"), "{ip}");
        }
    }

    #[test]
    fn a_scope_names_its_interface() {
        let index = nix::net::if_::if_nametoindex("lo").unwrap();
        let addr = std::net::SocketAddrV6::new("fe80::1".parse().unwrap(), 1, 0, index);
        assert_eq!(interface_to(addr.into()).as_deref(), Some("lo"));
    }

    #[test]
    fn an_unknown_scope_has_no_interface() {
        let addr = std::net::SocketAddrV6::new("fe80::1".parse().unwrap(), 1, 0, u32::MAX);
        assert_eq!(interface_to(addr.into()), None);
    }
}
