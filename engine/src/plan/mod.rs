//! What one invocation does: typed text ([`Spec`]) becomes checked meaning ([`Plan`]).
//!
//! No I/O beyond reading the text it is given. Every cross-field rule lives in [`check`].

pub mod case;

pub use case::{
    Case, CloseKind, Direction, Family, GroupPlan, Limit, Load, Options, Plan, Proto, Receive,
    SourcePorts, Test, Traffic, Wait,
};
