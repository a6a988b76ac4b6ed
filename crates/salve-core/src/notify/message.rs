//! What is said about a moment.

use serde::Serialize;

use super::{NoticeLinks, NoticeMoment};
use crate::event::{ConfigEvent, Entry, Event, IncidentEvent, IncidentOutcome, Proof, SubjectKind};
use crate::id::{IncidentId, Signature};
use crate::repair::{self};
use crate::view::IncidentView;

/// What stands before the address of an ntfy topic that is not at ntfy.sh.
pub const NTFY_MARK: &str = "ntfy+";

/// The version of a message's shape.
const VERSION: u32 = 1;
/// The most of one text.
const LONGEST: usize = 300;
/// The most changes of settings that are told.
const MOST: usize = 20;
/// Healing that takes longer deserves a notice, in seconds.
const LONG: i64 = 30;

/// What a target is told; `text` and `content` are what Slack and Discord show.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NoticeMessage {
    version: u32,
    #[serde(rename = "type")]
    kind: String,
    timestamp: jiff::Timestamp,
    text: String,
    content: String,
    data: Data,
}

/// The facts behind it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Data {
    project: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    incident: Option<NoticeFacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<NoticeQuestion>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    commands: Vec<Command>,
    #[serde(skip_serializing_if = "MessageLinks::is_empty")]
    links: MessageLinks,
}

/// Where it leads.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct MessageLinks {
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
}

impl MessageLinks {
    fn is_empty(&self) -> bool {
        self.page.is_none() && self.answer.is_none()
    }

    /// Returns the one that helps most.
    fn first(&self) -> Option<&String> {
        self.answer.as_ref().or(self.page.as_ref())
    }
}

/// The incident.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct NoticeFacts {
    id: IncidentId,
    subject: SubjectKind,
    name: String,
    class: String,
    signature: Signature,
    attempts: u64,
    seconds: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    proof: Option<Proof>,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct NoticeQuestion {
    number: u32,
    person: String,
    why: String,
}

/// Something that can be pasted.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Command {
    does: &'static str,
    command: String,
}

impl NoticeMessage {
    /// Returns what is said about an entry; `view` is its incident up to it.
    pub fn of(
        entry: &Entry,
        view: Option<&IncidentView>,
        links: &NoticeLinks,
        project: &str,
    ) -> Option<Self> {
        let moment = NoticeMoment::of(&entry.event)?;
        let (text, data) = match (moment, view) {
            (NoticeMoment::ConfigChange, _) => settings(&entry.event)?,
            (NoticeMoment::Escalation, Some(view)) => escalation(view)?,
            (NoticeMoment::Recovered, Some(view)) => recovered(view, &entry.event),
            (NoticeMoment::Exhausted, Some(view)) => exhausted(view),
            (
                NoticeMoment::Escalation | NoticeMoment::Recovered | NoticeMoment::Exhausted,
                None,
            ) => return None,
        };
        let links = MessageLinks { page: links.page.clone(), answer: links.answer.clone() };
        let mut text = format!("{project}: {text}");
        if let Some(link) = links.first() {
            text.push('\n');
            text.push_str(link);
        }
        let data = Data { project: project.to_owned(), links, ..data };
        Some(Self::new(moment.as_str(), entry.at, text, data))
    }

    /// Returns a message that only shows that messages arrive.
    pub fn test(at: jiff::Timestamp, project: &str) -> Self {
        let text = format!("{project}: Salve's notices arrive here.");
        let data = Data { project: project.to_owned(), ..Data::default() };
        Self::new("test", at, text, data)
    }

    fn new(kind: &str, timestamp: jiff::Timestamp, text: String, data: Data) -> Self {
        let (kind, content) = (format!("salve.{kind}"), text.clone());
        Self { version: VERSION, kind, timestamp, text, content, data }
    }

    /// Returns the message as it is sent.
    pub fn body(&self) -> String {
        // Every key is a string, so there is no failing path.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A message as ntfy takes it: a text, and what its headers say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NtfyText {
    /// The project.
    pub title: String,
    /// What happened, and what to paste.
    pub text: String,
    /// How urgent it is, from 1 to 5; 3 is usual.
    pub priority: u8,
    /// What a tap opens.
    pub click: Option<String>,
}

impl NoticeMessage {
    /// Returns the message as ntfy takes it.
    pub fn ntfy(&self) -> NtfyText {
        let project = format!("{}: ", self.data.project);
        NtfyText {
            title: self.data.project.clone(),
            text: self.text.strip_prefix(&project).unwrap_or(&self.text).to_owned(),
            priority: if self.data.question.is_some() { 4 } else { 3 },
            click: self.data.links.first().cloned(),
        }
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns what is under care, in words.
fn what(view: &IncidentView) -> String {
    let subject = view.subject();
    cut(&format!("{} {}", subject.kind.for_people(), subject.name))
}

fn facts(view: &IncidentView, proof: Option<Proof>) -> NoticeFacts {
    let (incident, subject) = (view.incident(), view.subject());
    NoticeFacts {
        id: view.id(),
        subject: subject.kind,
        name: cut(subject.name.as_str()),
        class: incident.symptom().class.to_string(),
        signature: incident.symptom().signature,
        attempts: incident.ledger().spent().attempts,
        seconds: incident.clock().duration_since(view.opened_at()).as_secs().max(0),
        proof,
    }
}

fn show(view: &IncidentView) -> Command {
    Command { does: "shows the whole story", command: format!("salve show {}", view.id().short()) }
}

fn escalation(view: &IncidentView) -> Option<(String, Data)> {
    let ask = repair::ask(view)?;
    let (id, number) = (view.id().short(), ask.number);
    let why = cut(&ask.why);
    let mut commands = Vec::new();
    commands.extend(ask.yes.is_some().then(|| Command {
        does: "says yes",
        command: format!("salve approve {id} --question {number}"),
    }));
    commands.push(Command {
        does: "says no",
        command: format!("salve reject {id} --question {number}"),
    });
    commands.push(Command {
        does: "says that it is settled",
        command: format!("salve resolve {id} --note \"how\""),
    });
    commands.push(show(view));
    let paste = commands.first().map(|one| one.command.clone()).unwrap_or_default();
    let text = format!("{} needs you (heal-{id}). {why}\n{paste}", what(view));
    let question = Some(NoticeQuestion { number, person: ask.person, why });
    let data = Data { incident: Some(facts(view, None)), question, commands, ..Data::default() };
    Some((text, data))
}

fn recovered(view: &IncidentView, event: &Event) -> (String, Data) {
    let proof = match event {
        Event::Incident(IncidentEvent::Ended { outcome: IncidentOutcome::Recovered(proof) }) => {
            Some(*proof)
        }
        _ => None,
    };
    let facts = facts(view, proof);
    let word = proof.map(crate::check::decisions::proof_word).unwrap_or("healed");
    let id = view.id().short();
    let text = format!("{} has healed in {} s, {word} (heal-{id}).", what(view), facts.seconds);
    let data = Data { incident: Some(facts), commands: vec![show(view)], ..Data::default() };
    (text, data)
}

fn exhausted(view: &IncidentView) -> (String, Data) {
    let (facts, id) = (facts(view, None), view.id().short());
    let more = Command {
        does: "grants another attempt",
        command: format!("salve refill {id} --attempts 1"),
    };
    let text = format!(
        "{} could not be healed: what its repair may use is used up after {} attempts (heal-{id}).",
        what(view),
        facts.attempts
    );
    let commands = vec![show(view), more];
    (text, Data { incident: Some(facts), commands, ..Data::default() })
}

fn settings(event: &Event) -> Option<(String, Data)> {
    let (text, changes, next) = match event {
        Event::Config(ConfigEvent::Changed { changes, .. }) => {
            ("the settings changed.", changes.as_slice(), None)
        }
        Event::Config(ConfigEvent::Pending { changes, .. }) => (
            "a change of the settings that lets more run unattended waits for a person.",
            changes.as_slice(),
            Some(("accepts it", "salve config accept")),
        ),
        Event::Config(ConfigEvent::Rejected { reason }) => (
            "a change of the settings was refused; what held before holds still.",
            std::slice::from_ref(reason),
            Some(("says what is wrong", "salve config check")),
        ),
        _ => return None,
    };
    let changes = changes.iter().take(MOST).map(|line| cut(line.as_str())).collect();
    let next = next.map(|(does, command)| Command { does, command: command.to_owned() });
    let commands = Vec::from_iter(next);
    Some((text.to_owned(), Data { changes, commands, ..Data::default() }))
}

/// A notice on this machine: a title, and a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Banner {
    /// What happened to what.
    pub title: String,
    /// What is asked, and the id.
    pub text: String,
}

/// Tells whether people want to hear that something has healed: it took long or more than one
/// attempt, or they were asked about it and want to know how it came out.
pub fn is_worth_telling(view: &IncidentView) -> bool {
    let NoticeFacts { seconds, attempts, .. } = facts(view, None);
    seconds > LONG || attempts > 1 || !view.questions().is_empty()
}

/// Returns the notice that a moment deserves on this machine, if it does: a person is needed, what
/// healed is worth telling, or it was given up.
pub fn banner(entry: &Entry, view: &IncidentView) -> Option<Banner> {
    let id = format!("heal-{}", view.id().short());
    let what = what(view);
    match NoticeMoment::of(&entry.event)? {
        NoticeMoment::Escalation => {
            let ask = repair::ask(view)?;
            let text = format!("{}\nsalve show {id}", cut(&ask.why));
            Some(Banner { title: format!("{what} needs you"), text })
        }
        NoticeMoment::Recovered => {
            let facts = facts(view, None);
            let text = format!("in {} s, attempt {} · {id}", facts.seconds, facts.attempts);
            is_worth_telling(view).then(|| Banner { title: format!("{what} has healed"), text })
        }
        NoticeMoment::Exhausted => {
            let text = format!("every attempt failed · salve show {id}");
            Some(Banner { title: format!("{what} was given up"), text })
        }
        NoticeMoment::ConfigChange => None,
    }
}
