//! Entries of a stream, as `XRANGE` and `XREADGROUP` give them.

use conductor_io::keys::field;
use conductor_io::resp::Reply;

/// An entry's id.
pub(crate) fn id(entry: &Reply) -> Option<&str> {
    entry.elements()?.first()?.text()
}

/// The event that it holds.
pub(crate) fn event(entry: &Reply) -> Option<&[u8]> {
    let fields = entry.elements()?.get(1)?.elements()?;
    let place = fields
        .iter()
        .position(|part| part.text() == Some(field::EVENT))?;
    fields.get(place + 1)?.bytes()
}
