//! What goes together with sends that the kernel need not copy.

use super::Errors;
use crate::plan::matrix::Matrix;
use crate::plan::zerocopy::senders;
use crate::plan::{Engine, Proto, Spec, Test, ZeroCopy};

pub(super) fn check(spec: &Spec, matrix: &Matrix<'_>, errors: &mut Errors) {
    let Some(how) = spec.zerocopy else { return };
    let flag = || format!("--zerocopy {how}");
    for test in [Test::Rr, Test::Crr] {
        if matrix.kinds.iter().any(|kind| kind.1 == test) {
            let reason = "requests and answers are copied; it is for streams";
            errors.push([flag(), matrix.test_flag(test)], reason);
        }
    }
    if how == ZeroCopy::File && matrix.kinds.iter().any(|kind| kind.0 == Proto::Udp) {
        let reason = "sendfile makes a stream of bytes, not datagrams; use send or msg";
        errors.push([flag(), matrix.proto_flag(Proto::Udp)], reason);
    }
    for engine in wrong_engines(spec, matrix, how) {
        let needed = how.engine();
        let reason = format!("only the engine {needed} has it, and auto takes that one");
        errors.push([flag(), engine], reason);
    }
}

/// The flags by which a side that sends was given another engine than the one it needs.
fn wrong_engines(spec: &Spec, matrix: &Matrix<'_>, how: ZeroCopy) -> Vec<String> {
    let sends = |side: usize| matrix.kinds.iter().any(|kind| senders(kind.1)[side]);
    let sides = [
        (0, spec.client_engine, "--client-engine"),
        (1, spec.server_engine, "--server-engine"),
    ];
    let mut flags = Vec::new();
    for (side, own, own_flag) in sides {
        let (engine, flag) = match own {
            Some(engine) => (engine, own_flag),
            None => (spec.engine.unwrap_or_default(), "--engine"),
        };
        let flag = format!("{flag} {engine}");
        let wrong = engine != Engine::Auto && engine != how.engine();
        if sends(side) && wrong && !flags.contains(&flag) {
            flags.push(flag);
        }
    }
    flags
}
