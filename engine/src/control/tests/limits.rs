//! What is refused before any traffic.

use std::net::{IpAddr, TcpListener};
use std::time::{Duration, Instant};

use super::case::{bulk, echo};
use super::fake::{Factory, Script};
use super::harness::{Raw, Server, config, connect_config, samples, server};
use crate::control::client::ConnectConfig;
use crate::control::error::ControlError;
use crate::control::runtime::Choice;
use crate::control::server::{Limits, ServeConfig};
use crate::control::wire::{Message, Refusal};
use crate::plan::Family;

fn refusal(config: ConnectConfig) -> Refusal {
    let mut factory = Factory::new(Script::default());
    samples(config, &mut factory, vec![]).unwrap_err().refusal()
}

#[test]
fn a_busy_server_says_with_whom_and_for_how_long() {
    let server = Server::plain(Script::default());
    let first = Raw::session(server.address, 5_000_000_000);
    let refused = refusal(connect_config(server.address));
    assert_eq!((refused.exit_code, refused.code.as_str()), (4, "busy"));
    let who = first.stream.local_addr().unwrap().to_string();
    assert!(
        refused.text.contains(&who) && refused.text.contains(" s;"),
        "{refused}"
    );
    drop(first);
    let start = Instant::now();
    let mut factory = Factory::new(Script::default());
    while samples(connect_config(server.address), &mut factory, vec![]).is_err() {
        assert!(start.elapsed() < Duration::from_secs(2));
    }
}

#[test]
fn several_sessions_at_once_where_allowed() {
    let limits = Limits {
        max_sessions: 2,
        ..Limits::default()
    };
    let server = server(
        ServeConfig { limits, ..config() },
        Script::default(),
        Choice::Auto,
    );
    let _first = Raw::session(server.address, 5_000_000_000);
    let mut factory = Factory::new(Script::default());
    let outcomes = samples(connect_config(server.address), &mut factory, vec![bulk(2)]).unwrap();
    assert_eq!(outcomes[0].error, None);
    let _second = Raw::session(server.address, 5_000_000_000);
    assert_eq!(refusal(connect_config(server.address)).code, "busy");
}

#[test]
fn limits_of_the_server_reach_the_client_and_the_session_goes_on() {
    let limits = Limits {
        max_flows: Some(4),
        ..Limits::default()
    };
    let server = server(
        ServeConfig { limits, ..config() },
        Script::default(),
        Choice::Auto,
    );
    let mut factory = Factory::new(Script::default());
    let cases = vec![bulk(5), bulk(4)];
    let outcomes = samples(connect_config(server.address), &mut factory, cases).unwrap();
    let error = outcomes[0].error.as_ref().unwrap();
    assert!(error.text.contains("--max-flows"), "{error}");
    assert_eq!(outcomes[0].client, None, "no crew was made");
    assert_eq!(outcomes[1].error, None);
}

#[test]
fn refusals_of_either_factory_pass_through() {
    let blocked = Refusal::new(5, "io-uring", "io_uring is blocked here");
    let script = Script {
        refuse: Some(blocked.clone()),
        ..Script::default()
    };
    let able = Server::plain(Script::default());
    let unable = Server::plain(script.clone());
    for (server, script) in [(&unable, Script::default()), (&able, script)] {
        let mut factory = Factory::new(script);
        let outcomes = samples(connect_config(server.address), &mut factory, vec![echo(2)]);
        assert_eq!(outcomes.unwrap()[0].error.as_ref(), Some(&blocked));
        server.wait_free(Duration::from_secs(2));
    }
}

#[test]
fn clients_from_elsewhere_are_refused() {
    let allow: Vec<(IpAddr, u8)> = vec![("10.0.0.0".parse().unwrap(), 8)];
    let limits = Limits {
        allow,
        ..Limits::default()
    };
    let server = server(
        ServeConfig { limits, ..config() },
        Script::default(),
        Choice::Auto,
    );
    assert!(
        refusal(connect_config(server.address))
            .text
            .contains("--allow")
    );
}

#[test]
fn both_versions_are_named_on_both_sides() {
    let server = Server::plain(Script::default());
    let mut raw = Raw::connect(server.address);
    raw.send(&Raw::hello(77, 1));
    let Some(Message::Refused(refused)) = raw.next() else {
        panic!("no refusal")
    };
    for part in ["9.9.9", "77", "1.2.3", "protocol 1"] {
        assert!(refused.text.contains(part), "{refused}");
    }

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let body = br#"{"type":"welcome","protocol":78,"version":"7.8.9","new":true}"#;
        let mut frame = (body.len() as u32).to_be_bytes().to_vec();
        frame.extend(body);
        std::io::Write::write_all(&mut &stream, &frame).unwrap();
        std::thread::sleep(Duration::from_millis(300));
    });
    let refused = refusal(connect_config(address));
    assert_eq!(refused.code, "version");
    for part in ["7.8.9", "78", "1.2.3", "protocol 1"] {
        assert!(refused.text.contains(part), "{refused}");
    }
    thread.join().unwrap();
}

#[test]
fn nobody_there_is_an_error_within_five_seconds() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = ConnectConfig {
        host: "no.such.host.invalid".into(),
        ..connect_config(address)
    };
    let other_family = ConnectConfig {
        family: Family::V6,
        ..connect_config(address)
    };
    let cases = [
        (connect_config(address), "refused"),
        (nowhere, "no.such.host.invalid"),
        (other_family, "family"),
        (connect_config(silent.local_addr().unwrap()), "said nothing"),
    ];
    for (config, cause) in cases {
        let host = config.host.clone();
        let start = Instant::now();
        let refused = refusal(config);
        assert!(start.elapsed() < Duration::from_secs(5));
        assert_eq!(refused.exit_code, 4);
        let text = &refused.text;
        assert!(
            text.contains(&host) && text.contains(cause) && !text.contains('\n'),
            "{text}"
        );
    }
}

#[test]
fn a_client_waits_for_its_server() {
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(400));
        let config = ServeConfig {
            port,
            one_off: true,
            ..config()
        };
        server(config, Script::default(), Choice::Auto).join()
    });
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let wait_for_server = Some(Duration::from_secs(10));
    let config = ConnectConfig {
        wait_for_server,
        ..connect_config(address)
    };
    let mut factory = Factory::new(Script::default());
    assert!(
        samples(config, &mut factory, vec![bulk(1)]).unwrap()[0]
            .error
            .is_none()
    );
    assert_eq!(thread.join().unwrap().sessions, 1);
}

#[test]
fn a_taken_port_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let outcome = crate::control::runtime::block_on(Choice::Auto, |_| async move {
        let mut factory = Factory::new(Script::default());
        let config = ServeConfig { port, ..config() };
        let stop = std::future::pending();
        crate::control::serve(
            config,
            &mut factory,
            &|_| Default::default(),
            stop,
            &mut |_| {},
        )
        .await
    });
    let error = outcome.unwrap().unwrap_err();
    assert!(matches!(error, ControlError::Listen { .. }));
    assert!(error.to_string().contains(&port.to_string()), "{error}");
}
