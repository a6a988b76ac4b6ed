//! The watch over one run of a server: from its start until it is well, and for as long as it is.
//!
//! [`ServerWatch`] decides and never acts. Its owner tells it what was seen, asks it what is due, and
//! makes the probes it asks for. Time is given in milliseconds since the run began, taken from a
//! clock that nobody can set.
//!
//! A server is well with its first good answer; where something has to be proven, only once it
//! still answers after a soak. One that answers nowhere is well when it has stayed up for as long
//! as it takes to say so. A server that starts for the first time has the whole start-up time to
//! get there; one that is being verified must not answer badly more often than the probes allow.
//!
//! A server in trouble that has not ended is mostly *ill*, not dead: [`course_of`] says which. One
//! that is left running is looked at more and more seldom, and at once when a file changed: each
//! look makes a broken page write its traceback once more.

/// How long things may take, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchTerms {
    /// Whether this run has to prove itself after a remedy.
    pub strictness: Strictness,
    /// Bad answers in a row that make a server unwell.
    pub retries: u32,
    /// The pause between two probes.
    pub delay_ms: u64,
    /// How long a server that answers well has to go on doing so; zero where nothing is proven.
    pub soak_ms: u64,
    /// How long a server may take until it answers at all.
    pub startup_ms: u64,
    /// How long a server that answers nowhere has to stay up.
    pub survive_ms: u64,
    /// The pause between two looks at a server that is well; zero for none.
    pub liveness_ms: u64,
    /// How long a server that was well may answer badly.
    pub grace_ms: u64,
}

/// How much a run is trusted to come up by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// It was started as usual: bad answers are forgiven until the start-up time is over.
    Lenient,
    /// It was started to verify a remedy: bad answers count from the first.
    Strict,
}

/// What a probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeAnswer {
    /// It answers as it should.
    Good,
    /// Nobody listens there.
    Nobody,
    /// Another process answers there.
    Stranger,
    /// It has not answered yet, or does not even listen, and nothing says that it will not: it may only
    /// be slow.
    Slow,
    /// It listens and does not answer in the time in which it has to.
    Silent,
    /// It listens, and for long it neither answered nor did anything.
    Still,
    /// It answers, and not as it should.
    Bad,
}

/// What is wrong with a server that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerTrouble {
    /// It never began to listen.
    NotListening,
    /// Another process answers in its place.
    Replaced,
    /// It listens and gives no sign of life.
    Hung,
    /// It answers, and not as it should.
    Unhealthy,
    /// It runs, and tells itself what is broken around it.
    Impaired,
}

/// Something that was seen of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerSight {
    /// It became known where the server answers.
    Address,
    /// It became known that the server answers elsewhere.
    Moved,
    /// A probe came back.
    Answered(ProbeAnswer),
    /// A file of the project changed.
    Changed,
    /// Time passed.
    Time,
}

/// A turn worth telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchTurn {
    /// It runs and is being probed.
    Checking,
    /// It looks well and has to stay so for a while.
    Soaking,
    Well,
    /// It is unwell; the watch is over.
    Unwell(ServerTrouble),
}

/// What the owner of a watch does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Probe now and tell what came of it.
    Probe,
    /// Look again at this time, or when something was seen.
    At(u64),
    /// Wait until something is seen.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchState {
    Starting,
    Checking {
        bad: u32,
        probe_at: u64,
    },
    Soaking {
        until: u64,
    },
    Well {
        probe_at: Option<u64>,
        failing: Option<FailingSince>,
    },
    /// It is in trouble and left running.
    Ill {
        probe_at: Option<u64>,
        pause: u64,
    },
    Over,
}

/// Since when a server that was well has failed in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FailingSince {
    at: u64,
    /// Whether it answers at all.
    answers: bool,
}

/// What becomes of a server in trouble that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TroubleCourse {
    /// It is left running.
    LeaveRunning,
    End,
}

/// Whether a server restarts itself when a file changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfReload {
    /// It does.
    Reloads,
    /// Nothing says so.
    Unknown,
}

/// Whether a server told of a failure since its last good answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultTold {
    /// It did.
    Told,
    /// It did not.
    Silent,
}

/// Returns what becomes of a server in trouble that has not ended.
///
/// One that answers badly, elsewhere or not yet is left running, as the bare command would leave
/// it. One that hangs is ended, unless it reloads by itself and has told what is wrong: then it
/// waits for the file to be mended.
pub const fn course_of(
    trouble: ServerTrouble,
    reload: SelfReload,
    fault: FaultTold,
) -> TroubleCourse {
    match (trouble, reload, fault) {
        (
            ServerTrouble::Unhealthy | ServerTrouble::NotListening | ServerTrouble::Replaced,
            _,
            _,
        )
        | (ServerTrouble::Hung, SelfReload::Reloads, FaultTold::Told) => {
            TroubleCourse::LeaveRunning
        }
        // What it told has a safe remedy, which needs it out of the way.
        (ServerTrouble::Impaired, _, _)
        | (ServerTrouble::Hung, SelfReload::Unknown, _)
        | (ServerTrouble::Hung, SelfReload::Reloads, FaultTold::Silent) => TroubleCourse::End,
    }
}

/// The longest pause between two looks at a server that stays well, in looks at one that has just
/// become so: each look may be a line in the server's own log.
const LONGEST_WELL_PAUSE: u64 = 3;

/// The longest pause between two looks at an ill server, in looks at a well one.
const LONGEST_ILL_PAUSE: u64 = 30;

/// The pause between two looks at a server that takes its time, in looks at one that starts.
const SLOW_PAUSE: u64 = 4;

/// Where a server answers, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// It is known from the start.
    Known,
    /// The server may yet tell.
    Unknown,
}

/// The watch over one run of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerWatch {
    terms: WatchTerms,
    address: Address,
    state: WatchState,
    probing: bool,
    /// How often it was looked at and found well since it became so.
    calm_looks: u64,
}

impl ServerWatch {
    /// Begins the watch over a run that has just begun.
    pub fn new(terms: WatchTerms, address: Address) -> Self {
        let state = match address {
            Address::Known => WatchState::Checking { bad: 0, probe_at: 0 },
            Address::Unknown => WatchState::Starting,
        };
        Self { terms, address, state, probing: false, calm_looks: 0 }
    }

    /// Tells whether the server has been found well.
    pub fn is_well(&self) -> bool {
        matches!(self.state, WatchState::Well { .. })
    }

    /// Tells whether the server is in trouble and left running.
    pub fn is_ill(&self) -> bool {
        matches!(self.state, WatchState::Ill { .. })
    }

    /// Tells whether an answer is awaited.
    pub fn awaits_answer(&self) -> bool {
        self.probing
    }

    /// Goes on watching a server that was found unwell and is left running.
    pub fn leave_running(&mut self, now: u64) {
        let pause = self.terms.liveness_ms;
        let probe_at = (pause > 0).then(|| now.saturating_add(pause));
        self.state = WatchState::Ill { probe_at, pause: pause.saturating_mul(2) };
    }

    /// Returns what is due at `now`; a probe is due once and counts as made.
    pub fn due(&mut self, now: u64) -> Due {
        if self.probing {
            return Due::Nothing;
        }
        let probe_at = match self.state {
            WatchState::Starting => return Due::At(self.terms.survive_ms),
            WatchState::Checking { probe_at, .. } => probe_at,
            WatchState::Soaking { until } if self.address == Address::Unknown => {
                return Due::At(until);
            }
            WatchState::Soaking { until } => until,
            WatchState::Well { probe_at: Some(probe_at), .. }
            | WatchState::Ill { probe_at: Some(probe_at), .. } => probe_at,
            WatchState::Well { probe_at: None, .. }
            | WatchState::Ill { probe_at: None, .. }
            | WatchState::Over => return Due::Nothing,
        };
        if now < probe_at {
            return Due::At(probe_at);
        }
        self.probing = true;
        Due::Probe
    }

    /// Takes in what was seen at `now` and returns the turn it brought about, if any.
    pub fn hear(&mut self, now: u64, seen: ServerSight) -> Option<WatchTurn> {
        match seen {
            ServerSight::Address => self.found(now),
            ServerSight::Moved => self.moved(now),
            ServerSight::Answered(answer) => {
                self.probing = false;
                self.answered(now, answer)
            }
            ServerSight::Changed => {
                self.changed(now);
                None
            }
            ServerSight::Time => self.waited(now),
        }
    }

    /// Looks soon at a server that may have been mended.
    fn changed(&mut self, now: u64) {
        let soon = now.saturating_add(self.terms.delay_ms);
        match &mut self.state {
            WatchState::Ill { probe_at, pause } => {
                *probe_at = Some(soon);
                *pause = self.terms.liveness_ms;
            }
            WatchState::Checking { probe_at, .. } => *probe_at = (*probe_at).min(soon),
            WatchState::Well { probe_at: Some(probe_at), failing: Some(_) } => {
                *probe_at = (*probe_at).min(soon);
            }
            WatchState::Starting
            | WatchState::Soaking { .. }
            | WatchState::Well { .. }
            | WatchState::Over => {}
        }
    }

    fn found(&mut self, now: u64) -> Option<WatchTurn> {
        let before = std::mem::replace(&mut self.address, Address::Known);
        match self.state {
            WatchState::Starting => self.check(now),
            WatchState::Soaking { .. } if before == Address::Unknown => self.check(now),
            // It only stayed up until now: whether it is well, its answers tell.
            WatchState::Well { .. } | WatchState::Ill { .. } if before == Address::Unknown => {
                self.check(now)
            }
            WatchState::Checking { .. }
            | WatchState::Soaking { .. }
            | WatchState::Well { .. }
            | WatchState::Ill { .. }
            | WatchState::Over => None,
        }
    }

    /// Begins again at another address: what answered at the first one proves nothing.
    fn moved(&mut self, now: u64) -> Option<WatchTurn> {
        self.address = Address::Known;
        match self.state {
            WatchState::Over => None,
            WatchState::Starting
            | WatchState::Checking { .. }
            | WatchState::Soaking { .. }
            | WatchState::Well { .. }
            | WatchState::Ill { .. } => self.check(now),
        }
    }

    fn check(&mut self, now: u64) -> Option<WatchTurn> {
        self.state = WatchState::Checking { bad: 0, probe_at: now };
        Some(WatchTurn::Checking)
    }

    fn waited(&mut self, now: u64) -> Option<WatchTurn> {
        match self.state {
            WatchState::Starting if now >= self.terms.survive_ms => Some(self.soak(now)),
            WatchState::Soaking { until } if self.address == Address::Unknown && now >= until => {
                Some(self.well(now))
            }
            WatchState::Starting
            | WatchState::Checking { .. }
            | WatchState::Soaking { .. }
            | WatchState::Well { .. }
            | WatchState::Ill { .. }
            | WatchState::Over => None,
        }
    }

    fn soak(&mut self, now: u64) -> WatchTurn {
        if self.terms.soak_ms == 0 {
            return self.well(now);
        }
        self.state = WatchState::Soaking { until: now.saturating_add(self.terms.soak_ms) };
        WatchTurn::Soaking
    }

    fn well(&mut self, now: u64) -> WatchTurn {
        self.calm_looks = 0;
        self.state = WatchState::Well { probe_at: self.next_look(now), failing: None };
        WatchTurn::Well
    }

    fn next_look(&self, now: u64) -> Option<u64> {
        let looks = self.terms.liveness_ms > 0 && self.address == Address::Known;
        let times = self.calm_looks.saturating_add(1).min(LONGEST_WELL_PAUSE);
        looks.then(|| now.saturating_add(self.terms.liveness_ms.saturating_mul(times)))
    }

    fn answered(&mut self, now: u64, answer: ProbeAnswer) -> Option<WatchTurn> {
        match (self.state, answer) {
            (WatchState::Checking { .. }, ProbeAnswer::Good) => Some(self.soak(now)),
            (WatchState::Checking { bad, .. }, answer) => self.answered_badly(now, bad, answer),
            (WatchState::Soaking { .. }, ProbeAnswer::Good) => Some(self.well(now)),
            (WatchState::Soaking { .. }, answer) => self.answered_badly(now, 0, answer),
            (WatchState::Well { .. }, ProbeAnswer::Good) => {
                self.calm_looks += 1;
                self.state = WatchState::Well { probe_at: self.next_look(now), failing: None };
                None
            }
            (WatchState::Well { failing, .. }, answer) => {
                let answers = answer == ProbeAnswer::Bad;
                let same = failing.filter(|failing| failing.answers == answers);
                let since = same.unwrap_or(FailingSince { at: now, answers });
                let is_over = match answer {
                    ProbeAnswer::Slow => false,
                    // That took longer than any grace.
                    ProbeAnswer::Still => true,
                    ProbeAnswer::Nobody
                    | ProbeAnswer::Stranger
                    | ProbeAnswer::Silent
                    | ProbeAnswer::Bad
                    | ProbeAnswer::Good => now.saturating_sub(since.at) >= self.terms.grace_ms,
                };
                if is_over {
                    return Some(self.unwell(answer));
                }
                let soon = now.saturating_add(self.terms.delay_ms);
                let probe_at = match answer {
                    // Each look makes it tell its fault again: two have to do.
                    ProbeAnswer::Bad => soon.max(since.at.saturating_add(self.terms.grace_ms)),
                    ProbeAnswer::Nobody
                    | ProbeAnswer::Stranger
                    | ProbeAnswer::Slow
                    | ProbeAnswer::Silent
                    | ProbeAnswer::Still
                    | ProbeAnswer::Good => soon,
                };
                self.state = WatchState::Well { probe_at: Some(probe_at), failing: Some(since) };
                None
            }
            (WatchState::Ill { .. }, ProbeAnswer::Good) => Some(self.soak(now)),
            (WatchState::Ill { pause, .. }, _) => {
                let longest = self.terms.liveness_ms.saturating_mul(LONGEST_ILL_PAUSE);
                let probe_at = (pause > 0).then(|| now.saturating_add(pause));
                let pause = pause.saturating_mul(2).min(longest);
                self.state = WatchState::Ill { probe_at, pause };
                None
            }
            (WatchState::Starting | WatchState::Over, _) => None,
        }
    }

    /// Counts a bad answer of a server that is not well yet.
    fn answered_badly(&mut self, now: u64, bad: u32, answer: ProbeAnswer) -> Option<WatchTurn> {
        let (startup, delay) = (self.terms.startup_ms, self.terms.delay_ms);
        let is_late = now >= startup;
        let is_judged = is_late || self.terms.strictness == Strictness::Strict;
        let counted = bad.saturating_add(1);
        let (bad, probe_at) = match answer {
            // A server that does not listen yet, or whose place is still taken, is starting.
            ProbeAnswer::Nobody | ProbeAnswer::Stranger | ProbeAnswer::Good if !is_late => {
                (0, now.saturating_add(delay))
            }
            ProbeAnswer::Silent | ProbeAnswer::Slow | ProbeAnswer::Still if !is_judged => {
                (0, now.saturating_add(delay))
            }
            // One that works is given its time, unless a remedy has to show that it helps.
            ProbeAnswer::Slow if !(is_late && self.terms.strictness == Strictness::Strict) => {
                (0, now.saturating_add(delay.saturating_mul(SLOW_PAUSE)))
            }
            // It may still be starting, and each look makes it tell its fault again.
            ProbeAnswer::Bad if !is_judged => {
                let pause = delay.saturating_mul(1 << counted.min(16));
                (counted, now.saturating_add(pause).min(startup))
            }
            ProbeAnswer::Nobody
            | ProbeAnswer::Stranger
            | ProbeAnswer::Good
            | ProbeAnswer::Slow
            | ProbeAnswer::Silent
            | ProbeAnswer::Still
            | ProbeAnswer::Bad => (counted, now.saturating_add(delay)),
        };
        let is_certain = answer == ProbeAnswer::Still;
        if is_judged && (is_certain || bad >= self.terms.retries.max(1)) {
            return Some(self.unwell(answer));
        }
        self.state = WatchState::Checking { bad, probe_at };
        None
    }

    fn unwell(&mut self, answer: ProbeAnswer) -> WatchTurn {
        self.state = WatchState::Over;
        WatchTurn::Unwell(match answer {
            ProbeAnswer::Nobody => ServerTrouble::NotListening,
            ProbeAnswer::Stranger => ServerTrouble::Replaced,
            ProbeAnswer::Slow | ProbeAnswer::Silent | ProbeAnswer::Still => ServerTrouble::Hung,
            ProbeAnswer::Bad | ProbeAnswer::Good => ServerTrouble::Unhealthy,
        })
    }
}

#[cfg(test)]
mod tests;
