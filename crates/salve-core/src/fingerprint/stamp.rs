//! Times and dates in front of log lines.

/// Strips one time or date off the front of `line`, alone or in brackets.
pub(crate) fn strip(line: &str) -> Option<&str> {
    if let Some(inner) = line.strip_prefix('[') {
        let close = inner.bytes().take(48).position(|b| b == b']')?;
        let rest = moment(inner.get(..close)?)?;
        // `[10:00:00 error]` keeps its level word out of sight; anything longer is no stamp.
        return (rest.trim().len() <= 12 && !rest.contains('/')).then(|| &inner[close + 1..]);
    }
    let rest = moment(line)?;
    (rest.is_empty() || rest.starts_with([' ', '\t', ',', ':', '-', ']', '|'])).then_some(rest)
}

/// Strips a time, a date, or a date and a time.
fn moment(text: &str) -> Option<&str> {
    if let Some(rest) = klog(text) {
        return Some(rest);
    }
    if let Some(rest) = date(text) {
        let joined = rest.strip_prefix(['T', ' ', '-', '_']).or_else(|| rest.strip_prefix(", "));
        return Some(joined.and_then(|rest| time(rest.trim_start())).unwrap_or(rest));
    }
    time(text)
}

/// `E0501 10:00:00.123456   1 main.go:12] …` of Kubernetes' tools.
fn klog(text: &str) -> Option<&str> {
    let rest = text.strip_prefix(['E', 'W', 'I', 'F'])?;
    let (_, rest) = digits(rest, 4..=4)?;
    time(rest.strip_prefix(' ')?)
}

/// `2024-05-01`, `2024/05/01`, `5/1/2024`, `May 19`, `May 19 2024`, `Mon May 19`.
fn date(text: &str) -> Option<&str> {
    if text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return named_date(text);
    }
    let (first, rest) = digits(text, 1..=4)?;
    let mark = rest.chars().next().filter(|c| matches!(c, '-' | '/' | '.'))?;
    let (_, rest) = digits(&rest[1..], 1..=2)?;
    let (last, rest) = digits(rest.strip_prefix(mark)?, 1..=4)?;
    (first == 4 || last == 4).then_some(rest)
}

fn named_date(text: &str) -> Option<&str> {
    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let rest = DAYS
        .iter()
        .find_map(|day| text.strip_prefix(day))
        .map_or(text, |rest| rest.trim_start_matches([',', ' ']));
    let rest = MONTHS.iter().find_map(|month| rest.strip_prefix(month))?;
    let (_, rest) = digits(rest.strip_prefix(' ')?.trim_start(), 1..=2)?;
    let with_time = rest.strip_prefix(' ').or_else(|| rest.strip_prefix(", "))?;
    let year = digits(with_time, 4..=4).map(|(_, rest)| rest.trim_start());
    time(year.unwrap_or(with_time)).map(|_| year.unwrap_or(with_time)).map(|rest| {
        // The caller takes the time that follows.
        let offset = text.len() - rest.len();
        &text[offset - 1..]
    })
}

/// `10:00`, `10:00:00.123`, `10:00:00,123 PM`, with a zone.
fn time(text: &str) -> Option<&str> {
    let (_, rest) = digits(text, 1..=2)?;
    let (_, rest) = digits(rest.strip_prefix(':')?, 2..=2)?;
    let (_, rest) = digits(rest.strip_prefix(':')?, 2..=2)?;
    let rest = match rest.strip_prefix(['.', ',']).and_then(|rest| digits(rest, 1..=9)) {
        Some((_, rest)) => rest,
        None => rest,
    };
    Some(zone(rest))
}

fn zone(text: &str) -> &str {
    let rest = [" AM", " PM", " am", " pm", "Z", "AM", "PM", " UTC", " GMT"]
        .iter()
        .find_map(|mark| text.strip_prefix(mark))
        .unwrap_or(text);
    let offset = rest.strip_prefix(" +").or_else(|| rest.strip_prefix(['+', '-']));
    match offset.and_then(|offset| digits(offset, 2..=4)) {
        Some((2, after)) => {
            after.strip_prefix(':').and_then(|m| digits(m, 2..=2)).map_or(rest, |(_, after)| after)
        }
        Some((4, after)) => after,
        _ => rest,
    }
}

/// Strips as many digits as `range` allows and returns their number and the rest.
fn digits(text: &str, range: std::ops::RangeInclusive<usize>) -> Option<(usize, &str)> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    range.contains(&count).then(|| (count, &text[count..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_common_loggers_are_stripped() {
        for stamp in [
            "2024-05-01T10:00:00.123456789Z",
            "2024-05-01T10:00:00+02:00",
            "2024-05-01 10:00:00,123",
            "2024/05/01 10:00:00",
            "2024-05-01 10:00:00 +0000",
            "10:00:00.123",
            "10:00:00 PM",
            "[10:00:00]",
            "[2024-05-01T10:00:00Z]",
            "5/1/2024, 10:00:00 AM",
            "May 19 11:35:19 AM",
            "May  9 11:35:19",
            "Mon May 19 11:35:19 2024",
            "E0501 10:00:00.123456",
            "[05/01/2024 10:00:00]",
            "2024-05-01",
        ] {
            let line = format!("{stamp} boom");
            let rest = strip(&line).map(str::trim_start);
            if stamp.starts_with("Mon") {
                assert_eq!(rest, Some("2024 boom"), "{stamp}");
            } else {
                assert_eq!(rest, Some("boom"), "{stamp}");
            }
        }
    }

    #[test]
    fn numbers_and_versions_are_no_stamps() {
        for line in [
            "10 boom",
            "1.2.3 boom",
            "12:30 boom",
            "May I boom",
            "[Errno 2] boom",
            "3/4 done",
            "E0282: x",
        ] {
            assert_eq!(strip(line), None, "{line}");
        }
    }
}
