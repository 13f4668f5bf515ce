//! The conductor: plan to session to crew to result.

pub mod assemble;
