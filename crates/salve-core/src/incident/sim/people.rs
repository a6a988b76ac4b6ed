//! Those who speak to a simulated incident: people, agents, and whoever repeats an old word.

use super::judge::Broken;
use super::parts;
use super::world::World;
use crate::event::{
    Actor, AgentMark, Amounts, Breaker, Change, Digest, Event, IncidentEvent, IncidentOutcome,
    PersonOrder,
};
use crate::incident::Phase;

impl World {
    /// Lets somebody speak, in turn or not.
    pub(super) fn speak(&mut self) -> Result<(), Broken> {
        let person = self.rng.pick([parts::person("ada"), parts::person("bob")].each_ref()).clone();
        match self.rng.below(100) {
            0..=44 => self.answer(person),
            45..=54 => {
                use PersonOrder::{Abort, Escalate, Pause, Resume, Retry, Skip};
                let order = self.rng.pick([Pause, Resume, Resume, Skip, Retry, Abort, Escalate]);
                // Calling it off ends the life, so it must not be too common.
                let order = if order == Abort && self.rng.chance(70) { Retry } else { order };
                self.append(person, Event::Incident(IncidentEvent::Ordered { order }))
            }
            55..=62 => {
                let granted =
                    Amounts { attempts: self.rng.below(3), tokens: 300, ..Amounts::default() };
                self.append(person, Event::Incident(IncidentEvent::Refilled { granted }))
            }
            63 => self.append(person, Event::Incident(IncidentEvent::Resolved { note: None })),
            64..=84 => self.mark(),
            85..=94 => self.charge(),
            _ => self.relapse(),
        }
    }

    /// Answers the open question, or one that is not open.
    fn answer(&mut self, person: Actor) -> Result<(), Broken> {
        let (number, digest) = match self.truth.phase() {
            Phase::Asking { number, digest, .. } if self.rng.chance(80) => (number, digest),
            _ => {
                let name = self.rng.pick(["install", "clean", "agent"]);
                let number = u32::try_from(self.rng.below(6)).unwrap_or(0);
                (number, Digest::of_command(name, ".", 1_000))
            }
        };
        let other = parts::remedy(crate::event::RemedyKind::Command, "other").digest;
        let digest = if self.rng.chance(10) { other } else { digest };
        let nobody = self.rng.chance(10);
        let by = if nobody { parts::agent() } else { person };
        if self.rng.chance(70) {
            self.append(
                by,
                Event::Incident(IncidentEvent::Approved { question: number, digest, note: None }),
            )
        } else {
            self.append(
                by,
                Event::Incident(IncidentEvent::Rejected { question: number, digest, note: None }),
            )
        }
    }

    fn mark(&mut self) -> Result<(), Broken> {
        let mark = self.rng.pick([
            AgentMark::Started,
            AgentMark::ReadingLog,
            AgentMark::ApplyingFix,
            AgentMark::WroteFiles,
        ]);
        let near = u32::try_from(self.rng.below(3)).unwrap_or(0);
        let attempt = if self.rng.chance(75) {
            self.truth.attempt()
        } else {
            (self.truth.attempt() + near).saturating_sub(1)
        };
        let files = self.rng.pick([None, Some(1), Some(20)]);
        let reported = Change { files, lines: None };
        self.append(
            parts::agent(),
            Event::Incident(IncidentEvent::Marked { attempt, mark, reported, message: None }),
        )
    }

    /// States a cost: perhaps late, perhaps twice, perhaps by a process that is gone.
    fn charge(&mut self) -> Result<(), Broken> {
        let effect = u32::try_from(self.rng.below(u64::from(self.effects()) + 2)).unwrap_or(0);
        let spent =
            Amounts { tokens: self.rng.pick([0, 100, 400, u64::MAX]), ..Amounts::default() };
        let by = Actor::Salve(parts::process(self.rng.pick([1, 2, 3])));
        self.append(by, Event::Incident(IncidentEvent::Charged { effect, spent }))
    }

    /// Lets a subject that was found well fall ill again.
    fn relapse(&mut self) -> Result<(), Broken> {
        let Some(owner) = self.truth.owner().cloned() else { return Ok(()) };
        let recovered = matches!(
            self.truth.phase(),
            Phase::Ending { outcome: IncidentOutcome::Recovered(_), .. }
        );
        let breaker = self.rng.pick([Breaker::FileChurn, Breaker::NewErrors]);
        if recovered {
            let symptom = Box::new(parts::symptom(1, "a"));
            self.append(Actor::Salve(owner), Event::Incident(IncidentEvent::Sickened { symptom }))
        } else if self.rng.chance(20) {
            self.append(Actor::Salve(owner), Event::Incident(IncidentEvent::Tripped { breaker }))
        } else if self.rng.chance(10) {
            self.append(Actor::Salve(owner), Event::Incident(IncidentEvent::Superseded {}))
        } else {
            Ok(())
        }
    }

    /// Says an old word again, under its own name or another's.
    pub(super) fn noise(&mut self) -> Result<(), Broken> {
        let Some(entry) = self.old_entry() else { return Ok(()) };
        let by = match self.rng.below(3) {
            0 => parts::agent(),
            1 => Actor::Person { name: crate::scrub::Scrubbed::literal(" ") },
            _ => Actor::Salve(parts::process(999)),
        };
        match (&entry.event, self.rng.chance(50)) {
            // Saying again that an effect is to run is what a stuck writer would do.
            (
                Event::Incident(IncidentEvent::Requested { .. })
                | Event::Incident(IncidentEvent::Approved { .. })
                | Event::Incident(IncidentEvent::Finished { .. }),
                true,
            ) => self.append(entry.by, entry.event),
            // A stranger may claim what nobody owns; that is no noise.
            (Event::Incident(IncidentEvent::Claimed { .. }), _) => Ok(()),
            (_, _) => self.append(by, entry.event),
        }
    }
}
