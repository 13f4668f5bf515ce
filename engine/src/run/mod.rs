//! The conductor: plan to session to crew to result.

use crate::plan::{RunInvocation, ServeOptions};

/// Does what a plan says; gives the exit code.
pub fn execute(invocation: RunInvocation) -> u8 {
    log::error!(
        "this build has no data plane to run {} cases",
        invocation.plan.cases.len()
    );
    5
}

/// Serves clients; gives the exit code.
pub fn serve(options: ServeOptions) -> u8 {
    log::error!(
        "this build has no data plane to serve port {}",
        options.port
    );
    5
}
