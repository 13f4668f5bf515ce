//! What concerns hosts, addresses, CPUs and ports.

use super::Errors;
use crate::plan::matrix::Matrix;
use crate::plan::{Family, SourcePorts, Spec, Test};
use crate::units::{CpuList, PortRange, print_duration};

pub(super) fn check(spec: &Spec, matrix: &Matrix<'_>, errors: &mut Errors) {
    host(spec, errors);
    families(spec, errors);
    overridden(spec, errors);
    enough_cpus(spec, matrix, errors);
    source_ports(spec, matrix, errors);
}

fn host(spec: &Spec, errors: &mut Errors) {
    let port = spec.port.map(|port| format!("--port {port}"));
    let Some(host) = &spec.host else {
        let wait = spec.wait_for_server.map(print_duration);
        let wait = wait.map(|wait| format!("--wait-for-server {wait}"));
        for flag in [port, wait].into_iter().flatten() {
            errors.push(
                [flag],
                "without HOST the server is in this process; name a HOST",
            );
        }
        return;
    };
    if let (Some(flag), Some(typed)) = (port, host.port)
        && spec.port != Some(typed)
    {
        errors.push([flag, format!("HOST {host}")], "they name two ports");
    }
}

fn families(spec: &Spec, errors: &mut Errors) {
    let host = spec.host.as_ref().and_then(|host| host.address());
    let addresses = [(host, "HOST"), (spec.bind, "--bind")];
    let addresses = addresses
        .map(|(address, flag)| address.map(|address| (address, format!("{flag} {address}"))));
    for (address, flag) in addresses.iter().flatten() {
        let other = if address.is_ipv4() {
            Family::V6
        } else {
            Family::V4
        };
        if spec.families.contains(&other) {
            let reason = format!("the address is not IPv{other}");
            errors.push([flag.clone(), format!("--family {other}")], reason);
        }
    }
    if let [Some((host, host_flag)), Some((bind, bind_flag))] = &addresses
        && host.is_ipv4() != bind.is_ipv4()
    {
        let reason = "both ends of a flow have the same address family";
        errors.push([host_flag.clone(), bind_flag.clone()], reason);
    }
}

/// A flag for both sides beside a flag for each has no effect.
fn overridden(spec: &Spec, errors: &mut Errors) {
    let options = [
        (
            "cpus",
            [&spec.cpus, &spec.client_cpus, &spec.server_cpus].map(|cpus| !cpus.is_empty()),
        ),
        (
            "workers",
            [
                !spec.workers.is_empty(),
                spec.client_workers.is_some(),
                spec.server_workers.is_some(),
            ],
        ),
        (
            "wait",
            [spec.wait, spec.client_wait, spec.server_wait].map(|wait| wait.is_some()),
        ),
        (
            "engine",
            [spec.engine, spec.client_engine, spec.server_engine].map(|engine| engine.is_some()),
        ),
        (
            "busy-poll",
            [spec.busy_poll, spec.client_busy_poll, spec.server_busy_poll].map(|us| us.is_some()),
        ),
    ];
    for (name, typed) in options {
        if typed == [true; 3] {
            let flags = [
                format!("--{name}"),
                format!("--client-{name}"),
                format!("--server-{name}"),
            ];
            errors.push(
                flags,
                format!("--{name} would have no effect; leave it out"),
            );
        }
    }
}

fn enough_cpus(spec: &Spec, matrix: &Matrix<'_>, errors: &mut Errors) {
    let (client, server) = matrix.most_workers();
    for (own, own_flag, workers) in [
        (&spec.client_cpus, "--client-cpus", client),
        (&spec.server_cpus, "--server-cpus", server),
    ] {
        let (cpus, flag) = if own.is_empty() {
            (&spec.cpus, "--cpus")
        } else {
            (own, own_flag)
        };
        if !cpus.is_empty() && cpus.len() < workers as usize {
            let list = CpuList(cpus.clone());
            errors.push(
                [format!("{flag} {list}"), format!("--workers {workers}")],
                format!("each worker has a CPU of its own; {workers} are needed"),
            );
        }
    }
}

/// The CPUs of the client's and of the server's workers, and what the user should know of them.
pub(super) fn cpus(spec: &Spec, matrix: &Matrix<'_>) -> ((Vec<u32>, Vec<u32>), Vec<String>) {
    let or_both = |own: &Vec<u32>| {
        if own.is_empty() {
            spec.cpus.clone()
        } else {
            own.clone()
        }
    };
    let (client, server) = (or_both(&spec.client_cpus), or_both(&spec.server_cpus));
    if spec.host.is_some() {
        return ((client, server), Vec::new());
    }
    // Both sides are on this machine: apart where the list for both is long enough for it.
    let (client_workers, server_workers) = matrix.most_workers();
    let both_lists_are_one = spec.client_cpus.is_empty() && spec.server_cpus.is_empty();
    if both_lists_are_one && spec.cpus.len() >= (client_workers + server_workers) as usize {
        let (first, rest) = spec.cpus.split_at(client_workers as usize);
        return ((first.to_vec(), rest.to_vec()), Vec::new());
    }
    let shared: Vec<u32> = client
        .iter()
        .copied()
        .filter(|cpu| server.contains(cpu))
        .collect();
    let note = (!shared.is_empty()).then(|| {
        let shared = CpuList(shared);
        format!("client and server share CPUs {shared}; they take time from each other")
    });
    ((client, server), note.into_iter().collect())
}

fn source_ports(spec: &Spec, matrix: &Matrix<'_>, errors: &mut Errors) {
    let Some(ports) = spec
        .source_ports
        .filter(|ports| *ports != SourcePorts::Fresh)
    else {
        return;
    };
    let flag = format!("--source-ports {ports}");
    let crr = matrix.kinds.iter().any(|kind| kind.1 == Test::Crr);
    if crr && ports == SourcePorts::Fixed {
        errors.push(
            [flag.clone(), matrix.test_flag(Test::Crr)],
            "every connection of crr has another port; give a range, and --close rst where it is \
             too small for TIME_WAIT",
        );
    }
    let SourcePorts::Range { first, last } = ports else {
        return;
    };
    let range = PortRange { first, last };
    let flows = u64::from(matrix.most_flows());
    let bidir = matrix.kinds.iter().any(|kind| kind.1 == Test::Bidir);
    let needed = if bidir { 2 * flows } else { flows };
    if needed > u64::from(range.len()) {
        let reason = format!(
            "{needed} flows need as many ports; the range has {}",
            range.len()
        );
        let flows = format!("--flows {flows}");
        match bidir {
            true => errors.push([flag, flows, matrix.test_flag(Test::Bidir)], reason),
            false => errors.push([flag, flows], reason),
        }
    }
}
