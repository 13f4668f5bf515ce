//! The UDP socket that takes hellos: who sent them, to which local address, and the answers.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsRawFd;
use std::rc::Rc;

use nix::cmsg_space;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg,
};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use super::Event;
use crate::control::crew::FlowKey;
use crate::control::hello::{Reply, UDP_REQUEST, UdpRequest};

/// Nonces without memory: a keyed hash of what they prove. The key lives as long as the server.
#[derive(Default)]
pub(super) struct Nonces(RandomState);

impl Nonces {
    /// The nonce of an address and a flow.
    pub(super) fn of(&self, peer: SocketAddr, cookie: u64, key: FlowKey) -> u64 {
        self.0.hash_one((peer, cookie, key))
    }
}

/// Receives until dropped; reports hellos and proofs, ignores everything else.
pub(super) async fn receive(socket: Rc<UdpSocket>, port: usize, events: mpsc::Sender<Event>) {
    loop {
        let received = socket
            .async_io(Interest::READABLE, || receive_one(&socket))
            .await;
        match received {
            Ok(Some((request, peer, local))) => {
                let event = Event::Datagram {
                    request,
                    peer,
                    local,
                    port,
                };
                if events.send(event).await.is_err() {
                    return;
                }
            }
            Ok(None) => tokio::task::yield_now().await,
            // An ICMP error that an answer caused.
            Err(error) => log::trace!("UDP hello: {error}"),
        }
    }
}

fn receive_one(socket: &UdpSocket) -> io::Result<Option<(UdpRequest, SocketAddr, SocketAddr)>> {
    // One byte more than a request, so that a longer datagram is not taken for one.
    let mut buffer = [0; UDP_REQUEST + 1];
    let mut control = cmsg_space!(libc::in6_pktinfo);
    let own_port = socket.local_addr()?.port();
    let mut slices = [IoSliceMut::new(&mut buffer)];
    let message = recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut slices,
        Some(&mut control),
        MsgFlags::empty(),
    )?;
    let (length, peer) = (message.bytes, message.address.as_ref().and_then(to_std));
    let local = message
        .cmsgs()?
        .find_map(|cmsg| local_address(&cmsg, own_port));
    let request = UdpRequest::decode(&buffer[..length]);
    Ok(match (request, peer, local) {
        (Some(request), Some(peer), Some(local)) => Some((request, peer, local)),
        _ => None,
    })
}

fn local_address(cmsg: &ControlMessageOwned, port: u16) -> Option<SocketAddr> {
    match cmsg {
        ControlMessageOwned::Ipv4PacketInfo(info) => {
            let ip = Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr));
            Some(SocketAddr::from((ip, port)))
        }
        ControlMessageOwned::Ipv6PacketInfo(info) => {
            let ip = Ipv6Addr::from(info.ipi6_addr.s6_addr);
            let scope = if ip.is_unicast_link_local() {
                info.ipi6_ifindex
            } else {
                0
            };
            Some(SocketAddrV6::new(ip, port, 0, scope).into())
        }
        _ => None,
    }
}

fn to_std(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address
        .as_sockaddr_in()
        .map(|a| SocketAddr::V4((*a).into()));
    v4.or_else(|| {
        address
            .as_sockaddr_in6()
            .map(|a| SocketAddr::V6((*a).into()))
    })
}

/// Answers from the address that was asked. A full buffer loses the answer; the client asks again.
pub(super) fn answer(socket: &UdpSocket, reply: &Reply, peer: SocketAddr, local: SocketAddr) {
    let bytes = reply.encode();
    let slices = [IoSlice::new(&bytes)];
    let destination = SockaddrStorage::from(peer);
    let send = |cmsg: ControlMessage| {
        let flags = MsgFlags::MSG_DONTWAIT;
        sendmsg(
            socket.as_raw_fd(),
            &slices,
            &[cmsg],
            flags,
            Some(&destination),
        )
    };
    let sent = match local {
        SocketAddr::V4(local) => {
            let address = u32::from_ne_bytes(local.ip().octets());
            send(ControlMessage::Ipv4PacketInfo(&libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: libc::in_addr { s_addr: address },
                ipi_addr: libc::in_addr { s_addr: 0 },
            }))
        }
        SocketAddr::V6(local) => {
            let address = libc::in6_addr {
                s6_addr: local.ip().octets(),
            };
            send(ControlMessage::Ipv6PacketInfo(&libc::in6_pktinfo {
                ipi6_addr: address,
                ipi6_ifindex: local.scope_id(),
            }))
        }
    };
    if let Err(error) = sent {
        log::debug!("cannot answer the UDP hello of {peer}: {error}");
    }
}
