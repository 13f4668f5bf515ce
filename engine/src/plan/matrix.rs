//! The dimensions with their defaults, and what their values are called in messages.

use super::spec::{SizeSpec, Spec};
use super::{DEFAULT_STREAM_BYTES, Family, Load, Proto, Test};
use crate::units::PerSecond;

/// A load before the number of flows is known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum LoadSpec {
    Closed,
    Rate(PerSecond),
    Bitrate(u64),
}

impl LoadSpec {
    pub(super) fn of_flows(self, flows: u32) -> Load {
        match self {
            LoadSpec::Closed => Load::Closed,
            LoadSpec::Rate(rate) => Load::Rate {
                per_second: rate.total(flows),
            },
            LoadSpec::Bitrate(bits_per_second) => Load::Bitrate { bits_per_second },
        }
    }
}

/// A transport with a test.
pub(super) type Kind = (Proto, Test);

/// The dimensions. `sizes` are those typed; [`Matrix::sizes_of`] knows the defaults.
pub(super) struct Matrix<'a> {
    pub(super) tour: bool,
    typed_tests: bool,
    typed_protos: bool,
    pub(super) kinds: Vec<Kind>,
    sizes: &'a [SizeSpec],
    pub(super) flows: Vec<u32>,
    /// Client's and server's.
    pub(super) workers: Vec<(u32, u32)>,
    pub(super) depths: Vec<Option<u32>>,
    pub(super) loads: Vec<LoadSpec>,
    pub(super) families: Vec<Family>,
}

/// What `ringperf run` shows without any argument.
const TOUR: [Kind; 4] = [
    (Proto::Tcp, Test::Stream),
    (Proto::Tcp, Test::Rr),
    (Proto::Udp, Test::Stream),
    (Proto::Udp, Test::Rr),
];

fn or<T: Clone>(typed: &[T], default: T) -> Vec<T> {
    if typed.is_empty() {
        vec![default]
    } else {
        typed.to_vec()
    }
}

impl Matrix<'_> {
    pub(super) fn of(spec: &Spec) -> Matrix<'_> {
        let tour = spec.is_tour();
        let tests = or(&spec.tests, Test::Stream);
        let product = |proto: Proto| tests.iter().map(move |test| (proto, *test));
        let kinds = match tour {
            true => TOUR.to_vec(),
            false => or(&spec.protos, Proto::Tcp)
                .into_iter()
                .flat_map(product)
                .collect(),
        };
        let sides = |both: u32| {
            (
                spec.client_workers.unwrap_or(both),
                spec.server_workers.unwrap_or(both),
            )
        };
        let depths: Vec<Option<u32>> = spec.depths.iter().copied().map(Some).collect();
        let rates = spec.rates.iter().copied().map(LoadSpec::Rate);
        let bitrates = spec.bitrates.iter().copied().map(LoadSpec::Bitrate);
        let loads: Vec<LoadSpec> = rates.chain(bitrates).collect();
        Matrix {
            tour,
            typed_tests: !spec.tests.is_empty(),
            typed_protos: !spec.protos.is_empty(),
            kinds,
            sizes: &spec.sizes,
            flows: or(&spec.flows, 1),
            workers: or(&spec.workers, 1).into_iter().map(sides).collect(),
            depths: or(&depths, None),
            loads: or(&loads, LoadSpec::Closed),
            families: or(&spec.families, Family::Any),
        }
    }

    /// The sizes of a kind's messages; none takes the path's MTU.
    pub(super) fn sizes_of(&self, (proto, test): Kind) -> Vec<Option<SizeSpec>> {
        if !self.sizes.is_empty() {
            return self.sizes.iter().copied().map(Some).collect();
        }
        let fixed = |request| {
            vec![Some(SizeSpec {
                request,
                response: None,
            })]
        };
        match (proto, test.is_rr()) {
            (_, true) => fixed(1),
            (Proto::Tcp, false) => fixed(DEFAULT_STREAM_BYTES),
            (Proto::Udp, false) => vec![None],
        }
    }

    /// How many cases there will be; none is more than can be counted.
    pub(super) fn cases(&self) -> Option<usize> {
        let dimensions = [
            self.sizes.len().max(1),
            self.flows.len(),
            self.workers.len(),
            self.depths.len(),
            self.loads.len(),
            self.families.len(),
        ];
        dimensions
            .iter()
            .try_fold(self.kinds.len(), |all, one| all.checked_mul(*one))
    }

    /// Most workers of each side that have a flow.
    pub(super) fn most_workers(&self) -> (u32, u32) {
        let flows = self.most_flows();
        let client = self
            .workers
            .iter()
            .map(|workers| workers.0)
            .max()
            .unwrap_or(1);
        let server = self
            .workers
            .iter()
            .map(|workers| workers.1)
            .max()
            .unwrap_or(1);
        (client.min(flows), server.min(flows))
    }

    pub(super) fn most_flows(&self) -> u32 {
        self.flows.iter().copied().max().unwrap_or(1)
    }

    pub(super) fn proto_flag(&self, proto: Proto) -> String {
        format!("--proto {proto}{}", self.origin(self.typed_protos))
    }

    pub(super) fn test_flag(&self, test: Test) -> String {
        format!("--test {test}{}", self.origin(self.typed_tests))
    }

    /// Tells people why a flag is named that they did not type.
    fn origin(&self, typed: bool) -> &'static str {
        match (typed, self.tour) {
            (true, _) => "",
            (false, true) => " (part of the tour)",
            (false, false) => " (the default)",
        }
    }
}
