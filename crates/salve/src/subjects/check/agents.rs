//! An agent's turn at a check.

use salve_core::check::{self, Brief};
use salve_core::event::{Amounts, Event, IncidentEvent, Report, Resource, Scope};
use salve_core::id::IncidentId;
use salve_core::incident::{Incident, Phase, Run as Effecting};
use salve_core::repair::{Tale, earlier, evidence_path};
use salve_core::scrub::{Scrubbed, Scrubber};

use super::Input;
use super::case::Turns;
use super::checkup::Checkup;
use super::context::Reader;
use crate::agent::{AgentEvent, Bounds, End, Ending, Profile, Reach, Task};
use crate::heal::agents::{Call, Launched, words};
use crate::heal::files::{Edits, has_changed};
use crate::heal::millis;
use crate::store::{StoreError, Stream};
use crate::workspace::Workspace;

/// How many incidents back one looks.
const REMEMBERED: usize = 50;
/// How many turns of one model may leave everything as it was before there is no further one.
const IDLE_TURNS: u32 = 2;
/// How many of the last lines of output an agent is told.
const EXCERPT: usize = 80;

impl Checkup<'_, '_> {
    /// Starts an agent for the present attempt, with what somebody wants it to do.
    pub(super) fn call_agent(
        &mut self,
        effect: Effecting,
        instruction: Option<Scrubbed>,
    ) -> Result<(), StoreError> {
        let Some((profile, task)) = self.task(instruction)? else {
            return self.finish(effect, Report::NoAgent);
        };
        let Some(incident) = self.incident.as_ref().map(Incident::id) else { return Ok(()) };
        self.keep_packages();
        let (now, post) = (self.clinic.desk.now(), self.clinic.inbox.0.clone());
        let on = Box::new(move |event| {
            // Nobody is left to tell when the run of Salve is over.
            let _ = post.send(Input::Agent { effect, event });
        });
        let Some(agents) = &mut self.clinic.agents else {
            return self.finish(effect, Report::NoAgent);
        };
        let (care, scrubber) = (&self.clinic.care, &self.clinic.desk.scrubber);
        let call = Call { incident, effect, profile, task, now };
        match agents.launch(care, &call, scrubber, on)? {
            Launched::Works(minder, launched) => {
                self.minder = Some(*minder);
                self.append(incident, launched)
            }
            Launched::Refused(text) => {
                self.case.agent_is_out = true;
                let reason = self.clinic.desk.scrubber.scrub(&text);
                self.finish(effect, Report::failed(reason))
            }
        }
    }

    /// Returns which agent is to do what: where the failure is a specialist's, that one.
    fn task(&self, instruction: Option<Scrubbed>) -> Result<Option<(Profile, Task)>, StoreError> {
        let (Some(incident), Some(agents)) = (&self.incident, &self.clinic.agents) else {
            return Ok(None);
        };
        let Some(brief) = self.brief(incident)? else { return Ok(None) };
        let class = self.case.seen.as_ref().map(|seen| seen.symptom.class);
        let specialist = class.and_then(|class| agents.specialist(class));
        let specialty = specialist.and_then(|specialist| specialist.prompt.clone());
        let brief = Brief { instruction, specialty, ..brief };
        let plan = specialist.map_or(&agents.plan, |specialist| &specialist.plan);
        let tier = self.clinic.heal.tiers.terms(incident.tier());
        let left = |resource| incident.ledger().left(resource);
        let task = Task {
            agent: plan.name.clone(),
            prompt: check::brief(&brief),
            dir: self.clinic.project.root().to_path_buf(),
            mcp: plan.mcp.clone(),
            model: self.model(),
            env: Vec::new(),
            reach: Reach::Project,
            bounds: Bounds {
                wall: plan.wall,
                idle: plan.idle,
                tokens: left(Resource::Tokens),
                work: Some(tier.max_tokens),
                money_micros: left(Resource::MoneyMicros),
            },
        };
        Ok(Some((plan.profile.clone(), task)))
    }

    /// Returns the model that the agent of the present attempt is to use, if not its own choice.
    pub(super) fn model(&self) -> Option<String> {
        let (incident, agents) = (self.incident.as_ref()?, self.clinic.agents.as_ref()?);
        let class = self.case.seen.as_ref().map(|seen| seen.symptom.class);
        let specialist = class.and_then(|class| agents.specialist(class));
        let plan = specialist.map_or(&agents.plan, |specialist| &specialist.plan);
        let own = specialist.and_then(|specialist| specialist.model.clone());
        let tier = self.clinic.heal.tiers.terms(incident.tier());
        own.or_else(|| tier.models.get(&plan.name).cloned()).or_else(|| plan.model.clone())
    }

    /// Collects what an agent is told; how much of it is told depends on the tier.
    fn brief(&self, incident: &Incident) -> Result<Option<Brief>, StoreError> {
        let desk = &self.clinic.desk;
        let entries = desk.store.journal().read(0, &Stream::Incident(incident.id()), usize::MAX)?;
        let (Ok(tale), Some(seen)) = (Tale::of(&entries), &self.case.seen) else {
            return Ok(None);
        };
        let known = self.clinic.shelf.recall(desk.store, seen.symptom.signature)?;
        let (tier, policy) = (incident.tier(), incident.policy());
        let terms = self.clinic.heal.tiers.terms(tier);
        let results = self.results(seen.output.as_str());
        let root = self.clinic.project.root();
        let reader = Reader { root, dir: &self.plan.dir, scrubber: &desk.scrubber };
        Ok(Some(Brief {
            incident: incident.id(),
            command: self.plan.command.clone(),
            evidence: evidence_path(self.plan.kind, incident.id()),
            key_line: seen.symptom.key_line.clone(),
            attempt: tale.attempt(),
            max_attempts: tale.max_attempts(),
            limits: (policy.max_files, policy.max_lines),
            tier,
            strategy: terms.strategy.clone(),
            specialty: None,
            instruction: None,
            reports: self.reports()?,
            findings: incident.findings().to_vec(),
            failed: reader.failed(&results),
            excerpt: excerpt(&seen.output, &desk.scrubber),
            places: reader.places(&results),
            related: reader.related(&results),
            diff: self.recent(),
            in_vain: known.failed.iter().map(|one| one.remedy.text.clone()).collect(),
            earlier: earlier(&tale).collect(),
            history: self.history()?,
            notes: reader.notes(),
            room: usize::try_from(terms.context_kb).unwrap_or(usize::MAX).saturating_mul(1 << 10),
        }))
    }

    /// Returns what changed since the last commit, before any repair.
    fn recent(&self) -> Option<Scrubbed> {
        let workspace = Workspace::open(&self.clinic.project).ok()?;
        let before = workspace.load(self.name(Scope::Attempt)?).ok()??;
        let diff = workspace.since_commit(&before).ok()??;
        Some(self.clinic.desk.scrubber.scrub(&diff)).filter(|diff| !diff.as_str().is_empty())
    }

    /// Returns how the last incidents of this check came out.
    fn history(&self) -> Result<Vec<Scrubbed>, StoreError> {
        let desk = &self.clinic.desk;
        let subject = self.plan.subject(&desk.scrubber);
        let openings = desk.store.journal().tail(&Stream::Incidents, REMEMBERED)?;
        let own = openings.iter().filter(
            |entry| matches!(&entry.event, Event::Incident(IncidentEvent::Opened { subject: of, .. }) if *of == subject),
        );
        let mut lines = Vec::new();
        for id in own.filter_map(|entry| entry.incident) {
            let entries = desk.store.journal().read(0, &Stream::Incident(id), usize::MAX)?;
            let Ok(incident) = Incident::replay(&entries) else { continue };
            if let Phase::Closed(outcome) = incident.phase() {
                let (short, how) = (id.short(), salve_core::repair::ended(outcome));
                let text = format!("heal-{short}: {} ({how})", incident.symptom().key_line);
                lines.push(desk.scrubber.scrub(&text));
            }
        }
        Ok(lines)
    }

    /// Takes in what an agent of ours does.
    pub(super) fn agent_told(
        &mut self,
        effect: Effecting,
        event: AgentEvent,
    ) -> Result<(), StoreError> {
        let Some(incident) = self.minder.as_ref().map(|minder| minder.incident) else {
            return Ok(());
        };
        let charge =
            |spent| Event::Incident(IncidentEvent::Charged { effect: effect.effect, spent });
        match event {
            AgentEvent::Activity(_) => Ok(()),
            AgentEvent::Spent(spent) => self.append(incident, charge(spent)),
            AgentEvent::Ended(ending) => {
                let spent = Amounts { wall_ms: millis(ending.took), ..ending.spent };
                self.append(incident, charge(spent))?;
                self.agent_ended(&ending)
            }
        }
    }

    /// Takes in that an agent of ours has ended, with all it started.
    fn agent_ended(&mut self, ending: &Ending) -> Result<(), StoreError> {
        let Some(minder) = self.minder.take() else { return Ok(()) };
        self.count_orphans(ending.left)?;
        let now = self.clinic.desk.now();
        let Some(agents) = &mut self.clinic.agents else { return Ok(()) };
        let left = agents.release(minder.guard, now)?;
        let name = minder.name.clone();
        for text in minder.mend_repository(self.name(Scope::Attempt)).into_iter().chain(left) {
            self.note(&text);
        }
        self.note(&words(&self.clinic.desk.scrubber.scrub(&name), ending));
        self.put_packages_back();
        if ending.end == End::OverBudget(Resource::Tokens) {
            self.tell_tokens();
        }
        let effect = minder.effect;
        // Whoever comes next finds out what it did, if we are to end.
        if self.stopping.is_some() || self.case.effect != Some(effect) {
            return Ok(());
        }
        self.count_turn(ending.end);
        let (project, name) = (self.clinic.project.clone(), self.name(Scope::Attempt));
        let end = ending.end;
        self.aside(effect, move || match (end, name.map(|name| has_changed(&project, name))) {
            (End::Stopped, _) => Report::failed(Scrubbed::literal("the agent was stopped")),
            (end, Some(Ok(Edits::None)) | None) => Report::failed(idleness(end)),
            // What cannot be told here is told when it is measured.
            (_, Some(Ok(Edits::Some) | Err(_))) => Report::Done,
        });
        Ok(())
    }

    /// Takes in how a turn ended, before it is known whether it changed anything.
    fn count_turn(&mut self, end: End) {
        self.case.agent_is_out |= matches!(end, End::Failed(trouble) if trouble.lasts());
        // With a larger budget the next one may get further.
        if !matches!(end, End::OverBudget(_)) {
            let model = self.model();
            let turns = &mut self.case.turns;
            if turns.model != model {
                *turns = Turns { model, idle: 0 };
            }
            turns.idle += 1;
        }
    }

    /// Returns whether an agent may do better than those before it.
    pub(super) fn agent_is_of_use(&self) -> bool {
        let is_another = self.case.turns.model != self.model();
        !self.case.agent_is_out && (is_another || self.case.turns.idle < IDLE_TURNS)
    }

    /// Says which limit ended the agent, for a person who may want to raise it.
    fn tell_tokens(&mut self) {
        let Some(incident) = &self.incident else { return };
        let (tier, left) = (incident.tier(), incident.ledger().left(Resource::Tokens));
        let limit = self.clinic.heal.tiers.terms(tier).max_tokens;
        let text = match left {
            Some(0) => format!(
                "the tokens of this heal are spent: heal.max_tokens or heal.run_max_tokens allows more, \
                 and so does `salve refill heal-{}`",
                incident.id().short()
            ),
            Some(_) | None => format!(
                "its work in one turn may take {limit} tokens, beside what it is told at its start: \
                 heal.tiers.{}.max_tokens allows more",
                tier.as_str()
            ),
        };
        self.note(&text);
    }

    /// Adds to an incident what holds whoever else writes meanwhile.
    pub(super) fn append(&mut self, id: IncidentId, event: Event) -> Result<(), StoreError> {
        let desk = &self.clinic.desk;
        desk.store.journal().append(desk.draft(Some(id), event))?;
        let Some(incident) = self.incident.as_mut().filter(|incident| incident.id() == id) else {
            return Ok(());
        };
        let (face, name) = (&mut *self.clinic.face, &self.plan.name);
        let mut show = |incident: &Incident, entry: &_| face.entry(name, incident, entry);
        desk.catch_up(incident, &mut show)
    }
}

/// Says that an agent left everything as it was, and why.
fn idleness(end: End) -> Scrubbed {
    match end {
        End::Failed(trouble) => trouble.complaint(),
        End::TimedOut => Scrubbed::literal("the agent took too long and changed nothing"),
        End::Idle => Scrubbed::literal("the agent showed no sign of life and changed nothing"),
        End::OverBudget(_) => Scrubbed::literal("the agent used up its budget and changed nothing"),
        End::Finished | End::NoResult | End::Stopped => {
            Scrubbed::literal("the agent changed nothing")
        }
    }
}

/// Returns the last lines of a check's output.
fn excerpt(output: &Scrubbed, scrubber: &Scrubber) -> Scrubbed {
    let lines: Vec<&str> = output.as_str().trim_end().lines().collect();
    scrubber.scrub(&lines[lines.len().saturating_sub(EXCERPT)..].join("\n"))
}
