//! The data plane: the loop, completion dispatch, and the crew.
