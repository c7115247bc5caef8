//! Figures as tables of a page.

use serde_json::Value;

/// Text as it may stand in a page.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Any value: a list of alike objects is a table with a head, another object a table of names.
pub(crate) fn value(of: &Value) -> String {
    match of {
        Value::Array(items) if items.iter().any(Value::is_object) => rows(items),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(value).collect();
            items.join(", ")
        }
        Value::Object(fields) => {
            let rows: String = fields
                .iter()
                .map(|(name, field)| {
                    format!(
                        "<tr><th>{}</th><td>{}</td></tr>",
                        escaped(name),
                        value(field)
                    )
                })
                .collect();
            format!("<table>{rows}</table>")
        }
        Value::Number(number) => shown(number),
        Value::String(text) => escaped(text),
        Value::Bool(_) | Value::Null => of.to_string(),
    }
}

/// Whole numbers as they are, others to two digits behind the point, small ones to four.
fn shown(number: &serde_json::Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (None, Some(float)) if float.abs() < 1.0 => format!("{float:.4}"),
        (None, Some(float)) => format!("{float:.2}"),
        _ => number.to_string(),
    }
}

fn rows(items: &[Value]) -> String {
    let Some(Value::Object(first)) = items.first() else {
        return String::new();
    };
    let head: String = first
        .keys()
        .map(|name| format!("<th>{}</th>", escaped(name)))
        .collect();
    let body: String = items
        .iter()
        .map(|item| {
            let cells: String = first
                .keys()
                .map(|name| format!("<td>{}</td>", value(item.get(name).unwrap_or(&Value::Null))))
                .collect();
            format!("<tr>{cells}</tr>")
        })
        .collect();
    format!("<table><tr>{head}</tr>{body}</table>")
}
