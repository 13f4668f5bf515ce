//! The maps of the programs, typed, and what says whose a packet is.

use std::os::fd::{AsRawFd, BorrowedFd};

use aya::Ebpf;
use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, PerCpuHashMap, SkStorage};
use nix::sys::socket::{SockaddrLike, SockaddrStorage, getsockname};
use ringperf_ebpf::layout;

use super::KernelError;

/// Which flow a socket belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FlowTag {
    /// Group of traffic.
    pub group: u32,
    /// Flow number within its group.
    pub flow: u32,
}

impl FlowTag {
    /// As the programs carry it.
    fn number(self) -> u64 {
        u64::from(self.group) << 32 | u64::from(self.flow)
    }

    /// From what the programs carry; none for the two numbers that stand for no flow.
    pub(super) fn from_number(number: u64) -> Option<FlowTag> {
        let known = number != layout::FLOW_OTHER && number != layout::FLOW_BY_PORT;
        known.then_some(FlowTag {
            group: (number >> 32) as u32,
            flow: number as u32,
        })
    }
}

/// The maps, owned: the kernel frees them with the last descriptor.
pub(super) struct Maps {
    flows: SkStorage<MapData, u64>,
    ports: Array<MapData, u64>,
    port_words: Vec<u64>,
    namespaces: HashMap<MapData, u64, u64>,
    pub(super) drops: PerCpuHashMap<MapData, [u64; 2], [u64; 2]>,
    pub(super) retransmits: PerCpuHashMap<MapData, [u64; 2], u64>,
    pub(super) events: PerCpuArray<MapData, u64>,
    pub(super) stages: PerCpuArray<MapData, [u64; layout::STAGE_WORDS]>,
}

impl Maps {
    /// Takes the maps out of a loaded object.
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Maps, KernelError> {
        Ok(Maps {
            flows: take(ebpf, layout::MAP_FLOWS)?,
            ports: take(ebpf, layout::MAP_PORTS)?,
            port_words: vec![0; layout::PORT_WORDS as usize],
            namespaces: take(ebpf, layout::MAP_NAMESPACES)?,
            drops: take(ebpf, layout::MAP_DROPS)?,
            retransmits: take(ebpf, layout::MAP_RETRANSMITS)?,
            events: take(ebpf, layout::MAP_EVENTS)?,
            stages: take(ebpf, layout::MAP_STAGES)?,
        })
    }

    /// Marks a socket, and those it will accept, as a flow's; and its port as ours.
    pub(super) fn follow(
        &mut self,
        socket: BorrowedFd<'_>,
        tag: FlowTag,
    ) -> Result<(), KernelError> {
        self.flows
            .insert(&socket, tag.number(), 0)
            .map_err(|source| KernelError::Map {
                name: layout::MAP_FLOWS,
                source,
            })?;
        let address = getsockname::<SockaddrStorage>(socket.as_raw_fd())?;
        match port(&address) {
            Some(port) => self.follow_port(port),
            None => Ok(()),
        }
    }

    /// Marks a port as ours in our namespaces.
    pub(super) fn follow_port(&mut self, port: u16) -> Result<(), KernelError> {
        let index = port >> 6;
        let Some(word) = self.port_words.get_mut(usize::from(index)) else {
            return Ok(());
        };
        let bit = 1 << (port & 63);
        if *word & bit != 0 {
            return Ok(());
        }
        *word |= bit;
        self.ports
            .set(u32::from(index), *word, 0)
            .map_err(|source| KernelError::Map {
                name: layout::MAP_PORTS,
                source,
            })
    }

    /// Marks a network namespace as one of ours.
    pub(super) fn follow_namespace(&mut self, inode: u32) -> Result<(), KernelError> {
        self.namespaces
            .insert(u64::from(inode), 1, 0)
            .map_err(|source| KernelError::Map {
                name: layout::MAP_NAMESPACES,
                source,
            })
    }
}

/// The port of an address, where it has one and is bound.
fn port(address: &SockaddrStorage) -> Option<u16> {
    let four = address.as_sockaddr_in().map(|a| a.port());
    let port = four.or_else(|| address.as_sockaddr_in6().map(|a| a.port()));
    port.filter(|port| *port != 0 && address.family().is_some())
}

/// Takes one map by its name and type.
fn take<T>(ebpf: &mut Ebpf, name: &'static str) -> Result<T, KernelError>
where
    T: TryFrom<Map, Error = MapError>,
{
    let map = ebpf.take_map(name).ok_or_else(|| KernelError::Layout {
        name,
        text: "it is not there".to_string(),
    })?;
    T::try_from(map).map_err(|e| KernelError::Layout {
        name,
        text: e.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_survive_the_boundary() {
        let tag = FlowTag {
            group: 3,
            flow: 70_000,
        };
        assert_eq!(FlowTag::from_number(tag.number()), Some(tag));
        assert_eq!(FlowTag::from_number(layout::FLOW_OTHER), None);
        assert_eq!(FlowTag::from_number(layout::FLOW_BY_PORT), None);
    }
}
