//! Instructions.
use anyhow::Result;
use std::path::Path;
pub fn check(_root: &Path) -> Result<u8> {
    Ok(0)
}
