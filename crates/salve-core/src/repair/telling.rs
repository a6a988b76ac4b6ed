//! What an event says to people who read the journal.

use super::notice::exit_text;
use super::story::{cost, ordered, words};
use crate::event::{
    ConfigEvent, Event, JobEvent, JobTurn, LoopEvent, LoopTurn, MemoryEvent, NoteEvent, Proof,
    RecoveryEvent, RuleEvent, ServerEvent, ServerOrder, SessionEvent, TeamEvent,
};
use crate::scrub::Scrubbed;

/// Returns what an event says, in words; nothing of one that a newer Salve wrote.
pub fn event_text(event: &Event) -> Option<String> {
    Some(match event {
        Event::Incident(_) => words(event),
        Event::Server(event) => of_server(event),
        Event::Config(event) => of_config(event),
        Event::Memory(event) => of_memory(event),
        Event::Session(SessionEvent::Attached { process }) => {
            format!("an agent's session listens for repairs (pid {})", process.pid)
        }
        Event::Session(SessionEvent::Detached { process }) => {
            format!("an agent's session ended (pid {})", process.pid)
        }
        Event::Team(TeamEvent::IssueReported { text, .. }) => format!("reported an issue: {text}"),
        Event::Team(TeamEvent::IssueSettled { .. }) => "an issue is settled".to_owned(),
        Event::Team(TeamEvent::FixWanted { .. } | TeamEvent::FixProposed { .. }) => words(event),
        Event::Loop(LoopEvent::Turned { iteration, what, .. }) => {
            format!("iteration {iteration}: {}", of_turn(what))
        }
        Event::Loop(LoopEvent::Attached { .. }) => "serves somebody else's loop".to_owned(),
        Event::Loop(LoopEvent::Detached { .. }) => "no longer serves the loop".to_owned(),
        Event::Loop(LoopEvent::ManifestsSeen { files, .. }) => {
            format!("looked at {} manifests of the loop", files.len())
        }
        Event::Job(JobEvent::Advanced { id, what }) => format!("job {id}: {}", of_job(what)),
        Event::Recovery(RecoveryEvent::Sought { .. } | RecoveryEvent::Proposed { .. }) => {
            words(event)
        }
        Event::Recovery(RecoveryEvent::Refused { reason, .. }) => {
            format!("refused a proposal: {reason}")
        }
        Event::Rule(RuleEvent::Accepted(key)) => {
            format!("accepted that {} runs unattended", key.short())
        }
        Event::Rule(RuleEvent::Withdrawn(key)) => {
            format!("no longer accepts that {} runs unattended", key.short())
        }
        Event::Note(NoteEvent::StoreSalvaged { kept, aside }) => {
            format!("the store was damaged: {kept} entries were saved, the old one is in {aside}")
        }
        Event::Note(NoteEvent::Notified(_)) => "told others about it".to_owned(),
        Event::Note(NoteEvent::Noted { text }) => text.to_string(),
        Event::Other(_) => return None,
    })
}

fn of_server(event: &ServerEvent) -> String {
    match event {
        ServerEvent::Started { server, process, command, .. } => {
            format!("started {server}: `{command}` (pid {})", process.pid)
        }
        ServerEvent::Up { server, url: Some(url) } => format!("{server} is up at {url}"),
        ServerEvent::Up { server, url: None } => format!("{server} is up"),
        ServerEvent::Stopped { server, exit } => format!("{server} ended: {}", exit_text(exit)),
        ServerEvent::Ordered { server, order } => {
            let order = match order {
                ServerOrder::Start => "started",
                ServerOrder::Stop => "stopped",
                ServerOrder::Restart => "restarted",
            };
            format!("wants {server} {order}")
        }
        ServerEvent::PageFailed(failure) => {
            format!("a page of {} failed at {}: {}", failure.server, failure.page, failure.message)
        }
    }
}

fn of_turn(turn: &LoopTurn) -> String {
    match turn {
        LoopTurn::Started { task, .. } => format!("the loop was started: {task}"),
        LoopTurn::Began { .. } => "began".to_owned(),
        LoopTurn::RoleBegan { role, attempt: 1 } => format!("{role} began"),
        LoopTurn::RoleBegan { role, attempt } => format!("{role} began, attempt {attempt}"),
        LoopTurn::Charged { role, spent } => format!("{role} took {} so far", cost(*spent)),
        LoopTurn::RoleEnded { role, spent, .. } => {
            format!("{role} is done; it took {}", cost(*spent))
        }
        LoopTurn::TestsRan { .. } => "ran the tests".to_owned(),
        LoopTurn::RecoveryBegan {} => "the tests cannot execute and are being recovered".to_owned(),
        LoopTurn::RecoveryEnded { took_ms, .. } => {
            format!("the recovery is over after {} s", took_ms / 1000)
        }
        LoopTurn::Stopped {} => "stopped; it goes on when it is started again".to_owned(),
        LoopTurn::Ended { .. } => "the loop is over".to_owned(),
        LoopTurn::Ordered { order } => ordered(*order).to_owned(),
    }
}

fn of_job(turn: &JobTurn) -> String {
    match turn {
        JobTurn::Started { terms } => format!("started: {}", terms.objective),
        JobTurn::Resumed {} => "goes on".to_owned(),
        JobTurn::StepBegan { step, attempt, .. } => {
            format!("step {} began, attempt {attempt}", step + 1)
        }
        JobTurn::Warned { step, left_ms, .. } => {
            format!("step {} will be ended in {} s", step + 1, left_ms / 1000)
        }
        JobTurn::Charged { spent } => format!("took {} so far", cost(*spent)),
        JobTurn::StepEnded { step, attempt, spent, .. } => {
            format!("step {} ended, attempt {attempt}; it took {}", step + 1, cost(*spent))
        }
        JobTurn::ResetBegan { step, .. } => {
            format!("the workspace goes back to before step {}", step + 1)
        }
        JobTurn::ResetEnded { step, .. } => {
            format!("going back to before step {} ended", step + 1)
        }
        JobTurn::Remedied { remedy } => format!("was helped by: {remedy}"),
        JobTurn::Asked { reason } => format!("waits for a person: {reason}"),
        JobTurn::Ordered { .. } => "received an order".to_owned(),
        JobTurn::Honored { .. } => "carried out the order".to_owned(),
        JobTurn::Stopped {} => "stopped; it goes on when it is resumed".to_owned(),
        JobTurn::Ended { .. } => "is over".to_owned(),
    }
}

fn of_memory(event: &MemoryEvent) -> String {
    match event {
        MemoryEvent::Learned { signature, proof, .. } => {
            let how = match proof {
                Proof::Proven => "helped, and is proven",
                Proof::Transient => "was not needed",
                Proof::Flaky => "helped only sometimes",
                Proof::Masked => "only hid the failure",
                Proof::Failed => "did not help",
            };
            format!("remembered for {signature}: the remedy {how}")
        }
        MemoryEvent::Forgotten { signature } => format!("forgot {signature}"),
        MemoryEvent::Rekeyed { .. } => {
            "what was known of a failure goes by its new signature".to_owned()
        }
        MemoryEvent::ToolFailed { tool, error, resolution, healed, .. } => {
            let line = error.as_str().lines().next().unwrap_or_default();
            match (healed, resolution) {
                (true, Some(done)) => format!("{tool} failed and works again: {done} ({line})"),
                (true, None) => format!("{tool} failed and works again: {line}"),
                (false, _) => format!("{tool} failed: {line}"),
            }
        }
    }
}

fn of_config(event: &ConfigEvent) -> String {
    let list = |changes: &[Scrubbed]| {
        let texts: Vec<&str> = changes.iter().map(Scrubbed::as_str).collect();
        texts.join("; ")
    };
    match event {
        ConfigEvent::Changed { changes, .. } => format!("settings changed: {}", list(changes)),
        ConfigEvent::Rejected { reason } => format!("settings refused: {reason}"),
        ConfigEvent::Pending { changes, .. } => {
            format!("settings wait for a person (salve config accept): {}", list(changes))
        }
        ConfigEvent::Accepted { .. } => "accepted the changed settings".to_owned(),
        ConfigEvent::Guarded { .. } => "settings are held while an agent works".to_owned(),
        ConfigEvent::Released { .. } => "settings are no longer held".to_owned(),
    }
}
