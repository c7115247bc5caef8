//! Appending JSON to a buffer, canonically: no white space, decimals as strings.
//!
//! Identifiers and codes hold no character that JSON escapes, so they are copied as they are;
//! free text goes through `serde_json`.

use conductor_engine::Decimal;
use std::io::Write;

/// Digits of the largest 64-bit number.
const DIGITS_MAX: usize = 20;

/// Appends a key and its colon, with a comma where something stands before it.
pub(super) fn key(out: &mut Vec<u8>, name: &str) {
    if !matches!(out.last(), None | Some(b'{' | b'[')) {
        out.push(b',');
    }
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

/// Appends a string that needs no escape.
pub(super) fn plain(out: &mut Vec<u8>, text: &str) {
    debug_assert!(
        text.bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\'),
        "{text:?} would need an escape"
    );
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// Appends a string that needs no escape, or null.
pub(super) fn plain_or_null(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => plain(out, text),
        None => out.extend_from_slice(b"null"),
    }
}

/// Appends any text.
pub(super) fn escaped(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a vector takes all bytes");
}

/// Appends a number.
pub(super) fn integer(out: &mut Vec<u8>, number: u64) {
    let mut buffer = [0; DIGITS_MAX];
    out.extend_from_slice(digits(number, &mut buffer));
}

/// Appends a number, or null.
pub(super) fn integer_or_null(out: &mut Vec<u8>, number: Option<u64>) {
    match number {
        Some(number) => integer(out, number),
        None => out.extend_from_slice(b"null"),
    }
}

/// Appends a decimal as a string, without trailing zeros.
pub(super) fn decimal(out: &mut Vec<u8>, decimal: &Decimal) {
    out.push(b'"');
    decimal_text(out, decimal);
    out.push(b'"');
}

/// Appends a decimal without trailing zeros, exactly as its `Display`, which is slower because it
/// divides 128 bits.
pub(super) fn decimal_text(out: &mut Vec<u8>, decimal: &Decimal) {
    if let Decimal::Exact { mantissa, scale } = decimal
        && let Ok(mantissa) = u64::try_from(*mantissa)
    {
        let (mut mantissa, mut scale) = (mantissa, *scale);
        while scale > 0 && mantissa.is_multiple_of(10) {
            if mantissa == 0 {
                scale = 0;
            } else {
                (mantissa, scale) = (mantissa / 10, scale - 1);
            }
        }
        let mut buffer = [0; DIGITS_MAX];
        let digits = digits(mantissa, &mut buffer);
        return pointed(out, digits, scale as usize);
    }
    write!(out, "{decimal}").expect("a vector takes all bytes");
}

/// Appends a decimal as a string, with every digit that it was written with: more decimals than
/// an order declares are refused even when they are zeros, so a command must keep them.
pub(super) fn decimal_as_written(out: &mut Vec<u8>, decimal: &Decimal) {
    out.push(b'"');
    match decimal {
        Decimal::Exact { mantissa, scale } => {
            pointed(out, mantissa.to_string().as_bytes(), *scale as usize);
        }
        Decimal::Oversized(text) => out.extend_from_slice(text.as_bytes()),
    }
    out.push(b'"');
}

/// Appends digits with the point before the last `scale` of them.
fn pointed(out: &mut Vec<u8>, digits: &[u8], scale: usize) {
    if scale == 0 {
        return out.extend_from_slice(digits);
    }
    match digits.len().checked_sub(scale) {
        None | Some(0) => {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + scale - digits.len(), b'0');
            out.extend_from_slice(digits);
        }
        Some(whole) => {
            out.extend_from_slice(&digits[..whole]);
            out.push(b'.');
            out.extend_from_slice(&digits[whole..]);
        }
    }
}

fn digits(mut number: u64, buffer: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut place = DIGITS_MAX;
    loop {
        place -= 1;
        buffer[place] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &buffer[place..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn appended(append: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        append(&mut out);
        String::from_utf8(out).expect("JSON is text")
    }

    #[test]
    fn numbers_at_their_ends() {
        assert_eq!(appended(|out| integer(out, 0)), "0");
        assert_eq!(appended(|out| integer(out, u64::MAX)), u64::MAX.to_string());
    }

    #[test]
    fn a_decimal_as_written_keeps_its_zeros() {
        for text in [
            "1.500",
            "0.00",
            "0.010",
            "100",
            "0.0000000000000000000000001",
        ] {
            let decimal = Decimal::parse_or_zero(text).expect("a decimal");
            let written = appended(|out| decimal_as_written(out, &decimal));
            assert_eq!(written, format!("\"{text}\""));
        }
    }

    proptest! {
        #[test]
        fn a_decimal_is_spelled_as_its_display(
            mantissa in prop_oneof![0..1000_u128, any::<u64>().prop_map(u128::from), any::<u128>()],
            scale in 0..50_u32,
        ) {
            let number = Decimal::Exact { mantissa, scale };
            prop_assert_eq!(appended(|out| decimal_text(out, &number)), number.to_string());
            let written = appended(|out| decimal_as_written(out, &number));
            let read = Decimal::parse_or_zero(written.trim_matches('"'));
            prop_assert_eq!(read, Ok(number));
        }
    }
}
