//! Options of a case, set on a flow's socket once it is connected.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::control::crew::Side;
use crate::control::wire::Refusal;
use crate::plan::{Case, CloseKind, Load, Proto, Traffic};
use crate::record::{Finding, Severity};
use crate::sys::open::{self, StreamOptions};
use crate::sys::socket::{self, Fragmentation};

/// Sets what the case asks for. An option that changes what is measured must take effect, or the
/// sample is refused.
pub(super) fn apply(flow: &OwnedFd, case: &Case, side: Side) -> Result<Vec<Finding>, Refusal> {
    let fd = flow.as_fd();
    match case.proto {
        Proto::Tcp => stream(fd, case)?,
        Proto::Udp => datagrams(fd, case)?,
    }
    let options = &case.options;
    if let Some(dscp) = options.dscp {
        must(socket::set_dscp(fd, dscp), "--dscp", "")?;
    }
    if let Some(bits) = options.pacing {
        must(socket::set_pacing_rate(fd, bits / 8), "--pacing", "")?;
    }
    let busy = match side {
        Side::Client => options.client_busy_poll,
        Side::Server => options.server_busy_poll,
    };
    if let Some(microseconds) = busy {
        let remedy = "raising it above net.core.busy_read needs CAP_NET_ADMIN";
        must(
            socket::set_busy_poll(fd, microseconds),
            "--busy-poll",
            remedy,
        )?;
    }
    buffers(fd, case)
}

/// A socket to try the options on of connections that are made later.
pub(super) fn trial() -> Result<OwnedFd, Refusal> {
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    open::stream_for(target, &StreamOptions::default()).map_err(|error| {
        let text = format!("a socket cannot be made: {error}");
        Refusal::new(5, "socket", text)
    })
}

fn stream(fd: BorrowedFd<'_>, case: &Case) -> Result<(), Refusal> {
    let options = &case.options;
    must(socket::set_nodelay(fd, options.nodelay), "--nodelay", "")?;
    if let Some(name) = &options.congestion {
        let remedy = "see net.ipv4.tcp_available_congestion_control and \
                      tcp_allowed_congestion_control";
        must(
            socket::set_congestion(fd, name),
            &format!("--congestion {name}"),
            remedy,
        )?;
    }
    if options.close == CloseKind::Rst {
        must(socket::set_close_by_reset(fd, true), "--close rst", "")?;
    }
    Ok(())
}

fn datagrams(fd: BorrowedFd<'_>, case: &Case) -> Result<(), Refusal> {
    let options = &case.options;
    let streams = case.groups.iter().any(|g| g.traffic == Traffic::Stream);
    let fragmentation = match case.size_from_path_mtu && !options.fragment {
        true => Fragmentation::Never,
        false => Fragmentation::Allowed,
    };
    must(
        socket::set_fragmentation(fd, fragmentation),
        "the path MTU mode",
        "",
    )?;
    if options.gso.is_some() {
        let size = case.request_bytes as u16;
        must(
            socket::set_udp_segment(fd, size),
            "--gso",
            "UDP_SEGMENT needs Linux 4.18",
        )?;
    }
    if options.gro {
        must(
            socket::set_udp_gro(fd, true),
            "--gro",
            "UDP_GRO needs Linux 5.0",
        )?;
    }
    if streams && case.load != Load::Closed {
        must(
            socket::set_receive_timestamps(fd, true),
            "the receive time stamp",
            "",
        )?;
    }
    Ok(())
}

fn buffers(fd: BorrowedFd<'_>, case: &Case) -> Result<Vec<Finding>, Refusal> {
    let options = &case.options;
    let mut findings = Vec::new();
    if let Some(bytes) = options.window {
        let asked = u32::try_from(bytes).unwrap_or(u32::MAX);
        must(socket::set_send_buffer(fd, asked), "--window", "")?;
        must(socket::set_receive_buffer(fd, asked), "--window", "")?;
        let sizes = [socket::send_buffer(fd), socket::receive_buffer(fd)];
        let least = sizes.into_iter().map(|size| size.unwrap_or(0)).min();
        // The kernel cuts what is asked at a limit, and doubles it for its own bookkeeping.
        let got = u64::from(least.unwrap_or(0)) / 2;
        if got < bytes {
            let text = format!(
                "--window asked for {bytes} bytes and the kernel gave {got}: see \
                 net.core.rmem_max and wmem_max"
            );
            findings.push(Finding::new(Severity::Warning, "window-cut", text));
        }
    }
    if let Some(bytes) = options.rcvbuf {
        must(
            socket::force_receive_buffer(fd, u32::try_from(bytes).unwrap_or(u32::MAX)),
            "--rcvbuf",
            "it needs CAP_NET_ADMIN",
        )?;
    }
    Ok(findings)
}

fn must(result: io::Result<()>, what: &str, remedy: &str) -> Result<(), Refusal> {
    result.map_err(|error| {
        let more = if remedy.is_empty() {
            String::new()
        } else {
            format!(" ({remedy})")
        };
        let text = format!("{what} cannot be set on a flow's socket: {error}{more}");
        Refusal::new(5, "socket-option", text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Options, Test};
    use crate::record::canned::case;

    fn with(change: impl FnOnce(&mut Options)) -> Case {
        let mut case = case("tcp stream", Proto::Tcp, Test::Stream, (1000, 0), 1);
        change(&mut case.options);
        case
    }

    #[test]
    fn what_is_asked_for_is_in_force() {
        let socket = trial().unwrap();
        let asked = with(|options| {
            options.nodelay = true;
            options.congestion = Some("reno".to_string());
            options.dscp = Some(46);
            options.pacing = Some(8_000_000);
            options.window = Some(65_536);
        });
        assert_eq!(apply(&socket, &asked, Side::Client).unwrap(), []);
        let fd = socket.as_fd();
        assert!(socket::nodelay(fd).unwrap());
        assert_eq!(socket::congestion(fd).unwrap(), "reno");
        assert_eq!(socket::dscp(fd).unwrap(), 46);
        assert_eq!(socket::pacing_rate(fd).unwrap(), 1_000_000);
        assert_eq!(socket::receive_buffer(fd).unwrap(), 2 * 65_536);
    }

    /// Named where it is refused, and a window that the host cuts is said with what it gave.
    #[test]
    fn what_is_not_in_force_is_said() {
        let nonsense = with(|options| options.congestion = Some("nosuch".to_string()));
        let refused = apply(&trial().unwrap(), &nonsense, Side::Client).unwrap_err();
        assert_eq!(refused.exit_code, 5);
        assert!(refused.text.contains("--congestion nosuch"), "{refused}");

        let most = |name: &str| -> u64 {
            let path = format!("/proc/sys/net/core/{name}");
            std::fs::read_to_string(path)
                .unwrap()
                .trim()
                .parse()
                .unwrap()
        };
        let most = most("rmem_max").min(most("wmem_max"));
        for (bytes, cut) in [(most, false), (most + 1, true)] {
            let asked = with(|options| options.window = Some(bytes));
            let notes = apply(&trial().unwrap(), &asked, Side::Client).unwrap();
            let codes: Vec<&str> = notes.iter().map(|note| note.code.as_str()).collect();
            assert_eq!(codes == ["window-cut"], cut, "{bytes}: {notes:?}");
            let named = notes
                .iter()
                .all(|note| note.text.contains(&format!("gave {most}:")));
            assert!(named, "{notes:?}");
        }
    }
}
