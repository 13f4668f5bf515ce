//! Who else comes to the port.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use super::case::{bulk, crr, echo};
use super::fake::{Factory, Script};
use super::harness::{Raw, Server, connect_config, interrupted, mute_server, samples};
use crate::control::client::ConnectConfig;
use crate::control::crew::FlowKey;
use crate::control::hello::{REPLY, Reply, TcpHello, UDP_REQUEST, UdpRequest, Verdict};
use crate::control::stop;
use crate::control::wire::{Message, Offer};
use crate::plan::{Case, Direction, GroupPlan, Limit, Proto};

const KEY: FlowKey = FlowKey { group: 0, flow: 0 };

/// Waits for the end of a connection; how long that took.
fn closed_after(mut stream: TcpStream) -> Duration {
    let start = Instant::now();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let mut bytes = [0; 64];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            // A ring that this thread had may still interrupt it.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => panic!("not closed: {other:?}"),
        }
    }
    start.elapsed()
}

#[test]
fn scanners_and_browsers_are_dropped_and_harm_nobody() {
    let server = Server::plain(Script::default());
    let address = server.address;
    let scanner = std::thread::spawn(move || {
        for round in 0..30 {
            let mut stream = TcpStream::connect(address).unwrap();
            let noise: &[u8] = match round % 4 {
                0 => b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                1 => &[0xff; 200],
                2 => b"\0\0\0\x05hello",
                _ => b"",
            };
            stream.write_all(noise).unwrap();
            let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
            udp.send_to(&[0x55; 300], address).unwrap();
            if !noise.is_empty() {
                assert!(closed_after(stream) < Duration::from_secs(1));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let mut factory = Factory::new(Script::default());
    let case = Case {
        limit: Limit::Duration { ns: 600_000_000 },
        ..echo(20)
    };
    let outcomes = samples(connect_config(address), &mut factory, vec![case]).unwrap();
    assert_eq!(outcomes[0].error, None);
    assert_eq!(outcomes[0].server.as_ref().unwrap().flows.len(), 20);
    scanner.join().unwrap();
}

#[test]
fn a_silent_connection_is_dropped_after_two_seconds_and_takes_no_session() {
    let server = Server::plain(Script::default());
    let since = Instant::now();
    let silent = TcpStream::connect(server.address).unwrap();
    let mut half = TcpStream::connect(server.address).unwrap();
    half.write_all(&[0, 0, 1, 0, b'{']).unwrap();
    let mut factory = Factory::new(Script::default());
    let outcomes = samples(connect_config(server.address), &mut factory, vec![echo(1)]);
    assert_eq!(outcomes.unwrap()[0].error, None, "no session was taken");
    for stream in [silent, half] {
        assert!(closed_after(stream) < Duration::from_millis(2200));
        let open = since.elapsed();
        assert!(
            open >= Duration::from_millis(1950),
            "a slow client has 2 s: {open:?}"
        );
    }
    assert_eq!(server.stop().sessions, 1);
}

#[test]
fn a_flow_with_an_unknown_cookie_learns_that_this_is_another_server() {
    let server = Server::plain(Script::default());
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream
        .write_all(
            &TcpHello {
                cookie: 12345,
                key: KEY,
            }
            .encode(),
        )
        .unwrap();
    let mut bytes = [0; REPLY];
    stream.read_exact(&mut bytes).unwrap();
    let reply = Reply::decode(&bytes).unwrap();
    assert_eq!(reply.verdict, Verdict::UnknownCookie);
    assert_eq!(reply.client, stream.local_addr().unwrap());
}

#[test]
fn a_service_with_two_back_ends_is_an_error_that_says_so() {
    let other = Server::plain(Script::default());
    for proto in [Proto::Tcp, Proto::Udp] {
        let (address, thread) = mute_server(Some(other.address.port()));
        let mut factory = Factory::new(Script::default());
        let case = Case { proto, ..echo(3) };
        let outcomes = samples(connect_config(address), &mut factory, vec![case]).unwrap();
        let error = outcomes[0].error.as_ref().unwrap();
        assert_eq!(
            (error.exit_code, error.code.as_str()),
            (4, "another-server")
        );
        assert!(error.text.contains("two back ends"), "{error}");
        thread.join().unwrap();
    }
}

#[test]
fn udp_answers_are_shorter_than_requests_and_need_the_nonce() {
    let server = Server::plain(Script::default());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let mut bytes = [0; 2048];
    let mut ask = |nonce| {
        let request = UdpRequest {
            cookie: 99,
            key: KEY,
            nonce,
        };
        socket.send(&request.encode()).unwrap();
        let length = socket.recv(&mut bytes).ok()?;
        assert!(length <= UDP_REQUEST);
        Some(Reply::decode(&bytes[..length]).unwrap().verdict)
    };
    let Some(Verdict::Nonce(nonce)) = ask(None) else {
        panic!("no nonce")
    };
    assert_eq!(ask(Some(nonce ^ 1)), None, "a wrong nonce gets no answer");
    assert_eq!(ask(Some(nonce)), Some(Verdict::UnknownCookie));
    // The same nonce proves nothing for another address.
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    other.connect(server.address).unwrap();
    other
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let request = UdpRequest {
        cookie: 99,
        key: KEY,
        nonce: Some(nonce),
    };
    other.send(&request.encode()).unwrap();
    assert!(other.recv(&mut [0; 128]).is_err());
}

/// A flow towards the client, whose cookie somebody else knows too: nothing goes to an address
/// from which its nonce has not come back.
#[test]
fn a_flow_opens_only_by_what_came_back_from_its_own_address() {
    let server = Server::plain(Script::default());
    let mut raw = Raw::session(server.address, 5_000_000_000);
    let case = Case {
        proto: Proto::Udp,
        groups: vec![GroupPlan {
            direction: Direction::ServerToClient,
            ..bulk(1).groups[0]
        }],
        ..bulk(1)
    };
    raw.send(&Message::Offer(Box::new(Offer {
        case_index: 0,
        sample: 1,
        case,
        cpus: vec![],
        avoid_cpus: vec![],
        cookie: 0,
    })));
    let Some(Message::Accepted { cookie, .. }) = raw.next() else {
        panic!("not accepted")
    };
    let [client, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let verdict = |socket: &UdpSocket, nonce| {
        let wait = Some(Duration::from_millis(200));
        socket.set_read_timeout(wait).unwrap();
        let request = UdpRequest {
            cookie,
            key: KEY,
            nonce,
        };
        socket.send_to(&request.encode(), server.address).unwrap();
        let mut bytes = [0; 2048];
        let length = socket.recv(&mut bytes).ok()?;
        Some(Reply::decode(&bytes[..length]).unwrap().verdict)
    };
    let Some(Verdict::Nonce(nonce)) = verdict(&client, None) else {
        panic!("no nonce")
    };
    assert_eq!(verdict(&client, Some(nonce ^ 1)), None, "a wrong nonce");
    assert_eq!(verdict(&other, Some(nonce)), None, "another's nonce");
    // Had either opened the flow, this would come second.
    assert_ne!(verdict(&client, Some(nonce)), Some(Verdict::Unexpected));
    assert_eq!(raw.next(), Some(Message::Ready));
    assert!(other.recv(&mut [0; 128]).is_err(), "nothing for the other");
}

#[test]
fn during_crr_a_connection_from_elsewhere_is_a_control_connection() {
    let server = Server::plain(Script::default());
    let (handle, stop) = stop::channel();
    let config = connect_config(server.address);
    let case = Case {
        limit: Limit::Duration { ns: 5_000_000_000 },
        ..crr()
    };
    let session = std::thread::spawn(move || {
        let mut factory = Factory::new(Script::default());
        interrupted(config, &mut factory, case, &stop)
    });
    std::thread::sleep(Duration::from_millis(300));
    let bind = "127.0.0.2".parse().ok();
    let other = ConnectConfig {
        bind,
        ..connect_config(server.address)
    };
    let mut factory = Factory::new(Script::default());
    let refused = samples(other, &mut factory, vec![]).unwrap_err().refusal();
    assert_eq!(refused.code, "busy");
    assert!(refused.text.contains("Crr"), "{refused}");
    handle.stop();
    let outcome = session.join().unwrap();
    assert!(outcome.interrupted && outcome.server.is_some());
}

#[test]
fn nonsense_within_a_session_ends_it() {
    let server = Server::plain(Script::default());
    let mut raw = Raw::session(server.address, 5_000_000_000);
    raw.send(&Message::Ready);
    let Some(Message::Failed(refused)) = raw.next() else {
        panic!("no refusal")
    };
    assert_eq!(refused.code, "protocol");
    assert_eq!(raw.next(), None);
    let mut raw = Raw::session(server.address, 5_000_000_000);
    raw.stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(raw.next(), None);
    assert_eq!(server.stop().sessions, 2);
}
