//! Fits what Salve says to the window it is said in.

/// How many lines of the window one line of text may take.
const MOST_LINES: usize = 5;

/// The narrowest text that is worth breaking.
const NARROWEST: usize = 20;

/// Returns how wide the window is to which errors go, if it is one.
pub(in crate::cli) fn window_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// Returns text in lines of `width` characters at most, broken between words; what follows a break
/// stands under what came before. A word that is too long stays whole, so that it can be pasted,
/// and a line that would take too much room is cut.
pub(in crate::cli) fn fit(text: &str, width: usize) -> String {
    if width < NARROWEST {
        return text.to_owned();
    }
    let lines: Vec<String> = text.split('\n').map(|line| fit_line(line, width)).collect();
    lines.join("\n")
}

fn fit_line(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let mut lines: Vec<String> = Vec::new();
    let mut open = String::new();
    for word in line.split_inclusive(' ') {
        let long = open.chars().count() + word.trim_end().chars().count();
        if long > width && !open.trim().is_empty() {
            lines.push(std::mem::take(&mut open).trim_end().to_owned());
        }
        open.push_str(word);
    }
    lines.push(open.trim_end().to_owned());
    if lines.len() > MOST_LINES {
        lines.truncate(MOST_LINES);
        if let Some(last) = lines.last_mut() {
            last.push('…');
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_between_words_and_what_can_be_pasted_stays_whole() {
        let text = "Nothing answers at 127.0.0.1:5432, which the server needs\nsalve show heal-1";
        let want = "Nothing answers at 127.0.0.1:5432,\nwhich the server needs\nsalve show heal-1";
        assert_eq!(fit(text, 39), want);
        assert_eq!(fit(text, 80), text);
        let path = format!("see {}", "x".repeat(60));
        assert_eq!(fit(&path, 30), format!("see\n{}", "x".repeat(60)));
        let long = "word ".repeat(100);
        let fitted = fit(&long, 20);
        assert_eq!(fitted.lines().count(), MOST_LINES);
        assert!(fitted.ends_with('…') && fitted.lines().all(|line| line.chars().count() <= 20));
    }
}
