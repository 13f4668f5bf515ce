//! First bytes of the flows: fixed binary layouts, big-endian, the same lengths always.
//!
//! ```text
//! TCP  client  hello  32 bytes -> server  reply 64 bytes
//! UDP  client  hello  96 bytes -> server  nonce 64 bytes
//!      client  proof  96 bytes -> server  opened or refused 64 bytes, from the flow's own socket
//! ```
//!
//! A UDP answer is never longer than what asked for it, and nothing but the nonce goes to an
//! address from which no nonce has come back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::crew::FlowKey;
use super::wire::PROTOCOL;

/// First bytes of a TCP data connection. A control frame begins with a zero byte.
pub const TCP_MAGIC: [u8; 4] = *b"RPFL";
const UDP_MAGIC: [u8; 4] = *b"RPUQ";
const REPLY_MAGIC: [u8; 4] = *b"RPRE";

/// Bytes of a TCP flow's hello.
pub const TCP_HELLO: usize = 32;
/// Bytes of a UDP flow's hello or proof: more than any answer.
pub const UDP_REQUEST: usize = 96;
/// Bytes of every answer.
pub const REPLY: usize = 64;

/// The flow of a crr sample that carries no traffic: it shows the server the address from which
/// the transactions will come, and the client that both reach the same server.
pub const PROBE: FlowKey = FlowKey {
    group: u32::MAX,
    flow: u32::MAX,
};

/// A TCP flow's hello.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpHello {
    /// The sample's cookie.
    pub cookie: u64,
    /// Which flow this is.
    pub key: FlowKey,
}

impl TcpHello {
    /// As bytes.
    pub fn encode(&self) -> [u8; TCP_HELLO] {
        let mut bytes = [0; TCP_HELLO];
        put(&mut bytes, 0, &TCP_MAGIC);
        put(&mut bytes, 4, &PROTOCOL.to_be_bytes());
        put(&mut bytes, 8, &self.cookie.to_be_bytes());
        put_key(&mut bytes, 16, self.key);
        bytes
    }

    /// From bytes; `None` where they are not a hello of this protocol.
    pub fn decode(bytes: &[u8; TCP_HELLO]) -> Option<TcpHello> {
        let known = bytes[..4] == TCP_MAGIC && get_u32(bytes, 4) == PROTOCOL;
        let padded = bytes[24..].iter().all(|byte| *byte == 0);
        (known && padded).then(|| TcpHello {
            cookie: get_u64(bytes, 8),
            key: get_key(bytes, 16),
        })
    }
}

/// A UDP flow's hello (no nonce) or proof (the nonce that came back).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpRequest {
    /// The sample's cookie.
    pub cookie: u64,
    /// Which flow this is.
    pub key: FlowKey,
    /// The server's nonce, once known.
    pub nonce: Option<u64>,
}

impl UdpRequest {
    /// As bytes.
    pub fn encode(&self) -> [u8; UDP_REQUEST] {
        let mut bytes = [0; UDP_REQUEST];
        put(&mut bytes, 0, &UDP_MAGIC);
        put(&mut bytes, 4, &PROTOCOL.to_be_bytes());
        put(&mut bytes, 8, &self.cookie.to_be_bytes());
        put_key(&mut bytes, 16, self.key);
        bytes[24] = u8::from(self.nonce.is_some());
        put(&mut bytes, 32, &self.nonce.unwrap_or(0).to_be_bytes());
        bytes
    }

    /// From a datagram; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<UdpRequest> {
        let bytes: &[u8; UDP_REQUEST] = bytes.try_into().ok()?;
        if bytes[..4] != UDP_MAGIC || get_u32(bytes, 4) != PROTOCOL {
            return None;
        }
        let nonce = (bytes[24] == 1).then(|| get_u64(bytes, 32));
        Some(UdpRequest {
            cookie: get_u64(bytes, 8),
            key: get_key(bytes, 16),
            nonce,
        })
    }
}

/// What a server says to a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The flow is open.
    Opened,
    /// UDP: send this back to prove the address.
    Nonce(u64),
    /// No session here knows the cookie.
    UnknownCookie,
    /// The session does not expect this flow.
    Unexpected,
}

/// The answer to a flow's hello.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The answer.
    pub verdict: Verdict,
    /// Which flow it answers.
    pub key: FlowKey,
    /// The client's address as the server sees it.
    pub client: SocketAddr,
    /// The server's own address as it sees it.
    pub server: SocketAddr,
}

impl Reply {
    /// As bytes.
    pub fn encode(&self) -> [u8; REPLY] {
        let mut bytes = [0; REPLY];
        put(&mut bytes, 0, &REPLY_MAGIC);
        let (code, nonce) = match self.verdict {
            Verdict::Opened => (1, 0),
            Verdict::Nonce(nonce) => (2, nonce),
            Verdict::UnknownCookie => (3, 0),
            Verdict::Unexpected => (4, 0),
        };
        bytes[4] = code;
        put(&mut bytes, 8, &nonce.to_be_bytes());
        put_key(&mut bytes, 16, self.key);
        put_address(&mut bytes, 24, self.client);
        put_address(&mut bytes, 44, self.server);
        bytes
    }

    /// From bytes; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Reply> {
        let bytes: &[u8; REPLY] = bytes.try_into().ok()?;
        if bytes[..4] != REPLY_MAGIC {
            return None;
        }
        let verdict = match bytes[4] {
            1 => Verdict::Opened,
            2 => Verdict::Nonce(get_u64(bytes, 8)),
            3 => Verdict::UnknownCookie,
            4 => Verdict::Unexpected,
            _ => return None,
        };
        let (client, server) = (get_address(bytes, 24)?, get_address(bytes, 44)?);
        Some(Reply {
            verdict,
            key: get_key(bytes, 16),
            client,
            server,
        })
    }
}

/// An address without its IPv4-in-IPv6 disguise.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::from((ip, address.port())),
        IpAddr::V6(_) => address,
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn put_key(bytes: &mut [u8], at: usize, key: FlowKey) {
    put(bytes, at, &key.group.to_be_bytes());
    put(bytes, at + 4, &key.flow.to_be_bytes());
}

/// Twenty bytes: family, a zero, port, and sixteen of address.
fn put_address(bytes: &mut [u8], at: usize, address: SocketAddr) {
    let address = canonical(address);
    put(bytes, at + 2, &address.port().to_be_bytes());
    match address.ip() {
        IpAddr::V4(ip) => {
            bytes[at] = 4;
            put(bytes, at + 4, &ip.octets());
        }
        IpAddr::V6(ip) => {
            bytes[at] = 6;
            put(bytes, at + 4, &ip.octets());
        }
    }
}

fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[at..at + N]);
    value
}

fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(take(bytes, at))
}

fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(take(bytes, at))
}

fn get_key(bytes: &[u8], at: usize) -> FlowKey {
    FlowKey {
        group: get_u32(bytes, at),
        flow: get_u32(bytes, at + 4),
    }
}

fn get_address(bytes: &[u8], at: usize) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(take(bytes, at + 2));
    let ip: IpAddr = match bytes[at] {
        4 => Ipv4Addr::from(take::<4>(bytes, at + 4)).into(),
        6 => Ipv6Addr::from(take::<16>(bytes, at + 4)).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const _: () = assert!(REPLY <= UDP_REQUEST, "an answer must never amplify");

    fn address() -> impl Strategy<Value = SocketAddr> {
        (any::<IpAddr>(), any::<u16>()).prop_map(|(ip, port)| SocketAddr::new(ip, port))
    }

    proptest! {
        #[test]
        fn layouts_round_trip(
            cookie: u64, group: u32, flow: u32, nonce: Option<u64>,
            client in address(), server in address(),
        ) {
            let key = FlowKey { group, flow };
            let tcp = TcpHello { cookie, key };
            prop_assert_eq!(TcpHello::decode(&tcp.encode()), Some(tcp));
            let udp = UdpRequest { cookie, key, nonce };
            prop_assert_eq!(UdpRequest::decode(&udp.encode()), Some(udp));
            let verdict = nonce.map_or(Verdict::Opened, Verdict::Nonce);
            let reply = Reply { verdict, key, client, server };
            let expected =
                Reply { client: canonical(client), server: canonical(server), ..reply };
            prop_assert_eq!(Reply::decode(&reply.encode()), Some(expected));
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
            prop_assert_eq!(UdpRequest::decode(&bytes), None);
            prop_assert_eq!(Reply::decode(&bytes), None);
        }
    }

    #[test]
    fn another_version_is_not_a_hello() {
        let mut bytes = TcpHello {
            cookie: 1,
            key: PROBE,
        }
        .encode();
        bytes[7] ^= 0x40;
        assert_eq!(TcpHello::decode(&bytes), None);
    }
}
