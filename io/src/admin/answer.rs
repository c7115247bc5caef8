//! Answers as JSON, and the questions in a page's address.

use axum::extract::Query;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use conductor_engine::PairId;
use serde::Serialize;

/// The parameters of a request, in the order of its address.
pub(super) type Parameters = Query<Vec<(String, String)>>;

/// A JSON body, ended by a line feed for whoever reads it on a terminal.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let mut text = serde_json::to_string(body).expect("the pages' bodies have text for keys");
    text.push('\n');
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// A sentence about what is wrong.
pub(super) fn problem(status: StatusCode, sentence: impl Into<String>) -> Response {
    json(status, &serde_json::json!({ "error": sentence.into() }))
}

/// The value of a parameter.
///
/// # Errors
/// The answer for a page that was asked with a parameter it does not know, or with one twice.
pub(super) fn take<const N: usize>(
    parameters: Parameters,
    names: [&str; N],
) -> Result<[Option<String>; N], Box<Response>> {
    let refuse = |sentence: String| Box::new(problem(StatusCode::BAD_REQUEST, sentence));
    let mut values = [const { None }; N];
    for (name, value) in parameters.0 {
        let Some(place) = names.iter().position(|known| *known == name) else {
            let known = names.join(", ");
            return Err(refuse(format!(
                "the parameter {name:?} is unknown here; known: {known}"
            )));
        };
        if values[place].replace(value).is_some() {
            return Err(refuse(format!("the parameter {name:?} is there twice")));
        }
    }
    Ok(values)
}

/// The pair that a page is asked about.
///
/// # Errors
/// The answer for a pair that is missing or is no number of one.
pub(super) fn pair(text: Option<&str>) -> Result<PairId, Box<Response>> {
    let number = text
        .and_then(whole_number)
        .and_then(|number| u32::try_from(number).ok());
    number.map(PairId).ok_or_else(|| {
        let found = text.map_or_else(
            || "it is missing".to_owned(),
            |text| format!("not {text:?}"),
        );
        let sentence = format!(
            "pairId must be a whole number from 0 to {}; {found}",
            u32::MAX
        );
        Box::new(problem(StatusCode::BAD_REQUEST, sentence))
    })
}

/// Digits alone: no sign, no blank.
pub(super) fn whole_number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}
