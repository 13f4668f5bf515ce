//! Parse, dispatch, exit code.
