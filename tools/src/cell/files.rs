//! Files that commands read and write.

use anyhow::Context;
use clap::builder::{PathBufValueParser, TypedValueParser};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

const BUFFER_BYTES: usize = 1 << 16;
/// The name that stands for stdin, or for stdout.
const STANDARD: &str = "-";

/// Whether the path stands for stdin or stdout.
pub(super) fn is_standard(path: &Path) -> bool {
    path.as_os_str() == STANDARD
}

/// What was being done when reading failed.
pub(super) fn reading(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

/// What was being done when writing failed.
pub(super) fn writing(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// A file to read, or stdin, and how many bytes it has where that is known.
///
/// # Errors
/// When the file cannot be opened.
pub(super) fn open(path: &Path) -> anyhow::Result<(Box<dyn BufRead>, Option<u64>)> {
    if is_standard(path) {
        return Ok((Box::new(io::stdin().lock()), None));
    }
    let file = File::open(path).with_context(|| reading(path))?;
    let about = file.metadata().with_context(|| reading(path))?;
    let bytes = about.is_file().then_some(about.len());
    Ok((
        Box::new(BufReader::with_capacity(BUFFER_BYTES, file)),
        bytes,
    ))
}

/// A file to write, or stdout.
///
/// # Errors
/// When the file cannot be created.
pub(super) fn create(path: &Path) -> anyhow::Result<Box<dyn Write>> {
    if is_standard(path) {
        let stdout = BufWriter::with_capacity(BUFFER_BYTES, io::stdout());
        return Ok(Box::new(stdout));
    }
    let file = File::create(path).with_context(|| writing(path))?;
    Ok(Box::new(BufWriter::with_capacity(BUFFER_BYTES, file)))
}

/// Accepts the name of a file, and not the one that stands for stdout, where the report goes.
pub(super) fn file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        if is_standard(&path) {
            Err("name a file; the report goes to stdout")
        } else {
            Ok(path)
        }
    })
}
