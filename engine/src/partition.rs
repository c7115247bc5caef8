//! The partition as a state machine.
