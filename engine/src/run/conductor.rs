//! The client's session: every case, every sample, one result.

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::control::client::{Client, ConnectConfig, SampleOutcome, SampleRequest};
use crate::control::crew::Side;
use crate::control::runtime::{Choice, block_on};
use crate::control::stop::{self, Stop};
use crate::control::wire::Refusal;
use crate::host::cpus::Cpus;
use crate::host::placement::{self, Apart};
use crate::plan::{Case, Family, ProbeUse, Proto, RunInvocation};
use crate::record::{CaseResult, ErrorReport, Finding, Progress, Run, Sample, Severity};
use crate::report::live::LiveLine;

use super::assemble::{self, SampleInput};
use super::factory::Factory;
use super::interrupt::Interrupts;
use super::local::LocalServer;
use super::probed;
use super::{VERSION, boot_id, host_facts, output, path_facts};

/// Code of what a signal ended.
const INTERRUPTED: &str = "interrupted";

/// Bytes of an IP and a UDP header.
const HEADERS_V4: u32 = 20 + 8;
const HEADERS_V6: u32 = 40 + 8;
/// Largest UDP payload.
const LARGEST_DATAGRAM: u32 = 65_507;

/// Runs the plan, writes the result, and returns the exit code.
pub fn execute(invocation: RunInvocation) -> u8 {
    let (handle, stop) = stop::channel();
    let interrupts = Interrupts::watch(handle);
    let plan = &invocation.plan;
    let mut run = Run::new(
        invocation.command.clone(),
        plan.title.clone(),
        SystemTime::now(),
    );
    if let Err(refusal) = conduct(&invocation, &mut run, stop) {
        run.error = Some(error(&refusal));
    }
    if let Some(code) = interrupts.exit_code() {
        interrupted(&mut run, code);
    }
    if let Some(error) = &run.error {
        log::error!("{}", error.text);
    }
    let written = output::write(&run, &invocation);
    interrupts
        .exit_code()
        .unwrap_or_else(|| output::exit_code(&run, written))
}

/// A run that a signal ended says so, with the exit code of that signal.
fn interrupted(run: &mut Run, exit_code: u8) {
    let other = run.error.take().filter(|error| error.code != INTERRUPTED);
    let text = "interrupted by a signal; what was measured until then is kept";
    run.error = other.or_else(|| {
        Some(ErrorReport {
            exit_code,
            code: INTERRUPTED.to_string(),
            text: text.to_string(),
        })
    });
    run.complete = false;
}

fn error(refusal: &Refusal) -> ErrorReport {
    ErrorReport {
        exit_code: refusal.exit_code,
        code: refusal.code.clone(),
        text: refusal.text.clone(),
    }
}

fn conduct(invocation: &RunInvocation, run: &mut Run, stop: Stop) -> Result<(), Refusal> {
    let local = invocation.host.is_none();
    let cpus = cpus(invocation, local)?;
    let notes = &invocation.plan.notes;
    run.findings.extend(
        notes
            .iter()
            .map(|note| Finding::new(Severity::Info, "plan", note)),
    );
    let server = match local {
        true => Some(
            LocalServer::start(cpus.clone())
                .map_err(|text| Refusal::new(5, "local-server", text))?,
        ),
        false => None,
    };
    let session = Session {
        invocation,
        factory: Factory::new(
            cpus.client,
            local.then(|| cpus.server.clone()),
            cpus.findings,
        ),
        server_cpus: cpus.server,
        stop,
    };
    let address = server.as_ref().map(|s| s.address);
    block_on(Choice::Auto, |_| session.drive(run, address)).map_err(|error| {
        Refusal::new(
            5,
            "runtime",
            format!("the control plane cannot start: {error}"),
        )
    })?
}

/// CPUs of the client's and the server's workers. In one process the two sides are kept apart.
fn cpus(invocation: &RunInvocation, local: bool) -> Result<Apart, Refusal> {
    let plan = &invocation.plan;
    if local {
        let cpus = Cpus::read(Path::new("/"));
        return placement::apart(&cpus, &plan.client_cpus, &plan.server_cpus)
            .map_err(|e| Refusal::new(e.exit_code(), e.code(), e.to_string()));
    }
    Ok(Apart {
        client: plan.client_cpus.clone(),
        server: plan.server_cpus.clone(),
        findings: Vec::new(),
    })
}

struct Session<'a> {
    invocation: &'a RunInvocation,
    server_cpus: Vec<u32>,
    factory: Factory,
    stop: Stop,
}

impl Session<'_> {
    async fn drive(
        mut self,
        run: &mut Run,
        local: Option<std::net::SocketAddr>,
    ) -> Result<(), Refusal> {
        run.client = Some(host_facts(None));
        let mut client = self.connect(run, local).await?;
        run.client = Some(path_facts(client.addresses().0));
        run.server = Some(client.server_facts().clone());
        let cases = self.invocation.plan.cases.clone();
        let mut complete = true;
        for (index, case) in cases.iter().enumerate() {
            if self.stop.is_set() || !client.alive() {
                complete = false;
                break;
            }
            complete &= self.case(&mut client, run, index as u32, case).await;
        }
        if client.alive() {
            client.bye().await;
        } else if !self.stop.is_set() {
            complete = false;
        }
        run.complete = complete;
        Ok(())
    }

    async fn connect(
        &self,
        run: &Run,
        local: Option<std::net::SocketAddr>,
    ) -> Result<Client, Refusal> {
        let plan = &self.invocation.plan;
        let (host, port) = match (&self.invocation.host, local) {
            (Some(host), _) => (host.host.clone(), host.port),
            (None, address) => (
                loopback(&plan.cases),
                address.map_or(crate::plan::DEFAULT_PORT, |address| address.port()),
            ),
        };
        Client::connect(
            ConnectConfig {
                host,
                port,
                family: family(&plan.cases),
                wait_for_server: self.invocation.wait_for_server_ns.map(Duration::from_nanos),
                peer_timeout_ns: plan.peer_timeout_ns,
                bind: plan.cases.first().and_then(|case| case.options.bind),
                device: plan
                    .cases
                    .first()
                    .and_then(|case| case.options.device.clone()),
                version: VERSION.to_string(),
                run: run.uuid.clone(),
                boot: boot_id(),
                facts: run.client.clone().unwrap_or_default(),
            },
            self.stop.wait(),
        )
        .await
        .map_err(|error| error.refusal())
    }

    /// Runs a case's samples; false where anything ended early.
    async fn case(&mut self, client: &mut Client, run: &mut Run, index: u32, case: &Case) -> bool {
        let mut case = probed::measured(case.clone());
        resolve_size(client, &mut case).await;
        run.cases.push(CaseResult {
            case: case.clone(),
            samples: Vec::new(),
            probed: None,
            error: None,
        });
        let mut complete = true;
        for number in 1..=self.samples(&case) {
            if self.stop.is_set() || !client.alive() {
                return false;
            }
            let started = SystemTime::now();
            let request = self.request(index, number, &case);
            let outcome = self.sample(client, request).await;
            let Some(result) = run.cases.last_mut() else {
                return false;
            };
            let failed = outcome.error.as_ref().filter(|e| e.code != INTERRUPTED);
            if let Some(refusal) = failed {
                log::error!("case `{}`: {}", case.name, refusal.text);
            }
            if !outcome.started {
                result.error = failed.map(error);
                return false;
            }
            let quiet = outcome.error.is_some() || outcome.interrupted;
            let sample = assembled(&case, number, started, outcome);
            if !quiet {
                complain(&case, &sample);
            }
            complete &= sample.complete;
            result.samples.push(sample);
        }
        if let Some(result) = run.cases.last_mut() {
            self.further(client, index, result).await;
        }
        complete
    }

    /// Samples of a case.
    fn samples(&self, case: &Case) -> u32 {
        match case.options.probes {
            ProbeUse::Only => 1,
            _ => self.invocation.plan.samples,
        }
    }

    fn request(&self, index: u32, number: u32, case: &Case) -> SampleRequest {
        SampleRequest {
            case_index: index,
            sample: number,
            case: case.clone(),
            client_cpus: Vec::new(),
            server_cpus: self.server_cpus.clone(),
        }
    }

    /// Runs the further sample with the stage probes, where the case gets one. That it fails is
    /// no fault of the case's.
    async fn further(&mut self, client: &mut Client, index: u32, result: &mut CaseResult) {
        let Some(case) = probed::further(&result.case, &result.samples) else {
            return;
        };
        if self.stop.is_set() || !client.alive() {
            return;
        }
        let number = result.samples.len() as u32 + 1;
        let started = SystemTime::now();
        let request = self.request(index, number, &case);
        let mut show = |_: Side, _: &Progress| {};
        let outcome = client
            .sample(request, &mut self.factory, &mut show, self.stop.wait())
            .await;
        if let Some(refusal) = &outcome.error {
            log::info!("case `{}`, with stages: {}", case.name, refusal.text);
        }
        if outcome.started {
            let sample = assembled(&case, number, started, outcome);
            if sample.complete {
                result.probed = Some(Box::new(probed::beside(sample, &result.samples)));
            }
        }
    }

    async fn sample(&mut self, client: &mut Client, request: SampleRequest) -> SampleOutcome {
        let invocation = self.invocation;
        let quiet = invocation.quiet || invocation.json_stream;
        let err = std::io::stderr();
        let mut line = LiveLine::new(quiet, err.is_terminal(), Box::new(err));
        let (case, number) = (request.case.clone(), request.sample);
        let mut latest = (None, None);
        let stream = invocation.json_stream;
        let mut show = |side: Side, progress: &Progress| {
            if !progress.worth_showing(&case) {
                return;
            }
            if stream {
                output::interval(&case, number, side, progress);
            }
            match side {
                Side::Client => latest.0 = Some(progress.clone()),
                Side::Server => latest.1 = Some(progress.clone()),
            }
            if let Some(text) = pair(&case, &mut latest)
                && let Err(error) = line.show(&text)
            {
                log::debug!("stderr cannot be written: {error}");
            }
        };
        let factory = &mut self.factory;
        let outcome = client
            .sample(request, factory, &mut show, self.stop.wait())
            .await;
        line.clear();
        outcome
    }
}

/// What makes the run fail is said on stderr too, where the document goes elsewhere.
fn complain(case: &Case, sample: &Sample) {
    for finding in &sample.findings {
        if finding.severity == Severity::Error {
            log::error!("case `{}`: {}", case.name, finding.text);
        }
    }
}

/// The live line of an interval, once both sides have told of it.
fn pair(case: &Case, latest: &mut (Option<Progress>, Option<Progress>)) -> Option<String> {
    let same = match latest {
        (Some(client), Some(server)) => client.index == server.index,
        _ => false,
    };
    if !same {
        return None;
    }
    let (client, server) = (latest.0.take(), latest.1.take());
    Some(crate::report::live::text(
        case,
        client.as_ref(),
        server.as_ref(),
    ))
}

/// Family of the control connection: that of the cases, where they agree.
fn family(cases: &[Case]) -> Family {
    let first = cases.first().map_or(Family::Any, |case| case.family);
    if cases.iter().all(|case| case.family == first) {
        first
    } else {
        Family::Any
    }
}

/// Loopback as a host: an address where one will do, so that no resolver is asked.
fn loopback(cases: &[Case]) -> String {
    let any = |family| cases.iter().any(|case| case.family == family);
    match (any(Family::V4), any(Family::V6)) {
        (false, true) => "::1",
        (true, true) => "localhost",
        (_, false) => "127.0.0.1",
    }
    .to_string()
}

/// Takes the message size from the path, where the plan says so.
async fn resolve_size(client: &Client, case: &mut Case) {
    if case.proto != Proto::Udp || !case.size_from_path_mtu {
        return;
    }
    let v6 = client
        .target(case.family)
        .is_ok_and(|target| target.is_ipv6());
    let mtu = client.path_mtu(case.family).unwrap_or(1500);
    let headers = if v6 { HEADERS_V6 } else { HEADERS_V4 };
    let size = mtu
        .saturating_sub(headers)
        .clamp(1, LARGEST_DATAGRAM / case.options.gso.unwrap_or(1).max(1));
    case.request_bytes = u64::from(size);
    case.name = case.name.replacen("mtu", &size.to_string(), 1);
}

fn assembled(case: &Case, number: u32, started: SystemTime, outcome: SampleOutcome) -> Sample {
    let mut findings = Vec::new();
    if let Some(text) = outcome.path_translated {
        findings.push(Finding::new(Severity::Info, "path-translated", text));
    }
    assemble::sample(SampleInput {
        case,
        number,
        started,
        client: outcome.client,
        server: outcome.server,
        client_progress: &outcome.client_progress,
        server_progress: &outcome.server_progress,
        findings,
        error: outcome.error.as_ref().map(error),
    })
}
