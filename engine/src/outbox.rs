//! The outbox as a state machine.
