//! Finds the simple commands of a script without building its tree.
//!
//! Whatever stands between two operators is taken for a command, after the reserved words that may
//! precede one. That finds too much rather than too little, needs no recursion, and cannot be led
//! astray by a construct it does not know: those make the script [`Unclear`].

use super::Unclear;
use super::cursor::Cursor;
use super::word::{self, CommandWords, ShellWord, WordDraft};

/// How many commands, blocks and here-documents one script may have.
const MAX_COMMANDS: usize = 128;

/// How many words may stand beside here-documents, which the second reader puts in order slowly.
const MAX_WORDS_BESIDE: usize = 256;

/// How many subshells, blocks, loops and conditions one script may open.
const MAX_BLOCKS: usize = 12;

/// A command without operators: what `execve` or a built-in would get.
#[derive(Clone, Debug, Default)]
pub(super) struct Simple {
    /// `NAME=value` words before the command.
    pub(super) assignments: CommandWords,
    /// The command and its arguments.
    pub(super) words: CommandWords,
    /// Whether its input is a pipe, a file or a text in the script.
    pub(super) fed: bool,
    /// The files that its output goes to.
    pub(super) writes: Vec<WrittenFile>,
    /// Which pipeline of the script it belongs to.
    pub(super) place: usize,
}

/// A file that output goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WrittenFile {
    /// One whose name is known.
    File(String),
    /// One whose name is known only when it is written.
    Unknown,
}

/// The commands of one script and the scripts inside its words.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) commands: Vec<Simple>,
    pub(super) nested: Vec<String>,
    /// The files that the output of whole blocks goes to.
    pub(super) writes: Vec<WrittenFile>,
    /// The variables of its loops, as they are written.
    pub(super) loops: Vec<String>,
    /// Whether its commands may run in another order than they are written in.
    pub(super) is_unordered: bool,
    /// Whether it has a construct that only a parser can tell to be complete.
    pub(super) intricate: bool,
}

/// Reads a script.
pub(super) fn read(text: &str) -> Result<Script, Unclear> {
    let mut reader = ScriptReader {
        cursor: Cursor::new(text),
        script: Script::default(),
        current: Simple::default(),
        header: false,
        both: false,
        waits: false,
        open: 0,
        blocks: 0,
        place: 0,
        documents: Vec::new(),
        words: 0,
        beside: false,
        draft: WordDraft::default(),
    };
    while let Some(c) = reader.cursor.peek() {
        reader.token(c)?;
    }
    reader.end_command()?;
    reader.script.intricate |= reader.waits;
    if reader.open > 0 || !reader.documents.is_empty() {
        return Err(Unclear("a parenthesis or here-document is not closed"));
    }
    if reader.beside && reader.words > MAX_WORDS_BESIDE {
        return Err(Unclear("a here-document stands among too many words"));
    }
    Ok(reader.script)
}

struct ScriptReader<'a> {
    cursor: Cursor<'a>,
    script: Script,
    current: Simple,
    /// Inside `for name in …`: words, but no command.
    header: bool,
    /// After `&>`, which some shells read as `&` and `>`.
    both: bool,
    /// After `&&`, `||` or `|`: something has to follow.
    waits: bool,
    open: usize,
    blocks: usize,
    /// How many pipelines have ended.
    place: usize,
    documents: Vec<Document>,
    /// How many words were read.
    words: usize,
    /// Whether here-documents stand beside them.
    beside: bool,
    /// The word that was read last, whose room is used again.
    draft: WordDraft,
}

/// A here-document whose text is still to come.
struct Document {
    end: String,
    tabs: Tabs,
    expands: bool,
}

/// What a word turned out to be.
enum Took {
    /// A word of the command, or of the shell.
    Word,
    /// The number of a descriptor, with its redirection to come.
    Descriptor,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tabs {
    Keep,
    Strip,
}

impl ScriptReader<'_> {
    fn token(&mut self, c: char) -> Result<(), Unclear> {
        match c {
            ' ' | '\t' => self.cursor.step_over_one(),
            '&' if self.cursor.step_over("&&") => self.joint()?,
            '|' if self.cursor.step_over("||") => self.joint()?,
            '\\' if self.cursor.second() == Some('\n') => {
                self.cursor.step_over_one();
                self.cursor.step_over_one();
            }
            '#' => {
                self.script.intricate = true;
                self.cursor.line();
            }
            '\n' => {
                self.cursor.step_over_one();
                self.end_command()?;
                self.here_documents()?;
            }
            ';' if self.cursor.second() == Some(';') => return Err(CASE),
            ';' => self.separator(";")?,
            '&' if self.cursor.second() == Some('>') => {
                self.cursor.step_over_one();
                self.redirect()?;
                self.both = true;
            }
            '&' => {
                self.script.is_unordered = true;
                self.separator("&")?;
            }
            '|' => {
                self.cursor.step_over_one();
                let place = self.place;
                self.joint()?;
                // All of a pipeline run at once.
                self.place = place;
                self.cursor.step_over("&");
                self.current.fed = true;
            }
            '(' => self.open()?,
            ')' => self.close()?,
            '<' | '>' if self.cursor.second() != Some('(') => self.redirect()?,
            _ => self.word()?,
        }
        Ok(())
    }

    fn separator(&mut self, text: &str) -> Result<(), Unclear> {
        self.cursor.step_over(text);
        self.script.intricate |= self.is_empty();
        self.end_command()
    }

    /// Ends a command after which another one has to follow.
    fn joint(&mut self) -> Result<(), Unclear> {
        self.script.intricate |= self.is_empty();
        self.end_command()?;
        self.waits = true;
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.current.words.is_empty() && self.current.assignments.is_empty()
    }

    fn end_command(&mut self) -> Result<(), Unclear> {
        let empty = self.is_empty();
        let mut command = std::mem::take(&mut self.current);
        command.place = self.place;
        self.place += 1;
        self.both = false;
        self.waits &= empty;
        let header = std::mem::take(&mut self.header);
        if !header && !empty {
            self.script.commands.push(command);
        } else {
            let variable = command.words.get(0).filter(|_| header);
            self.script.loops.extend(variable.map(|word| word.raw.to_owned()));
            self.script.writes.append(&mut command.writes);
        }
        if self.script.commands.len() > MAX_COMMANDS {
            return Err(Unclear("it holds too many commands"));
        }
        Ok(())
    }

    fn block(&mut self) -> Result<(), Unclear> {
        self.script.intricate = true;
        self.script.is_unordered = true;
        self.blocks += 1;
        if self.blocks > MAX_BLOCKS { Err(Unclear("it is nested too deep")) } else { Ok(()) }
    }

    fn at_start(&self) -> bool {
        self.is_empty() && !self.header
    }

    fn open(&mut self) -> Result<(), Unclear> {
        self.cursor.step_over_one();
        if !self.at_start() || self.cursor.peek() == Some('(') {
            return Err(Unclear("it defines a function or an array, or computes"));
        }
        self.open += 1;
        self.block()
    }

    fn close(&mut self) -> Result<(), Unclear> {
        self.cursor.step_over_one();
        self.open = self.open.checked_sub(1).ok_or(CASE)?;
        self.end_command()
    }

    fn word(&mut self) -> Result<(), Unclear> {
        let mut draft = std::mem::take(&mut self.draft);
        draft.read(&mut self.cursor, &mut self.script.nested)?;
        let took = self.take(draft.word())?;
        self.draft = draft;
        match took {
            Took::Word => Ok(()),
            Took::Descriptor => self.redirect(),
        }
    }

    fn take(&mut self, word: ShellWord<'_>) -> Result<Took, Unclear> {
        if word.raw.is_empty() {
            return Ok(Took::Word);
        }
        self.words += 1;
        self.script.intricate |= word.known() != Some(word.raw);
        let redirects = matches!(self.cursor.peek(), Some('<' | '>'));
        if redirects && word.raw.bytes().all(|b| b.is_ascii_digit()) {
            return if word.raw.len() <= 3 { Ok(Took::Descriptor) } else { Err(DESCRIPTOR) };
        }
        if redirects && word.raw.starts_with('{') && word.raw.ends_with('}') {
            return Err(DESCRIPTOR);
        }
        if self.both {
            return Err(Unclear("shells disagree about `&>` before a word"));
        }
        if self.at_start() && self.reserved(word)? {
            return Ok(Took::Word);
        }
        let names_variable = self.current.words.is_empty() && assigns(word.raw)?;
        if names_variable && !self.header {
            self.current.assignments.push(word);
        } else {
            self.current.words.push(word);
        }
        Ok(Took::Word)
    }

    /// Takes a reserved word; what follows is again the start of a command.
    fn reserved(&mut self, word: ShellWord<'_>) -> Result<bool, Unclear> {
        match word.raw {
            "then" | "else" | "elif" | "fi" | "do" | "done" | "}" | "!" => {
                self.script.intricate = true;
                Ok(true)
            }
            "if" | "while" | "until" | "{" => self.block().map(|()| true),
            "for" => {
                self.header = true;
                self.block().map(|()| true)
            }
            "case" | "esac" => Err(CASE),
            "function" | "select" | "coproc" | "[[" | "]]" => {
                Err(Unclear("it uses a construct that is not read here"))
            }
            _ => Ok(false),
        }
    }

    fn redirect(&mut self) -> Result<(), Unclear> {
        const OPERATORS: [&str; 10] = ["<<<", "<<-", "<<", "<&", "<>", "<", ">>", ">&", ">|", ">"];
        let operator = OPERATORS.into_iter().find(|text| self.cursor.step_over(text));
        while matches!(self.cursor.peek(), Some(' ' | '\t')) {
            self.cursor.step_over_one();
        }
        let mut draft = std::mem::take(&mut self.draft);
        draft.read(&mut self.cursor, &mut self.script.nested)?;
        let target = draft.word();
        if target.raw.is_empty() {
            return Err(Unclear("a redirection leads nowhere"));
        }
        self.script.intricate |= target.known() != Some(target.raw);
        match operator {
            Some("<<") => self.document(target, Tabs::Keep)?,
            Some("<<-") => self.document(target, Tabs::Strip)?,
            Some(_) | None => {}
        }
        self.current.fed |= operator.is_some_and(|text| text.starts_with('<'));
        let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        match (operator, target.known()) {
            // Another name for a descriptor.
            (Some(">&"), Some(text)) if is_number(text) => {}
            (Some(">" | ">>" | ">|" | ">&" | "<>"), Some(text)) => {
                self.current.writes.push(WrittenFile::File(text.to_owned()));
            }
            (Some(">" | ">>" | ">|" | ">&" | "<>"), None) => {
                self.current.writes.push(WrittenFile::Unknown);
            }
            (Some(_) | None, _) => {}
        }
        self.draft = draft;
        Ok(())
    }

    fn document(&mut self, target: ShellWord<'_>, tabs: Tabs) -> Result<(), Unclear> {
        let raw = target.raw;
        let quoted =
            ['\'', '"'].into_iter().find_map(|quote| raw.strip_prefix(quote)?.strip_suffix(quote));
        let end = quoted.unwrap_or(raw);
        if end.is_empty() || !end.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(Unclear("a here-document has an odd end mark"));
        }
        self.script.intricate = true;
        self.beside = true;
        self.documents.push(Document { end: end.to_owned(), tabs, expands: quoted.is_none() });
        if self.documents.len() > 4 {
            Err(Unclear("it holds too many here-documents"))
        } else {
            Ok(())
        }
    }

    fn here_documents(&mut self) -> Result<(), Unclear> {
        for document in std::mem::take(&mut self.documents) {
            let mut text = String::new();
            loop {
                let line = self.cursor.line();
                let line = match document.tabs {
                    Tabs::Keep => line,
                    Tabs::Strip => line.trim_start_matches('\t'),
                };
                let more = self.cursor.step_over("\n");
                if line == document.end {
                    break;
                }
                if document.expands && line.ends_with('\\') {
                    // Joined with the next line it may be the end mark, in some shells.
                    return Err(Unclear("a here-document continues a line"));
                }
                if !more {
                    return Err(Unclear("a here-document is not closed"));
                }
                text.push_str(line);
                text.push('\n');
            }
            if document.expands {
                word::read_here_document(&text, &mut self.script.nested)?;
            }
        }
        Ok(())
    }
}

const CASE: Unclear = Unclear("it has a `case`, or a parenthesis too many");
const DESCRIPTOR: Unclear = Unclear("it redirects an odd descriptor");

/// Returns whether the word sets a variable.
fn assigns(raw: &str) -> Result<bool, Unclear> {
    let name = raw.bytes().take_while(|&b| b.is_ascii_alphanumeric() || b == b'_').count();
    if name == 0 || raw.as_bytes()[0].is_ascii_digit() {
        return Ok(false);
    }
    let rest = &raw[name..];
    if rest.starts_with('[') && rest.contains('=') {
        return Err(Unclear("it sets part of an array"));
    }
    Ok(rest.starts_with('=') || rest.starts_with("+="))
}
