//! Plots as SVG, drawn here, so that the page needs nothing from anywhere.

use std::fmt::Write;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 80.0;
const BOTTOM: f64 = 50.0;
const TOP: f64 = 34.0;
const RIGHT: f64 = 32.0;
/// Points so few are marked; a line of many is its own mark.
const MARKED_MAX: usize = 12;
const COLOURS: [&str; 8] = [
    "#1b6ca8", "#d1495b", "#2e7d32", "#8e5ea2", "#e08e0b", "#00838f", "#6d4c41", "#455a64",
];

/// A named line of points.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// An axis that counts in powers of ten.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis<'a> {
    pub(crate) title: &'a str,
    /// What a power is called; nothing for the number itself.
    pub(crate) label: fn(i32) -> String,
}

/// Lines over two logarithmic axes. Points that are not above zero are left out.
pub(crate) fn lines(lines: &[Line], across: Axis<'_>, up: Axis<'_>) -> String {
    let drawn = |line: &Line| -> Vec<(f64, f64)> {
        let points = line.points.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0);
        points.map(|(x, y)| (x.log10(), y.log10())).collect()
    };
    let all: Vec<Vec<(f64, f64)>> = lines.iter().map(drawn).collect();
    let (xs, ys) = (range(&all, |point| point.0), range(&all, |point| point.1));
    let x = |value: f64| LEFT + (value - xs.0) / (xs.1 - xs.0) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| TOP + (ys.1 - value) / (ys.1 - ys.0) * (HEIGHT - TOP - BOTTOM);
    let mut svg = open(HEIGHT + 20.0 * lines.len() as f64);
    for power in powers(xs) {
        let (at, foot) = (x(f64::from(power)), HEIGHT - BOTTOM);
        rule(&mut svg, (at, TOP), (at, foot));
        text(
            &mut svg,
            (at, foot + 16.0),
            "middle",
            &(across.label)(power),
        );
    }
    for power in powers(ys) {
        let at = y(f64::from(power));
        rule(&mut svg, (LEFT, at), (WIDTH - RIGHT, at));
        text(&mut svg, (LEFT - 6.0, at + 4.0), "end", &(up.label)(power));
    }
    text(
        &mut svg,
        (WIDTH / 2.0, HEIGHT - 12.0),
        "middle",
        across.title,
    );
    text(&mut svg, (4.0, 14.0), "start", up.title);
    for (number, (line, points)) in lines.iter().zip(&all).enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let path: Vec<String> = points
            .iter()
            .map(|(across, up)| format!("{:.1},{:.1}", x(*across), y(*up)))
            .collect();
        let _ = write!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>",
            path.join(" ")
        );
        if points.len() <= MARKED_MAX {
            for (across, up) in points {
                let _ = write!(
                    svg,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"{colour}\"/>",
                    x(*across),
                    y(*up)
                );
            }
        }
        let at = HEIGHT + 4.0 + 20.0 * number as f64;
        let _ = write!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{:.0}\" width=\"14\" height=\"10\" fill=\"{colour}\"/>",
            at - 9.0
        );
        text(&mut svg, (LEFT + 20.0, at), "start", &line.name);
    }
    svg.push_str("</svg>");
    svg
}

/// One bar that is divided by shares of a hundred.
pub(crate) fn shares(shares: &[(String, f64)]) -> String {
    let mut svg = open(60.0 + 20.0 * shares.len() as f64);
    let mut from = LEFT;
    for (number, (name, share)) in shares.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let width = share / 100.0 * (WIDTH - LEFT - RIGHT);
        let _ = write!(
            svg,
            "<rect x=\"{from:.1}\" y=\"10\" width=\"{width:.1}\" height=\"30\" fill=\"{colour}\"/>"
        );
        from += width;
        let at = 64.0 + 20.0 * number as f64;
        let _ = write!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{:.0}\" width=\"14\" height=\"10\" fill=\"{colour}\"/>",
            at - 9.0
        );
        text(
            &mut svg,
            (LEFT + 20.0, at),
            "start",
            &format!("{name}: {share:.1} %"),
        );
    }
    svg.push_str("</svg>");
    svg
}

/// A bar for each value, the longest as wide as there is room.
pub(crate) fn bars(values: &[(String, f64)]) -> String {
    let mut svg = open(10.0 + 24.0 * values.len() as f64);
    let most = values
        .iter()
        .fold(f64::EPSILON, |most, (_, value)| most.max(*value));
    for (number, (name, value)) in values.iter().enumerate() {
        let (at, width) = (8.0 + 24.0 * number as f64, value / most * WIDTH / 3.0);
        let colour = COLOURS[number % COLOURS.len()];
        let _ = write!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{at:.0}\" width=\"{width:.1}\" height=\"16\" fill=\"{colour}\"/>"
        );
        let words = format!("{name}: {value:.0}");
        text(&mut svg, (LEFT + width + 6.0, at + 12.0), "start", &words);
    }
    svg.push_str("</svg>");
    svg
}

fn open(height: f64) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">"
    )
}

fn rule(svg: &mut String, from: (f64, f64), to: (f64, f64)) {
    let _ = write!(
        svg,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn text(svg: &mut String, at: (f64, f64), anchor: &str, words: &str) {
    let _ = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
        at.0,
        at.1,
        super::page::escaped(words)
    );
}

/// The smallest and the largest, widened to whole powers.
fn range(all: &[Vec<(f64, f64)>], of: impl Fn(&(f64, f64)) -> f64) -> (f64, f64) {
    let values = || all.iter().flatten().map(&of);
    let least = values().fold(f64::INFINITY, f64::min).floor();
    let most = values().fold(f64::NEG_INFINITY, f64::max).ceil();
    if least.is_finite() && most > least {
        (least, most)
    } else if least.is_finite() {
        (least, least + 1.0)
    } else {
        (0.0, 1.0)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "powers of ten of a plot are small whole numbers"
)]
fn powers((least, most): (f64, f64)) -> std::ops::RangeInclusive<i32> {
    least as i32..=most as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_drawn_inside_its_frame() {
        let line = Line {
            name: "a < b".to_owned(),
            points: vec![(1.0, 10.0), (100.0, 5_000.0), (0.0, 7.0)],
        };
        let axis = Axis {
            title: "x",
            label: |power| power.to_string(),
        };
        let svg = lines(&[line], axis, axis);
        assert!(svg.contains("points=\"80.0,290.0 828.0,59.7\""), "{svg}");
        assert!(svg.contains("a &lt; b") && svg.ends_with("</svg>"));
    }

    #[test]
    fn nothing_to_draw_is_no_plot_out_of_bounds() {
        let axis = Axis {
            title: "x",
            label: |power| power.to_string(),
        };
        assert!(!lines(&[], axis, axis).contains("NaN"));
    }
}
