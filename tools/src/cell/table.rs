//! Tables for people.

use comfy_table::{Table, presets};

/// A table with a head.
pub fn table<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_FULL_CONDENSED)
        .set_header(head);
    table.add_rows(rows);
    table
}
