//! The wire: JSON both ways, the canonical bytes, and what a group of writes is to the store.
//!
//! Everything here is a function of bytes and values. [`decode`] judges what arrives and never
//! fails: a message is a command, a refusal for the record, or unusable. [`encode_event`] and
//! [`encode_result`] are the one spelling of what leaves, equal on every machine, which is what a
//! digest, a repeat's reply and a comparison with a replay rest on. [`store_writes`] and
//! [`read_record`] are the two directions to the store. Decoding and encoding run on the
//! partition's core, and in the tools; nothing here may wait, allocate per field on the way in,
//! or read a clock.

mod command;
mod decode;
mod digest;
mod envelope;
mod event;
mod explain;
mod fields;
mod json;
mod record;
mod result;
mod spelled;
mod store;

pub use command::encode_command;
pub use decode::decode;
pub use digest::Digest;
pub use envelope::{EnvelopeError, EventEnvelope, decode_event};
pub use event::encode_event;
pub use record::{RecordError, StoredRecord, read_cursor, read_pair, read_record};
pub use result::{OutcomeView, ResultView, decode_result, encode_result};
pub use store::store_writes;
